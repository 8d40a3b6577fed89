//! A sum of 128-bit integers that cannot overflow, so that no order of its terms matters. Must not know what
//! is summed.

/// `high * 2^128 + low`, exact for up to 2^63 terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WideSum {
    high: i64,
    low: u128,
}

impl WideSum {
    pub(super) fn add(&mut self, term: i128) {
        // Two's complement: the bits of a negative term stand for 2^128 more than it is.
        let (low, carried) = self.low.overflowing_add(term.cast_unsigned());
        self.low = low;
        self.high += i64::from(carried) - i64::from(term < 0);
    }

    /// The sum, where it is an integer of 64 bits.
    pub(super) fn to_i64(self) -> Option<i64> {
        let low = self.low.cast_signed();
        let fits_128_bits = self.high == if low < 0 { -1 } else { 0 };
        if fits_128_bits {
            i64::try_from(low).ok()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_pass_through_any_width_and_come_back_exact() {
        for target in [i64::MIN, -1, 0, 1, i64::MAX] {
            let mut sum = WideSum::default();
            (0..5).for_each(|_| sum.add(i128::MAX));
            sum.add(i128::from(target));
            assert_eq!(sum.to_i64(), None);
            (0..5).for_each(|_| sum.add(-i128::MAX));
            assert_eq!(sum.to_i64(), Some(target));
            (0..3).for_each(|_| sum.add(i128::MIN));
            assert_eq!(sum.to_i64(), None);
            (0..3).for_each(|_| sum.add(i128::MAX));
            sum.add(3);
            assert_eq!(sum.to_i64(), Some(target));
        }
        for beyond in [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, 1 << 126] {
            let mut sum = WideSum::default();
            sum.add(beyond);
            assert_eq!(sum.to_i64(), None);
        }
    }
}
