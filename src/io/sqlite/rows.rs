//! The latest event of keys, read row by row: facts and graves as they are stored.

use rusqlite::{Row, params_from_iter};

use super::Doing;
use super::reader::SqliteReader;
use super::statements::TableStatements;
use crate::ports::PortResult;
use crate::pure::apply::Stored;
use crate::pure::event::Image;
use crate::pure::schema::Table;
use crate::pure::value::Value;

/// A row of `SELECT _seq, _live, columns…`; a grave has its key columns alone.
pub(super) fn stored(row: &Row<'_>, shape: &Table) -> rusqlite::Result<Stored> {
    let column = |index: usize| row.get::<_, Value>(2 + index);
    let image = if row.get(1)? {
        Image::Row((0..shape.columns.len()).map(column).collect::<Result<_, _>>()?)
    } else {
        Image::Deleted(shape.key.iter().map(|&key| column(key)).collect::<Result<_, _>>()?)
    };
    Ok(Stored { seq: row.get(0)?, image })
}

impl SqliteReader {
    pub(super) fn row(&self, table: usize, key: &[Value]) -> PortResult<Option<Stored>> {
        let TableStatements { select, shape, .. } = &self.tables[table];
        let read = || -> rusqlite::Result<Option<Stored>> {
            let mut statement = self.connection.prepare_cached(select)?;
            let mut rows = statement.query(params_from_iter(key))?;
            rows.next()?.map(|row| stored(row, shape)).transpose()
        };
        read().doing("base: read a row")
    }

    pub(super) fn rows_after(
        &self,
        table: usize,
        after: Option<&[Value]>,
        limit: usize,
    ) -> PortResult<Vec<(Box<[Value]>, Stored)>> {
        let TableStatements { select_after, select_first, shape, .. } = &self.tables[table];
        let read = || -> rusqlite::Result<Vec<(Box<[Value]>, Stored)>> {
            let sql = if after.is_some() { select_after } else { select_first };
            let mut parameters = after.unwrap_or_default().to_vec();
            parameters.push(Value::Integer(limit as i64));
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params_from_iter(&parameters))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let stored = stored(row, shape)?;
                let key = (0..shape.key.len()).map(|part| stored.image.key_part(shape, part).clone());
                found.push((key.collect(), stored));
            }
            Ok(found)
        };
        read().doing("base: walk over rows")
    }
}
