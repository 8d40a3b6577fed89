//! Sets up topics: create, describe, grow, cut and delete, each as a plain call that waits. Must not know
//! what the topics are for.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::native::NativeConsumer;
use super::properties::{self, KafkaSettings};
use super::trouble::{self, Code};
use crate::ports::{PortError, PortResult};
use crate::pure::seq::TopicPartition;

/// Administration of one cluster.
pub struct KafkaAdmin {
    client: AdminClient<Quiet>,
    /// Questions go through a consumer: a producer's would create the topic that it asks about.
    reader: NativeConsumer,
    runtime: tokio::runtime::Runtime,
    settings: KafkaSettings,
}

struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        trouble::log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "Kafka administration");
    }
}

impl KafkaAdmin {
    pub fn open(settings: &KafkaSettings) -> PortResult<Self> {
        let refused = |error: KafkaError| properties::refused(settings, "administration client", &error);
        let client = properties::client_config(settings)?.create_with_context(Quiet).map_err(refused)?;
        let reader = NativeConsumer::open(&properties::consumer_config(settings)?).map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| PortError::permanent(format!("cannot wait for Kafka: {error}")))?;
        Ok(KafkaAdmin { client, reader, runtime, settings: settings.clone() })
    }

    /// Creates a topic with further settings of its own (`cleanup.policy`, `retention.ms` …). A topic that
    /// exists is a permanent error; see [`partition_count`](Self::partition_count).
    pub fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        replication: i32,
        properties: &[(&str, &str)],
    ) -> PortResult<()> {
        let mut wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(replication));
        for (name, value) in properties {
            wanted = wanted.set(name, value);
        }
        let answer = self.runtime.block_on(self.client.create_topics([&wanted], &self.options()));
        self.outcome(answer, format!("cannot create topic {topic}"))
    }

    pub fn delete_topic(&self, topic: &str) -> PortResult<()> {
        let answer = self.runtime.block_on(self.client.delete_topics(&[topic], &self.options()));
        self.outcome(answer, format!("cannot delete topic {topic}"))
    }

    /// How many partitions a topic has now; `None` where there is no such topic.
    pub fn partition_count(&self, topic: &str) -> PortResult<Option<usize>> {
        match self.reader.partitions_of(topic, self.settings.request_timeout()) {
            Ok(partitions) => Ok(Some(partitions.len())),
            Err(code) if is_missing(code) => Ok(None),
            Err(code) => Err(code.at(format!(
                "cannot describe topic {topic} on {}: {}",
                self.settings.brokers,
                code.text()
            ))),
        }
    }

    /// Raises the number of partitions of a topic to `partitions`.
    pub fn grow_topic(&self, topic: &str, partitions: usize) -> PortResult<()> {
        let wanted = NewPartitions::new(topic, partitions);
        let answer = self.runtime.block_on(self.client.create_partitions([&wanted], &self.options()));
        self.outcome(answer, format!("cannot raise topic {topic} to {partitions} partitions"))
    }

    /// Deletes the records below an offset.
    pub fn delete_records_below(&self, place: &TopicPartition, offset: i64) -> PortResult<()> {
        let what = format!("cannot delete the records of {place} below offset {offset}");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&place.topic, place.partition, Offset::Offset(offset))
            .map_err(|error| trouble::of_client(&error, &what))?;
        let answer = self
            .runtime
            .block_on(self.client.delete_records(&list, &self.options()))
            .map_err(|error| self.failed(&error, &what))?;
        match answer.elements().first().map(|element| element.error()) {
            Some(Err(error)) => Err(self.failed(&error, &what)),
            _ => Ok(()),
        }
    }

    fn options(&self) -> AdminOptions {
        let wait = Some(self.settings.request_timeout());
        AdminOptions::new().request_timeout(wait).operation_timeout(wait)
    }

    fn outcome(&self, answer: KafkaResult<Vec<TopicResult>>, what: String) -> PortResult<()> {
        let results = answer.map_err(|error| self.failed(&error, &what))?;
        match results.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some((_, code)) => Err(self.failed(&KafkaError::AdminOp(code), &what)),
        }
    }

    fn failed(&self, error: &KafkaError, what: &str) -> PortError {
        trouble::of_client(error, format!("{what} on {}", self.settings.brokers))
    }
}

fn is_missing(code: Code) -> bool {
    code.is(RDKafkaErrorCode::UnknownTopicOrPartition) || code.is(RDKafkaErrorCode::UnknownTopic)
}
