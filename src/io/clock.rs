//! The machine's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::ports::Clock;

/// Wall clock and a monotonic one that starts with it.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}
