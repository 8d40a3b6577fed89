//! From decoded items to commits: one transaction a batch holds row changes, group marks, history, positions,
//! dead letters, counters and the watermark (P1). Knows the base through its port, and no log.

mod fold;
mod truncate;

use std::sync::Arc;

use crate::pipeline::read::{Item, Message, What};
use crate::pipeline::reread::Reread;
use crate::ports::{BaseWriter, Clock, PortError, PortResult};
use crate::pure::base::{Anchor, NewLetter, PartitionState, TableState};
use crate::pure::catalog::Catalog;
use crate::pure::event::{Class, Rejection};
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::watermark::Frontier;

pub(super) use fold::{Fold, TableChange};

/// What was known before the ends of the log were asked for, and the answer.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Wall clock before asking.
    pub asked_ms: i64,
    /// The greatest sequence applied before asking, by table.
    pub greatest: Vec<Option<Seq>>,
    pub ends: Vec<(TopicPartition, i64)>,
}

/// What one call of [`Ingest::apply`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The commit made; `None` where there was nothing to commit.
    pub commit: Option<Commit>,
    /// Offsets consumed.
    pub consumed: u64,
    /// Of those, changes that became the latest of their key.
    pub applied: u64,
}

/// The writer's loop body and the state that it keeps between batches, all of it restorable from the base.
pub struct Ingest<'a> {
    pub(super) base: &'a mut dyn BaseWriter,
    pub(super) catalog: Arc<Catalog>,
    pub(super) clock: Arc<dyn Clock>,
    /// By slot, in the order in which partitions became known.
    pub(super) partitions: Vec<PartitionState>,
    pub(super) tables: Vec<TableState>,
    pub(super) frontiers: Vec<Frontier>,
    /// Partitions whose state differs from the base's.
    touched: Vec<bool>,
    probe: Option<Probe>,
    /// The part of the log that is being read once more.
    pub(super) reread: Option<Reread>,
    /// A request to read again waits for the next session of reading.
    pub(super) wants_reread: bool,
}

impl<'a> Ingest<'a> {
    /// Restores the state from the base and registers the partitions that are new to it.
    pub fn open(
        base: &'a mut dyn BaseWriter,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        planned: &[PartitionState],
    ) -> PortResult<Self> {
        let count = catalog.tables.len();
        let tables = (0..count).map(|table| base.table_state(table)).collect::<PortResult<Vec<_>>>()?;
        let mut frontiers = Vec::with_capacity(count);
        for (table, configured) in catalog.tables.iter().enumerate() {
            let seen = planned.iter().filter(|state| state.table == table && state.id != 0);
            frontiers.push(Frontier::restore(
                configured.mode,
                tables[table].watermark,
                seen.map(|state| (state.id, state.frontier)),
                base.runs(table)?,
                base.holds(table)?,
            ));
        }
        let (known, new): (Vec<_>, Vec<_>) = planned.iter().cloned().partition(|state| state.id != 0);
        let mut ingest = Ingest {
            base,
            catalog,
            clock,
            touched: vec![false; known.len()],
            partitions: known,
            tables,
            frontiers,
            probe: None,
            reread: None,
            wants_reread: false,
        };
        // Slots follow the plan: the new ones stand behind the known ones there as well.
        assert!(
            planned.iter().map(|state| state.id != 0).is_sorted_by(|a, b| a >= b),
            "planned partitions: known first"
        );
        if !new.is_empty() {
            ingest.register(new)?;
        }
        Ok(ingest)
    }

    /// Makes partitions known in a commit of their own: from now on they hold the watermark.
    pub fn register(&mut self, new: Vec<PartitionState>) -> PortResult<Commit> {
        self.in_transaction(|ingest| {
            for mut state in new {
                state.id = ingest.base.save_partition(&state)?;
                ingest.frontiers[state.table].add_partition(state.id);
                ingest.partitions.push(state);
                ingest.touched.push(false);
            }
            ingest.save_tables()?;
            ingest.base.commit(ingest.clock.wall_ms())
        })
    }

