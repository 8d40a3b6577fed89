//! A `Log` in memory, for tests and simulation: partitions to append to, and everything that may happen to a
//! real one on demand: redelivery, a cut by retention, a lost tail, a topic made anew, partitions added,
//! reading held up. Must not know what a record means.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ports::{Bounds, Log, LogItem, PortError, PortResult, RecordRef};
use crate::pure::formats::Header;
use crate::pure::seq::TopicPartition;

/// One reader of a log in memory. [`client`](TwinLog::client) makes another reader of the same log.
#[derive(Debug, Default)]
pub struct TwinLog {
    shared: Arc<Mutex<Shared>>,
    /// By slot.
    assigned: Vec<Cursor>,
    /// The slot that the next poll begins with, so that no partition starves the others.
    turn: usize,
    /// How many redeliveries this reader has met.
    redeliveries_met: usize,
}

#[derive(Debug, Default)]
struct Shared {
    partitions: BTreeMap<TopicPartition, Partition>,
    /// From where each partition was told to be delivered once more, in the order of the asking.
    redeliveries: Vec<(TopicPartition, i64)>,
    /// One entry a coming call of `poll`: after how many items it fails.
    faults: VecDeque<Option<usize>>,
    unreachable: bool,
    advice: Vec<(TopicPartition, i64)>,
}

#[derive(Debug, Default)]
struct Partition {
    low: i64,
    high: i64,
    /// By offset; an offset below `high` without a record is a transaction marker or a compacted record.
    records: BTreeMap<i64, Record>,
    paused: bool,
}

#[derive(Debug)]
struct Record {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp_ms: Option<i64>,
    headers: Vec<Header>,
}

/// How far one reader is with one partition.
#[derive(Clone, Debug)]
struct Cursor {
    at: TopicPartition,
    next: i64,
    /// The end that the reader has been told of.
    end_told: Option<i64>,
}

impl TwinLog {
    pub fn new() -> Self {
        Self::default()
    }

    /// Another reader of the same log, with nothing assigned.
    pub fn client(&self) -> TwinLog {
        TwinLog { shared: Arc::clone(&self.shared), ..TwinLog::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partition<T>(&self, at: &TopicPartition, change: impl FnOnce(&mut Partition) -> T) -> T {
        change(self.lock().partitions.entry(at.clone()).or_default())
    }

    // What the log's writer does.

    /// Makes an empty partition where there is none.
    pub fn add_partition(&self, at: &TopicPartition) {
        self.partition(at, |_| ());
    }

    /// Appends a record and returns its offset.
    pub fn append(&self, at: &TopicPartition, key: Option<&[u8]>, value: Option<&[u8]>) -> i64 {
        self.append_with_headers(at, key, value, Vec::new())
    }

    /// As [`append`](TwinLog::append), with headers.
    pub fn append_with_headers(
        &self,
        at: &TopicPartition,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: Vec<Header>,
    ) -> i64 {
        self.partition(at, |partition| {
            let (key, value) = (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec));
            let record = Record { key, value, timestamp_ms: None, headers };
            partition.records.insert(partition.high, record);
            partition.high += 1;
            partition.high - 1
        })
    }

    /// Appends an offset that holds no record, as a transaction marker does.
    pub fn append_marker(&self, at: &TopicPartition) -> i64 {
        self.partition(at, |partition| {
            partition.high += 1;
            partition.high - 1
        })
    }

    // What befalls the log.

    /// Delivers a partition again from `offset` on, to every reader: what a rebalance or a rewind does.
    pub fn redeliver(&self, at: &TopicPartition, offset: i64) {
        self.lock().redeliveries.push((at.clone(), offset));
    }

    /// Retention or compaction removes one record; its offset stays.
    pub fn compact_away(&self, at: &TopicPartition, offset: i64) {
        self.partition(at, |partition| partition.records.remove(&offset));
    }

    /// Retention cuts everything below `low`.
    pub fn cut_below(&self, at: &TopicPartition, low: i64) {
        self.partition(at, |partition| {
            partition.low = low;
            partition.high = partition.high.max(low);
            partition.records = partition.records.split_off(&low);
        });
    }

    /// The tail from `high` on is lost, as after an unclean election of a leader.
    pub fn lose_tail(&self, at: &TopicPartition, high: i64) {
        self.partition(at, |partition| {
            partition.high = high;
            partition.records.split_off(&high);
        });
    }

    /// The topic was deleted and made again: all of its partitions are empty and begin at 0.
    pub fn recreate(&self, topic: &str) {
        for (at, partition) in &mut self.lock().partitions {
            if &*at.topic == topic {
                *partition = Partition::default();
            }
        }
    }

    /// A partition that is gone.
    pub fn remove_partition(&self, at: &TopicPartition) {
        self.lock().partitions.remove(at);
    }

    // Faults of the way to the log.

    /// While paused, a partition delivers nothing, not even its end.
    pub fn set_paused(&self, at: &TopicPartition, paused: bool) {
        self.partition(at, |partition| partition.paused = paused);
    }

    /// The next poll, by whichever reader, fails after `items` more items.
    pub fn fail_next(&self, items: usize) {
        self.lock().faults.push_back(Some(items));
    }

    /// While unreachable, every call fails.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().unreachable = !reachable;
    }

