//! Recorded messages and the configurations that read them. Knows files, and nothing of what a message means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driftless::config::{Config, Overrides, load_catalog};
use driftless::pure::catalog::Catalog;
use driftless::pure::formats::Header;
use driftless::pure::seq::TopicPartition;
use serde_json::Value;

use crate::support::world::World;

/// Every folder with messages that tell the history.
pub const FORMATS: [&str; 9] = [
    "native",
    "debezium",
    "debezium_plain",
    "debezium_mysql",
    "debezium_sqlserver",
    "debezium_unwrapped",
    "upsert",
    "maxwell",
    "canal",
];

pub struct Message {
    /// Where it was recorded from; none where only one topic was made.
    pub topic: Option<String>,
    pub partition: i32,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<Header>,
    /// Gone before anybody read it.
    pub compacted: bool,
}

pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(file)
}

pub fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The messages of a folder, in the log's order.
pub fn messages(name: &str) -> Vec<Message> {
    let of = |line: &str| {
        let line = json(line);
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let header = |pair: &Value| Header {
            name: pair[0].as_str().expect("a name").into(),
            value: pair[1].as_str().map(|value| value.as_bytes().into()),
        };
        Message {
            topic: text("topic"),
            partition: line["partition"].as_i64().unwrap_or(0) as i32,
            key: text("key"),
            value: text("value"),
            headers: line["headers"].as_array().into_iter().flatten().map(header).collect(),
            compacted: line["compacted"] == true,
        }
    };
    text(&format!("{name}/messages.jsonl")).lines().map(of).collect()
}

/// A configuration of the tests, with settings laid over it.
pub fn catalog(file: &str, settings: &[&str]) -> Arc<Catalog> {
    try_catalog(file, settings).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub fn try_catalog(file: &str, settings: &[&str]) -> Result<Arc<Catalog>, String> {
    let mut overrides = Overrides::default();
    settings.iter().for_each(|setting| overrides.set(setting).expect("a setting"));
    let config = Config::load(Some(&path(file)), &overrides).map_err(|error| error.to_string())?;
    load_catalog(&config).map(Arc::new).map_err(|error| error.to_string())
}

/// A world with that configuration and so many empty partitions of its topic.
pub fn world(catalog: Arc<Catalog>, partitions: i32) -> World {
    let topic = catalog.topics[0].name.clone();
    let world = World::with_catalog(catalog, 0);
    for partition in 0..partitions {
        world.log.add_partition(&TopicPartition { topic: topic.clone(), partition });
    }
    world
}

/// Appends a message to the topic of the world, to the partition that it names.
pub fn append(world: &World, message: &Message) {
    let topic = world.catalog.topics[0].name.clone();
    let at = TopicPartition { topic, partition: message.partition };
    let (key, value) =
        (message.key.as_ref().map(String::as_bytes), message.value.as_ref().map(String::as_bytes));
    let offset = world.log.append_with_headers(&at, key, value, message.headers.clone());
    if message.compacted {
        world.log.compact_away(&at, offset);
    }
}

pub fn append_all(world: &World, messages: &[Message]) {
    messages.iter().for_each(|message| append(world, message));
}

/// Whether a recorded message belongs to the topic that is configured.
pub fn is_of(message: &Message, catalog: &Catalog) -> bool {
    message.topic.as_deref().is_none_or(|topic| *topic == *catalog.topics[0].name)
}
