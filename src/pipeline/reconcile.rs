//! Proves that the store shows what the base's rows give (P9), while both go on.
//!
//! ```text
//! cursor and meta ──▶ slices: store first, then a snapshot ──▶ keys that do not belong ──▶ pending groups again
//!       ▲                 │ marked at or before the version shown: must be equal                   │
//!       └── wait ◀── not ours now                                 still pending: the publisher ◀───┘
//! ```
//!
//! A group that is marked at or before the version which the store showed has the same rows in a snapshot taken
//! later, so both sides must be equal; one marked later is looked at again. Nothing is ever written to the store: what
//! differs is marked in the base, and the publisher mends it.

mod cursor;
mod looks;
mod pace;
mod repair;
mod slices;
mod strangers;
pub mod topic;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ports::{BaseReader, Clock, PortError, PortResult, Requests, ViewStore};
use crate::pure::backoff::Backoff;
use crate::pure::base::Action;
use crate::pure::catalog::Catalog;
use crate::pure::drift::{Compared, Difference, Kind, Report, Scope, Tally, Unsettled};
use crate::pure::group_key::GroupKey;
use crate::pure::seq::Commit;
use slices::Place;

/// How often a group is looked at before the publisher is asked, and a cursor before the pass gives up.
const LOOKS: u32 = 10;
/// Between looks.
const BETWEEN: Backoff = Backoff { initial_ms: 25, factor: 2, cap_ms: 2_000 };
/// Groups that wait to be looked at again at most; then they go first.
const PENDING_MAX: usize = 50_000;
/// Differences that are kept for repair and verification; further ones are counted, and told to the sink.
const DIFFERENCES_MAX: usize = 100_000;
/// Turns of one pass at most.
const TURNS_MAX: u32 = 50;
/// Of the groups that nothing could decide, how many are named.
const UNSETTLED_NAMED: usize = 100;

#[derive(Clone, Debug)]
pub struct ReconcileSettings {
    pub scope: Scope,
    /// The part of the time that the pass may use, over 0 and up to 1.
    pub share: f64,
    /// How often a live publisher beats.
    pub beat_ms: u64,
    /// Have the publisher mend what differs.
    pub repair: bool,
    /// Stays on record with a repair.
    pub why: String,
    /// Differences that the report on record names.
    pub listed: usize,
}

/// The world of a pass.
pub struct Ports<'a> {
    pub base: &'a mut dyn BaseReader,
    pub requests: &'a mut dyn Requests,
    pub clock: Arc<dyn Clock>,
    /// Waits: sleeps, or moves a test's world on.
    pub wait: &'a mut dyn FnMut(Duration),
    /// Ends the pass early, undecided.
    pub stop: &'a AtomicBool,
    /// Told now and then: groups looked at, and how many there are about.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Told every difference as it is found.
    pub found: &'a mut dyn FnMut(&Difference) -> PortResult<()>,
}

/// A group that waits for another look.
struct Pending {
    key: GroupKey,
    /// Not counted as compared: it was, or there was no need to.
    suspect: bool,
}

struct Pass<'a> {
    ports: Ports<'a>,
    catalog: &'a Catalog,
    view: usize,
    object: String,
    columns: Vec<String>,
    settings: &'a ReconcileSettings,
    tally: Tally,
    differences: Vec<Difference>,
    /// Keys of the differences, so that none is told twice.
    differing: HashSet<String>,
    overflowed: bool,
    pending: Vec<Pending>,
    pending_total: u64,
    unsettled: Vec<Unsettled>,
    unsettled_total: u64,
    troubles: Vec<String>,
    waits: u64,
    /// Groups to compare, about.
    total: u64,
    compared_at: Compared,
    /// The view is gone from the store: everything that the base has is missing.
    absent: bool,
    repairs_asked: u64,
    repeated: Vec<String>,
}

