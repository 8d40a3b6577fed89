//! From arguments to a checked configuration and opened ports: what the commands have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CommandError, Shared};
use crate::config::{self, Config, ConfigError, Overrides, Settings};
use crate::io::clock::SystemClock;
use crate::io::kafka::{KafkaLog, KafkaSettings};
use crate::io::redis::{RedisSettings, RedisStore};
use crate::io::sqlite::{BaseSettings, SqliteReader, SqliteUseBook, SqliteWriter};
use crate::pipeline::maintain::MaintainSettings;
use crate::pipeline::publish::PublishSettings;
use crate::pipeline::read::ReadSettings;
use crate::pipeline::route::RouteSettings;
use crate::ports::{Clock, PortResult};
use crate::pure::backoff::Backoff;
use crate::pure::catalog::Catalog;
use crate::pure::route::ReconcilePolicy;
use crate::pure::secret::Secret;

mod held;

use held::Held;
pub use held::definitions;

/// A checked configuration and what follows from it.
#[derive(Clone)]
pub struct Context {
    pub config: Config,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    /// The generation whose base is opened; `None` is the one that the configuration names.
    held: Option<Held>,
    redis_password: Option<Secret>,
    kafka_password: Option<Secret>,
}

/// The overrides of environment and arguments.
pub fn overrides(shared: &Shared) -> Result<Overrides, CommandError> {
    let mut overrides = config::environment(std::env::vars());
    for argument in &shared.set {
        overrides.set(argument)?;
    }
    Ok(overrides)
}

impl Context {
    /// Loads and checks everything; touches nothing.
    pub fn load(shared: &Shared) -> Result<Context, CommandError> {
        Self::of(Config::load(shared.config.as_deref(), &overrides(shared)?)?)
    }

    /// How the servers are reached, and nothing else: for looking around where there may be no configuration yet.
    pub fn of_servers(shared: &Shared) -> Result<Context, CommandError> {
        const NOTHING: &str = "contracts = []\ntable = []\ntopic = []";
        let overrides = overrides(shared)?;
        let file = shared.config.clone().or_else(Config::default_file);
        let config = match file {
            Some(file) => Config::load(Some(&file), &overrides)?,
            None => Config::parse(NOTHING, "no configuration".into(), PathBuf::new(), &overrides)?,
        };
        Self::with_catalog(config, Arc::default())
    }

    /// From a configuration that is at hand: its live generation.
    pub fn of(config: Config) -> Result<Context, CommandError> {
        held::live(config)
    }

    pub fn with_catalog(config: Config, catalog: Arc<Catalog>) -> Result<Context, CommandError> {
        Ok(Context {
            catalog,
            config,
            held: None,
            clock: Arc::new(SystemClock::default()),
            redis_password: secret("DRIFTLESS_REDIS_PASSWORD")?,
            kafka_password: secret("DRIFTLESS_KAFKA_PASSWORD")?,
        })
    }

    /// The same without the passwords of the environment: for servers that this process has started itself.
    pub fn without_passwords(mut self, kafka: bool, redis: bool) -> Context {
        if kafka {
            self.kafka_password = None;
        }
        if redis {
            self.redis_password = None;
        }
        self
    }

    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    pub fn base_settings(&self) -> BaseSettings {
        let base = &self.settings().base;
        let held = self.held.as_ref();
        BaseSettings {
            path: held.map_or_else(|| base.path.clone(), |held| held.path.clone()),
            generation: held.map_or_else(|| base.generation.clone(), |held| held.generation.clone()),
            synchronous_full: base.synchronous == config::Synchronous::Full,
            cache_kib: base.cache_mib * 1024,
            history_changes_max: base.history_changes_max,
            wal_checkpoint_bytes: base.wal_checkpoint_mib * 1024 * 1024,
        }
    }

    pub fn kafka_settings(&self) -> KafkaSettings {
        let kafka = &self.settings().kafka;
        let mut properties = kafka.properties.clone();
        if let Some(password) = &self.kafka_password {
            properties.insert("sasl.password".to_owned(), password.expose().to_owned());
        }
        KafkaSettings {
            fetch_wait_max_ms: kafka.fetch_wait_max_ms,
            topic_check_ms: kafka.topic_check_ms,
            queued_min_messages: kafka.queued_records,
            queued_max_kbytes: kafka.queued_kib,
            headers: self.catalog.topics.iter().any(|topic| topic.decoder.reads_headers()),
            properties,
            ..KafkaSettings::new(kafka.brokers.clone(), kafka.group.clone())
        }
    }

