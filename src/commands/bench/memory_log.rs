//! A log that makes its records when it is read: feeds the stages behind it at their own speed.

use std::time::Duration;

use super::world::World;
use crate::example::{Deliveries, Delivery};
use crate::ports::{Bounds, Log, LogItem, PortResult, RecordRef};
use crate::pure::seq::TopicPartition;

/// Deliveries spread over partitions as a producer does, in the order of their making.
pub struct MemoryLog<'a> {
    world: &'a World,
    partitions: Vec<TopicPartition>,
    next: Vec<i64>,
    deliveries: Deliveries,
}

impl<'a> MemoryLog<'a> {
    pub fn new(world: &'a World, partitions: i32, deliveries: Deliveries) -> Self {
        let topic = std::sync::Arc::<str>::from(world.topic.as_str());
        MemoryLog {
            world,
            partitions: (0..partitions)
                .map(|partition| TopicPartition { topic: topic.clone(), partition })
                .collect(),
            next: vec![0; partitions as usize],
            deliveries,
        }
    }
}

impl Log for MemoryLog<'_> {
    fn partitions(&mut self) -> PortResult<Vec<TopicPartition>> {
        Ok(self.partitions.clone())
    }

    fn bounds(&mut self, _partition: &TopicPartition) -> PortResult<Bounds> {
        Ok(Bounds { low: 0, high: i64::MAX })
    }

    fn offset_at(&mut self, _partition: &TopicPartition, _timestamp_ms: i64) -> PortResult<Option<i64>> {
        Ok(None)
    }

    fn assign(&mut self, _from: &[(TopicPartition, i64)]) -> PortResult<()> {
        Ok(())
    }

    fn poll(
        &mut self,
        records_max: usize,
        _wait: Duration,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> PortResult<usize> {
        let mut count = 0;
        for Delivery { key, json, .. } in self.deliveries.by_ref().take(records_max) {
            let slot = self.world.partition_of(key.as_bytes()) as usize;
            sink(LogItem::Record(RecordRef {
                slot,
                offset: self.next[slot],
                timestamp_ms: None,
                key: Some(key.as_bytes()),
                value: Some(json.as_bytes()),
                headers: &[],
            }));
            self.next[slot] += 1;
            count += 1;
        }
        Ok(count)
    }

    fn advise(&mut self, _next: &[(TopicPartition, i64)]) {}
}
