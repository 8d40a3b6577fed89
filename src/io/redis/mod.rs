//! Views in Redis 7.0 or later (or a server that speaks its protocol). Knows how a publish is written and read;
//! must not know what the groups mean, nor decide when to try again.
//!
//! - `keys`: the names of a view's keys; `publish.lua` and `read.lua`: the atomic steps on the server
//! - `connect`: settings to a connection; `trouble`: what went wrong, in words an operator can act on
//! - `script`, `publish`, `values`: running them, their arguments and their replies
//! - `store`: the port [`ViewStore`](crate::ports::ViewStore); `probe`: whether the server is fit for it
//! - `feed`: waiting for a view's publishes; `history`: which of them showed a commit; `remove`: taking a view away
//! - `private_server`: a server of our own, for the demo and for tests

mod connect;
mod feed;
mod history;
mod keys;
mod plain;
mod private_server;
mod probe;
mod publish;
mod range;
mod remove;
mod script;
mod store;
mod survey;
mod trouble;
mod values;

use std::fmt;
use std::path::PathBuf;

use crate::pure::secret::Secret;

pub use feed::ChangeFeed;
pub use history::{PublishEntry, first_publish_from};
pub use keys::{KeySpace, ViewKeys};
pub use plain::read_pipelined;
pub use private_server::{PrivateRedis, PrivateRedisOptions, TlsFiles};
pub use probe::StoreFacts;
pub(crate) use publish::{change_keys, check as check_publish};
pub use remove::remove_view;
pub use store::RedisStore;

/// The text of the read-only script that dashboards call with `EVAL_RO`; its header documents it.
pub const READ_SCRIPT: &str = include_str!("read.lua");

/// How to reach Redis, and how to behave towards it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://`, `rediss://` (TLS) or `unix://`; may carry user, password and database number.
    pub url: String,
    /// Goes before the user in the URL.
    pub username: Option<String>,
    /// Goes before the password in the URL.
    pub password: Option<Secret>,
    /// First part of every key.
    pub prefix: String,
    pub connect_timeout_ms: u64,
    /// Longest wait for an answer; after it the outcome is unknown.
    pub response_timeout_ms: u64,
    /// About how many entries the stream of changes keeps; 0 writes none.
    pub changes_max: u64,
    /// Certificates (PEM) to trust instead of the system's, for `rediss://`.
    pub tls_ca_file: Option<PathBuf>,
    /// Client certificate and key (PEM), where the server asks for them; both or neither.
    pub tls_cert_file: Option<PathBuf>,
    pub tls_key_file: Option<PathBuf>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        RedisSettings {
            url: "redis://127.0.0.1:6379".to_owned(),
            username: None,
            password: None,
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

impl fmt::Debug for RedisSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RedisSettings")
            .field("url", &redact_url(&self.url))
            .field("username", &self.username)
            .field("password", &self.password)
            .field("prefix", &self.prefix)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("response_timeout_ms", &self.response_timeout_ms)
            .field("changes_max", &self.changes_max)
            .field("tls_ca_file", &self.tls_ca_file)
            .field("tls_cert_file", &self.tls_cert_file)
            .field("tls_key_file", &self.tls_key_file)
            .finish()
    }
}

/// A Redis URL without what may be secret in it, whether it is well-formed or not.
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'+') => {
            (scheme, rest)
        }
        _ => return "(not shown: not of the form redis://host:port)".to_owned(),
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://***@{}", without_query(host)),
        None => format!("{scheme}://{}", without_query(rest)),
    }
}

fn without_query(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_url_shows_its_password() {
        let cases = [
            ("redis://h:1/2", "redis://h:1/2"),
            ("redis://user:planted@h:1", "redis://***@h:1"),
            ("rediss://:planted@h", "rediss://***@h"),
            ("redis://:pla@nted/planted@h", "redis://***@h"),
            ("unix:///run/redis.sock?pass=planted&db=1", "unix:///run/redis.sock"),
            ("planted", "(not shown: not of the form redis://host:port)"),
            ("user:planted@h", "(not shown: not of the form redis://host:port)"),
            ("redis:/x:planted://y", "(not shown: not of the form redis://host:port)"),
        ];
        for (url, shown) in cases {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn settings_print_without_secrets() {
        let settings = RedisSettings {
            url: "redis://user:planted@h:1".to_owned(),
            password: Some(Secret::new("planted")),
            ..RedisSettings::default()
        };
        assert!(!format!("{settings:?}").contains("planted"));
    }
}
