//! The port `ViewStore` on a real server. Sends each call once: what an error left behind is for the caller to read.

use redis::{Connection, RedisError, RedisResult, Value};

use super::connect::Connector;
use super::keys::{KeySpace, ViewKeys};
use super::probe::{self, StoreFacts};
use super::publish::{Damage, check, parse_reply, write_arguments};
use super::range::{self, Bounds, Guess};
use super::trouble::{from_redis, unexpected_reply};
use super::values::{fields, row_fields, sequence, text};
use super::{RedisSettings, script, survey};
use crate::ports::{
    KeyScan, Meta, Outline, PortError, PortResult, RangeRead, StoredFields, StoredGroup, ViewStore,
};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::{Publish, PublishReply};

/// Most entries of a [`ViewStore::read_range`], as `read.lua` has it.
const RANGE_LIMIT_MAX: usize = 1_000;

/// One client of one Redis server, for one thread.
///
/// Connects on first use. After any error the connection is dropped and the next call opens a new one, so a
/// late answer can never be taken for another's. The only thing sent twice is a script that the server said it
/// does not know, which is as much as saying that it has not run it.
///
/// A publish is refused with [`PublishReply::CountDiffers`] where the index does not count as many groups as
/// the meta says. A sweep, which has just counted the index itself, gives its own count as value of the
/// meta field `groups`; then that count has to hold instead. The field stored is always the count afterwards.
pub struct RedisStore {
    connector: Connector,
    connection: Option<Connection>,
    key_space: KeySpace,
    changes_max: u64,
    /// Keys of the slice that a walk reads next.
    guess: Option<Guess>,
}

impl RedisStore {
    /// Checks the settings; the server is reached for on first use.
    pub fn new(settings: &RedisSettings) -> PortResult<Self> {
        Ok(RedisStore {
            connector: Connector::new(settings)?,
            connection: None,
            key_space: KeySpace::new(&settings.prefix)?,
            changes_max: settings.changes_max,
            guess: None,
        })
    }

    /// The server's address without credentials.
    pub fn address(&self) -> &str {
        self.connector.address()
    }

    /// Asks whether the server is fit for views: version, role, eviction, scripting. An error says that it is
    /// not; what is merely doubtful is in the warnings.
    pub fn probe(&mut self) -> PortResult<StoreFacts> {
        let keys = self.key_space.view("probe")?;
        let answers = self.call("probe", &keys.meta, |connection| probe::ask(connection, &keys))?;
        probe::judge(self.address(), answers)
    }

    /// Runs one call on the connection; an error drops it.
    fn call<T>(
        &mut self,
        doing: &str,
        key: &str,
        run: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> PortResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connector.open()?,
        };
        match run(&mut connection) {
            Ok(answer) => {
                self.connection = Some(connection);
                Ok(answer)
            }
            Err(error) => Err(from_redis(self.address(), doing, key, &error)),
        }
    }

    /// A reply that cannot be read leaves the connection in doubt too.
    fn understood<T>(&mut self, doing: &str, key: &str, reply: Option<T>) -> PortResult<T> {
        reply.ok_or_else(|| {
            self.connection = None;
            unexpected_reply(self.address(), doing, key)
        })
    }
}

