//! The router's settings, each with unit, default and limit.

use serde::Deserialize;

use super::ConfigError;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteSection {
    /// How long ago a view may have been reconciled to answer from Redis, in s, 0 to 31,536,000. 0 does not ask.
    /// Default 93,600: a nightly pass and two hours.
    pub reconciled_within_seconds: u64,
    /// Rows of an answer at most, 1 to 1,000,000. Default 10,000.
    pub groups_max: usize,
    /// How long the base may work on one answer, in s, 1 to 3,600. Default 30.
    pub base_seconds_max: u64,
    /// Whether questions are counted by role, route, reason and measure. Default true.
    pub count_uses: bool,
    /// Days for which counts are kept, 1 to 4,000. Default 400.
    pub uses_days_max: u32,
}

impl Default for RouteSection {
    fn default() -> Self {
        RouteSection {
            reconciled_within_seconds: 93_600,
            groups_max: 10_000,
            base_seconds_max: 30,
            count_uses: true,
            uses_days_max: 400,
        }
    }
}

impl RouteSection {
    pub(super) fn check(
        &self,
        within: impl Fn(&str, u64, u64, u64) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        within("route.reconciled_within_seconds", self.reconciled_within_seconds, 0, 31_536_000)?;
        within("route.groups_max", self.groups_max as u64, 1, 1_000_000)?;
        within("route.base_seconds_max", self.base_seconds_max, 1, 3_600)?;
        within("route.uses_days_max", self.uses_days_max.into(), 1, 4_000)
    }
}
