//! Takes away everything that a view has in Redis: for demo, acceptance and benchmarks, which publish under a
//! prefix of their own.

use super::RedisSettings;
use super::connect::Connector;
use super::keys::KeySpace;
use super::trouble::from_redis;
use crate::ports::PortResult;

/// Keys that one step looks at, about.
const SCAN_COUNT: usize = 1_000;

/// Deletes a view's meta, index, stream and every row. Nobody may be publishing it.
pub fn remove_view(settings: &RedisSettings, object: &str) -> PortResult<()> {
    let connector = Connector::new(settings)?;
    let keys = KeySpace::new(&settings.prefix)?.view(object)?;
    let mut connection = connector.open()?;
    let mut remove = || -> redis::RedisResult<()> {
        redis::cmd("UNLINK")
            .arg(&keys.meta)
            .arg(&keys.index)
            .arg(&keys.changes)
            .query::<u64>(&mut connection)?;
        let mut cursor = 0u64;
        loop {
            let (next, rows): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(keys.rows_pattern())
                .arg("COUNT")
                .arg(SCAN_COUNT)
                .query(&mut connection)?;
            if !rows.is_empty() {
                redis::cmd("UNLINK").arg(rows).query::<u64>(&mut connection)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    };
    remove().map_err(|error| from_redis(connector.address(), "removing the view", &keys.meta, &error))
}
