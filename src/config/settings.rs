//! The tree of settings, each with unit, default and limits beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::topic::TopicSection;
use super::{ConfigError, RouteSection};
use crate::pure::schedule::Schedule;

/// Everything that can be set. Unknown names are mistakes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Contract files, relative to the configuration; a name may hold one `*`.
    pub contracts: Vec<String>,
    #[serde(default)]
    pub base: BaseSection,
    #[serde(default)]
    pub kafka: KafkaSection,
    #[serde(default)]
    pub redis: RedisSection,
    #[serde(default)]
    pub maintain: Maintain,
    #[serde(default)]
    pub route: RouteSection,
    #[serde(default)]
    pub reconcile: ReconcileSection,
    #[serde(rename = "table")]
    pub tables: Vec<TableSection>,
    #[serde(rename = "topic")]
    pub topics: Vec<TopicSection>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BaseSection {
    /// The SQLite file, on a local disk. Default `driftless.db`.
    pub path: PathBuf,
    /// Names the history that this base holds; a standby has the same one, a rebuild a new one. Default `1`.
    #[serde(deserialize_with = "text")]
    pub generation: String,
    /// `normal` (default): Kafka is the durable log. `full`: every commit reaches the disk.
    pub synchronous: Synchronous,
    /// Page cache of each connection in MiB, 1 to 65,536. Default 64.
    pub cache_mib: u32,
    /// Entries of the change history that are kept, 0 to 10^12. Default 1,000,000 (about 100 MB).
    pub history_changes_max: u64,
    /// Size of the WAL from which it is written back, in MiB, 1 to 4,096. Default 64.
    pub wal_checkpoint_mib: u64,
    /// How long a generation that was live goes on following the log for a rollback, in hours, 0 to 87,600.
    /// Default 24.
    pub rollback_hours: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    Normal,
    Full,
}

