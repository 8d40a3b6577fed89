//! Where the demo and the acceptance run: a Kafka, a Redis and a base that hold nothing of the user's. Embedded
//! servers end with this value; of servers that somebody else runs, only what was made here is removed.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::context::Context;
use super::{CommandError, Shared};
use crate::config::{
    BaseSection, Config, ContractText, DEFAULT_FILES, KafkaSection, Overrides, RedisSection, WatermarkMode,
    catalog_of,
};
use crate::example;
use crate::io::kafka::{KafkaAdmin, KafkaSettings, MockKafka};
use crate::io::redis::{PrivateRedis, PrivateRedisOptions, RedisSettings, redact_url, remove_view};
use crate::ports::{PortError, PortResult};

/// What the in-process Kafka is not, in one line.
pub const MOCK_LIMITS: &str =
    "librdkafka's mock: in memory, the newest 100,000 records or 5 MiB, no transactions, no compaction";

/// The servers that are the user's; the others are started here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    pub kafka: bool,
    pub redis: bool,
}

pub struct Playground {
    pub context: Context,
    pub own: Own,
    /// Such as `7.0.15`.
    redis_version: String,
    // Dropped in this order: what was made on the user's servers, then servers, then files.
    _topic: Option<OwnTopic>,
    _views: Vec<OwnView>,
    _kafka: Option<MockKafka>,
    _redis: Option<PrivateRedis>,
    folder: TempDir,
}

/// The shipped configuration under environment and arguments.
pub fn shipped(overrides: &Overrides) -> Result<Config, CommandError> {
    Ok(Config::parse(example::CONFIGURATION, "the shipped configuration".into(), "".into(), overrides)?)
}

/// The user's configuration; the shipped one where there is no file.
pub fn configured(shared: &Shared, overrides: &Overrides) -> Result<Config, CommandError> {
    if shared.config.is_none() && !DEFAULT_FILES.iter().any(|file| Path::new(file).exists()) {
        return shipped(overrides);
    }
    Ok(Config::load(shared.config.as_deref(), overrides)?)
}

