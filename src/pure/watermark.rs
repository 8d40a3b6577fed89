//! The watermark of one table: the greatest sequence up to which every change is reflected (P5). Knows what
//! the log's writer promises (the mode) and what has been seen; never a clock, never an idle time-out.

use std::collections::BTreeMap;

use crate::pure::seq::Seq;

/// What the writer of the log promises about `source_seq`. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unique and without holes from `first` on.
    Dense { first: u64 },
    /// Rises within a partition; quiet partitions send heartbeats. Where several events may share a
    /// sequence, an event says only that everything below it has come.
    Sparse { shared: bool },
    /// The writer waits for the acknowledgement of one event before it sends the next.
    AppendOrdered,
    /// No sequence: the offset orders the events of a key. There is no scalar watermark.
    Offsets,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Dense { .. } => "dense",
            Mode::Sparse { .. } => "sparse",
            Mode::AppendOrdered => "append_ordered",
            Mode::Offsets => "offsets",
        }
    }
}

/// A closed run of sequence positions that have all been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub from: u64,
    pub to: u64,
}

/// What has to be written down again since the last [`Frontier::take_changed_runs`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRuns {
    pub removed: Vec<u64>,
    pub stored: Vec<Run>,
}

/// What has been seen of one table's sequence space.
#[derive(Clone, Debug)]
pub struct Frontier {
    mode: Mode,
    watermark: Option<Seq>,
    /// By partition: nothing at or below this is still to come there. `None`: nothing is known yet.
    partitions: BTreeMap<i64, Option<Seq>>,
    /// Append-ordered: every partition that holds something up to this sequence is known. A partition that was
    /// added and is not known yet can only hold what came later.
    complete: Option<Seq>,
    /// Dense: runs above the watermark, by their first position.
    runs: BTreeMap<u64, u64>,
    changed: BTreeMap<u64, ()>,
    /// Open dead letters, each with the greatest watermark that is true while it is open.
    holds: BTreeMap<i64, Option<Seq>>,
}

impl Frontier {
    /// As stored: `watermark` is the last one reached, or the floor of a first load.
    pub fn restore(
        mode: Mode,
        watermark: Option<Seq>,
        partitions: impl IntoIterator<Item = (i64, Option<Seq>)>,
        runs: impl IntoIterator<Item = Run>,
        holds: impl IntoIterator<Item = (i64, Option<Seq>)>,
    ) -> Self {
        let mut frontier = Frontier {
            mode,
            watermark,
            partitions: partitions.into_iter().collect(),
            complete: None,
            runs: runs.into_iter().map(|run| (run.from, run.to)).collect(),
            changed: BTreeMap::new(),
            holds: holds.into_iter().collect(),
        };
        if let Mode::Dense { first } = mode {
            frontier.watermark = watermark.max(Some(Seq::at(first.saturating_sub(1))));
        }
        frontier
    }

    pub fn watermark(&self) -> Option<Seq> {
        self.watermark
    }

    pub fn partition(&self, partition: i64) -> Option<Seq> {
        self.partitions.get(&partition).copied().flatten()
    }

    /// A partition that is known and of which nothing has been seen: it holds the watermark, and never lowers it.
    pub fn add_partition(&mut self, partition: i64) {
        self.partitions.entry(partition).or_insert(None);
    }

    /// A decoded event of this partition, whether it counted or not.
    pub fn observe(&mut self, partition: i64, seq: Seq) {
        match self.mode {
            Mode::Dense { .. } => self.add_run(Run { from: seq.position, to: seq.position }),
            Mode::Sparse { shared: true } => self.raise(partition, seq.just_below()),
            Mode::Sparse { shared: false } | Mode::AppendOrdered => self.raise(partition, seq),
            Mode::Offsets => {}
        }
    }

    /// The log's writer promises that nothing up to `seq` is still to come in this partition.
    pub fn heartbeat(&mut self, partition: i64, seq: Seq) {
        if matches!(self.mode, Mode::Sparse { .. } | Mode::AppendOrdered) {
            self.raise(partition, seq);
        }
    }

