//! Random histories, disorder and faults, each case on a real base file: whatever happens on the way, the end is
//! the one that an independent fold of the events gives. `PROPTEST_CASES` sets the number of cases a test.

mod support;

#[path = "properties/chaos.rs"]
mod chaos;
#[path = "properties/convergence.rs"]
mod convergence;
#[path = "properties/history.rs"]
mod history;
#[path = "properties/reconcile.rs"]
mod reconcile;
#[path = "properties/standby.rs"]
mod standby;
#[path = "properties/succession.rs"]
mod succession;

use proptest::test_runner::Config;

/// As many cases as the environment says, or else `cases`. A failure prints its smallest input.
fn cases(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    Config { cases: asked.unwrap_or(cases), failure_persistence: None, ..Config::default() }
}