    /// All of `body` and its commit, or nothing (P1).
    pub(super) fn in_transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> PortResult<T>,
    ) -> PortResult<T> {
        self.base.begin()?;
        let result = body(self);
        if result.is_err() {
            self.base.rollback();
        }
        result
    }

    pub fn partitions(&self) -> &[PartitionState] {
        &self.partitions
    }

    /// By table: the greatest sequence applied.
    pub fn greatest(&self) -> Vec<Option<Seq>> {
        self.tables.iter().map(|table| table.greatest).collect()
    }

    pub fn watermark(&self, table: usize) -> Option<Seq> {
        self.frontiers[table].watermark()
    }

    /// Notes what the log's ends were; partitions that have been read up to them may lift the watermark.
    pub fn note_probe(&mut self, probe: Probe) {
        self.probe = Some(probe);
    }

    /// Applies a batch in one transaction. After an error the caller opens a new `Ingest`: the base is as
    /// before, this state may not be.
    pub fn apply(&mut self, items: &[Item]) -> PortResult<Applied> {
        if items.is_empty() && !self.probe_lifts() {
            return Ok(Applied::default());
        }
        self.in_transaction(|ingest| ingest.apply_in_transaction(items))
    }

    fn apply_in_transaction(&mut self, items: &[Item]) -> PortResult<Applied> {
        let at_ms = self.clock.wall_ms();
        let mut done = Applied::default();
        let catalog = self.catalog.clone();
        let mut changes: Vec<Vec<TableChange<'_>>> = vec![Vec::new(); catalog.tables.len()];
        // 1. In the order of the log: positions, and what is no change.
        for item in items {
            let again = !self.advance_position(item)?;
            if again && !self.meet_again(item) {
                continue;
            }
            if !again {
                self.pass_again(item);
            }
            let state = &mut self.partitions[item.slot];
            let (table, frontier) = (state.table, &mut self.frontiers[state.table]);
            match &item.what {
                What::End => continue,
                What::Change { .. } | What::Changes { .. } => {
                    for change in TableChange::all_of(item, state.id, again) {
                        if !again {
                            frontier.observe(state.id, change.seq);
                        }
                        changes[table].push(change);
                    }
                }
                What::Truncate { seq, message } => {
                    let before = std::mem::take(&mut changes[table]);
                    done.applied += self.fold(table, &mut { before }, at_ms)?;
                    done.applied += self.truncate(item, *seq, message, again, at_ms)?;
                }
                What::Heartbeat(seq) => {
                    frontier.heartbeat(state.id, *seq);
                    state.counts.count(Class::Control);
                }
                What::Control => state.counts.count(Class::Control),
                What::Rejected { rejection, message } => self.keep_letter(item, rejection, message, at_ms)?,
            }
            done.consumed += u64::from(!again);
        }
        // 2. By key: rows, marks, history.
        for (table, changes) in changes.iter_mut().enumerate() {
            if !changes.is_empty() {
                done.applied += self.fold(table, changes, at_ms)?;
            }
        }
        // 3. What is known now, all in the same transaction.
        self.lift_by_probe();
        self.save_partitions()?;
        self.save_tables()?;
        done.commit = Some(self.base.commit(at_ms)?);
        Ok(done)
    }

    /// Moves a partition past an item. False for an offset that has been consumed before.
    fn advance_position(&mut self, item: &Item) -> PortResult<bool> {
        let state = &mut self.partitions[item.slot];
        let end = matches!(item.what, What::End);
        if item.offset < state.next_offset {
            let anchor = state.anchor.filter(|anchor| !end && anchor.offset == item.offset);
            if anchor.is_some_and(|anchor| anchor.checksum != item.checksum) {
                return Err(PortError::permanent(format!(
                    "partition {}: offset {} holds another record than the one applied from there: the topic was re-created or lost its tail",
                    state.at, item.offset
                ))
                .with_hint("nothing has been applied; build a new generation from the log as it is now (driftless replay) and activate it"));
            }
            return Ok(false);
        }
        // Offsets without a record are transaction markers, aborted or compacted records.
        state.counts.control += (item.offset - state.next_offset) as u64;
        state.next_offset = item.offset;
        self.touched[item.slot] = true;
        if !end {
            state.next_offset += 1;
            state.anchor = Some(Anchor { offset: item.offset, checksum: item.checksum });
        }
        Ok(true)
    }

    fn keep_letter(
        &mut self,
        item: &Item,
        rejection: &Rejection,
        message: &Message,
        at_ms: i64,
    ) -> PortResult<()> {
        let letter = NewLetter {
            partition: self.partitions[item.slot].id,
            offset: item.offset,
            seq: rejection.seq,
            reason: rejection.reason.code(),
            detail: &rejection.detail,
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            headers: &message.headers,
        };
        self.add_letter(item.slot, &letter, at_ms)
    }

    fn add_letter(&mut self, slot: usize, letter: &NewLetter<'_>, at_ms: i64) -> PortResult<()> {
        let state = &mut self.partitions[slot];
        let id = self.base.add_letter(letter, at_ms)?;
        let cap = self.frontiers[state.table].hold(id, state.id, letter.seq);
        self.base.save_hold(id, cap)?;
        state.counts.count(Class::DeadLetter);
        tracing::warn!(partition = %state.at, offset = letter.offset, reason = letter.reason,
            detail = letter.detail, letter = id, "dead letter: the watermark waits for it");
        Ok(())
    }

    /// Applies the changes of one table. Returns how many became the latest of their key.
    fn fold(&mut self, table: usize, changes: &mut [TableChange<'_>], at_ms: i64) -> PortResult<u64> {
        let floor = self.tables[table].floor;
        let catalog = self.catalog.clone();
        let folded = Fold::run(self.base, &catalog, table, floor, changes)?;
        // The watermark before this batch: what its own events reach makes none of them late.
        let below = self.tables[table].watermark;
        let mut applied = 0;
        for outcome in &folded.outcomes {
            if outcome.again {
                self.count_again(|counts| counts.count(outcome.class));
                continue;
            }
            let counts = &mut self.partitions[outcome.slot].counts;
            counts.count(outcome.class);
            if outcome.class == Class::Applied {
                applied += 1;
                counts.below_watermark += u64::from(below.is_some_and(|below| outcome.seq <= below));
            }
        }
        self.tables[table].greatest = self.tables[table].greatest.max(folded.greatest);
        for refused in &folded.refused {
            match refused.change.again {
                true => self.count_again(|counts| counts.conflict += 1),
                false => self.add_letter(refused.change.slot, &refused.letter(), at_ms)?,
            }
        }
        Ok(applied)
    }

    /// Applies the changes of one message outside a batch, inside the caller's transaction; its offset has been
    /// counted. `None` where one of them contradicts what is stored.
    pub(super) fn apply_late(
        &mut self,
        table: usize,
        changes: &mut [TableChange<'_>],
    ) -> PortResult<Option<Class>> {
        let floor = self.tables[table].floor;
        let catalog = self.catalog.clone();
        let folded = Fold::run(self.base, &catalog, table, floor, changes)?;
        self.tables[table].greatest = self.tables[table].greatest.max(folded.greatest);
        Ok(folded.outcomes.first().map(|outcome| outcome.class))
    }

    /// Whether the probe moves a watermark: an idle maintainer then commits for it alone.
    fn probe_lifts(&self) -> bool {
        let Some(probe) = &self.probe else { return false };
        let mut frontiers = self.frontiers.clone();
        self.lift(&mut frontiers, probe);
        frontiers.iter().zip(&self.frontiers).any(|(lifted, now)| lifted.would_reach() > now.watermark())
    }

    /// What a probe says: where it saw no partition but known ones, everything applied before it came from these;
    /// and those that have been read up to the ends that it saw hold nothing below.
    fn lift(&self, frontiers: &mut [Frontier], probe: &Probe) {
        let known = |at: &TopicPartition| self.partitions.iter().any(|state| state.at == *at);
        if !probe.ends.iter().all(|(at, _)| known(at)) {
            return;
        }
        for (table, frontier) in frontiers.iter_mut().enumerate() {
            let Some(seq) = probe.greatest[table] else { continue };
            frontier.know_partitions(seq);
            for state in self.partitions.iter().filter(|state| state.table == table) {
                let end = probe.ends.iter().find(|(at, _)| *at == state.at);
                if end.is_some_and(|(_, end)| state.next_offset >= *end) {
                    frontier.lift(state.id, seq);
                }
            }
        }
    }

    fn lift_by_probe(&mut self) {
        let Some(probe) = self.probe.take() else { return };
        let mut frontiers = std::mem::take(&mut self.frontiers);
        self.lift(&mut frontiers, &probe);
        self.frontiers = frontiers;
        for (slot, state) in self.partitions.iter().enumerate() {
            self.touched[slot] |= self.frontiers[state.table].partition(state.id) > state.frontier;
        }
        self.probe = Some(probe);
    }

    pub(super) fn save_partitions(&mut self) -> PortResult<()> {
        for (slot, state) in self.partitions.iter_mut().enumerate() {
            if !std::mem::take(&mut self.touched[slot]) {
                continue;
            }
            let consumed = (state.next_offset - state.first_offset) as u64;
            assert_eq!(
                state.counts.consumed(),
                consumed,
                "P10: the classes of {} sum to its offsets",
                state.at
            );
            state.frontier = self.frontiers[state.table].partition(state.id);
            self.base.save_partition(state)?;
        }
        Ok(())
    }

    pub(super) fn save_tables(&mut self) -> PortResult<()> {
        for (table, frontier) in self.frontiers.iter_mut().enumerate() {
            let before = self.tables[table];
            frontier.advance();
            let state = &mut self.tables[table];
            state.watermark = frontier.watermark();
            assert!(state.watermark >= before.watermark, "P5: the watermark does not fall");
            let changed = frontier.take_changed_runs();
            if !changed.removed.is_empty() || !changed.stored.is_empty() {
                self.base.save_runs(table, &changed)?;
            }
            self.base.save_table(table, &self.tables[table])?;
        }
        Ok(())
    }

    pub(super) fn touch(&mut self, slot: usize) {
        self.touched[slot] = true;
    }
}
