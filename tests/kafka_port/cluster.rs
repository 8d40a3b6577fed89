//! The brokers that the cases run against, and how they write and read. Must not know what is asserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use driftless::io::kafka::{KafkaAdmin, KafkaLog, KafkaProducer, KafkaSettings, MockKafka, ProducerSettings};
use driftless::ports::{Log, LogItem, PortError};
use driftless::pure::seq::TopicPartition;

pub const PATIENCE: Duration = Duration::from_secs(30);

/// A broker to test against.
pub enum Cluster {
    Mock(MockKafka),
    Real(String),
}

impl Cluster {
    pub fn settings(&self) -> KafkaSettings {
        match self {
            Cluster::Mock(mock) => mock.settings("driftless-test"),
            Cluster::Real(brokers) => KafkaSettings::new(brokers, "driftless-test"),
        }
    }

    /// A topic of a name never used before.
    pub fn topic(&self, name: &str, partitions: i32) -> String {
        let topic = fresh_name(name);
        match self {
            Cluster::Mock(mock) => mock.create_topic(&topic, partitions).unwrap(),
            Cluster::Real(_) => self.admin().create_topic(&topic, partitions, 1, &[]).unwrap(),
        }
        topic
    }

    pub fn admin(&self) -> KafkaAdmin {
        KafkaAdmin::open(&self.settings()).unwrap()
    }

    pub fn producer(&self) -> KafkaProducer {
        KafkaProducer::open(&self.settings(), &ProducerSettings::default()).unwrap()
    }

    pub fn log(&self, topics: &[&str]) -> KafkaLog {
        let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
        KafkaLog::open(&self.settings(), &topics).unwrap()
    }
}

pub fn fresh_name(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("port-{name}-{}-{}-{count}", std::process::id(), at.as_millis())
}

pub fn real() -> Option<Cluster> {
    match std::env::var("DRIFTLESS_KAFKA") {
        Ok(brokers) if !brokers.is_empty() => Some(Cluster::Real(brokers)),
        _ => {
            eprintln!("SKIPPED on real Kafka: DRIFTLESS_KAFKA names no broker (scripts/services up)");
            None
        }
    }
}

/// Runs a case on the mock, and on real Kafka where there is one.
pub fn on_each(case: impl Fn(&Cluster)) {
    case(&Cluster::Mock(MockKafka::start().unwrap()));
    if let Some(real) = real() {
        case(&real);
    }
}

pub fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: Arc::from(topic), partition }
}

/// An item with its bytes, to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Record { slot: usize, offset: i64, key: Option<Vec<u8>>, value: Option<Vec<u8>> },
    End { slot: usize, next_offset: i64 },
}

pub fn poll_into(log: &mut KafkaLog, most: usize, items: &mut Vec<Item>) -> Result<usize, PortError> {
    poll_for(log, most, Duration::from_millis(200), items)
}

pub fn poll_for(
    log: &mut KafkaLog,
    most: usize,
    wait: Duration,
    items: &mut Vec<Item>,
) -> Result<usize, PortError> {
    log.poll(most, wait, &mut |item| {
        items.push(match item {
            LogItem::Record(record) => {
                assert!(record.timestamp_ms.is_some_and(|at| at > 1_600_000_000_000));
                Item::Record {
                    slot: record.slot,
                    offset: record.offset,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                }
            }
            LogItem::End { slot, next_offset } => Item::End { slot, next_offset },
        });
    })
}

/// Reads until each of `slots` slots has come to its end once.
pub fn read_to_end(log: &mut KafkaLog, slots: usize) -> Vec<Item> {
    let mut items = Vec::new();
    read_until(log, &mut items, |items| {
        (0..slots)
            .all(|wanted| items.iter().any(|item| matches!(item, Item::End { slot, .. } if *slot == wanted)))
    });
    items
}

pub fn read_until(log: &mut KafkaLog, items: &mut Vec<Item>, is_enough: impl Fn(&[Item]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_enough(items) {
        assert!(Instant::now() < deadline, "not enough came: {} items", items.len());
        match poll_into(log, 1_000, items) {
            Ok(_) => {}
            Err(error) if error.is_transient() => eprintln!("passing: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn offsets_of(items: &[Item], wanted: usize) -> Vec<i64> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Record { slot, offset, .. } if *slot == wanted => Some(*offset),
            _ => None,
        })
        .collect()
}

pub fn values_of(items: &[Item]) -> Vec<String> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Record { value, .. } => Some(String::from_utf8(value.clone().unwrap_or_default()).unwrap()),
            Item::End { .. } => None,
        })
        .collect()
}

pub fn last_end(items: &[Item], wanted: usize) -> i64 {
    items
        .iter()
        .rev()
        .find_map(|item| match item {
            Item::End { slot, next_offset } if *slot == wanted => Some(*next_offset),
            _ => None,
        })
        .expect("an end")
}

pub fn send(cluster: &Cluster, topic: &str, partition: i32, values: impl IntoIterator<Item = String>) {
    let producer = cluster.producer();
    for value in values {
        producer.send(topic, Some(partition), None, Some(value.as_bytes())).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(producer.failed(), 0);
}

pub fn numbered(from: usize, to: usize) -> impl Iterator<Item = String> {
    (from..to).map(|number| number.to_string())
}

/// Polls until an error comes; whatever comes before it is dropped.
pub fn poll_to_error(log: &mut KafkaLog) -> PortError {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "no error came");
        if let Err(error) = poll_into(log, 1_000, &mut Vec::new()) {
            return error;
        }
    }
}
