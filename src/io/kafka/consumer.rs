//! The log as Kafka holds it, behind the port [`Log`]: manual assignment, explicit offsets, no reset, no
//! commit that is ever read back. Must not know where positions are stored or what a record means.

mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::native::{NativeConsumer, NativeMessage, Witness};
use super::properties::{self, KafkaSettings};
use super::slots::{Places, Slot};
use super::trouble::{self, Code};
use crate::ports::{Bounds, Log, LogItem, PortError, PortResult, RecordRef, Trouble};
use crate::pure::seq::TopicPartition;

/// What librdkafka puts before the reason when a commit to the group fails.
const COMMIT_FAILED: &str = "Offset commit failed";
const COORDINATOR_FAILED: &str = "FindCoordinator response error";

/// Reads partitions of a Kafka cluster; used by one thread.
///
/// `bounds` asks the leader for the first offset held and, because the reader is read_committed, for the last
/// stable offset: the end of what can be read, which an open transaction holds back.
pub struct KafkaLog {
    native: NativeConsumer,
    settings: KafkaSettings,
    topics: Vec<Arc<str>>,
    slots: Vec<Slot>,
    places: Places,
    /// An error found behind records of the same batch: the next call returns it.
    held: Option<PortError>,
    /// A permanent error: repeated until the next assignment.
    stopped: Option<Stopped>,
    /// A partition fell out of reading: assign all again from where they stand.
    assign_again: bool,
    /// Something was read or answered since the client was made.
    has_worked: bool,
    told_at: Option<Instant>,
    /// The id that each topic had when it was first seen.
    ids: BTreeMap<Arc<str>, String>,
    topics_asked_at: Option<Instant>,
}

#[derive(Debug)]
struct Stopped {
    what: String,
    hint: Option<String>,
}

/// What one message came to.
enum Seen {
    Delivered,
    Nothing,
    Failed { slot: Option<usize>, code: Code, text: String },
}

impl KafkaLog {
    /// Makes the client; the brokers are reached by the first question.
    pub fn open(settings: &KafkaSettings, topics: &[String]) -> PortResult<Self> {
        let config = properties::consumer_config(settings)?;
        let names: BTreeSet<&str> = topics.iter().map(String::as_str).collect();
        let native = NativeConsumer::open(&config)
            .map_err(|error| properties::refused(settings, "consumer", &error))?;
        Ok(KafkaLog {
            native,
            settings: settings.clone(),
            topics: names.into_iter().map(Arc::from).collect(),
            slots: Vec::new(),
            places: Places::default(),
            held: None,
            stopped: None,
            assign_again: false,
            has_worked: false,
            told_at: None,
            ids: BTreeMap::new(),
            topics_asked_at: None,
        })
    }

    /// The id of a topic as Kafka's tools show it: kept with the positions, it tells at the next start whether
    /// the topic is still the same one. `None` from brokers before 2.8, which
    /// have none, and where `topic_check_ms` is 0.
    pub fn topic_id(&mut self, topic: &str) -> PortResult<Option<String>> {
        self.id_of(topic)
    }

    fn brokers(&self) -> &str {
        &self.settings.brokers
    }

    fn witness(&self) -> &Witness {
        self.native.client().context()
    }

    fn note_success(&mut self) {
        self.has_worked = true;
        self.witness().forget_cause();
    }

    /// Reads nothing any more; what was read ahead is dropped.
    fn forget_assignment(&mut self) {
        self.slots.clear();
        self.places = Places::default();
        self.held = None;
        self.stopped = None;
        self.assign_again = false;
        self.native.clear();
        if let Err(code) = self.native.assign(&[]) {
            tracing::debug!(reason = %code.text(), "the last assignment could not be dropped");
        }
    }

    /// Every assignment gets a client of its own. librdkafka ends the process by an assertion where a partition is
    /// taken back a second time while it is still being stopped from the first, and tells nobody when it has stopped.
    fn renew_client(&mut self) -> PortResult<()> {
        self.native.clear();
        let config = properties::consumer_config(&self.settings)?;
        self.native = NativeConsumer::open(&config)
            .map_err(|error| properties::refused(&self.settings, "consumer", &error))?;
        self.places = Places::default();
        self.topics_asked_at = None;
        Ok(())
    }

    fn assign_from_slots(&mut self) -> PortResult<()> {
        if self.native.has_assigned() {
            self.renew_client()?;
        }
        let from: Vec<_> = self.slots.iter().map(|slot| (slot.place.clone(), slot.next_offset)).collect();
        self.native.assign(&from).map_err(|code| {
            let names: Vec<_> = from.iter().map(|(place, at)| format!("{place}@{at}")).collect();
            code.at(format!("cannot read {} from {}: {}", names.join(", "), self.brokers(), code.text()))
        })?;
        self.assign_again = false;
        Ok(())
    }

