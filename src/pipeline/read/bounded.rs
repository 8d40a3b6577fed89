//! A log that ends at given offsets: what a replay to a point reads, and what a generation that stands still may see.
//! Nothing at or above them exists for whoever reads it.

use std::time::Duration;

use crate::ports::{Bounds, Log, LogItem, PortResult, RecordRef};
use crate::pure::seq::TopicPartition;

/// Shows the partitions that are named, up to the offsets given for them.
pub struct BoundedLog<'a> {
    inner: &'a mut dyn Log,
    ends: Vec<(TopicPartition, i64)>,
    /// By the inner log's slot: our slot and where the partition ends.
    assigned: Vec<(usize, i64)>,
    /// Our slots that were at their end when they were assigned; each is told once.
    at_end: Vec<(usize, i64)>,
}

impl<'a> BoundedLog<'a> {
    pub fn new(inner: &'a mut dyn Log, ends: Vec<(TopicPartition, i64)>) -> Self {
        BoundedLog { inner, ends, assigned: Vec::new(), at_end: Vec::new() }
    }

    fn end(&self, partition: &TopicPartition) -> i64 {
        self.ends.iter().find(|(at, _)| at == partition).map_or(0, |(_, end)| *end)
    }
}

impl Log for BoundedLog<'_> {
    fn partitions(&mut self) -> PortResult<Vec<TopicPartition>> {
        let present = self.inner.partitions()?;
        Ok(present.into_iter().filter(|at| self.ends.iter().any(|(named, _)| named == at)).collect())
    }

    fn bounds(&mut self, partition: &TopicPartition) -> PortResult<Bounds> {
        let Bounds { low, high } = self.inner.bounds(partition)?;
        Ok(Bounds { low, high: high.min(self.end(partition)).max(low) })
    }

    fn offset_at(&mut self, partition: &TopicPartition, timestamp_ms: i64) -> PortResult<Option<i64>> {
        let found = self.inner.offset_at(partition, timestamp_ms)?;
        Ok(found.filter(|offset| *offset < self.end(partition)))
    }

    fn assign(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()> {
        (self.assigned, self.at_end) = (Vec::new(), Vec::new());
        let mut wanted = Vec::new();
        for (slot, (at, offset)) in from.iter().enumerate() {
            let end = self.end(at);
            if *offset < end {
                self.assigned.push((slot, end));
                wanted.push((at.clone(), *offset));
            } else {
                self.at_end.push((slot, *offset));
            }
        }
        self.inner.assign(&wanted)
    }

    fn poll(
        &mut self,
        records_max: usize,
        wait: Duration,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> PortResult<usize> {
        let mut handed = self.at_end.len();
        for (slot, next_offset) in self.at_end.drain(..) {
            sink(LogItem::End { slot, next_offset });
        }
        if self.assigned.is_empty() {
            if handed == 0 {
                std::thread::sleep(wait);
            }
            return Ok(handed);
        }
        let assigned = &self.assigned;
        handed += self.inner.poll(records_max, wait, &mut |item| {
            sink(match item {
                LogItem::Record(record) => {
                    let (slot, end) = assigned[record.slot];
                    if record.offset < end {
                        LogItem::Record(RecordRef { slot, ..record })
                    } else {
                        LogItem::End { slot, next_offset: end }
                    }
                }
                LogItem::End { slot, next_offset } => {
                    let (slot, end) = assigned[slot];
                    LogItem::End { slot, next_offset: next_offset.min(end) }
                }
            });
        })?;
        Ok(handed)
    }

    fn advise(&mut self, next: &[(TopicPartition, i64)]) {
        self.inner.advise(next);
    }
}
