//! Proves the base itself: replays the log into a scratch base up to the live positions, and compares the rows. The
//! only check that finds changes which the base has lost, since everything else takes the base's word.
//!
//! ```text
//! live positions ──▶ replay up to there ──▶ rows of both, chunk by chunk: those that differ are suspects
//! live positions and the suspects' rows, in one snapshot ──▶ replay up to there ──▶ what differs now differs
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::pipeline::ingest::Ingest;
use crate::pipeline::read::{Item, ReadSettings, Reader, What};
use crate::ports::{BaseReader, BaseWriter, Clock, Log, PortError, PortResult};
use crate::pure::apply::Stored;
use crate::pure::base::{Counts, Head, PartitionState, Position};
use crate::pure::catalog::Catalog;
use crate::pure::drift::{RowDifference, RowKind, RowTally, RowsReport, compare_rows};
use crate::pure::event::Reason;
use crate::pure::seq::{Seq, TopicPartition};
use crate::pure::value::Value;

/// Rows of one snapshot.
const CHUNK: usize = 2_000;
/// Rows that wait to be compared at one position of both; then that is done first.
const SUSPECTS_MAX: usize = 20_000;
/// Differences that are kept; further ones are counted, and told to the sink.
const DIFFERENCES_MAX: usize = 10_000;
/// How long the log may deliver nothing before its end is reached.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The world of the comparison.
pub struct TopicPorts<'a> {
    pub log: &'a mut dyn Log,
    pub live: &'a mut dyn BaseReader,
    /// A new base of the same tables, without views.
    pub scratch: &'a mut dyn BaseWriter,
    pub scratch_reader: &'a mut dyn BaseReader,
    pub clock: Arc<dyn Clock>,
    /// Keeps the scratch base's WAL small.
    pub checkpoint: &'a mut dyn FnMut(),
    pub stop: &'a AtomicBool,
    /// Offsets read, and how many there are.
    pub progress: &'a dyn Fn(u64, u64),
    pub found: &'a mut dyn FnMut(&RowDifference) -> PortResult<()>,
    /// Sequences of the live base's dead letters: their events are in the log and not in its rows.
    pub letters: &'a BTreeSet<Seq>,
}

struct Replay<'a> {
    ports: TopicPorts<'a>,
    /// Tables and topics, and no view.
    catalog: Arc<Catalog>,
    read: ReadSettings,
    floors: Vec<Option<Seq>>,
    /// The log no longer holds all that the live base has read.
    trimmed: BTreeMap<TopicPartition, i64>,
    /// Sequences under which the log holds two different events.
    conflicts: BTreeSet<Seq>,
    report: RowsReport,
}

/// Replays and compares all tables. The scratch base is left to the caller to remove.
pub fn run(ports: TopicPorts<'_>, catalog: Arc<Catalog>, read: ReadSettings) -> PortResult<RowsReport> {
    assert!(catalog.views.is_empty(), "a scratch base has rows alone");
    let started_ms = ports.clock.wall_ms();
    let head = ports.live.snapshot()?.head()?;
    let tables = catalog.tables.iter().map(|table| RowTally::new(table.shape.name.to_string())).collect();
    let mut replay = Replay {
        floors: head.tables.iter().map(|table| table.floor).collect(),
        ports,
        catalog,
        read,
        trimmed: BTreeMap::new(),
        conflicts: BTreeSet::new(),
        report: RowsReport { started_ms, tables, ..RowsReport::default() },
    };
    // 1. The scratch base begins where the live one did, or where the log does now.
    let mut partitions = replay.begin(&head)?;
    // 2. Up to where the live one is.
    replay.replay(&mut partitions, &head.positions)?;
    // 3. Row by row.
    for table in 0..replay.catalog.tables.len() {
        replay.compare_table(table, &mut partitions)?;
    }
    let Replay { ports, report, trimmed, .. } = replay;
    Ok(RowsReport {
        ended_ms: ports.clock.wall_ms(),
        positions: partitions.iter().map(|state| (state.at.to_string(), state.next_offset)).collect(),
        trimmed: trimmed.into_iter().map(|(at, offset)| (at.to_string(), offset)).collect(),
        floors: head.tables.iter().map(|table| table.floor.map(|floor| floor.to_string())).collect(),
        stopped: ports.stop.load(Ordering::Relaxed),
        ..report
    })
}