impl Default for BaseSection {
    fn default() -> Self {
        BaseSection {
            path: "driftless.db".into(),
            generation: "1".to_owned(),
            synchronous: Synchronous::Normal,
            cache_mib: 64,
            history_changes_max: 1_000_000,
            wal_checkpoint_mib: 64,
            rollback_hours: 24,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaSection {
    /// `host:port, …`. Default `127.0.0.1:9092`.
    pub brokers: String,
    /// Consumer group that positions are told to, as advice for lag tools. Default `driftless`.
    #[serde(deserialize_with = "text")]
    pub group: String,
    /// How long a broker may hold a fetch back when nothing is new, in ms, 1 to 60,000. Default 100.
    pub fetch_wait_max_ms: u32,
    /// Records fetched ahead a partition, 1 to 1,000,000. Default 20,000.
    pub queued_records: u32,
    /// Bytes fetched ahead, in KiB, 64 to 2,097,151. Default 32,768.
    pub queued_kib: u32,
    /// How often new partitions are looked for, in ms, 100 to 3,600,000. Default 5,000.
    pub partition_refresh_ms: u64,
    /// How often it is asked whether a topic is still the same one, and not another of its name, in ms, up to
    /// 3,600,000. 0 never asks, for brokers that cannot tell. Default 5,000.
    pub topic_check_ms: u32,
    /// Passed on to librdkafka: TLS, SASL and what else an installation needs.
    pub properties: BTreeMap<String, String>,
}

impl Default for KafkaSection {
    fn default() -> Self {
        KafkaSection {
            brokers: "127.0.0.1:9092".to_owned(),
            group: "driftless".to_owned(),
            fetch_wait_max_ms: 100,
            queued_records: 20_000,
            queued_kib: 32_768,
            partition_refresh_ms: 5_000,
            topic_check_ms: 5_000,
            properties: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSection {
    /// `redis://` or `rediss://` (TLS), with user, password and database where needed. Default
    /// `redis://127.0.0.1:6379/0`.
    pub url: String,
    /// Goes before the one in the URL.
    pub username: Option<String>,
    /// First part of every key. Default `driftless`.
    #[serde(deserialize_with = "text")]
    pub prefix: String,
    /// In ms, 1 to 600,000. Default 2,000.
    pub connect_timeout_ms: u64,
    /// Longest wait for an answer, in ms, 1 to 600,000. Default 5,000.
    pub response_timeout_ms: u64,
    /// Entries that a view's stream of changes keeps, about; 0 to 1,000,000. Default 1,000.
    pub changes_max: u64,
    /// Certificates (PEM) to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Client certificate and key (PEM); both or neither.
    pub tls_cert_file: Option<PathBuf>,
    pub tls_key_file: Option<PathBuf>,
}

impl Default for RedisSection {
    fn default() -> Self {
        RedisSection {
            url: "redis://127.0.0.1:6379/0".to_owned(),
            username: None,
            prefix: "driftless".to_owned(),
            connect_timeout_ms: 2_000,
            response_timeout_ms: 5_000,
            changes_max: 1_000,
            tls_ca_file: None,
            tls_cert_file: None,
            tls_key_file: None,
        }
    }
}

/// Text that may look like a number: `generation = 2` means `"2"`.
fn text<'de, D: serde::Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    match toml::Value::deserialize(input)? {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        other => Err(serde::de::Error::custom(format!("invalid type: {}, expected text", other.type_str()))),
    }
}

/// The loops' own limits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Maintain {
    /// Records that are handed on at once, 1 to 1,000,000. Default 2,000.
    pub read_records_max: usize,
    /// Batches that wait between reading and applying, 1 to 1,000. Default 4.
    pub read_batches_max: usize,
    /// Records that one commit applies at most, 1 to 1,000,000. Default 10,000.
    pub commit_records_max: usize,
    /// Groups that one publish script writes at most, 1 to 10,000. Default 2,000.
    pub groups_per_script_max: usize,
    /// An idle publisher says that it is alive this often, in ms, 10 to 60,000. Default 1,000.
    pub beat_ms: u64,
    /// How long another publisher must be silent before its view is taken over, in ms, 100 to 3,600,000.
    /// Default 5,000.
    pub takeover_ms: u64,
    /// How often the log's ends are asked for, in ms, 10 to 600,000. Default 500.
    pub confirm_ms: u64,
    /// Longest wait between attempts to reach Redis again, in ms, 10 to 600,000. Default 5,000.
    pub backoff_max_ms: u64,
}

impl Default for Maintain {
    fn default() -> Self {
        Maintain {
            read_records_max: 2_000,
            read_batches_max: 4,
            commit_records_max: 10_000,
            groups_per_script_max: 2_000,
            beat_ms: 1_000,
            takeover_ms: 5_000,
            confirm_ms: 500,
            backoff_max_ms: 5_000,
        }
    }
}

/// Reconcile passes inside `driftless run`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReconcileSection {
    /// `15m`, `2h`, `1d`: so long after the last pass; `02:30`: daily at that time, UTC. Empty: never. Default empty.
    pub schedule: String,
    /// The part of one thread's time that a pass may use, 0.01 to 1. Default 0.25.
    pub share: f64,
    /// Have drift mended at once. Default false: it puts the view under quarantine.
    pub repair: bool,
}

impl Default for ReconcileSection {
    fn default() -> Self {
        ReconcileSection { schedule: String::new(), share: 0.25, repair: false }
    }
}

impl ReconcileSection {
    /// When passes are due; `None` is never.
    pub fn schedule(&self) -> Option<Schedule> {
        Schedule::parse(&self.schedule)
    }

    fn check(&self, place_of: &dyn Fn(&str) -> String) -> Result<(), ConfigError> {
        if !self.schedule.is_empty() && self.schedule().is_none() {
            return Err(ConfigError::new(
                place_of("reconcile.schedule"),
                format!("{:?} is no schedule", self.schedule),
                "write an interval from 1s to 366d such as \"15m\", \"2h\" or \"1d\", or a time of day such as \"02:30\" (UTC)",
            ));
        }
        if !(0.01..=1.0).contains(&self.share) {
            return Err(ConfigError::new(
                place_of("reconcile.share"),
                format!("{} is not allowed", self.share),
                "give a number from 0.01 to 1",
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSection {
    pub name: String,
    pub primary_key: Vec<String>,
    /// `name = "text" | "integer" | "date"`, with `?` behind the type where null is allowed.
    pub columns: toml::Table,
}

impl Settings {
    /// Checks the limits that types cannot. `place_of` says where a setting's value comes from.
    pub(super) fn check(&self, place_of: &dyn Fn(&str) -> String) -> Result<(), ConfigError> {
        let within = |path: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::new(
                place_of(path),
                format!("{value} is not allowed"),
                format!("give a number from {least} to {most}"),
            ))
        };
        within("base.cache_mib", self.base.cache_mib.into(), 1, 65_536)?;
        within("base.history_changes_max", self.base.history_changes_max, 0, 1_000_000_000_000)?;
        within("base.wal_checkpoint_mib", self.base.wal_checkpoint_mib, 1, 4_096)?;
        within("base.rollback_hours", self.base.rollback_hours.into(), 0, 87_600)?;
        within("kafka.fetch_wait_max_ms", self.kafka.fetch_wait_max_ms.into(), 1, 60_000)?;
        within("kafka.queued_records", self.kafka.queued_records.into(), 1, 1_000_000)?;
        within("kafka.queued_kib", self.kafka.queued_kib.into(), 64, 2_097_151)?;
        within("kafka.partition_refresh_ms", self.kafka.partition_refresh_ms, 100, 3_600_000)?;
        within("kafka.topic_check_ms", self.kafka.topic_check_ms.into(), 0, 3_600_000)?;
        within("redis.connect_timeout_ms", self.redis.connect_timeout_ms, 1, 600_000)?;
        within("redis.response_timeout_ms", self.redis.response_timeout_ms, 1, 600_000)?;
        within("redis.changes_max", self.redis.changes_max, 0, 1_000_000)?;
        let maintain = &self.maintain;
        within("maintain.read_records_max", maintain.read_records_max as u64, 1, 1_000_000)?;
        within("maintain.read_batches_max", maintain.read_batches_max as u64, 1, 1_000)?;
        within("maintain.commit_records_max", maintain.commit_records_max as u64, 1, 1_000_000)?;
        if maintain.commit_records_max < maintain.read_records_max {
            return Err(ConfigError::new(
                place_of("maintain.commit_records_max"),
                format!("{} is less than maintain.read_records_max", maintain.commit_records_max),
                "a commit takes at least what is read at once: lower maintain.read_records_max as well",
            ));
        }
        within("maintain.groups_per_script_max", maintain.groups_per_script_max as u64, 1, 10_000)?;
        within("maintain.beat_ms", maintain.beat_ms, 10, 60_000)?;
        within("maintain.takeover_ms", maintain.takeover_ms, 100, 3_600_000)?;
        within("maintain.confirm_ms", maintain.confirm_ms, 10, 600_000)?;
        within("maintain.backoff_max_ms", maintain.backoff_max_ms, 10, 600_000)?;
        self.route.check(within)?;
        self.reconcile.check(place_of)?;
        if self.base.generation.is_empty() || self.base.generation.len() > 64 {
            return Err(ConfigError::new(
                place_of("base.generation"),
                "it must have 1 to 64 characters",
                "name the generation, e.g. \"2\"",
            ));
        }
        Ok(())
    }
}
