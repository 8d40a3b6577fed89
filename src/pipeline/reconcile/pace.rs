//! Keeps a pass to its share of the time: counts what its threads work, and rests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest rest at once, so that the end of a pass is not waited for.
const REST_MAX: Duration = Duration::from_millis(200);

pub(super) struct Pace {
    share: f64,
    began: Instant,
    worked_nanos: AtomicU64,
}

impl Pace {
    /// `share` of one thread's time; 1 never rests.
    pub(super) fn new(share: f64) -> Self {
        Pace { share, began: Instant::now(), worked_nanos: AtomicU64::new(0) }
    }

    pub(super) fn worked(&self, time: Duration) {
        self.worked_nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Rests for as long as more has been worked than the share allows, at most a moment.
    pub(super) fn keep(&self) {
        if self.share >= 1.0 {
            return;
        }
        let worked = Duration::from_nanos(self.worked_nanos.load(Ordering::Relaxed));
        let due = worked.div_f64(self.share);
        let rest = due.saturating_sub(self.began.elapsed());
        if !rest.is_zero() {
            std::thread::sleep(rest.min(REST_MAX));
        }
    }
}
