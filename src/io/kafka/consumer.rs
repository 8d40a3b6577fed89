//! The log as Kafka holds it, behind the port [`Log`]: manual assignment, explicit offsets, no reset, no
//! commit that is ever read back. Must not know where positions are stored or what a record means.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::native::{NativeConsumer, NativeMessage, Noted, Witness};
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
}

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
        let native = NativeConsumer::open(&config)
            .map_err(|error| properties::refused(settings, "consumer", &error))?;
        Ok(KafkaLog {
            native,
            settings: settings.clone(),
            topics: topics.iter().map(|topic| Arc::from(topic.as_str())).collect(),
            slots: Vec::new(),
            places: Places::default(),
            held: None,
            stopped: None,
            assign_again: false,
            has_worked: false,
            told_at: None,
        })
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

    /// Adds what librdkafka reported meanwhile, which is where the cause is found.
    fn with_cause(&self, mut error: PortError) -> PortError {
        self.native.serve();
        if let Some(cause) = self.witness().cause() {
            error.what = format!("{} (last trouble: {cause})", error.what);
        }
        error
    }

    fn stop(&mut self, error: PortError) -> PortError {
        if error.kind == Trouble::Permanent {
            self.stopped = Some(Stopped { what: error.what.clone(), hint: error.hint.clone() });
        }
        error
    }

    /// Where librdkafka gave a partition up for an offset that the broker does not hold: asks again, since a
    /// broker that is behind or a lookup that failed says the same as a log that was cut.
    fn judge_offset(&mut self, slot: usize, text: &str) -> PortError {
        self.assign_again = true;
        let place = self.slots[slot].place.clone();
        let wanted = self.slots[slot].next_offset;
        let bounds = match self.bounds(&place) {
            Ok(bounds) => bounds,
            Err(error) => {
                return PortError {
                    kind: Trouble::Transient,
                    what: format!(
                        "{place} at offset {wanted}: {text}; and its bounds cannot be told: {}",
                        error.what
                    ),
                    hint: error.hint,
                };
            }
        };
        if (bounds.low..=bounds.high).contains(&wanted) {
            return PortError::transient(format!(
                "{place} at offset {wanted}: {text}, although {} holds {} to {}: reading it again from there",
                self.brokers(),
                bounds.low,
                bounds.high
            ));
        }
        let cause = if wanted < bounds.low {
            "it was cut by retention or by deleting records, or the topic was re-created"
        } else {
            "it was truncated by a leader that lacked its tail, or the topic was re-created"
        };
        PortError::permanent(format!(
            "the log no longer holds offset {wanted} of {place} on {}: it holds {} to {}; {cause}",
            self.brokers(),
            bounds.low,
            bounds.high
        ))
        .with_hint(
            "build a new generation from what the log holds, or allow the gap by an explicit word: \
             nothing goes on from another offset by itself",
        )
    }

    /// The error of one partition, or of none in particular.
    fn judge(&mut self, slot: Option<usize>, code: Code, text: &str) -> PortError {
        let out_of_range =
            code.is(RDKafkaErrorCode::AutoOffsetReset) || code.is(RDKafkaErrorCode::OffsetOutOfRange);
        if let (Some(slot), true) = (slot, out_of_range) {
            let error = self.judge_offset(slot, text);
            return self.stop(error);
        }
        let place = match slot.map(|slot| &self.slots[slot]) {
            Some(slot) => format!("{} at offset {} on ", slot.place, slot.next_offset),
            None => "Kafka at ".to_string(),
        };
        let error = code.at(format!("{place}{}: {text}", self.brokers()));
        self.stop(error)
    }

    /// What the connection as a whole reported, told at most every so often.
    fn judge_noted(&mut self, noted: Vec<Noted>) -> Option<PortError> {
        let worst = noted
            .iter()
            .find(|noted| noted.code.is_about_identity())
            .or_else(|| noted.iter().find(|noted| noted.code.is(RDKafkaErrorCode::AllBrokersDown)))
            .or(noted.first())?;
        let now = Instant::now();
        let is_due =
            self.told_at.is_none_or(|told| now.duration_since(told) >= self.settings.trouble_repeat());
        if !is_due {
            return None;
        }
        self.told_at = Some(now);
        let cause = self.witness().cause().filter(|cause| *cause != worst.reason);
        let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
        let what = format!("Kafka at {}: {}{cause}", self.brokers(), worst.reason);
        let mut error = worst.code.at(what);
        if self.has_worked && worst.code.is_about_identity() {
            error.kind = Trouble::Transient;
        }
        Some(self.stop(error))
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

    fn check_partitions(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()> {
        let topics: BTreeSet<&Arc<str>> = from.iter().map(|(place, _)| &place.topic).collect();
        for topic in topics {
            let present = self.partitions_of(topic)?;
            let missing: Vec<_> = from
                .iter()
                .filter(|(place, _)| place.topic == *topic && !present.contains(&place.partition))
                .map(|(place, offset)| format!("{place} (to be read from offset {offset})"))
                .collect();
            if !missing.is_empty() {
                return Err(PortError::permanent(format!(
                    "{} does not exist on {}: topic {topic} has {} partitions",
                    missing.join(", "),
                    self.brokers(),
                    present.len()
                ))
                .with_hint(
                    "the topic was re-created with fewer partitions, or the positions are of another cluster: \
                     build a new generation from what the log holds",
                ));
            }
        }
        Ok(())
    }

    fn partitions_of(&self, topic: &str) -> PortResult<Vec<i32>> {
        self.native.partitions_of(topic, self.settings.request_timeout()).map_err(|code| {
            let what = format!("topic {topic} on {}: {}", self.brokers(), code.text());
            self.with_cause(code.at(what))
        })
    }

    fn assign_from_slots(&mut self) -> PortResult<()> {
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
        let mut delivered = 0;
        while delivered < records_max {
            let (slots, places) = (&mut self.slots, &mut self.places);
            match self.native.next(|message| see(&message, slots, places, sink)) {
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
    sink(LogItem::Record(RecordRef {
        slot: index,
        offset: message.offset,
        timestamp_ms: message.timestamp_ms(),
        key: message.key,
        value: message.value,
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
        for topic in &self.topics {
            let numbers = self.partitions_of(topic)?;
            found.extend(
                numbers.into_iter().map(|partition| TopicPartition { topic: topic.clone(), partition }),
            );
        }
        self.note_success();
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
