//! The writer's thread: sessions of reading and applying. A passing trouble ends a session; the next one starts
//! from what the base holds.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::prober::probe;
use super::{Board, MaintainSettings};
use crate::pipeline::ingest::Ingest;
use crate::pipeline::read::{Batch, Item, Reader, plan_start};
use crate::pipeline::requests;
use crate::pipeline::reread::Reread;
use crate::ports::{BaseWriter, Clock, Log, PortResult};
use crate::pure::catalog::Catalog;
use crate::pure::seq::TopicPartition;

/// How long the writer waits for a batch before it looks for requests and probes.
const IDLE_WAIT: Duration = Duration::from_millis(20);

pub(super) fn run(
    log: &mut dyn Log,
    base: &mut dyn BaseWriter,
    catalog: &Arc<Catalog>,
    settings: &MaintainSettings,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let mut failures = 0;
    loop {
        match session(log, base, catalog, settings, clock, stop, board) {
            Ok(Ended::ToReadAgain) => {}
            Ok(Ended::ForGood) => return Ok(()),
            // Told to end while the log or the base is in trouble: what was committed is safe, the rest waits in the log.
            Err(error) if error.is_transient() && stop.load(Ordering::Relaxed) && !settings.once => {
                tracing::warn!(%error, "ending while the log or the base is in trouble");
                return Ok(());
            }
            Err(error) if error.is_transient() && !stop.load(Ordering::Relaxed) && !board.is_finished() => {
                failures += 1;
                let wait = settings.backoff.delay_ms(failures, settings.random);
                tracing::warn!(%error, wait_ms = wait, "reading starts again from the base");
                board.update(|numbers| numbers.held_up = error.to_string());
                std::thread::sleep(Duration::from_millis(wait));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Why a session ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    ForGood,
    /// A request asks for part of the log once more: the next session reads from there.
    ToReadAgain,
}

fn session(
    log: &mut dyn Log,
    base: &mut dyn BaseWriter,
    catalog: &Arc<Catalog>,
    settings: &MaintainSettings,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<Ended> {
    // 1. Where the base stands, and where each partition starts.
    let floors: Vec<_> = (0..catalog.tables.len())
        .map(|table| Ok(base.table_state(table)?.floor))
        .collect::<PortResult<_>>()?;
    let known = base.partitions()?;
    let planned = plan_start(log, catalog, &known, &floors)?;
    let reread = Reread::take_up(base, log, &planned, clock.wall_ms())?;
    let mut ingest = Ingest::open(base, catalog.clone(), clock.clone(), &planned)?;
    ingest.reread.clone_from(&reread);
    show(board, &ingest, 0, 0);
    let first = if settings.once {
        let probe = probe(log, clock, ingest.greatest())?;
        board.put_probe(probe.clone());
        Some(probe.ends)
    } else {
        None
    };
    // 2. Reading beside applying, joined by a bounded queue.
    let reading_ends = AtomicBool::new(false);
    let (sender, batches) = sync_channel(settings.read_batches_max);
    let ended = std::thread::scope(|scope| {
        let reading_ends = &reading_ends;
        let reading = std::thread::Builder::new()
            .name("reader".into())
            .spawn_scoped(scope, {
                let log = &mut *log;
                move || {
                    let mut reader = Reader::start_again(
                        log,
                        catalog.clone(),
                        &planned,
                        floors,
                        settings.read,
                        reread.as_ref(),
                    )?;
                    reader.run(&sender, reading_ends)
                }
            })
            .map_err(super::thread_trouble)?;
        let pace = settings.records_per_second_max.map(Pace::new);
        let mut writing = Writing { ingest: &mut ingest, batches, settings, board, stop, pace };
        let written = writing.run(first.as_deref());
        reading_ends.store(true, Ordering::Relaxed);
        let read = super::join(reading.join());
        // What the reader had handed on is applied before the end.
        let drained = if written.is_ok() { writing.drain() } else { Ok(()) };
        let ended = written?;
        drained.and(read).map(|()| ended)
    })?;
    if ended == Ended::ToReadAgain {
        return Ok(ended);
    }
    // 3. Once: what was applied before the ends were asked for lifts the watermark of an ordered log.
    if settings.once {
        let probe = probe(log, clock, ingest.greatest())?;
        ingest.note_probe(probe.clone());
        ingest.apply(&[])?;
        board.put_probe(probe);
        show(board, &ingest, 0, 0);
    }
    Ok(Ended::ForGood)
}

struct Writing<'a, 'b> {
    ingest: &'a mut Ingest<'b>,
    batches: Receiver<Batch>,
    settings: &'a MaintainSettings,
    board: &'a Board,
    stop: &'a AtomicBool,
    pace: Option<Pace>,
}

/// Keeps to a number of records a second on the average since it began.
struct Pace {
    records_per_second: NonZeroU64,
    began: Instant,
    records: u64,
}

impl Pace {
    fn new(records_per_second: NonZeroU64) -> Self {
        Pace { records_per_second, began: Instant::now(), records: 0 }
    }

    /// How long to wait after so many more.
    fn note(&mut self, records: usize) -> Duration {
        self.records += records as u64;
        let due = Duration::from_secs_f64(self.records as f64 / self.records_per_second.get() as f64);
        due.saturating_sub(self.began.elapsed())
    }
}

impl Writing<'_, '_> {
    /// Applies batches until it is told to stop, or `until` is reached, or the reader has ended.
    fn run(&mut self, until: Option<&[(TopicPartition, i64)]>) -> PortResult<Ended> {
        loop {
            if self.stop.load(Ordering::Relaxed) || self.board.is_finished() {
                return Ok(Ended::ForGood);
            }
            self.ingest.finish_reread()?;
            if self.ingest.wants_reread {
                return Ok(Ended::ToReadAgain);
            }
            let again = self.ingest.reread.is_some();
            if !again && until.is_some_and(|until| reached(self.ingest, until)) {
                self.carry_out_requests()?;
                if !self.ingest.wants_reread {
                    return Ok(Ended::ForGood);
                }
            }
            // 1. What commands asked for.
            if self.carry_out_requests()? > 0 {
                show(self.board, self.ingest, 0, 0);
            }
            // 2. What the log's ends say.
            if let Some(probe) = self.board.take_probe_for_writer() {
                self.ingest.note_probe(probe);
            }
            // 3. What has been read, as much as is there: batches grow with the backlog.
            match self.batches.recv_timeout(IDLE_WAIT) {
                Ok(batch) => self.apply_with_backlog(batch)?,
                Err(RecvTimeoutError::Timeout) => self.apply(&[])?,
                // The reader has ended; joining it tells why.
                Err(RecvTimeoutError::Disconnected) => return Ok(Ended::ForGood),
            }
        }
    }

    /// Waits as the rate asks for, in short naps so that an end is not waited for.
    fn keep_pace(&mut self, records: usize) {
        let Some(pace) = &mut self.pace else { return };
        let mut rest = pace.note(records);
        while !rest.is_zero() && !self.stop.load(Ordering::Relaxed) {
            let nap = rest.min(IDLE_WAIT);
            std::thread::sleep(nap);
            rest -= nap;
        }
    }

    fn carry_out_requests(&mut self) -> PortResult<usize> {
        let board = self.board;
        requests::carry_out_with(self.ingest, &mut |id, action| board.settle(id, action))
    }

    fn apply_with_backlog(&mut self, first: Batch) -> PortResult<()> {
        let mut next = Some(first);
        let mut items: Vec<Item> = Vec::new();
        while let Some(batch) = next.take() {
            match batch {
                Batch::Items(more) if items.is_empty() => items = more,
                Batch::Items(more) => items.extend(more),
                Batch::Discovered(added) => {
                    self.apply(&std::mem::take(&mut items))?;
                    self.ingest.register(added)?;
                }
            }
            if items.len() + self.settings.read.batch_records_max <= self.settings.commit_records_max {
                next = self.batches.try_recv().ok();
            }
        }
        self.apply(&items)
    }

    fn apply(&mut self, items: &[Item]) -> PortResult<()> {
        let done = self.ingest.apply(items)?;
        if done.commit.is_some() {
            show(self.board, self.ingest, done.consumed, done.applied);
        }
        self.keep_pace(items.len());
        Ok(())
    }

    fn drain(&mut self) -> PortResult<()> {
        while let Ok(batch) = self.batches.try_recv() {
            self.apply_with_backlog(batch)?;
        }
        Ok(())
    }
}

fn positions(ingest: &Ingest<'_>) -> Vec<(TopicPartition, i64)> {
    ingest.partitions().iter().map(|state| (state.at.clone(), state.next_offset)).collect()
}

fn reached(ingest: &Ingest<'_>, until: &[(TopicPartition, i64)]) -> bool {
    until
        .iter()
        .all(|(at, end)| ingest.partitions().iter().any(|state| state.at == *at && state.next_offset >= *end))
}

/// Tells the board where the base stands, and wakes the publisher.
fn show(board: &Board, ingest: &Ingest<'_>, consumed: u64, applied: u64) {
    board.update(|numbers| {
        numbers.consumed += consumed;
        numbers.applied += applied;
        numbers.positions = positions(ingest);
        numbers.greatest = ingest.greatest();
        numbers.watermarks = (0..numbers.greatest.len()).map(|table| ingest.watermark(table)).collect();
        numbers.left_to_reread = ingest.reread.as_ref().map_or(0, Reread::left);
        numbers.held_up.clear();
    });
    board.wake();
}