/// One pass over a view, from the first look to the verdict.
pub fn run<'a>(
    ports: Ports<'a>,
    store: &mut dyn ViewStore,
    catalog: &'a Catalog,
    view: usize,
    settings: &'a ReconcileSettings,
) -> PortResult<Report> {
    let entry = &catalog.views[view].view;
    let started_ms = ports.clock.wall_ms();
    let mut pass = Pass {
        ports,
        catalog,
        view,
        object: entry.object.clone(),
        columns: entry.columns(),
        settings,
        tally: Tally::new(entry),
        differences: Vec::new(),
        differing: HashSet::new(),
        overflowed: false,
        pending: Vec::new(),
        pending_total: 0,
        unsettled: Vec::new(),
        unsettled_total: 0,
        troubles: Vec::new(),
        waits: 0,
        total: 0,
        compared_at: Compared::default(),
        absent: false,
        repairs_asked: 0,
        repeated: Vec::new(),
    };
    pass.all_steps(store)?;
    let checksums = pass.tally.finish_sums();
    Ok(Report {
        object: pass.object,
        scope: settings.scope.clone(),
        started_ms,
        ended_ms: pass.ports.clock.wall_ms(),
        compared_at: pass.compared_at,
        tally: pass.tally,
        checksums,
        differences: pass.differences,
        overflowed: pass.overflowed,
        pending: pass.pending_total,
        unsettled: pass.unsettled,
        unsettled_total: pass.unsettled_total,
        troubles: pass.troubles,
        waits: pass.waits,
        repairs_asked: pass.repairs_asked,
        repeated: pass.repeated,
    })
}

/// Puts a report on record: drift puts the view under quarantine, a clean pass ends that.
pub fn record(requests: &mut dyn Requests, report: &Report, listed: usize) -> PortResult<()> {
    let action = Action::RecordReconcile { view: report.object.clone(), run: report.run(listed) };
    let why = format!("reconcile pass: {}", report.verdict().name());
    match requests.ask(&action, &why)? {
        Ok(_) => Ok(()),
        Err(refusal) => Err(PortError::permanent(format!("the pass was not put on record: {refusal}"))
            .with_hint("run the pass with the maintainer's own configuration")),
    }
}