    pub fn redis_settings(&self) -> RedisSettings {
        let redis = &self.settings().redis;
        RedisSettings {
            url: redis.url.clone(),
            username: redis.username.clone(),
            password: self.redis_password.clone(),
            prefix: redis.prefix.clone(),
            connect_timeout_ms: redis.connect_timeout_ms,
            response_timeout_ms: redis.response_timeout_ms,
            changes_max: redis.changes_max,
            tls_ca_file: redis.tls_ca_file.clone(),
            tls_cert_file: redis.tls_cert_file.clone(),
            tls_key_file: redis.tls_key_file.clone(),
        }
    }

    pub fn maintain_settings(&self, once: bool) -> MaintainSettings {
        let settings = self.settings();
        let maintain = &settings.maintain;
        let millis = std::time::Duration::from_millis;
        MaintainSettings {
            read: ReadSettings {
                batch_records_max: maintain.read_records_max,
                partition_refresh: millis(settings.kafka.partition_refresh_ms),
                through: None,
            },
            publish: PublishSettings {
                groups_per_script_max: maintain.groups_per_script_max,
                beat_ms: maintain.beat_ms,
                takeover_ms: maintain.takeover_ms,
            },
            succession: self.held.as_ref().map(Held::succession).unwrap_or_default(),
            read_batches_max: maintain.read_batches_max,
            commit_records_max: maintain.commit_records_max,
            confirm: millis(maintain.confirm_ms),
            backoff: Backoff { cap_ms: maintain.backoff_max_ms, ..Backoff::default() },
            once,
            records_per_second_max: None,
            random: rand::random(),
        }
    }

    pub fn route_settings(&self) -> RouteSettings {
        let route = &self.settings().route;
        RouteSettings {
            reconcile: match route.reconciled_within_seconds {
                0 => ReconcilePolicy::NotAsked,
                seconds => ReconcilePolicy::WithinSeconds(seconds),
            },
            groups_max: route.groups_max,
            base_ms_max: route.base_seconds_max * 1000,
        }
    }

    pub fn open_log(&self) -> PortResult<KafkaLog> {
        self.open_log_with(&self.kafka_settings())
    }

    /// A log whose questions are given up soon and asked again: a maintainer that is told to end waits for one
    /// that is under way.
    pub fn open_log_of_maintainer(&self) -> PortResult<KafkaLog> {
        self.open_log_with(&KafkaSettings { request_timeout_ms: 3_000, ..self.kafka_settings() })
    }

    fn open_log_with(&self, settings: &KafkaSettings) -> PortResult<KafkaLog> {
        let topics: Vec<String> = self.catalog.topics.iter().map(|topic| topic.name.to_string()).collect();
        KafkaLog::open(settings, &topics)
    }

    pub fn open_store(&self) -> PortResult<RedisStore> {
        RedisStore::new(&self.redis_settings())
    }

    pub fn open_writer(&self) -> PortResult<SqliteWriter> {
        SqliteWriter::open(&self.base_settings(), &self.catalog, rand::random(), self.clock.wall_ms())
    }

    pub fn open_reader(&self) -> PortResult<SqliteReader> {
        SqliteReader::open(&self.base_settings(), &self.catalog)
    }

    /// The book of uses, for reading it.
    pub fn use_book(&self) -> PortResult<SqliteUseBook> {
        SqliteUseBook::open(&self.base_settings(), self.settings().route.uses_days_max)
    }

    /// The book of uses where it is kept; a base that cannot be written to counts nothing.
    pub fn open_use_book(&self) -> Option<SqliteUseBook> {
        if !self.settings().route.count_uses {
            return None;
        }
        match self.use_book() {
            Ok(book) => Some(book),
            Err(error) => {
                tracing::debug!(%error, "questions are not counted");
                None
            }
        }
    }

    /// The view named, or the only one.
    pub fn view(&self, object: Option<&str>) -> Result<usize, CommandError> {
        let names: Vec<&str> = self.catalog.views.iter().map(|entry| entry.view.object.as_str()).collect();
        match object {
            Some(object) => self.catalog.view(object).ok_or_else(|| {
                CommandError::usage(
                    format!("there is no view {object}"),
                    format!("name one of: {}", names.join(", ")),
                )
            }),
            None if names.len() == 1 => Ok(0),
            None => Err(CommandError::usage(
                "there are several views",
                format!("name one with --view: {}", names.join(", ")),
            )),
        }
    }
}

/// A secret from a variable, or from the file that `<variable>_FILE` names. Never an argument: those are seen
/// by everybody on the machine.
fn secret(variable: &str) -> Result<Option<Secret>, CommandError> {
    if let Ok(text) = std::env::var(variable) {
        return Ok(Some(Secret::new(text)));
    }
    let Ok(file) = std::env::var(format!("{variable}_FILE")) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(Path::new(&file)).map_err(|error| {
        ConfigError::new(
            format!("environment {variable}_FILE"),
            format!("{file}: {error}"),
            "name a readable file that holds the secret alone",
        )
    })?;
    Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
}