impl Replay<'_> {
    fn begin(&mut self, head: &Head) -> PortResult<Vec<PartitionState>> {
        let scratch = &mut *self.ports.scratch;
        scratch.begin()?;
        // What the first load stands for is judged as in the live base.
        for (table, state) in head.tables.iter().enumerate() {
            let floor = crate::pure::base::TableState { floor: state.floor, ..Default::default() };
            scratch.save_table(table, &floor)?;
        }
        scratch.commit(self.ports.clock.wall_ms())?;
        let mut partitions = Vec::new();
        for position in &head.positions {
            let bounds = self.ports.log.bounds(&position.at)?;
            if bounds.high < position.next_offset {
                return Err(PortError::permanent(format!(
                    "partition {}: the base stands at offset {}, the log ends at {}: it lost its tail or is another one",
                    position.at, position.next_offset, bounds.high
                ))
                .with_hint("the log cannot prove this base; see `driftless status`"));
            }
            let from = position.first_offset.max(bounds.low);
            if bounds.low > position.first_offset {
                self.trimmed.insert(position.at.clone(), bounds.low);
            }
            partitions.push(PartitionState {
                id: 0,
                at: position.at.clone(),
                table: position.table,
                first_offset: from,
                next_offset: from.min(position.next_offset),
                frontier: None,
                anchor: None,
                counts: Counts::default(),
            });
        }
        let mut ingest =
            Ingest::open(&mut *self.ports.scratch, self.catalog.clone(), self.ports.clock.clone(), &[])?;
        if !partitions.is_empty() {
            ingest.register(partitions)?;
        }
        Ok(ingest.partitions().to_vec())
    }

    /// Reads on until the scratch base stands exactly at these positions.
    fn replay(&mut self, partitions: &mut Vec<PartitionState>, to: &[Position]) -> PortResult<()> {
        let target = |at: &TopicPartition| {
            to.iter().find(|position| position.at == *at).map_or(i64::MIN, |position| position.next_offset)
        };
        let targets: Vec<i64> = partitions.iter().map(|state| target(&state.at)).collect();
        let first: i64 = partitions.iter().map(|state| state.first_offset).sum();
        let all = targets.iter().sum::<i64>().saturating_sub(first);
        let TopicPorts { log, scratch, clock, checkpoint, stop, progress, .. } = &mut self.ports;
        let mut reader =
            Reader::start(&mut **log, self.catalog.clone(), partitions, self.floors.clone(), self.read)?;
        let mut ingest = Ingest::open(&mut **scratch, self.catalog.clone(), clock.clone(), partitions)?;
        let mut delivered = Instant::now();
        loop {
            let behind = |(state, target): (&PartitionState, &i64)| state.next_offset < *target;
            if !ingest.partitions().iter().zip(&targets).any(behind) || stop.load(Ordering::Relaxed) {
                break;
            }
            let items = up_to(&targets, reader.poll(Duration::from_millis(100))?);
            if items.is_empty() {
                if delivered.elapsed() > SILENCE_MAX {
                    return Err(PortError::transient(
                        "the log delivers nothing, and the live base's position is not reached",
                    )
                    .with_hint("see whether the brokers are well, and try again"));
                }
                continue;
            }
            delivered = Instant::now();
            ingest.apply(&items)?;
            let read: i64 = ingest.partitions().iter().map(|state| state.next_offset).sum();
            progress(read.saturating_sub(first).max(0) as u64, all.max(0) as u64);
            checkpoint();
        }
        *partitions = ingest.partitions().to_vec();
        drop(ingest);
        self.note_conflicts()
    }

    /// Under these sequences the log itself says two things; which came first depends on who reads.
    fn note_conflicts(&mut self) -> PortResult<()> {
        let mut after = 0;
        loop {
            let letters = self.ports.scratch.open_letters(None, after, CHUNK)?;
            let Some(last) = letters.last() else { return Ok(()) };
            after = last.id;
            let conflicts = letters.iter().filter(|letter| letter.reason == Reason::Conflict.code());
            self.conflicts.extend(conflicts.filter_map(|letter| letter.seq));
        }
    }

    fn compare_table(&mut self, table: usize, partitions: &mut Vec<PartitionState>) -> PortResult<()> {
        let mut suspects: BTreeSet<Box<[Value]>> = BTreeSet::new();
        let mut after: Option<Box<[Value]>> = None;
        while !self.ports.stop.load(Ordering::Relaxed) {
            // 1. A chunk of both, up to where both are complete.
            let mut live = self.ports.live.snapshot()?.rows_after(table, after.as_deref(), CHUNK)?;
            let mut replayed =
                self.ports.scratch_reader.snapshot()?.rows_after(table, after.as_deref(), CHUNK)?;
            let ends = [&live, &replayed]
                .map(|rows| rows.last().filter(|_| rows.len() == CHUNK).map(|(key, _)| key));
            let end = ends.into_iter().flatten().min().cloned();
            let within = |(key, _): &(Box<[Value]>, Stored)| end.as_ref().is_none_or(|end| key <= end);
            live.retain(within);
            replayed.retain(within);
            // 2. Rows that are the same are proven; the others may only have moved on.
            let mut replayed: BTreeMap<Box<[Value]>, Stored> = replayed.into_iter().collect();
            for (key, stored) in live {
                if replayed.remove(&key).as_ref() == Some(&stored) {
                    self.report.tables[table].equal += 1;
                } else {
                    suspects.insert(key);
                }
            }
            suspects.extend(replayed.into_keys());
            let done = end.is_none();
            if suspects.len() > SUSPECTS_MAX || (done && !suspects.is_empty()) {
                self.decide(table, std::mem::take(&mut suspects), partitions)?;
            }
            if done {
                break;
            }
            after = end;
        }
        Ok(())
    }

    /// Compares the suspects where both bases stand at the same positions.
    fn decide(
        &mut self,
        table: usize,
        suspects: BTreeSet<Box<[Value]>>,
        partitions: &mut Vec<PartitionState>,
    ) -> PortResult<()> {
        // 1. The live rows and the positions that they are of, in one snapshot.
        let mut snapshot = self.ports.live.snapshot()?;
        let head = snapshot.head()?;
        let live = suspects.iter().map(|key| snapshot.row(table, key)).collect::<PortResult<Vec<_>>>()?;
        drop(snapshot);
        // 2. The scratch base at those.
        self.replay(partitions, &head.positions)?;
        if self.ports.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut snapshot = self.ports.scratch_reader.snapshot()?;
        let replayed = suspects.iter().map(|key| snapshot.row(table, key)).collect::<PortResult<Vec<_>>>()?;
        drop(snapshot);
        // 3. What differs now, differs.
        for ((key, live), replayed) in suspects.into_iter().zip(live).zip(replayed) {
            self.judge(table, &key, live.as_ref(), replayed.as_ref())?;
        }
        Ok(())
    }

    fn judge(
        &mut self,
        table: usize,
        key: &[Value],
        live: Option<&Stored>,
        replayed: Option<&Stored>,
    ) -> PortResult<()> {
        let shape = self.catalog.tables[table].shape.clone();
        let tally = &mut self.report.tables[table];
        let Some(difference) = compare_rows(&shape, key, live, replayed) else {
            tally.equal += 1;
            return Ok(());
        };
        let (of_live, of_log) = (live.map(|stored| stored.seq), replayed.map(|stored| stored.seq));
        let loaded = of_live <= self.floors[table] || !self.trimmed.is_empty();
        match difference.kind {
            // The log cannot speak of what it never held, or does not hold any more.
            RowKind::Extra if loaded => tally.unproven += 1,
            _ if of_log.is_some_and(|seq| self.ports.letters.contains(&seq)) => tally.dead_letters += 1,
            _ if of_live == of_log && of_log.is_some_and(|seq| self.conflicts.contains(&seq)) => {
                tally.contradicting += 1;
            }
            kind => {
                tally.count(kind);
                (self.ports.found)(&difference)?;
                if self.report.differences.len() < DIFFERENCES_MAX {
                    self.report.differences.push(difference);
                }
            }
        }
        Ok(())
    }
}

/// The items before these offsets. One at or behind its partition's says that everything before has been seen.
fn up_to(targets: &[i64], items: Vec<Item>) -> Vec<Item> {
    let mut ended = vec![false; targets.len()];
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let target = targets[item.slot];
        if item.offset < target {
            kept.push(item);
        } else if !std::mem::replace(&mut ended[item.slot], true) && target >= 0 {
            kept.push(Item { slot: item.slot, offset: target, checksum: 0, what: What::End });
        }
    }
    kept
}
