//! From settings to librdkafka's properties: what the user may set, what driftless fixes itself, and which
//! values must never be shown. Must not know who reads or writes with them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::trouble;
use crate::ports::{PortError, PortResult};

/// How to reach the brokers and how much to read ahead.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `host:port`, several with commas.
    pub brokers: String,
    /// Name of the consumer group to which progress is reported. It is never read back.
    pub group: String,
    /// Handed to librdkafka as they are: TLS, SASL, timeouts, sizes. Those that driftless sets itself are refused.
    pub properties: BTreeMap<String, String>,
    /// How long a broker may hold a fetch that finds nothing. The end of a partition is noticed at most this
    /// late; records are not delayed by it.
    pub fetch_wait_max_ms: u32,
    /// Records read ahead for each partition.
    pub queued_min_messages: u32,
    /// Kibibytes read ahead for each partition; bounds the memory together with the number of partitions.
    pub queued_max_kbytes: u32,
    /// How long a question (partitions, bounds, creating a topic) may take.
    pub request_timeout_ms: u32,
    /// The same passing trouble is reported at most this often.
    pub trouble_repeat_ms: u32,
    /// How often it is asked whether a topic is still the same one, and not another of its name. 0 never asks,
    /// for brokers that cannot tell.
    pub topic_check_ms: u32,
    /// Hand out the headers of records, which costs a little each.
    pub headers: bool,
}

impl KafkaSettings {
    /// Settings with defaults for everything else.
    pub fn new(brokers: impl Into<String>, group: impl Into<String>) -> Self {
        KafkaSettings {
            brokers: brokers.into(),
            group: group.into(),
            properties: BTreeMap::new(),
            fetch_wait_max_ms: 50,
            queued_min_messages: 100_000,
            queued_max_kbytes: 65_536,
            request_timeout_ms: 10_000,
            trouble_repeat_ms: 5_000,
            topic_check_ms: 5_000,
            headers: false,
        }
    }

    pub(super) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms.into())
    }

    pub(super) fn topic_check(&self) -> Duration {
        Duration::from_millis(self.topic_check_ms.into())
    }

    pub(super) fn trouble_repeat(&self) -> Duration {
        Duration::from_millis(self.trouble_repeat_ms.into())
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: BTreeMap<&str, &str> = self
            .properties
            .iter()
            .map(|(name, value)| {
                let value = if is_secret(name) { "(hidden)" } else { value };
                (name.as_str(), value)
            })
            .collect();
        out.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("group", &self.group)
            .field("properties", &shown)
            .field("fetch_wait_max_ms", &self.fetch_wait_max_ms)
            .field("queued_min_messages", &self.queued_min_messages)
            .field("queued_max_kbytes", &self.queued_max_kbytes)
            .field("request_timeout_ms", &self.request_timeout_ms)
            .field("trouble_repeat_ms", &self.trouble_repeat_ms)
            .field("topic_check_ms", &self.topic_check_ms)
            .finish()
    }
}

/// Properties that driftless sets itself, each with the reason: another value would break a promise.
pub(super) const FIXED: &[(&str, &str)] = &[
    ("bootstrap.servers", "use the setting for brokers"),
    ("metadata.broker.list", "use the setting for brokers"),
    ("group.id", "use the setting for the group"),
    ("enable.auto.commit", "positions live in the base and nowhere else"),
    ("auto.commit.enable", "positions live in the base and nowhere else"),
    ("enable.auto.offset.store", "positions live in the base and nowhere else"),
    ("offset.store.method", "positions live in the base and nowhere else"),
    ("auto.offset.reset", "an offset that the log no longer holds must stop the view, not skip records"),
    ("isolation.level", "records of aborted transactions must not be read"),
    ("enable.partition.eof", "the end of a partition must be noticed"),
    ("allow.auto.create.topics", "reading must not create a topic whose name was mistyped"),
    ("enable.idempotence", "a retry must not write a record twice or out of order"),
    ("acks", "a record counts as written when all replicas have it"),
    ("request.required.acks", "a record counts as written when all replicas have it"),
    ("transactional.id", "driftless writes without transactions"),
    ("fetch.wait.max.ms", "use the setting fetch_wait_max_ms"),
    ("queued.min.messages", "use the setting queued_min_messages"),
    ("queued.max.messages.kbytes", "use the setting queued_max_kbytes"),
];