    /// Append-ordered: `seq` had been applied before the ends of the log were asked for, and this partition
    /// has been read up to that end.
    pub fn lift(&mut self, partition: i64, seq: Seq) {
        if self.mode == Mode::AppendOrdered {
            self.raise(partition, seq);
        }
    }

    /// Append-ordered: `seq` had been applied before the log was asked for its partitions, and all of them are known.
    pub fn know_partitions(&mut self, seq: Seq) {
        self.complete = self.complete.max(Some(seq));
    }

    /// Dense: counts positions as seen that an operator says will never come.
    pub fn waive(&mut self, run: Run) {
        if matches!(self.mode, Mode::Dense { .. }) {
            self.add_run(run);
        }
    }

    /// A dead letter is open: the watermark stops below its event. Returns what it may not pass, to be stored
    /// with the letter.
    pub fn hold(&mut self, letter: i64, partition: i64, seq: Option<Seq>) -> Option<Seq> {
        let below_event = match (self.mode, seq) {
            (_, Some(seq)) => Some(seq.just_below()),
            // A sequence that cannot be read lies above what its partition has shown, where sequences rise.
            (Mode::Sparse { .. } | Mode::AppendOrdered, None) => self.partition(partition),
            // As far as the events before this one reach, whatever batch they came in.
            (Mode::Dense { .. }, None) => self.would_reach(),
            (Mode::Offsets, None) => None,
        };
        let cap = below_event.max(self.watermark);
        self.holds.insert(letter, cap);
        cap
    }

    /// The letter is retried, fixed or waived.
    pub fn release(&mut self, letter: i64) {
        self.holds.remove(&letter);
    }

    /// Moves the watermark as far as it is true now.
    pub fn advance(&mut self) {
        self.watermark = self.would_reach();
        self.forget_runs_below_watermark();
    }

    /// How far the watermark would be true now. P5: within a generation it never falls.
    pub fn would_reach(&self) -> Option<Seq> {
        let reached = match self.mode {
            Mode::Dense { .. } => self.runs.first_key_value().and_then(|(&from, &to)| {
                let next = self.watermark.map_or(0, |w| w.position) + 1;
                (from <= next).then_some(Seq::at(to))
            }),
            Mode::Sparse { .. } => self.partitions.values().copied().min().flatten(),
            Mode::AppendOrdered => self.partitions.values().copied().min().flatten().min(self.complete),
            Mode::Offsets => None,
        };
        let capped = match self.holds.values().copied().min() {
            Some(cap) => reached.min(cap),
            None => reached,
        };
        self.watermark.max(capped)
    }

    /// Dense: whether this position has been seen or waived.
    pub fn is_seen(&self, position: u64) -> bool {
        let below = self.watermark.is_some_and(|watermark| position <= watermark.position);
        below || self.runs.range(..=position).next_back().is_some_and(|(_, &to)| position <= to)
    }

    /// Dense: the lowest positions missing below what has been seen, at most `count` runs.
    pub fn holes(&self, count: usize) -> Vec<Run> {
        let mut next = self.watermark.map_or(0, |w| w.position) + 1;
        let mut holes = Vec::new();
        for (&from, &to) in &self.runs {
            if holes.len() == count {
                break;
            }
            if from > next {
                holes.push(Run { from: next, to: from - 1 });
            }
            next = to.saturating_add(1).max(next);
        }
        holes
    }

    /// The runs to delete and to store since the last call.
    pub fn take_changed_runs(&mut self) -> ChangedRuns {
        let mut changes = ChangedRuns::default();
        for (from, ()) in std::mem::take(&mut self.changed) {
            match self.runs.get(&from) {
                Some(&to) => changes.stored.push(Run { from, to }),
                None => changes.removed.push(from),
            }
        }
        changes
    }

    fn raise(&mut self, partition: i64, seq: Seq) {
        let reached = self.partitions.entry(partition).or_insert(None);
        *reached = (*reached).max(Some(seq));
    }

    fn add_run(&mut self, run: Run) {
        let through = self.watermark.map_or(0, |w| w.position);
        let mut from = run.from.max(through + 1);
        let mut to = run.to;
        if to < from {
            return;
        }
        // Join with a run that begins at or before, and with all that begin inside or right behind.
        if let Some((&before, &end)) = self.runs.range(..=from).next_back()
            && end.saturating_add(1) >= from
        {
            if end >= to {
                return;
            }
            from = before;
        }
        while let Some((&next, &end)) = self.runs.range(from..=to.saturating_add(1)).next() {
            to = to.max(end);
            self.runs.remove(&next);
            self.changed.insert(next, ());
        }
        self.runs.insert(from, to);
        self.changed.insert(from, ());
    }

