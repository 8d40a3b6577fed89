//! What a benchmark runs in: the servers, and a topic, a key prefix and a base of its own, removed when dropped.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::context::{Context, overrides};
use super::super::{CommandError, Shared};
use crate::config::Config;
use crate::example;
use crate::io::kafka::{KafkaAdmin, MockKafka};
use crate::io::redis::{PrivateRedis, PrivateRedisOptions, redact_url, remove_view};
use crate::ports::PortResult;

/// The shipped configuration: its table, topic and view are the ones measured.
const CONFIG: &str = include_str!("../../../config/driftless.toml");

/// What the parts of a benchmark share.
pub struct World {
    pub context: Context,
    pub topic: String,
    partitions: i32,
    pub is_mock: bool,
    redis_is_own: bool,
    folder: PathBuf,
}

/// Keeps a world alive, and takes it away when dropped.
pub struct Servers {
    pub world: World,
    mock: Option<MockKafka>,
    _redis: Option<PrivateRedis>,
    _folder: TempDir,
}

impl Servers {
    pub fn start(shared: &Shared, folder: Option<&Path>, partitions: i32) -> Result<Servers, CommandError> {
        let folder = temporary(folder)?;
        let contract = folder.path().join("contract.json");
        std::fs::write(&contract, example::CONTRACT)
            .map_err(|error| CommandError::File(contract.display().to_string(), error))?;
        // 1. The servers that were named; else some of our own.
        let mut overrides = overrides(shared)?;
        let mut config = match &shared.config {
            Some(file) => Some(Config::load(Some(file), &overrides)?),
            None => None,
        };
        let named = |path: &str| shared.config.is_some() || overrides.entries.iter().any(|o| o.path == path);
        let (kafka_named, redis_named) = (named("kafka.brokers"), named("redis.url"));
        let mock = if kafka_named { None } else { Some(MockKafka::start()?) };
        let private_redis = if redis_named { None } else { Some(start_redis()?) };
        let place = "bench";
        if let Some(mock) = &mock {
            overrides.put(place, "kafka.brokers", mock.brokers());
            overrides.put(place, "kafka.fetch_wait_max_ms", "5");
            overrides.put(place, "kafka.topic_check_ms", "0");
        }
        if let Some(redis) = &private_redis {
            overrides.put(place, "redis.url", redis.url());
        }
        // 2. What is measured, under names of its own.
        let name = format!("driftless-bench-{:08x}", rand::random::<u32>());
        overrides.put(place, "topic.0.name", name.as_str());
        overrides.put(place, "redis.prefix", name.as_str());
        overrides.put(place, "base.path", folder.path().join("base.db").display().to_string());
        overrides.put(place, "contracts", "[\"contract.json\"]");
        let own =
            Config::parse(CONFIG, "config/driftless.toml".into(), folder.path().to_owned(), &overrides)?;
        let config = match config.take() {
            None => own,
            Some(mut named) => {
                let (given, own) = (&mut named.settings, own.settings);
                given.redis.prefix = own.redis.prefix;
                given.base.path = own.base.path;
                (given.contracts, given.tables, given.topics) = (own.contracts, own.tables, own.topics);
                Config { folder: folder.path().to_owned(), ..named }
            }
        };
        let world = World {
            context: Context::of(config)?,
            topic: name,
            partitions,
            is_mock: mock.is_some(),
            redis_is_own: private_redis.is_some(),
            folder: folder.path().to_owned(),
        };
        let servers = Servers { world, mock, _redis: private_redis, _folder: folder };
        servers.create_topic()?;
        Ok(servers)
    }

    fn create_topic(&self) -> PortResult<()> {
        let World { context, topic, partitions, .. } = &self.world;
        match &self.mock {
            Some(mock) => mock.create_topic(topic, *partitions),
            None => KafkaAdmin::open(&context.kafka_settings())?.create_topic(topic, *partitions, 1, &[]),
        }
    }
}

impl World {
    pub fn object(&self) -> &str {
        &self.context.catalog.views[0].view.object
    }

    /// The partition that librdkafka would choose for a key: rows keep their partition in every part of a run.
    pub fn partition_of(&self, key: &[u8]) -> i32 {
        (crc32fast::hash(key) % self.partitions as u32) as i32
    }

    /// The same servers and topic with another, empty base and key prefix.
    pub fn aside(&self, name: &str) -> Context {
        let mut context = self.context.clone();
        context.config.settings.base.path = self.folder.join(format!("{name}.db"));
        context.config.settings.redis.prefix.push_str(&format!("-{name}"));
        context
    }

    pub fn base_bytes(&self) -> u64 {
        let path = &self.context.settings().base.path;
        let wal = PathBuf::from(format!("{}-wal", path.display()));
        [path, &wal].into_iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Broker addresses, and what kind of Kafka answers there.
    pub fn kafka_text(&self) -> String {
        if self.is_mock {
            return "mock in this process".to_owned();
        }
        format!("real, at {}", self.context.settings().kafka.brokers)
    }

    pub fn redis_text(&self) -> String {
        let own = if self.redis_is_own { ", started for this" } else { "" };
        let version = self
            .context
            .open_store()
            .and_then(|mut store| store.probe())
            .map_or_else(|_| "unknown version".to_owned(), |facts| facts.version);
        format!("{version}, at {}{own}", redact_url(&self.context.settings().redis.url))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let world = &self.world;
        let settings = world.context.redis_settings();
        if !world.redis_is_own
            && let Err(error) = remove_view(&settings, world.object())
        {
            tracing::warn!(%error, prefix = settings.prefix, "the keys of the benchmark are left");
        }
        let delete = || KafkaAdmin::open(&world.context.kafka_settings())?.delete_topic(&world.topic);
        if !world.is_mock
            && let Err(error) = delete()
        {
            tracing::warn!(%error, topic = world.topic, "the topic of the benchmark is left");
        }
    }
}

fn temporary(folder: Option<&Path>) -> Result<TempDir, CommandError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("driftless-bench-");
    let made = match folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    };
    let place =
        || folder.map_or_else(|| "temporary folder".to_owned(), |folder| folder.display().to_string());
    made.map_err(|error| CommandError::File(place(), error))
}

fn start_redis() -> PortResult<PrivateRedis> {
    let executable = std::env::var_os("DRIFTLESS_REDIS_SERVER").map(PathBuf::from);
    PrivateRedis::start(PrivateRedisOptions { executable, ..PrivateRedisOptions::default() })
}
