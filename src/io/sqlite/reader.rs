//! Snapshots of a base: what publisher, commands and reconciler look at. Never changes anything.

use std::ops::ControlFlow;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::records::LetterFilter;
use super::schema::check_version;
use super::{BaseSettings, Doing, connect, records};
use crate::ports::{BaseReader, Lineage, PortError, PortResult, Snapshot};
use crate::pure::base::{Head, Letter, Position};
use crate::pure::catalog::{Catalog, CatalogView};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::query::Selection;
use crate::pure::recompute::Accumulator;
use crate::pure::schema::ColumnType;
use crate::pure::seq::{Commit, TopicPartition};
use crate::pure::value::Value;

/// A read-only connection to a base.
pub struct SqliteReader {
    connection: Connection,
    table_ids: Vec<i64>,
    views: Vec<ReadView>,
}

struct ReadView {
    id: i64,
    grain: Vec<ColumnType>,
    entry: CatalogView,
    /// Reused for every group: one allocation of its tables.
    inputs: Vec<Value>,
}

/// What is told of a base as a whole.
#[derive(Clone, Debug)]
pub struct BaseFacts {
    pub path: std::path::PathBuf,
    pub created_ms: i64,
    /// The oldest commit whose changes the history still tells.
    pub history_from: Option<Commit>,
    /// When the newest commit was made.
    pub committed_ms: Option<i64>,
}

impl SqliteReader {
    /// Opens a base that a writer has made for this catalog.
    pub fn open(settings: &BaseSettings, catalog: &Catalog) -> PortResult<Self> {
        if !settings.path.exists() {
            return Err(PortError::permanent(format!("there is no base at {}", settings.path.display()))
                .with_hint("start `driftless run` or `driftless seed` first, or correct base.path"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(settings, flags)?;
        connection.pragma_update(None, "query_only", true).doing("base: open for reading")?;
        check_version(&connection)?;
        let mut reader = SqliteReader { connection, table_ids: Vec::new(), views: Vec::new() };
        reader.look_up(catalog)?;
        Ok(reader)
    }

    fn look_up(&mut self, catalog: &Catalog) -> PortResult<()> {
        for table in &catalog.tables {
            let id: Option<i64> = self
                .connection
                .query_row(
                    "SELECT table_id FROM driftless_tables WHERE name = ?1",
                    [&*table.shape.name],
                    |row| row.get(0),
                )
                .optional()
                .doing("base: look for a table")?;
            self.table_ids.push(id.ok_or_else(|| unknown("table", &table.shape.name))?);
        }
        for entry in &catalog.views {
            let object = &entry.view.object;
            let found: Option<(i64, String)> = self
                .connection
                .query_row(
                    "SELECT view_id, definition_hash FROM driftless_views WHERE object = ?1",
                    [object],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()
                .doing("base: look for a view")?;
            let (id, definition) = found.ok_or_else(|| unknown("view", object))?;
            if definition != entry.view.definition_hash {
                return Err(PortError::permanent(format!(
                    "view {object} has definition {}, the base was built with {definition}",
                    entry.view.definition_hash
                ))
                .with_hint("use the contract that the base was built with"));
            }
            self.views.push(ReadView {
                id,
                grain: entry.view.grain.iter().map(|dimension| dimension.column_type).collect(),
                entry: entry.clone(),
                inputs: Vec::new(),
            });
        }
        Ok(())
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn view_id(&self, view: usize) -> i64 {
        self.views[view].id
    }

    pub(super) fn entry(&self, view: usize) -> &CatalogView {
        &self.views[view].entry
    }

    /// Facts about the file for people.
    pub fn facts(&self) -> PortResult<BaseFacts> {
        let doing = "base: read facts";
        let one = |sql: &str| -> PortResult<Option<i64>> {
            self.connection.query_row(sql, [], |row| row.get(0)).doing(doing)
        };
        Ok(BaseFacts {
            path: self.connection.path().unwrap_or_default().into(),
            created_ms: one("SELECT value FROM driftless_facts WHERE name = 'created_ms'")?.unwrap_or(0),
            history_from: one("SELECT min(commit_no) FROM driftless_commits")?.map(|n| Commit(n as u64)),
            committed_ms: one(
                "SELECT (SELECT at_ms FROM driftless_commits ORDER BY commit_no DESC LIMIT 1)",
            )?,
        })
    }

    /// Dead letters, open or all, in order of their numbers.
    pub fn letters(&self, only: Option<i64>, open_only: bool, limit: usize) -> PortResult<Vec<Letter>> {
        let filter = LetterFilter { only, open_only, after: 0, limit };
        records::letters(&self.connection, &filter)
    }

    /// The lowest sequence positions that a dense table still misses below what it has seen.
    pub fn runs(&self, table: usize) -> PortResult<Vec<crate::pure::watermark::Run>> {
        records::runs(&self.connection, self.table_ids[table])
    }
}

fn unknown(kind: &str, name: &str) -> PortError {
    PortError::permanent(format!("the base does not know {kind} {name} yet"))
        .with_hint("start `driftless run` with this configuration; it makes what is new")
}

impl BaseReader for SqliteReader {
    fn snapshot(&mut self) -> PortResult<Box<dyn Snapshot + '_>> {
        Ok(Box::new(SqliteSnapshot::begin(self)?))
    }
}

pub(super) struct SqliteSnapshot<'a> {
    reader: &'a mut SqliteReader,
}

impl<'a> SqliteSnapshot<'a> {
    pub(super) fn begin(reader: &'a mut SqliteReader) -> PortResult<Self> {
        reader.connection.execute_batch("BEGIN DEFERRED").doing("base: begin a snapshot")?;
        Ok(SqliteSnapshot { reader })
    }

    pub(super) fn reader(&self) -> &SqliteReader {
        self.reader
    }
}

impl Drop for SqliteSnapshot<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.reader.connection.execute_batch("COMMIT") {
            tracing::debug!(%error, "base: end a snapshot");
        }
    }
}

impl SqliteSnapshot<'_> {
    fn positions(&self) -> PortResult<Vec<Position>> {
        let read = || -> rusqlite::Result<Vec<Position>> {
            let mut statement = self.reader.connection.prepare_cached(
                "SELECT topic, partition, table_id, first_offset, next_offset,
                   (SELECT min(offset) FROM driftless_dead_letters l WHERE l.partition_id = p.partition_id AND state = 'open'),
                   applied, duplicate, stale, expired, control, dead_letter, below_watermark
                 FROM driftless_partitions p ORDER BY topic, partition",
            )?;
            let mut rows = statement.query([])?;
            let mut positions = Vec::new();
            while let Some(row) = rows.next()? {
                let table_id: i64 = row.get(2)?;
                let Some(table) = self.reader.table_ids.iter().position(|&id| id == table_id) else {
                    continue;
                };
                let next_offset: i64 = row.get(4)?;
                positions.push(Position {
                    at: TopicPartition { topic: row.get::<_, String>(0)?.into(), partition: row.get(1)? },
                    table,
                    first_offset: row.get(3)?,
                    next_offset,
                    settled: row.get::<_, Option<i64>>(5)?.unwrap_or(next_offset),
                    counts: records::counts(row, 6)?,
                });
            }
            Ok(positions)
        };
        read().doing("base: read positions")
    }

