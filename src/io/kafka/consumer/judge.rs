//! What trouble means for the log being read: whether an offset is really gone, whether a topic is still the
//! same one, and how often to say that brokers are away. Must not hand out records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::{KafkaLog, Stopped};
use crate::io::kafka::native::Noted;
use crate::io::kafka::trouble::Code;
use crate::ports::{Log, PortError, PortResult, Trouble};
use crate::pure::seq::TopicPartition;

impl KafkaLog {
    /// Adds what librdkafka reported meanwhile, which is where the cause is found.
    pub(super) fn with_cause(&self, error: PortError) -> PortError {
        self.native.serve();
        match self.witness().cause() {
            Some(cause) => self.explained(error, &cause),
            None => error,
        }
    }

    /// An error with its cause. Wrong credentials stop a start; later on they are a broker's bad day.
    fn explained(&self, mut error: PortError, cause: &Noted) -> PortError {
        if !error.what.contains(&cause.reason) {
            error.what = format!("{} (last trouble: {})", error.what, cause.reason);
        }
        if cause.code.is_about_identity() {
            let told = cause.code.at(String::new());
            error.hint = told.hint;
            error.kind = match self.has_worked {
                true => Trouble::Transient,
                false => told.kind,
            };
        }
        error
    }

    pub(super) fn stop(&mut self, error: PortError) -> PortError {
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
    pub(super) fn judge(&mut self, slot: Option<usize>, code: Code, text: &str) -> PortError {
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
    pub(super) fn judge_noted(&mut self, noted: Vec<Noted>) -> Option<PortError> {
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
        let what = format!("Kafka at {}: {}", self.brokers(), worst.reason);
        let mut error = worst.code.at(what);
        if let Some(cause) = self.witness().cause() {
            error = self.explained(error, &cause);
        }
        Some(self.stop(error))
    }

    /// Refuses partitions that do not exist.
    pub(super) fn check_partitions(&mut self, from: &[(TopicPartition, i64)]) -> PortResult<()> {
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

    /// The partitions of a topic now; a topic that is not the one first seen is refused.
    pub(super) fn partitions_of(&mut self, topic: &str) -> PortResult<Vec<i32>> {
        let wait = self.settings.request_timeout();
        let partitions = self.native.partitions_of(topic, wait);
        let partitions = partitions.map_err(|code| self.unanswered(topic, code))?;
        self.note_success();
        self.id_of(topic)?;
        Ok(partitions)
    }

    /// The id of a topic now, where brokers are asked for it; another one than at first is refused.
    pub(super) fn id_of(&mut self, topic: &str) -> PortResult<Option<String>> {
        if self.settings.topic_check_ms == 0 {
            return Ok(None);
        }
        let wait = self.settings.request_timeout();
        let id = self.native.topic_id(topic, wait);
        let id = id.map_err(|code| self.unanswered(topic, code))?;
        self.check_id(topic, id.as_deref())?;
        Ok(id)
    }

    fn unanswered(&self, topic: &str, code: Code) -> PortError {
        let what = format!("topic {topic} on {}: {}", self.brokers(), code.text());
        self.with_cause(code.at(what))
    }

    /// librdkafka goes on at the same offset of a topic that was deleted and made anew, whose records are
    /// others.
    fn check_id(&mut self, topic: &str, id: Option<&str>) -> PortResult<()> {
        let Some(id) = id else { return Ok(()) };
        let first = self.ids.entry(Arc::from(topic)).or_insert_with(|| id.to_string());
        if first == id {
            return Ok(());
        }
        let error = PortError::permanent(format!(
            "topic {topic} on {} was re-created: its id was {first} and is {id} now, so stored positions mean \
             other records",
            self.settings.brokers
        ))
        .with_hint("build a new generation from what the topic holds now");
        Err(self.stop(error))
    }

    /// Asks now and then whether the topics are still the same, without waiting for the answer.
    pub(super) fn watch_topics(&mut self) -> Option<PortError> {
        if let Some(answer) = self.native.topics_answer(Duration::ZERO) {
            // A question that failed is asked again; a topic that is gone is told by its partitions.
            let topics = answer.unwrap_or_default();
            return topics
                .into_iter()
                .flatten()
                .find_map(|topic| self.check_id(&topic.name, topic.id.as_deref()).err());
        }
        if self.settings.topic_check_ms == 0 {
            return None;
        }
        let now = Instant::now();
        let is_due =
            self.topics_asked_at.is_none_or(|asked| now.duration_since(asked) >= self.settings.topic_check());
        if is_due && !self.native.has_asked_topics() && !self.slots.is_empty() {
            self.topics_asked_at = Some(now);
            let topics: BTreeSet<&str> = self.slots.iter().map(|slot| &*slot.place.topic).collect();
            let topics: Vec<&str> = topics.into_iter().collect();
            if let Err(code) = self.native.ask_topics(&topics, self.settings.request_timeout()) {
                tracing::debug!(reason = %code.text(), "cannot ask whether the topics are the same");
            }
        }
        None
    }
}
