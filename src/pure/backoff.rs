//! How long to wait before the next attempt, as data. Takes its randomness as an argument; waits nowhere.

/// Bounded exponential backoff: `initial_ms`, each further attempt `factor` times longer, never above `cap_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub initial_ms: u64,
    pub factor: u64,
    pub cap_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { initial_ms: 50, factor: 2, cap_ms: 5_000 }
    }
}

impl Backoff {
    /// Milliseconds to wait after the failure number `failures` in a row (1 is the first).
    ///
    /// `random` is any number; it takes off up to a fifth, so that clients that failed together do not
    /// come back together. The same arguments give the same delay.
    pub fn delay_ms(&self, failures: u32, random: u64) -> u64 {
        let growth = self.factor.saturating_pow(failures.saturating_sub(1));
        let full = self.initial_ms.saturating_mul(growth).min(self.cap_ms);
        let jitter = full / 5;
        full - random % (jitter + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff::default();
        let delays: Vec<u64> = (1..=9).map(|failures| backoff.delay_ms(failures, 0)).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(backoff.delay_ms(u32::MAX, 0), 5_000);
        assert_eq!(backoff.delay_ms(0, 0), 50);
    }

    #[test]
    fn jitter_takes_off_a_fifth_at_most_and_is_deterministic() {
        let backoff = Backoff::default();
        for random in [1, 7, 999, 1_000, 1_001, u64::MAX] {
            let delay = backoff.delay_ms(8, random);
            assert!((4_000..=5_000).contains(&delay), "{delay}");
            assert_eq!(delay, backoff.delay_ms(8, random));
        }
        let zero = Backoff { initial_ms: 0, factor: 0, cap_ms: 0 };
        assert_eq!(zero.delay_ms(3, 17), 0);
    }

    #[test]
    fn fifty_seconds_of_failures_take_fewer_than_twenty_attempts() {
        let backoff = Backoff::default();
        let mut waited = 0;
        let mut attempts = 0;
        while waited < 50_000 {
            attempts += 1;
            let full = backoff.delay_ms(attempts, 0);
            waited += backoff.delay_ms(attempts, full / 5);
        }
        assert!(attempts < 20, "{attempts}");
    }
}
