//! Looks up in a view's stream of changes which publish showed a commit first. Reads alone.

use redis::Value;

use super::RedisSettings;
use super::connect::Connector;
use super::keys::KeySpace;
use super::trouble::{from_redis, unexpected_reply};
use super::values::{fields, sequence, text};
use crate::ports::PortResult;

/// Newest entries that are looked through; the stream keeps about as many.
const ENTRIES_MAX: usize = 2_000;

/// A publish as the stream tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishEntry {
    pub version: u64,
    pub watermark: String,
    /// By the clock of Redis, in milliseconds since the epoch.
    pub at_ms: i64,
    pub groups: u64,
}

/// The first publish of a version at or after `version`; `None` where the stream does not tell, because it begins
/// later or that version is not published yet.
pub fn first_publish_from(
    settings: &RedisSettings,
    object: &str,
    version: u64,
) -> PortResult<Option<PublishEntry>> {
    let connector = Connector::new(settings)?;
    let key = KeySpace::new(&settings.prefix)?.view(object)?.changes;
    let doing = "reading the stream of changes";
    let reply: Value = redis::cmd("XREVRANGE")
        .arg(&key)
        .arg("+")
        .arg("-")
        .arg("COUNT")
        .arg(ENTRIES_MAX)
        .query(&mut connector.open()?)
        .map_err(|error| from_redis(connector.address(), doing, &key, &error))?;
    let entries = entries(reply).ok_or_else(|| unexpected_reply(connector.address(), doing, &key))?;
    // Newest first. Only an older publish beside it proves that an entry is the first of its kind.
    let older = entries.iter().position(|entry| entry.version < version);
    Ok(older.and_then(|older| older.checked_sub(1)).and_then(|at| entries.get(at).cloned()))
}

/// The entries of `[[id, [field, value, …]], …]`.
fn entries(reply: Value) -> Option<Vec<PublishEntry>> {
    sequence(reply)?
        .into_iter()
        .map(|entry| {
            let [id, told]: [Value; 2] = sequence(entry)?.try_into().ok()?;
            let told = fields(told)?;
            let number = |name: &str| told.get(name).and_then(|text| text.parse().ok());
            Some(PublishEntry {
                version: number("version")?,
                watermark: told.get("watermark").cloned().unwrap_or_default(),
                at_ms: text(id)?.split('-').next()?.parse().ok()?,
                groups: number("groups").unwrap_or(0),
            })
        })
        .collect()
}