    fn forget_runs_below_watermark(&mut self) {
        let through = self.watermark.map_or(0, |w| w.position);
        while let Some((&from, &to)) = self.runs.first_key_value() {
            if to > through {
                break;
            }
            self.runs.remove(&from);
            self.changed.insert(from, ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(first: u64) -> Frontier {
        Frontier::restore(Mode::Dense { first }, None, [(0, None)], [], [])
    }

    fn at(position: u64) -> Option<Seq> {
        Some(Seq::at(position))
    }

    #[test]
    fn p5_dense_stops_at_the_first_hole_and_a_waiver_closes_it() {
        let mut frontier = dense(1001);
        for seq in [1003, 1001, 1005, 1002] {
            frontier.observe(0, Seq::at(seq));
        }
        frontier.advance();
        assert_eq!(frontier.watermark(), at(1003));
        assert_eq!(frontier.holes(9), [Run { from: 1004, to: 1004 }]);
        frontier.waive(Run { from: 1004, to: 1004 });
        frontier.advance();
        assert_eq!(frontier.watermark(), at(1005));
        assert!(frontier.holes(9).is_empty());
    }

    #[test]
    fn p5_sparse_is_the_least_of_all_partitions_and_a_new_one_never_lowers_it() {
        let mut frontier =
            Frontier::restore(Mode::Sparse { shared: false }, None, [(0, None), (1, None)], [], []);
        frontier.observe(0, Seq::at(100));
        frontier.advance();
        assert_eq!(frontier.watermark(), None, "an idle partition holds it");
        frontier.heartbeat(1, Seq::at(90));
        frontier.advance();
        assert_eq!(frontier.watermark(), at(90));
        frontier.add_partition(2);
        frontier.observe(1, Seq::at(200));
        frontier.advance();
        assert_eq!(frontier.watermark(), at(90));
    }

    #[test]
    fn p5_no_partition_means_no_watermark() {
        let mut frontier = Frontier::restore(Mode::Sparse { shared: false }, None, [], [], []);
        frontier.advance();
        assert_eq!(frontier.watermark(), None);
    }

    #[test]
    fn p5_an_open_dead_letter_holds_the_watermark_in_every_mode() {
        for mode in [Mode::Dense { first: 1 }, Mode::Sparse { shared: false }, Mode::AppendOrdered] {
            let mut frontier = Frontier::restore(mode, None, [(0, None)], [], []);
            frontier.know_partitions(Seq::at(2));
            frontier.observe(0, Seq::at(1));
            frontier.advance();
            frontier.hold(7, 0, None);
            frontier.observe(0, Seq::at(2));
            frontier.advance();
            assert_eq!(frontier.watermark(), at(1), "{mode:?}");
            frontier.release(7);
            frontier.advance();
            assert_eq!(frontier.watermark(), at(2), "{mode:?}");
        }
    }

    #[test]
    fn p5_shared_sequences_lift_only_to_just_below() {
        let mut frontier = Frontier::restore(Mode::Sparse { shared: true }, None, [(0, None)], [], []);
        frontier.observe(0, Seq::at(10));
        frontier.advance();
        assert_eq!(frontier.watermark(), at(9));
    }

    #[test]
    fn changed_runs_rebuild_the_same_frontier() {
        let mut frontier = dense(1);
        let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
        let mut random = 12345u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            frontier.observe(0, Seq::at(1 + (random >> 40) % 3000));
            frontier.advance();
            let changed = frontier.take_changed_runs();
            for from in changed.removed {
                stored.remove(&from);
            }
            for run in changed.stored {
                stored.insert(run.from, run.to);
            }
            assert_eq!(stored, frontier.runs);
        }
        for seq in 1..=3000 {
            frontier.observe(0, Seq::at(seq));
        }
        frontier.advance();
        assert_eq!(frontier.watermark(), at(3000));
    }
}