/// Whether a property's value must not appear in a log, an error or a report.
pub(super) fn is_secret(name: &str) -> bool {
    const MARKS: &[&str] =
        &["password", "passphrase", "secret", "token", "key.pem", "ssl_key", "jaas", "oauthbearer.config"];
    MARKS.iter().any(|mark| name.contains(mark))
}

/// What every client shares: where the brokers are and what the user set.
pub(super) fn client_config(settings: &KafkaSettings) -> PortResult<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    // Defaults that the user may change.
    config
        .set("client.id", "driftless")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.nagle.disable", "true");
    for (name, value) in &settings.properties {
        if let Some((_, reason)) = FIXED.iter().find(|(fixed, _)| fixed == name) {
            return Err(PortError::permanent(format!("Kafka property {name} cannot be set: {reason}"))
                .with_hint(format!("remove {name} from the Kafka properties")));
        }
        config.set(name, value);
    }
    config.set("bootstrap.servers", &settings.brokers);
    Ok(config)
}

/// A client that reads: only what was asked for, only from where it was asked, nothing written back.
pub(super) fn consumer_config(settings: &KafkaSettings) -> PortResult<ClientConfig> {
    let mut config = client_config(settings)?;
    for (name, value) in [
        // Corruption on the way must not become a wrong number.
        ("check.crcs", "true"),
        // A partition whose read-ahead was full is asked again at once after it has been emptied.
        ("fetch.queue.backoff.ms", "5"),
    ] {
        if config.get(name).is_none() {
            config.set(name, value);
        }
    }
    config
        .set("group.id", &settings.group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false")
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        .set("queued.min.messages", settings.queued_min_messages.to_string())
        .set("queued.max.messages.kbytes", settings.queued_max_kbytes.to_string());
    Ok(config)
}

/// Turns librdkafka's refusal of a configuration into an error that shows no secret.
pub(super) fn refused(
    settings: &KafkaSettings,
    client: &str,
    error: &rdkafka::error::KafkaError,
) -> PortError {
    use rdkafka::error::KafkaError;
    let (what, reason) = match error {
        KafkaError::ClientConfig(_, reason, name, _) if is_secret(name) => {
            let reason =
                if lacks_tls(reason) { reason.as_str() } else { "its value was refused (not shown)" };
            (format!("Kafka property {name}: {reason}"), reason)
        }
        KafkaError::ClientConfig(_, reason, name, _) => {
            (format!("Kafka property {name}: {reason}"), reason.as_str())
        }
        KafkaError::ClientCreation(reason) => {
            (format!("Kafka {client} for {}: {reason}", settings.brokers), reason.as_str())
        }
        other => {
            return trouble::of_client(
                other,
                format!("cannot make a Kafka {client} for {}", settings.brokers),
            );
        }
    };
    if lacks_tls(reason) {
        return PortError::permanent(format!(
            "{what} (this driftless was built without the `kafka-tls` feature)"
        ))
        .with_hint(
            "build with `cargo build --release --features kafka-tls` (needs libssl-dev), \
             or reach the brokers over a plaintext listener",
        );
    }
    PortError::permanent(what)
        .with_hint("names and values of Kafka properties are those of librdkafka's CONFIGURATION.md")
}

/// librdkafka's several ways to say that it was compiled without OpenSSL.
fn lacks_tls(reason: &str) -> bool {
    [
        "OpenSSL not available",
        "not supported in this build",
        "not available at build time",
        "No provider for SASL mechanism",
        "recompile librdkafka",
    ]
    .iter()
    .any(|mark| reason.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> KafkaSettings {
        let mut settings = KafkaSettings::new("127.0.0.1:1", "group");
        settings.properties.insert(name.into(), value.into());
        settings
    }

    #[test]
    fn a_property_that_driftless_fixes_is_refused_by_name() {
        for (name, _) in FIXED {
            let error = consumer_config(&with(name, "x")).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert!(!error.is_transient());
        }
    }

    #[test]
    fn what_the_user_sets_wins_over_a_default() {
        let config = consumer_config(&with("check.crcs", "false")).unwrap();
        assert_eq!(config.get("check.crcs"), Some("false"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
    }

    #[test]
    fn secrets_are_not_shown() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.keystore.password",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
        ] {
            let settings = with(name, "hunter2");
            assert!(!format!("{settings:?}").contains("hunter2"), "{name}");
        }
        assert!(format!("{:?}", with("sasl.username", "alice")).contains("alice"));
    }
}
