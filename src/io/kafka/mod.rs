//! Kafka through librdkafka: the log that is read, and the means to write and to set up topics.
//! Knows brokers, offsets and bytes; must not know what an event or a view is, nor where positions are kept.
//!
//! ```text
//! KafkaSettings ──▶ properties ──▶ consumer (native) │ producer │ admin        mock: a broker in this process
//!                                        │ errors
//!                                        ▼
//!                                     trouble: what failed, whether it may pass, what to do
//! ```

mod admin;
mod consumer;
mod mock;
mod native;
mod producer;
mod properties;
mod slots;
mod topics;
mod trouble;

pub use admin::KafkaAdmin;
pub use consumer::KafkaLog;
pub use mock::MockKafka;
pub use producer::{KafkaProducer, ProducerSettings};
pub use properties::KafkaSettings;

/// The version of librdkafka that this program was built with.
pub fn library_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}