impl Playground {
    /// `configured` says how to reach the servers that are the user's own, and the loops' limits.
    pub fn open(name: &str, configured: &Config, own: Own) -> Result<Playground, CommandError> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("driftless-{name}-"))
            .tempdir()
            .map_err(|error| CommandError::File("a temporary folder".to_owned(), error))?;
        let unique = format!("driftless-{name}-{:08x}", rand::random::<u32>());
        let mut config = shipped(&Overrides::default())?;
        let settings = &mut config.settings;
        settings.maintain = configured.settings.maintain.clone();
        settings.base = BaseSection { path: folder.path().join("base.db"), ..BaseSection::default() };
        // Nine sequences with holes, each sent after the one before was acknowledged.
        let Some(topic) = settings.topics.first_mut() else {
            return Err(CommandError::usage(
                "the shipped configuration has no topic",
                "build driftless anew",
            ));
        };
        topic.watermark = WatermarkMode::AppendOrdered;
        // 1. Kafka.
        let mut mock = None;
        if own.kafka {
            topic.name.clone_from(&unique);
            settings.kafka = KafkaSection { group: unique.clone(), ..configured.settings.kafka.clone() };
        } else {
            let started = MockKafka::start()?;
            started.create_topic(&topic.name, 1)?;
            let KafkaSettings { brokers, fetch_wait_max_ms, topic_check_ms, .. } =
                started.settings("driftless");
            settings.kafka =
                KafkaSection { brokers, fetch_wait_max_ms, topic_check_ms, ..KafkaSection::default() };
            mock = Some(started);
        }
        let topic = topic.name.clone();
        // 2. Redis.
        let mut redis = None;
        if own.redis {
            settings.redis = RedisSection { prefix: unique, ..configured.settings.redis.clone() };
        } else {
            let executable = std::env::var_os("DRIFTLESS_REDIS_SERVER").map(Into::into);
            let started =
                PrivateRedis::start(PrivateRedisOptions { executable, ..PrivateRedisOptions::default() })?;
            settings.redis = RedisSection { url: started.url(), ..RedisSection::default() };
            redis = Some(started);
        }
        // 3. What is maintained, and that the servers are fit for it.
        let contract = ContractText {
            text: example::CONTRACT.to_owned(),
            place: "contracts/agg_daily_product.json".to_owned(),
        };
        let catalog = catalog_of(&config, &[contract])?;
        let context =
            Context::with_catalog(config, catalog.into())?.without_passwords(!own.kafka, !own.redis);
        let redis_version = context.open_store()?.probe()?.version;
        let own_topic = own.kafka.then(|| OwnTopic::create(context.kafka_settings(), &topic)).transpose()?;
        let mut playground = Playground {
            own,
            redis_version,
            _topic: own_topic,
            _views: Vec::new(),
            _kafka: mock,
            _redis: redis,
            folder,
            context,
        };
        playground.remove_view_at_the_end(&playground.context.redis_settings());
        Ok(playground)
    }

    /// A second base and key prefix beside the first, over the same servers.
    pub fn beside(&mut self, name: &str) -> Context {
        let mut context = self.context.clone();
        let settings = &mut context.config.settings;
        settings.base.path = self.folder.path().join(format!("{name}.db"));
        settings.redis.prefix = format!("{}-{name}", settings.redis.prefix);
        self.remove_view_at_the_end(&context.redis_settings());
        context
    }

    fn remove_view_at_the_end(&mut self, settings: &RedisSettings) {
        if self.own.redis {
            let objects = self.context.catalog.views.iter().map(|entry| entry.view.object.clone());
            self._views.extend(objects.map(|object| OwnView { settings: settings.clone(), object }));
        }
    }

    pub fn topic(&self) -> &str {
        self.context.catalog.topics.first().map_or("", |topic| &*topic.name)
    }

    /// The servers for people, a line each.
    pub fn servers_text(&self) -> String {
        let settings = self.context.settings();
        let (brokers, topic, prefix) = (&settings.kafka.brokers, self.topic(), &settings.redis.prefix);
        let url = redact_url(&settings.redis.url);
        let kafka = if self.own.kafka {
            format!("yours at {brokers}, topic {topic}, removed at the end")
        } else {
            format!("in this process at {brokers}, topic {topic}")
        };
        let redis = if self.own.redis {
            format!("yours at {url}, version {}, keys {prefix}:*, removed at the end", self.redis_version)
        } else {
            format!("private server at {url}, version {}, keys {prefix}:*", self.redis_version)
        };
        let limits = if self.own.kafka { String::new() } else { format!("\n         {MOCK_LIMITS}") };
        format!(
            "  Kafka  {kafka}{limits}\n  Redis  {redis}\n  Base   {}, removed at the end",
            self.base().display()
        )
    }

    pub fn servers_json(&self) -> Json {
        let settings = self.context.settings();
        let mut servers = json!({
            "kafka": {
                "server": if self.own.kafka { "configured" } else { "in-process mock of librdkafka" },
                "brokers": settings.kafka.brokers, "topic": self.topic(),
            },
            "redis": {
                "server": if self.own.redis { "configured" } else { "private" },
                "url": redact_url(&settings.redis.url), "version": self.redis_version,
                "prefix": settings.redis.prefix,
            },
            "base": self.base(),
        });
        if !self.own.kafka {
            servers["kafka"]["limits"] = MOCK_LIMITS.into();
        }
        servers
    }

    fn base(&self) -> &Path {
        &self.context.settings().base.path
    }
}

/// A topic that was made here on a Kafka of the user's.
struct OwnTopic {
    admin: KafkaAdmin,
    topic: String,
}

impl OwnTopic {
    fn create(settings: KafkaSettings, topic: &str) -> PortResult<OwnTopic> {
        let admin = KafkaAdmin::open(&settings)?;
        admin.create_topic(topic, 1, 1, &[])?;
        let made = OwnTopic { admin, topic: topic.to_owned() };
        // Brokers tell each other of it in their own time.
        let since = Instant::now();
        while made.admin.partition_count(topic)?.is_none() {
            if since.elapsed() > Duration::from_secs(15) {
                return Err(PortError::transient(format!("topic {topic} was created and is not to be seen")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(made)
    }
}

impl Drop for OwnTopic {
    fn drop(&mut self) {
        if let Err(error) = self.admin.delete_topic(&self.topic) {
            tracing::warn!(topic = self.topic, %error, "the topic made here is left behind");
        }
    }
}

/// A view that was published here to a Redis of the user's.
struct OwnView {
    settings: RedisSettings,
    object: String,
}

impl Drop for OwnView {
    fn drop(&mut self) {
        if let Err(error) = remove_view(&self.settings, &self.object) {
            tracing::warn!(prefix = self.settings.prefix, %error, "the keys made here are left behind");
        }
    }
}
