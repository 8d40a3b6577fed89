//! Dual run: one question answered by both routes, and the answers compared while the stream moves. Redis is read
//! first and the base's snapshot is taken then, so whatever a later commit marked is looked at again and neither
//! called a difference nor passed.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::pipeline::route::{Ports, RouteSettings, Shown, read_shown, work_out_in};
use crate::ports::{Lineage, PortResult, Snapshot};
use crate::pure::catalog::{Catalog, CatalogView};
use crate::pure::publish::{Cursor, GroupValue};
use crate::pure::query::{Query, Rows};
use crate::pure::route::{Code, Decision, Facts, Route, shape_checks, state_checks};
use crate::pure::seq::Commit;
use crate::pure::value::Value;

/// Looks at rows whose groups go on changing.
const LOOKS: usize = 20;
/// Differences that are told of one question.
const DIFFERENCES_MAX: usize = 20;

/// What came out for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Every row was compared, and none differs.
    Same,
    Differs,
    /// The question is one that Redis never answers.
    BaseOnly,
    /// Nobody answers it.
    Denied,
    /// Redis gave nothing to compare, or rows went on changing.
    Undecided,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Differs => "differs",
            Verdict::BaseOnly => "base_only",
            Verdict::Denied => "denied",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A row of the answer that the two routes give differently; `None` is no such row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub key: Vec<Value>,
    pub redis: Option<GroupValue>,
    pub base: Option<GroupValue>,
}

#[derive(Clone, Debug)]
pub struct Compared {
    pub verdict: Verdict,
    /// What stands against Redis now, or `ELIGIBLE`.
    pub reasons: Vec<Code>,
    /// Why it is undecided, base only or denied.
    pub why: String,
    /// Rows compared, of both sides together.
    pub rows: usize,
    /// Rows that went on changing.
    pub pending: usize,
    /// The first ones.
    pub differences: Vec<Difference>,
    pub redis_us: Option<u64>,
    pub base_us: Option<u64>,
}

impl Compared {
    fn new(decision: &Decision) -> Self {
        Compared {
            verdict: Verdict::Undecided,
            reasons: decision.reasons(),
            why: String::new(),
            rows: 0,
            pending: 0,
            differences: Vec::new(),
            redis_us: None,
            base_us: None,
        }
    }

    fn ended(mut self, verdict: Verdict, why: impl Into<String>) -> Self {
        self.verdict = verdict;
        self.why = why.into();
        self
    }
}

/// Answers a question by both routes and compares. `pause` waits a little between two looks.
pub fn compare(
    ports: &mut Ports<'_>,
    catalog: &Catalog,
    view: usize,
    query: &Query,
    settings: &RouteSettings,
    pause: &mut dyn FnMut(),
) -> PortResult<Compared> {
    let entry = &catalog.views[view];
    let shape = shape_checks(query, &entry.view, &catalog.tables[entry.table].shape);
    let mut decision = Decision { checks: shape };
    if !decision.allows(Route::Base) {
        return Ok(Compared::new(&decision).ended(Verdict::Denied, first_failure(&decision)));
    }
    let by_shape = decision.allows(Route::Redis);
    let mut open: Option<BTreeSet<Vec<Value>>> = None;
    let mut compared = Compared::new(&decision);
    for look in 0..LOOKS {
        if look > 0 {
            pause();
        }
        // 1. Redis.
        let head = ports.base.snapshot()?.head()?;
        let started = Instant::now();
        let shown = read_shown(ports.store, &entry.view, query, by_shape, settings.groups_max)?;
        let redis_us = elapsed_us(started);
        if look == 0 {
            let facts = Facts {
                meta: shown.meta.as_ref().map_err(String::as_str),
                state: &head.views[view],
                open_letters: head.open_letters[entry.table],
                generation: &head.generation,
                now_ms: ports.clock.wall_ms(),
                reconcile: settings.reconcile,
            };
            decision.checks.extend(state_checks(query, &entry.view, &facts));
            decision.checks.extend(shown.trouble.clone());
            compared = Compared::new(&decision);
            compared.redis_us = by_shape.then_some(redis_us);
        }
        // 2. The base, a snapshot taken after it.
        let started = Instant::now();
        let mut snapshot = ports.base.snapshot()?;
        let base = work_out_in(&mut *snapshot, ports.clock, catalog, view, query, settings)?;
        compared.base_us.get_or_insert(elapsed_us(started));
        if !by_shape || shown.trouble.as_ref().is_some_and(|check| check.code == Code::NotAdditive) {
            return Ok(compared.ended(Verdict::BaseOnly, first_failure(&decision)));
        }
        // 3. Pages of several states are no answer, and may be of one state at the next look.
        if shown.trouble.as_ref().is_some_and(|check| check.code == Code::Mixed) && look + 1 < LOOKS {
            continue;
        }
        // 4. Which rows may differ rightly.
        let changed = match changed_rows(&mut *snapshot, view, entry, query, &shown)? {
            Ok(changed) => changed,
            Err(why) => return Ok(compared.ended(Verdict::Undecided, why)),
        };
        drop(snapshot);
        // 5. All others are compared; those wait for the next look.
        let considered =
            |key: &Vec<Value>| open.as_ref().is_none_or(|open| open.contains(key)) && !changed.contains(key);
        note(&mut compared, &shown.rows, &base, considered);
        let left: BTreeSet<Vec<Value>> = match open.take() {
            None => changed,
            Some(open) => open.intersection(&changed).cloned().collect(),
        };
        compared.pending = left.len();
        if left.is_empty() {
            break;
        }
        open = Some(left);
    }
    Ok(match (compared.differences.is_empty(), compared.pending) {
        (false, _) => compared.ended(Verdict::Differs, ""),
        (true, 0) => compared.ended(Verdict::Same, ""),
        (true, left) => {
            compared.ended(Verdict::Undecided, format!("{left} rows changed during each of {LOOKS} looks"))
        }
    })
}