impl Pass<'_> {
    /// One turn; with repair as many as it takes, since some damage hides other.
    fn all_steps(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        for _ in 0..TURNS_MAX {
            let overflowed = std::mem::take(&mut self.overflowed);
            if overflowed {
                // Those that are mended make room.
                self.differences.retain(|difference| !difference.mended);
                self.differing.clear();
            }
            let compared = self.turn(store)?;
            let mended = self.repairs_asked > 0 && !self.differences.iter().any(|one| !one.mended);
            let again = self.settings.repair && mended && (self.overflowed || !compared);
            if !again || !self.troubles.is_empty() || self.is_stopped() {
                break;
            }
        }
        if self.is_stopped() {
            self.troubles.push("the pass was told to end before it was through".to_owned());
        }
        Ok(())
    }

    /// From the cursor to the repair. False where groups could not be compared.
    fn turn(&mut self, store: &mut dyn ViewStore) -> PortResult<bool> {
        // 1. Whose view it is, at which version, and what it says of itself.
        let comparable = self.look_at_meta(store)?;
        if comparable {
            // 2. Every group, then every key that is none.
            self.compare_all(store)?;
            if self.settings.scope.is_whole() && self.troubles.is_empty() && !self.is_stopped() {
                self.compare_strangers(store)?;
            }
            // 3. The meta once more: what was altered meanwhile, and where the pass ends.
            if self.troubles.is_empty() && !self.absent && !self.is_stopped() {
                self.look_at_meta(store)?;
            }
        }
        // 4. What differed may have been mended by the publisher meanwhile; what has not is repaired, if so told.
        if !self.differences.is_empty() {
            self.verify(store)?;
            if self.settings.repair && self.stands() {
                self.repair(store)?;
            }
        }
        Ok(comparable)
    }

    /// Notes what is wrong with the view's own keys. False where groups cannot be compared.
    fn look_at_meta(&mut self, store: &mut dyn ViewStore) -> PortResult<bool> {
        let asked = self.ask_cursor(store)?;
        self.absent = asked.absent;
        self.troubles.extend(asked.trouble);
        asked.wrong.into_iter().try_for_each(|difference| self.note(difference))?;
        if self.settings.scope.is_whole() {
            self.suspect(asked.misplaced.into_iter().map(GroupKey::from_encoded));
        }
        Ok(asked.comparable)
    }

    /// Compares the groups of the scope, in as many turns as waiting makes of them.
    fn compare_all(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        self.total = self.count_shown(store)?;
        let mut place = match self.settings.scope.sample {
            Some(count) => {
                self.draw_sample(count)?;
                Place::End
            }
            None => self.first_place(),
        };
        let mut waited = 0;
        while let Place::After(after) = &place {
            let (next, why) = self.read_and_judge(store, after)?;
            waited = if next == place { waited + 1 } else { 0 };
            place = next;
            match why {
                // The store does not show a state of this base: once more, and then it is asked whose it is.
                Some(why) if waited < LOOKS => self.wait_for_cursor(waited + 1, &why),
                Some(_) if !self.look_at_meta(store)? => return Ok(()),
                _ => {}
            }
            if self.is_stopped() {
                return Ok(());
            }
            self.look_at_pending(store)?;
        }
        self.look_at_pending(store)
    }

    fn compare_strangers(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        let strangers = self.find_strangers(store)?;
        self.overflowed |= strangers.overflowed;
        strangers.foreign.into_iter().try_for_each(|difference| self.note(difference))?;
        self.suspect(strangers.suspects);
        self.look_at_pending(store)
    }

    /// Keys that are looked at once more, without being counted as compared.
    fn suspect(&mut self, keys: impl IntoIterator<Item = GroupKey>) {
        self.pending.extend(keys.into_iter().map(|key| Pending { key, suspect: true }));
    }

    /// About how many groups there are to compare.
    fn count_shown(&mut self, store: &mut dyn ViewStore) -> PortResult<u64> {
        let meta = store.read_meta(&self.object)?;
        Ok(meta.get("groups").and_then(|groups| groups.parse().ok()).unwrap_or(0))
    }

    fn is_stopped(&self) -> bool {
        self.ports.stop.load(Ordering::Relaxed)
    }

    /// Whether anything differs that has not been seen mended.
    fn stands(&self) -> bool {
        self.overflowed || self.differences.iter().any(|difference| !difference.mended)
    }

    fn note(&mut self, difference: Difference) -> PortResult<()> {
        if !self.differing.insert(format!("{:?}{}", difference.kind == Kind::ForeignKey, difference.key)) {
            return Ok(());
        }
        (self.ports.found)(&difference)?;
        self.tally.count(&difference);
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(difference);
        } else {
            self.overflowed = true;
        }
        Ok(())
    }

    fn leave_unsettled(&mut self, key: &GroupKey, why: &str) {
        self.unsettled_total += 1;
        if self.unsettled.len() < UNSETTLED_NAMED {
            self.unsettled.push(Unsettled { key: key.to_string(), why: why.to_owned() });
        }
    }

    /// So many groups drawn evenly from those that the base knows.
    fn draw_sample(&mut self, count: usize) -> PortResult<()> {
        let mut after: Option<String> = None;
        let mut drawn: Vec<GroupKey> = Vec::new();
        let mut seen = 0_u64;
        // A fixed start would draw the same groups each time.
        let mut state = (self.ports.clock.wall_ms() as u64) | 1;
        loop {
            let known =
                self.ports.base.snapshot()?.groups_after(self.view, after.as_deref(), slices::GROUPS_MAX)?;
            let Some((last, _)) = known.last() else { break };
            after = Some(last.to_string());
            for (key, _) in known {
                seen += 1;
                // Algorithm R; xorshift is even enough for a sample.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = (state % seen) as usize;
                if drawn.len() < count {
                    drawn.push(key);
                } else if at < count {
                    drawn[at] = key;
                }
            }
        }
        drawn.sort_unstable();
        self.pending.extend(drawn.into_iter().map(|key| Pending { key, suspect: false }));
        Ok(())
    }
}

fn thread_trouble(error: std::io::Error) -> PortError {
    PortError::permanent(format!("a thread cannot be started: {error}"))
        .with_hint("raise the limit of processes of this user")
}

/// Whether a group's rows in a snapshot are those that it had at the version shown before.
fn is_settled(mark: Option<Commit>, shown: Commit) -> bool {
    mark.is_none_or(|mark| mark <= shown)
}