impl ViewStore for RedisStore {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        let keys = self.key_space.view(object)?;
        let reply = self.call("reading the meta", &keys.meta, |connection| {
            redis::cmd("HGETALL").arg(&keys.meta).query(connection)
        })?;
        self.understood("reading the meta", &keys.meta, fields(reply))
    }

    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply> {
        check(columns, publish)?;
        let keys = self.key_space.view(object)?;
        let changes_max = self.changes_max;
        let reply = self.call("publish", &keys.meta, |connection| {
            script::PUBLISH.run(connection, |cmd| {
                write_arguments(cmd, &keys, columns, publish, changes_max);
            })
        })?;
        let parsed = self.understood("publish", &keys.meta, parse_reply(reply))?;
        parsed.map_err(|Damage(fields)| damaged_meta(self.address(), &keys, &fields))
    }

    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead> {
        let keys = self.key_space.view(object)?;
        let from = after.map_or("-".to_owned(), |after| format!("({after}"));
        let to = through.map_or("+".to_owned(), |through| format!("[{through}"));
        let limit = limit.min(RANGE_LIMIT_MAX);
        // A walk over much asks for as much as it gets.
        if limit == RANGE_LIMIT_MAX {
            let bounds = Bounds { meta: keys.meta.clone(), from: from.clone(), to: to.clone(), limit };
            let guess = self.guess.take();
            let (read, guess) = self.call("reading a range", &keys.meta, |connection| {
                range::read(connection, &keys, &bounds, guess)
            })?;
            self.guess = guess;
            if let Some(read) = read {
                return Ok(read);
            }
        }
        let reply = self.call("reading a range", &keys.meta, |connection| {
            script::READ.run(connection, |cmd| {
                cmd.arg(1).arg(&keys.meta).arg(&from).arg(&to);
                cmd.arg(limit);
            })
        })?;
        let read = self.understood("reading a range", &keys.meta, parse_range(reply))?;
        read.map_err(|member| foreign_index_entry(self.address(), &keys, &member))
    }

    fn read_rows(&mut self, object: &str, group_keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)> {
        let keys = self.key_space.view(object)?;
        let mut pipeline = redis::Pipeline::with_capacity(1 + group_keys.len());
        pipeline.atomic().ignore_errors();
        pipeline.cmd("HGETALL").arg(&keys.meta);
        for key in group_keys {
            pipeline.cmd("HGETALL").arg(keys.row(key.as_str()));
        }
        let (meta, rows) = self.call("reading rows", &keys.meta, |connection| {
            let mut replies: Vec<Value> = pipeline.query(connection)?;
            let rows = replies.split_off(1.min(replies.len()));
            let meta = replies.pop().unwrap_or(Value::Nil).extract_error()?;
            first_error_but_wrong_type(&rows)?;
            Ok((meta, rows))
        })?;
        let rows: Option<Vec<_>> = rows.into_iter().map(row_fields).collect();
        let read = fields(meta).zip(rows);
        let read = read.filter(|(_, rows)| rows.len() == group_keys.len());
        self.understood("reading rows", &keys.meta, read)
    }

    fn read_groups(&mut self, object: &str, group_keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)> {
        let keys = self.key_space.view(object)?;
        let read = self
            .call("reading groups", &keys.meta, |connection| survey::groups(connection, &keys, group_keys))?;
        self.understood("reading groups", &keys.meta, read)
    }

    fn read_outline(&mut self, object: &str) -> PortResult<Outline> {
        let keys = self.key_space.view(object)?;
        let read = self.call("reading the view's own keys", &keys.meta, |connection| {
            survey::outline(connection, &keys)
        })?;
        self.understood("reading the view's own keys", &keys.meta, read)
    }

    fn scan_strays(&mut self, object: &str, cursor: u64) -> PortResult<KeyScan> {
        let keys = self.key_space.view(object)?;
        self.call("scanning for stray keys", &keys.meta, |connection| survey::scan(connection, &keys, cursor))
    }
}

pub(super) fn first_error_but_wrong_type(rows: &[Value]) -> RedisResult<()> {
    for row in rows {
        if let Value::ServerError(error) = row
            && error.code() != "WRONGTYPE"
        {
            return Err(RedisError::from(error.clone()));
        }
    }
    Ok(())
}

/// `Some(Err(_))` is an index entry that is not text.
fn parse_range(reply: Value) -> Option<Result<RangeRead, Vec<u8>>> {
    let mut parts = sequence(reply)?.into_iter();
    let meta = fields(parts.next()?)?;
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        let [key, row]: [Value; 2] = sequence(part)?.try_into().ok()?;
        let key = match key {
            Value::BulkString(bytes) => match String::from_utf8(bytes) {
                Ok(key) => key,
                Err(error) => return Some(Err(error.into_bytes())),
            },
            other => text(other)?,
        };
        rows.push((key, fields(row)?));
    }
    Some(Ok(RangeRead { meta, rows }))
}

fn damaged_meta(address: &str, keys: &ViewKeys, fields: &str) -> PortError {
    PortError::permanent(format!(
        "Redis at {address}: the meta {} holds no numbers: {fields}; nothing was written",
        keys.meta
    ))
    .with_hint(format!(
        "somebody else wrote this key: find out who, then `DEL {}`, and the view is published anew",
        keys.meta
    ))
}

/// Refused rather than replaced: a page that ends in such an entry could not be read on from.
fn foreign_index_entry(address: &str, keys: &ViewKeys, member: &[u8]) -> PortError {
    let shown = member.escape_ascii();
    PortError::permanent(format!(
        "Redis at {address}: the index {} has the entry \"{shown}\", which is not UTF-8 and so none of driftless",
        keys.index
    ))
    .with_hint(format!("find out who wrote it, then `ZREM {} \"{shown}\"`", keys.index))
}
