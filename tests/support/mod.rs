//! What the tests share: the shipped configuration, a clock by hand, and the real pipeline between a log and a
//! store in memory. Each test makes a world of its own; nothing here is global.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod fixtures;
pub mod oracle;
pub mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use driftless::config::{Config, Overrides, load_catalog};
use driftless::ports::Clock;
use driftless::pure::catalog::Catalog;

/// The view that the shipped configuration declares.
pub const OBJECT: &str = "agg_daily_product";
/// The topic that feeds it.
pub const TOPIC: &str = "sales.changes";
/// Its table.
pub const TABLE: &str = "fact_sales";

/// The catalog of the shipped configuration with its topic in another watermark mode: `settings` are
/// `key=value` of the topic.
pub fn catalog(settings: &[&str]) -> Arc<Catalog> {
    let mut overrides = Overrides::default();
    for setting in settings {
        overrides.set(&format!("topic.0.{setting}")).expect("a setting of the topic");
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/driftless.toml");
    let config = Config::load(Some(&file), &overrides).expect("the shipped configuration");
    Arc::new(load_catalog(&config).expect("the shipped contracts"))
}

/// A clock that moves when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// Stands at 2026-09-21T09:00:00Z.
    pub fn new() -> Arc<Self> {
        Arc::new(ManualClock { wall_ms: AtomicI64::new(1_790_154_000_000), monotonic_ms: AtomicU64::new(0) })
    }

    pub fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(ms as i64, Ordering::Relaxed);
        self.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }
}