fn elapsed_us(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn first_failure(decision: &Decision) -> String {
    let failure = decision.failures().next();
    failure.map(|check| format!("{}: {}", check.code.name(), check.evidence)).unwrap_or_default()
}

/// Rows of the answer whose groups were marked after the version that Redis shows; the inner error says why the two
/// sides cannot be compared.
fn changed_rows(
    snapshot: &mut dyn Snapshot,
    view: usize,
    entry: &CatalogView,
    query: &Query,
    shown: &Shown,
) -> PortResult<Result<BTreeSet<Vec<Value>>, String>> {
    let meta = match &shown.meta {
        Err(error) => return Ok(Err(error.clone())),
        Ok(meta) if meta.is_empty() => return Ok(Err("the view is not in Redis".to_owned())),
        Ok(meta) => meta,
    };
    if let Some(trouble) = &shown.trouble {
        return Ok(Err(trouble.evidence.clone()));
    }
    let field = |name: &str| meta.get(name).map_or("", String::as_str);
    if field("definition_hash") != entry.view.definition_hash {
        return Ok(Err("Redis shows another definition".to_owned()));
    }
    if field("mixed") != "0" {
        return Ok(Err("a publish in parts is under way".to_owned()));
    }
    let cursor = Cursor::from_meta(meta);
    let shown_at = Commit(cursor.version);
    if snapshot.lineage(view, shown_at, &cursor.nonce)? != Lineage::Marked {
        return Ok(Err("Redis shows a state that is none of this base".to_owned()));
    }
    let types = entry.view.grain_types();
    let dirty = snapshot.dirty_since(view, shown_at)?;
    Ok(Ok(dirty
        .iter()
        .filter_map(|key| key.decode(&types))
        .filter(|grain| query.admits(&entry.view, grain))
        .map(|grain| query.row_of(&entry.view, &grain))
        .collect()))
}

/// Compares the rows of both sides that are to be considered.
fn note(compared: &mut Compared, redis: &Rows, base: &Rows, considered: impl Fn(&Vec<Value>) -> bool) {
    let value = |rows: &Rows, key: &Vec<Value>| {
        let found = rows.binary_search_by(|(other, _)| other.cmp(key));
        found.ok().map(|at| rows[at].1.clone())
    };
    let keys: BTreeSet<&Vec<Value>> =
        redis.iter().chain(base).map(|(key, _)| key).filter(|key| considered(key)).collect();
    for key in keys {
        compared.rows += 1;
        let (redis, base) = (value(redis, key), value(base, key));
        if redis != base && compared.differences.len() < DIFFERENCES_MAX {
            compared.differences.push(Difference { key: key.clone(), redis, base });
        }
    }
}
