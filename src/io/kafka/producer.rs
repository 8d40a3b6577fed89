//! Writes records to Kafka: for producing test data, the demo, tests and the dead-letter copy. Must not know
//! what a record means.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use super::properties::{self, KafkaSettings};
use super::trouble;
use crate::ports::{PortError, PortResult};
use crate::pure::formats::Header;

/// How records are gathered and how many may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// How long a record waits for others to share its request.
    pub linger_ms: u32,
    /// The broker drops what a retry writes twice, and keeps the order of each partition.
    pub idempotent: bool,
    /// Records that may wait for their acknowledgement; more make `send` wait.
    pub in_flight_max: u32,
    /// Their bytes, in kibibytes.
    pub in_flight_max_kbytes: u32,
    /// How long a record may take in all before it counts as failed; also how long `send` waits for room.
    pub delivery_timeout_ms: u32,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        ProducerSettings {
            linger_ms: 5,
            idempotent: true,
            in_flight_max: 100_000,
            in_flight_max_kbytes: 262_144,
            delivery_timeout_ms: 60_000,
        }
    }
}

/// Sends records and counts what became of them. Acknowledged means: by all replicas in sync.
pub struct KafkaProducer {
    producer: BaseProducer<Ledger>,
    brokers: String,
    delivery_timeout: Duration,
}

#[derive(Default)]
struct Ledger {
    delivered: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<PortError>>,
    last_trouble: Mutex<Option<String>>,
}

impl ClientContext for Ledger {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        trouble::log_line(level, facility, line);
    }

    fn error(&self, _error: KafkaError, reason: &str) {
        let mut last = self.last_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(reason.to_string());
    }
}

impl ProducerContext for Ledger {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (error, record) = match result {
            Ok(_) => {
                self.delivered.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err((error, record)) => (error, record),
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| {
            let place = format!("a record for {}:{}", record.topic(), record.partition());
            trouble::of_client(error, format!("{place} was not written"))
        });
    }
}

impl KafkaProducer {
    pub fn open(settings: &KafkaSettings, how: &ProducerSettings) -> PortResult<Self> {
        let mut config = properties::client_config(settings)?;
        config
            .set("acks", "all")
            .set("enable.idempotence", how.idempotent.to_string())
            .set("linger.ms", how.linger_ms.to_string())
            .set("queue.buffering.max.messages", how.in_flight_max.to_string())
            .set("queue.buffering.max.kbytes", how.in_flight_max_kbytes.to_string())
            .set("message.timeout.ms", how.delivery_timeout_ms.to_string());
        let producer: BaseProducer<Ledger> = config
            .create_with_context(Ledger::default())
            .map_err(|error| properties::refused(settings, "producer", &error))?;
        Ok(KafkaProducer {
            producer,
            brokers: settings.brokers.clone(),
            delivery_timeout: Duration::from_millis(how.delivery_timeout_ms.into()),
        })
    }

    /// Queues a record, waiting while too many are under way. `partition: None` goes by the key's hash, as
    /// Kafka's own clients do by default for librdkafka (CRC32), or anywhere without a key. A value of `None`
    /// is a tombstone. That it was written is known after [`flush`](Self::flush) only.
    pub fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> PortResult<()> {
        self.send_with_headers(topic, partition, key, value, &[])
    }

    /// As [`send`](Self::send), with headers.
    pub fn send_with_headers(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> PortResult<()> {
        let mut record = BaseRecord::<[u8], [u8]>::to(topic);
        if !headers.is_empty() {
            let none = OwnedHeaders::new_with_capacity(headers.len());
            record.headers = Some(headers.iter().fold(none, |list, header| {
                list.insert(rdkafka::message::Header { key: &header.name, value: header.value.as_deref() })
            }));
        }
        record.partition = partition;
        record.key = key;
        record.payload = value;
        let mut waiting_since = None;
        loop {
            let error = match self.producer.send(record) {
                Ok(()) => break,
                Err((error, back)) => {
                    record = back;
                    error
                }
            };
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                let what = format!("cannot send to {topic} on {}", self.brokers);
                return Err(trouble::of_client(&error, what));
            }
            let since = *waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() > self.delivery_timeout {
                return Err(self.with_cause(PortError::transient(format!(
                    "no room to send to {topic} on {}: {} records wait for their acknowledgement",
                    self.brokers,
                    self.in_flight()
                ))));
            }
            self.producer.poll(Duration::from_millis(1));
        }
        self.producer.poll(Duration::ZERO);
        Ok(())
    }

    /// Waits until every record queued so far has been acknowledged; an error tells of the first that failed
    /// since the last flush, and how many did.
    pub fn flush(&self, wait: Duration) -> PortResult<()> {
        let waited = self.producer.flush(wait);
        let failure =
            self.producer.context().first_failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut error) = failure {
            error.what = format!("{} on {} ({} failed in all)", error.what, self.brokers, self.failed());
            return Err(self.with_cause(error));
        }
        waited.map_err(|error| {
            let what =
                format!("{} records sent to {} are not acknowledged yet", self.in_flight(), self.brokers);
            self.with_cause(trouble::of_client(&error, what))
        })
    }

    /// Records acknowledged since the start.
    pub fn delivered(&self) -> u64 {
        self.producer.context().delivered.load(Ordering::Relaxed)
    }

    /// Records that were given up since the start.
    pub fn failed(&self) -> u64 {
        self.producer.context().failed.load(Ordering::Relaxed)
    }

    /// Records queued and neither acknowledged nor given up.
    pub fn in_flight(&self) -> u64 {
        u64::try_from(self.producer.in_flight_count()).unwrap_or(0)
    }

    fn with_cause(&self, mut error: PortError) -> PortError {
        let context = self.producer.context();
        let last = context.last_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = last.as_deref() {
            error.what = format!("{} (last trouble: {reason})", error.what);
        }
        error
    }
}
