//! Waits for a view's publishes on its stream of changes, as a dashboard that wants to be woken does. Reads alone.

use std::time::Duration;

use redis::{Connection, Value};

use super::RedisSettings;
use super::connect::Connector;
use super::keys::KeySpace;
use super::trouble::from_redis;
use super::values::{sequence, text};
use crate::ports::{PortError, PortResult};

/// Most entries that one wait takes.
const ENTRIES_MAX: usize = 1_000;

/// A blocking reader of one view's stream, from the moment it is made.
pub struct ChangeFeed {
    connector: Connector,
    connection: Option<Connection>,
    key: String,
    /// Id of the last entry seen; `$` before the first.
    last: String,
    wait_max: Duration,
}

impl ChangeFeed {
    pub fn open(settings: &RedisSettings, object: &str) -> PortResult<Self> {
        Ok(ChangeFeed {
            connector: Connector::new(settings)?,
            connection: None,
            key: KeySpace::new(&settings.prefix)?.view(object)?.changes,
            last: "$".to_owned(),
            // The connection itself gives up after the response time-out.
            wait_max: Duration::from_millis(settings.response_timeout_ms / 2).max(Duration::from_millis(1)),
        })
    }

    /// Waits up to `wait` for publishes. Returns how many entries came.
    pub fn wait(&mut self, wait: Duration) -> PortResult<usize> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connector.open()?,
        };
        let wait_ms = wait.min(self.wait_max).as_millis().max(1) as u64;
        let reply: Value = redis::cmd("XREAD")
            .arg("COUNT")
            .arg(ENTRIES_MAX)
            .arg("BLOCK")
            .arg(wait_ms)
            .arg("STREAMS")
            .arg(&self.key)
            .arg(&self.last)
            .query(&mut connection)
            .map_err(|error| {
                from_redis(self.connector.address(), "waiting for changes", &self.key, &error)
            })?;
        self.connection = Some(connection);
        if reply == Value::Nil {
            return Ok(0);
        }
        let ids = ids(reply).ok_or_else(|| {
            self.connection = None;
            PortError::transient(format!(
                "Redis at {}: the stream {} answered in an unexpected form",
                self.connector.address(),
                self.key
            ))
        })?;
        if let Some(last) = ids.last() {
            self.last.clone_from(last);
        }
        Ok(ids.len())
    }
}

/// The ids of `[[key, [[id, fields], …]]]`.
fn ids(reply: Value) -> Option<Vec<String>> {
    let stream = sequence(reply)?.into_iter().next()?;
    let entries = sequence(stream)?.into_iter().nth(1)?;
    sequence(entries)?.into_iter().map(|entry| text(sequence(entry)?.into_iter().next()?)).collect()
}
