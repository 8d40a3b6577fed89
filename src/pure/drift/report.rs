//! The report of a pass as people and programs read it. Its JSON form is documented in docs/RECONCILE.md and
//! versioned by [`SCHEMA`].

use serde_json::{Value, json};

use super::{Difference, Kind, Tally};
use crate::pure::base::{ReconcileRun, ReconcileVerdict};
use crate::pure::publish::timestamp_text;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// Which groups a pass looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// An encoded key or the first parts of one: groups from here on.
    pub from: Option<String>,
    /// The same: groups up to the last whose key begins with it.
    pub to: Option<String>,
    /// So many groups drawn from those that the base knows, instead of all.
    pub sample: Option<usize>,
}

impl Scope {
    pub fn is_whole(&self) -> bool {
        *self == Scope::default()
    }
}

/// The state that was compared at, as far as it is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Versions shown at the first and at the last read.
    pub first_version: u64,
    pub last_version: u64,
    /// Of the last read.
    pub nonce: String,
    pub watermark: String,
    pub generation: String,
}

/// A group that no look could decide, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub key: String,
    pub why: String,
}

/// Everything that a pass found.
pub struct Report {
    pub object: String,
    pub scope: Scope,
    pub started_ms: i64,
    pub ended_ms: i64,
    pub compared_at: Compared,
    pub tally: Tally,
    /// Groups covered by the checksums, then base and store.
    pub checksums: (u64, String, String),
    /// Those that are kept in memory, up to a limit.
    pub differences: Vec<Difference>,
    /// More were found than are kept.
    pub overflowed: bool,
    /// Groups that were pending after the first look.
    pub pending: u64,
    /// The first of those that nothing could decide.
    pub unsettled: Vec<Unsettled>,
    pub unsettled_total: u64,
    /// What kept the pass from a judgement as a whole.
    pub troubles: Vec<String>,
    /// How often the pass had to wait for a cursor of this base.
    pub waits: u64,
    /// Groups that were marked for the publisher to mend them.
    pub repairs_asked: u64,
    /// Groups whose drift has been repaired often.
    pub repeated: Vec<String>,
}

impl Report {
    pub fn verdict(&self) -> ReconcileVerdict {
        let found = self.tally.differences();
        let standing = self.differences.iter().any(|difference| !difference.mended) || self.overflowed;
        match (found, standing) {
            (1.., true) => ReconcileVerdict::Drift,
            _ if !self.troubles.is_empty() || self.unsettled_total > 0 => ReconcileVerdict::Undecided,
            (1.., false) => ReconcileVerdict::Repaired,
            (0, _) => ReconcileVerdict::InSync,
        }
    }

    /// The report with the first `listed` differences.
    pub fn to_json(&self, listed: usize) -> Value {
        let tally = &self.tally;
        let mut counts = serde_json::Map::new();
        let numbers = [
            ("compared", tally.compared),
            ("pending", self.pending),
            ("looked_again", tally.looked_again),
            ("settled_by_publisher", tally.settled_by_publisher),
            ("unsettled", self.unsettled_total),
            ("differences", tally.differences()),
        ];
        counts.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        counts.extend(Kind::ALL.map(|kind| (kind.name().to_owned(), tally.of_kind(kind).into())));
        let mended = self.differences.iter().filter(|difference| difference.mended).count();
        let (groups, base, redis) = &self.checksums;
        json!({
            "schema": SCHEMA,
            "view": self.object,
            "verdict": self.verdict().name(),
            "scope": {"whole": self.scope.is_whole(), "from": self.scope.from, "to": self.scope.to, "sample": self.scope.sample},
            "started_at": timestamp_text(Some(self.started_ms)),
            "ended_at": timestamp_text(Some(self.ended_ms)),
            "duration_ms": self.ended_ms - self.started_ms,
            "compared_at": {
                "first_version": self.compared_at.first_version,
                "version": self.compared_at.last_version,
                "nonce": self.compared_at.nonce,
                "watermark": self.compared_at.watermark,
                "generation": self.compared_at.generation,
            },
            "counts": counts,
            "controls": {"base": tally.base.to_json(), "redis": tally.redis.to_json()},
            "sha256": {"groups": groups, "base": base, "redis": redis, "equal": base == redis},
            "differences": self.differences.iter().take(listed).collect::<Vec<_>>(),
            "unsettled": self.unsettled.iter().map(|one| json!({"key": one.key, "why": one.why})).collect::<Vec<_>>(),
            "troubles": self.troubles,
            "waits": self.waits,
            "repair": {"asked": self.repairs_asked, "mended": mended, "repeated": self.repeated},
        })
    }

    /// What the base keeps of it.
    pub fn run(&self, listed: usize) -> ReconcileRun {
        ReconcileRun {
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            version: self.compared_at.last_version,
            watermark: self.compared_at.watermark.clone(),
            verdict: self.verdict(),
            whole: self.scope.is_whole(),
            report: self.to_json(listed),
        }
    }
}