    fn open_letters(&self, table: usize) -> PortResult<u64> {
        self.reader
            .connection
            .prepare_cached(
                "SELECT count(*) FROM driftless_dead_letters INDEXED BY driftless_dead_letters_open
                 WHERE state = 'open' AND partition_id IN (SELECT partition_id FROM driftless_partitions WHERE table_id = ?1)",
            )
            .and_then(|mut statement| {
                statement.query_row([self.reader.table_ids[table]], |row| row.get::<_, i64>(0))
            })
            .map(|count| count.unsigned_abs())
            .doing("base: count dead letters")
    }
}

impl Snapshot for SqliteSnapshot<'_> {
    fn head(&mut self) -> PortResult<Head> {
        let connection = &self.reader.connection;
        let doing = "base: read its head";
        let commit: Option<i64> = connection
            .prepare_cached("SELECT max(commit_no) FROM driftless_commits")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .doing(doing)?;
        let nonce: Option<String> = connection
            .prepare_cached("SELECT nonce FROM driftless_lineage ORDER BY first_commit DESC LIMIT 1")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .doing(doing)?;
        let generation: String = connection
            .prepare_cached("SELECT value FROM driftless_facts WHERE name = 'generation'")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .doing(doing)?;
        let tables = self.reader.table_ids.len();
        Ok(Head {
            commit: Commit(commit.unwrap_or(0) as u64),
            nonce: nonce.unwrap_or_default(),
            generation,
            positions: self.positions()?,
            tables: self
                .reader
                .table_ids
                .iter()
                .map(|&id| records::table_state(connection, id))
                .collect::<PortResult<_>>()?,
            open_letters: (0..tables).map(|table| self.open_letters(table)).collect::<PortResult<_>>()?,
            views: self
                .reader
                .views
                .iter()
                .map(|view| records::view_state(connection, view.id))
                .collect::<PortResult<_>>()?,
        })
    }

    fn lineage(&mut self, view: usize, commit: Commit, nonce: &str) -> PortResult<Lineage> {
        let view_id = self.reader.views[view].id;
        let found: Option<(String, i64, i64)> = self
            .reader
            .connection
            .prepare_cached(
                "SELECT nonce, (SELECT max(commit_no) FROM driftless_commits),
                   (SELECT since_commit FROM driftless_views WHERE view_id = ?2)
                 FROM driftless_lineage WHERE first_commit <= ?1 ORDER BY first_commit DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row([commit.0 as i64, view_id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                    .optional()
            })
            .doing("base: look for a lineage")?;
        let commit = commit.0 as i64;
        Ok(match found {
            Some((holder, newest, since)) if holder == nonce && commit <= newest => {
                if commit >= since {
                    Lineage::Marked
                } else {
                    Lineage::BeforeMarks
                }
            }
            _ => Lineage::Foreign,
        })
    }

    fn dirty_since(&mut self, view: usize, after: Commit) -> PortResult<Vec<GroupKey>> {
        let view_id = self.reader.views[view].id;
        let connection = &self.reader.connection;
        let read = || -> rusqlite::Result<Vec<GroupKey>> {
            let first: Option<i64> = connection
                .prepare_cached(
                    "SELECT first_change FROM driftless_commits WHERE commit_no = ?1
                     AND first_change >= (SELECT min(change_id) FROM driftless_changes)",
                )?
                .query_row([after.next().0 as i64], |row| row.get(0))
                .optional()?;
            // The history is the index of marks where it still tells all of that commit; else the marks are read.
            let (sql, from) = match first {
                Some(first) => {
                    ("SELECT group_key FROM driftless_changes WHERE change_id >= ?2 AND view_id = ?1", first)
                }
                None => (
                    "SELECT group_key FROM driftless_groups WHERE view_id = ?1 AND changed_at > ?2",
                    after.0 as i64,
                ),
            };
            let mut keys: Vec<GroupKey> = connection
                .prepare_cached(sql)?
                .query_map(params![view_id, from], |row| row.get::<_, String>(0).map(GroupKey::from_encoded))?
                .collect::<rusqlite::Result<_>>()?;
            keys.sort_unstable();
            keys.dedup();
            Ok(keys)
        };
        read().doing("base: read which groups changed")
    }

    fn groups_after(&mut self, view: usize, after: Option<&str>, limit: usize) -> PortResult<Vec<GroupKey>> {
        let view_id = self.reader.views[view].id;
        let read = || -> rusqlite::Result<Vec<GroupKey>> {
            self.reader
                .connection
                .prepare_cached(
                    "SELECT group_key FROM driftless_groups
                     WHERE view_id = ?1 AND (?2 IS NULL OR group_key > ?2) ORDER BY group_key LIMIT ?3",
                )?
                .query_map(params![view_id, after, limit as i64], |row| {
                    row.get::<_, String>(0).map(GroupKey::from_encoded)
                })?
                .collect()
        };
        read().doing("base: walk over groups")
    }

    fn recompute(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<GroupValue>> {
        let ReadView { grain, entry, inputs, .. } = &mut self.reader.views[view];
        // A key that is none of this view's has no rows.
        let Some(parts) = key.decode(grain) else {
            return Ok(None);
        };
        let mut read = || -> rusqlite::Result<Option<GroupValue>> {
            let mut statement = self.reader.connection.prepare_cached(&entry.recompute.group_sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(&parts))?;
            let mut accumulator = Accumulator::new(&entry.recompute);
            while let Some(row) = rows.next()? {
                inputs.clear();
                for column in 0..entry.recompute.inputs.len() {
                    inputs.push(row.get(column)?);
                }
                accumulator.add(inputs);
            }
            Ok(accumulator.finish())
        };
        read().doing(&format!("base: recompute {}", entry.view.object))
    }

    fn each_group(&mut self, view: usize, sink: &mut dyn FnMut(&[Value], &GroupValue)) -> PortResult<()> {
        let entry = &self.reader.views[view].entry;
        let grain = entry.view.grain.len();
        let width = grain + entry.recompute.inputs.len();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.reader.connection.prepare_cached(&entry.recompute.all_sql)?;
            let mut rows = statement.query([])?;
            let mut group: Option<(Vec<Value>, Accumulator<'_>)> = None;
            let mut values = Vec::with_capacity(width);
            while let Some(row) = rows.next()? {
                values.clear();
                for column in 0..width {
                    values.push(row.get::<_, Value>(column)?);
                }
                let (key, inputs) = values.split_at(grain);
                if let Some((open, accumulator)) = &mut group
                    && open == key
                {
                    accumulator.add(inputs);
                    continue;
                }
                let mut accumulator = Accumulator::new(&entry.recompute);
                accumulator.add(inputs);
                if let Some((key, done)) = group.replace((key.to_vec(), accumulator)) {
                    emit(&key, done, sink);
                }
            }
            if let Some((key, done)) = group {
                emit(&key, done, sink);
            }
            Ok(())
        };
        read().doing(&format!("base: recompute all of {}", entry.view.object))
    }

    fn select(
        &mut self,
        selection: &Selection,
        sink: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> PortResult<()> {
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.reader.connection.prepare_cached(&selection.sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(&selection.parameters))?;
            let mut values = Vec::with_capacity(selection.width);
            while let Some(row) = rows.next()? {
                values.clear();
                for column in 0..selection.width {
                    values.push(row.get::<_, Value>(column)?);
                }
                if sink(&values).is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().doing("base: select rows")
    }
}

fn emit(key: &[Value], mut group: Accumulator<'_>, sink: &mut dyn FnMut(&[Value], &GroupValue)) {
    if let Some(value) = group.finish() {
        sink(key, &value);
    }
}
