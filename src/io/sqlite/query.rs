//! Questions in SQL about the facts of a base, as an analyst asks them: by the tables' own names, read only.
//! Must not know what the facts mean.

use rusqlite::{OpenFlags, params_from_iter};

use super::{BaseSettings, Doing, connect};
use crate::ports::PortResult;
use crate::pure::value::Value;

/// A connection that asks; the base's writer goes on beside it.
pub struct FactQuery {
    connection: rusqlite::Connection,
}

impl FactQuery {
    pub fn open(settings: &BaseSettings) -> PortResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(settings, flags)?;
        connection.pragma_update(None, "query_only", true).doing("base: open for reading")?;
        Ok(FactQuery { connection })
    }

    /// All rows of the answer. The statement is prepared once and kept.
    pub fn rows(&self, sql: &str, parameters: &[Value]) -> PortResult<Vec<Vec<Value>>> {
        let read = || -> rusqlite::Result<Vec<Vec<Value>>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let answer = statement.query_map(params_from_iter(parameters), |row| {
                (0..columns).map(|column| row.get(column)).collect()
            })?;
            answer.collect()
        };
        read().doing(&format!("base: {sql}"))
    }

    /// The version of SQLite that answers.
    pub fn engine(&self) -> &'static str {
        rusqlite::version()
    }
}
