//! What a client that knows nothing of driftless does to read a whole view: the measure that a benchmark compares
//! with. Never used to answer anything.

use std::collections::HashMap;

use super::RedisSettings;
use super::connect::Connector;
use super::keys::KeySpace;
use super::trouble::from_redis;
use crate::ports::PortResult;

/// Rows of one pipeline.
const PIPELINE: usize = 1_000;

/// Takes the group keys from the index and reads every row by pipelined HGETALL. Returns how many rows and fields
/// there were.
pub fn read_pipelined(settings: &RedisSettings, object: &str) -> PortResult<(u64, u64)> {
    let connector = Connector::new(settings)?;
    let keys = KeySpace::new(&settings.prefix)?.view(object)?;
    let mut connection = connector.open()?;
    let mut read = || -> redis::RedisResult<(u64, u64)> {
        let (mut rows, mut fields) = (0, 0);
        let index: Vec<String> =
            redis::cmd("ZRANGE").arg(&keys.index).arg(0).arg(-1).query(&mut connection)?;
        for members in index.chunks(PIPELINE) {
            let mut pipeline = redis::Pipeline::with_capacity(members.len());
            for member in members {
                pipeline.cmd("HGETALL").arg(keys.row(member));
            }
            let replies: Vec<HashMap<String, String>> = pipeline.query(&mut connection)?;
            rows += replies.len() as u64;
            fields += replies.iter().map(|row| row.len() as u64).sum::<u64>();
        }
        Ok((rows, fields))
    };
    read().map_err(|error| from_redis(connector.address(), "reading all rows", &keys.index, &error))
}