    /// Hands out the batch up to its end, `records_max` items, or an error.
    fn deliver(
        &mut self,
        records_max: usize,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> (usize, Option<PortError>) {
        let (mut delivered, with_headers) = (0, self.settings.headers);
        while delivered < records_max {
            let (slots, places) = (&mut self.slots, &mut self.places);
            match self.native.next(|message| see(&message, slots, places, with_headers, sink)) {
                None => break,
                Some(Seen::Nothing) => {}
                Some(Seen::Delivered) => delivered += 1,
                Some(Seen::Failed { slot, code, text }) => {
                    let error = self.judge(slot, code, &text);
                    return (delivered, Some(error));
                }
            }
        }
        (delivered, None)
    }
}

/// Hands a record or an end to `sink`; an error is for the caller to judge.
fn see(
    message: &NativeMessage<'_>,
    slots: &mut [Slot],
    places: &mut Places,
    with_headers: bool,
    sink: &mut dyn FnMut(LogItem<'_>),
) -> Seen {
    let slot = places.find(message, slots);
    if message.code != Code(0) && !message.code.is(RDKafkaErrorCode::PartitionEOF) {
        return failed(message, slot);
    }
    let Some(index) = slot else {
        return Seen::Nothing; // read ahead before it was unassigned
    };
    let slot = &mut slots[index];
    // Read ahead before a new assignment, or a record that came twice.
    if message.offset < slot.next_offset {
        return Seen::Nothing;
    }
    if message.code != Code(0) {
        slot.next_offset = message.offset;
        sink(LogItem::End { slot: index, next_offset: message.offset });
        return Seen::Delivered;
    }
    slot.next_offset = message.offset + 1;
    let headers = if with_headers { message.headers() } else { Vec::new() };
    sink(LogItem::Record(RecordRef {
        slot: index,
        offset: message.offset,
        timestamp_ms: message.timestamp_ms(),
        key: message.key,
        value: message.value,
        headers: &headers,
    }));
    Seen::Delivered
}

fn failed(message: &NativeMessage<'_>, slot: Option<usize>) -> Seen {
    let text = message.error_text();
    if text.starts_with(COMMIT_FAILED)
        || text.starts_with(COORDINATOR_FAILED)
        || message.code.is(RDKafkaErrorCode::GroupAuthorizationFailed)
    {
        tracing::debug!(reason = %text, "progress could not be reported to the consumer group");
        return Seen::Nothing;
    }
    if slot.is_none() && message.topic_handle != 0 {
        return Seen::Nothing; // of a partition that is no longer read
    }
    Seen::Failed { slot, code: message.code, text }
}

impl Log for KafkaLog {
    fn partitions(&mut self) -> PortResult<Vec<TopicPartition>> {
        let mut found = Vec::new();
        for topic in &self.topics.clone() {
            let present = self.partitions_of(topic)?;
            found.extend(
                present.into_iter().map(|partition| TopicPartition { topic: topic.clone(), partition }),
            );
        }
        found.sort();
        Ok(found)
    }

    fn bounds(&mut self, partition: &TopicPartition) -> PortResult<Bounds> {
        let answer = self.native.client().fetch_watermarks(
            &partition.topic,
            partition.partition,
            self.settings.request_timeout(),
        );
        match answer {
            Ok((low, high)) => {
                self.note_success();
                Ok(Bounds { low, high })
            }
            Err(error) => {
                let what = format!("bounds of {partition} on {}", self.brokers());
                Err(self.with_cause(trouble::of_client(&error, what)))
            }
        }
    }

    fn offset_at(&mut self, partition: &TopicPartition, timestamp_ms: i64) -> PortResult<Option<i64>> {
        match self.native.offset_at(partition, timestamp_ms, self.settings.request_timeout()) {
            Ok(offset) => {
                self.note_success();
                Ok(offset)
            }
            Err(code) => Err(self.with_cause(code.at(format!(
                "offset of a time in {partition} on {}: {}",
                self.brokers(),
                code.text()
            )))),
        }
    }

    fn assign(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()> {
        if let Some((place, offset)) = from.iter().find(|(_, offset)| *offset < 0) {
            return Err(PortError::permanent(format!(
                "cannot read {place} from offset {offset}: an offset is 0 or more"
            )));
        }
        self.forget_assignment();
        // librdkafka would wait for a missing partition without a word.
        self.check_partitions(from)?;
        self.slots =
            from.iter().map(|(place, offset)| Slot { place: place.clone(), next_offset: *offset }).collect();
        self.assign_from_slots().inspect_err(|_| self.forget_assignment())
    }

    fn poll(
        &mut self,
        records_max: usize,
        wait: Duration,
        sink: &mut dyn FnMut(LogItem<'_>),
    ) -> PortResult<usize> {
        // 1. What the call before found.
        if let Some(error) = self.held.take() {
            return Err(error);
        }
        if let Some(stopped) = &self.stopped {
            return Err(PortError {
                kind: Trouble::Permanent,
                what: stopped.what.clone(),
                hint: stopped.hint.clone(),
            });
        }
        // 2. Records, at once where there are some.
        if self.assign_again {
            self.assign_from_slots()?;
        }
        if self.native.is_empty() {
            self.native.fill(records_max, wait);
        }
        let (delivered, error) = self.deliver(records_max, sink);
        // 3. Trouble, but never instead of records.
        let noted = self.native.serve();
        let error = error.or_else(|| self.watch_topics());
        if delivered > 0 {
            self.note_success();
            self.held = error;
            return Ok(delivered);
        }
        match error.or_else(|| self.judge_noted(noted)) {
            Some(error) => Err(error),
            None => Ok(0),
        }
    }

    fn advise(&mut self, next: &[(TopicPartition, i64)]) {
        if next.is_empty() {
            return;
        }
        if let Err(code) = self.native.commit_without_waiting(next) {
            tracing::debug!(
                group = %self.settings.group,
                reason = %code.text(),
                "progress could not be reported to the consumer group"
            );
        }
    }
}