    /// The last advice that any reader gave.
    pub fn advice(&self) -> Vec<(TopicPartition, i64)> {
        self.lock().advice.clone()
    }
}

impl Shared {
    fn reachable(&self) -> PortResult<()> {
        if self.unreachable { Err(failed("it is unreachable")) } else { Ok(()) }
    }

    fn get(&self, at: &TopicPartition) -> PortResult<&Partition> {
        self.partitions
            .get(at)
            .ok_or_else(|| PortError::permanent(format!("the log in memory has no partition {at}")))
    }
}

impl Cursor {
    /// The next item of this partition, if there is one.
    fn take<'p>(&mut self, slot: usize, partition: &'p Partition) -> PortResult<Option<LogItem<'p>>> {
        if self.next < partition.low || self.next > partition.high {
            return Err(PortError::permanent(format!(
                "partition {}: offset {} is outside the log in memory, which holds {} to {}",
                self.at, self.next, partition.low, partition.high
            )));
        }
        if partition.paused {
            return Ok(None);
        }
        if let Some((&offset, record)) = partition.records.range(self.next..).next() {
            self.next = offset + 1;
            return Ok(Some(LogItem::Record(RecordRef {
                slot,
                offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &record.headers,
            })));
        }
        if self.end_told == Some(partition.high) {
            return Ok(None);
        }
        self.next = partition.high;
        self.end_told = Some(partition.high);
        Ok(Some(LogItem::End { slot, next_offset: partition.high }))
    }
}

impl Log for TwinLog {
    fn partitions(&mut self) -> PortResult<Vec<TopicPartition>> {
        let shared = self.lock();
        shared.reachable()?;
        Ok(shared.partitions.keys().cloned().collect())
    }

    fn bounds(&mut self, partition: &TopicPartition) -> PortResult<Bounds> {
        let shared = self.lock();
        shared.reachable()?;
        let partition = shared.get(partition)?;
        Ok(Bounds { low: partition.low, high: partition.high })
    }

    fn offset_at(&mut self, partition: &TopicPartition, timestamp_ms: i64) -> PortResult<Option<i64>> {
        let shared = self.lock();
        shared.reachable()?;
        let records = &shared.get(partition)?.records;
        let found =
            records.iter().find(|(_, record)| record.timestamp_ms.is_some_and(|at| at >= timestamp_ms));
        Ok(found.map(|(offset, _)| *offset))
    }

    fn assign(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()> {
        let redeliveries = {
            let shared = self.lock();
            shared.reachable()?;
            shared.redeliveries.len()
        };
        self.assigned =
            from.iter().map(|(at, next)| Cursor { at: at.clone(), next: *next, end_told: None }).collect();
        self.redeliveries_met = redeliveries;
        self.turn = 0;
        Ok(())
    }

    fn poll(
        &mut self,
        records_max: usize,
        _wait: Duration,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> PortResult<usize> {
        let TwinLog { shared, assigned, turn, redeliveries_met } = self;
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = shared.faults.pop_front().flatten();
        shared.reachable()?;
        // 1. What is to be delivered once more.
        for (at, offset) in &shared.redeliveries[*redeliveries_met..] {
            for cursor in assigned.iter_mut().filter(|cursor| cursor.at == *at) {
                cursor.next = cursor.next.min(*offset);
                cursor.end_told = None;
            }
        }
        *redeliveries_met = shared.redeliveries.len();
        // 2. One item a partition and round, until all are at their ends or the batch is full.
        let mut handed = 0;
        let mut idle = 0;
        while handed < records_max && idle < assigned.len() {
            if fault == Some(handed) {
                return Err(failed("reading was interrupted"));
            }
            let slot = *turn % assigned.len();
            *turn = slot + 1;
            let cursor = &mut assigned[slot];
            let partition = shared.get(&cursor.at)?;
            match cursor.take(slot, partition)? {
                Some(item) => {
                    sink(item);
                    handed += 1;
                    idle = 0;
                }
                None => idle += 1,
            }
        }
        match fault {
            Some(_) => Err(failed("reading was interrupted")),
            None => Ok(handed),
        }
    }

    fn advise(&mut self, next: &[(TopicPartition, i64)]) {
        self.lock().advice = next.to_vec();
    }
}

fn failed(how: &str) -> PortError {
    PortError::transient(format!("the log in memory failed as planned: {how}"))
}
