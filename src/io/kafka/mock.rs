//! A Kafka broker inside this process, for the demo and for tests: librdkafka's mock cluster. Must not be
//! used for anything that has to last.
//!
//! What it is not: each partition keeps its newest 100,000 records or 5 MiB (whichever is less) and forgets
//! older ones; there are no administration calls, no compaction, and transactions are not told apart.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::properties::KafkaSettings;
use super::trouble;
use crate::ports::{PortError, PortResult};

/// A broker that lives as long as this value, at an address of this machine.
pub struct MockKafka {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl MockKafka {
    pub fn start() -> PortResult<Self> {
        let cluster = MockCluster::new(1).map_err(|error| failed(&error, "start"))?;
        Ok(MockKafka { cluster })
    }

    /// `host:port` of the broker.
    pub fn brokers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Settings that reach it. The mock cannot tell topic ids (it has no controller to ask). It does
    /// not wake a waiting fetch when a record arrives, so the wait is the latency, and is kept short.
    pub fn settings(&self, group: &str) -> KafkaSettings {
        KafkaSettings { fetch_wait_max_ms: 5, topic_check_ms: 0, ..KafkaSettings::new(self.brokers(), group) }
    }

    pub fn create_topic(&self, topic: &str, partitions: i32) -> PortResult<()> {
        self.cluster
            .create_topic(topic, partitions, 1)
            .map_err(|error| failed(&error, &format!("create topic {topic}")))
    }

    /// Stops answering, as a broker whose machine is gone, until [`come_back`](Self::come_back).
    pub fn go_away(&self) -> PortResult<()> {
        self.cluster.broker_down(-1).map_err(|error| failed(&error, "stop"))
    }

    pub fn come_back(&self) -> PortResult<()> {
        self.cluster.broker_up(-1).map_err(|error| failed(&error, "come back"))
    }

    /// Answers the next `times` fetches with "offset out of range", whatever they ask for.
    pub fn deny_offsets(&self, times: usize) {
        let errors = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE; times];
        self.cluster.request_errors(RDKafkaApiKey::Fetch, &errors);
    }
}

fn failed(error: &KafkaError, what: &str) -> PortError {
    trouble::of_client(error, format!("the mock Kafka cannot {what}"))
}
