//! Snapshots of a base: what publisher, commands and reconciler look at. Never changes anything.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::records::{LetterFilter, PassOnRecord};
use super::schema::check_version;
use super::statements::TableStatements;
use super::{BaseSettings, Doing, connect, head, records};
use crate::ports::{BaseReader, Lineage, Marked, PortError, PortResult, Snapshot};
use crate::pure::apply::Stored;
use crate::pure::base::{Head, Letter};
use crate::pure::catalog::{Catalog, CatalogView};
use crate::pure::group_key::GroupKey;
use crate::pure::meta::Fingerprint;
use crate::pure::publish::GroupValue;
use crate::pure::query::Selection;
use crate::pure::schema::ColumnType;
use crate::pure::seq::{Commit, Seq};
use crate::pure::value::Value;

/// A read-only connection to a base.
pub struct SqliteReader {
    pub(super) connection: Connection,
    table_ids: Vec<i64>,
    pub(super) tables: Vec<TableStatements>,
    pub(super) views: Vec<ReadView>,
}

pub(super) struct ReadView {
    pub(super) id: i64,
    pub(super) grain: Vec<ColumnType>,
    pub(super) entry: CatalogView,
    /// Reused for every row: one allocation.
    pub(super) inputs: Vec<Value>,
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
        let mut reader = SqliteReader {
            connection,
            table_ids: Vec::new(),
            tables: catalog.tables.iter().map(|table| TableStatements::new(table.shape.clone())).collect(),
            views: Vec::new(),
        };
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

    /// What SQLite finds wrong with the file; nothing where it is sound.
    pub fn integrity_faults(&self) -> PortResult<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA quick_check(10)")?.query_map([], |row| row.get(0))?.collect()
        };
        let mut found = read().doing("base: check the file")?;
        found.retain(|line| line != "ok");
        Ok(found)
    }

    /// The first offset of each partition whose change has at least this sequence, by `topic:partition`. `None` where
    /// the history may have forgotten some.
    pub fn offsets_from_seq(&self, seq: Seq) -> PortResult<Option<BTreeMap<String, i64>>> {
        let read = || -> rusqlite::Result<Option<BTreeMap<String, i64>>> {
            let pruned: bool = self.connection.query_row(
                "SELECT coalesce(min(change_id), 1) > 1 FROM driftless_changes",
                [],
                |row| row.get(0),
            )?;
            let mut statement = self.connection.prepare(
                "SELECT topic || ':' || partition,
                   (SELECT min(offset) FROM driftless_changes c WHERE c.partition_id = p.partition_id AND seq >= ?1),
                   EXISTS (SELECT 1 FROM driftless_changes c WHERE c.partition_id = p.partition_id AND seq < ?1)
                 FROM driftless_partitions p",
            )?;
            let mut rows = statement.query([seq])?;
            let mut found = BTreeMap::new();
            while let Some(row) = rows.next()? {
                // Where nothing older is remembered, the first one may have been forgotten.
                if pruned && !row.get::<_, bool>(2)? {
                    return Ok(None);
                }
                if let Some(offset) = row.get::<_, Option<i64>>(1)? {
                    found.insert(row.get(0)?, offset);
                }
            }
            Ok(Some(found))
        };
        read().doing("base: look for a sequence in the history")
    }

    /// Reconcile passes on record, newest first: of one view, or of all.
    pub fn reconciles(&self, object: Option<&str>, limit: usize) -> PortResult<Vec<PassOnRecord>> {
        records::reconciles(&self.connection, object, limit)
    }

    /// The lowest sequence positions that a dense table still misses below what it has seen.
    pub fn runs(&self, table: usize) -> PortResult<Vec<crate::pure::watermark::Run>> {
        records::runs(&self.connection, self.table_ids[table])
    }
}

/// A view as a base was built with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltView {
    pub definition_hash: String,
    /// The contract document.
    pub document: String,
}

/// The views that a base was built with; none where there is no base yet.
pub fn built_views(path: &std::path::Path) -> PortResult<BTreeMap<String, BuiltView>> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).doing(&format!("base {}", path.display()))?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).doing("base: open")?;
    if super::schema::is_empty(&connection)? {
        return Ok(BTreeMap::new());
    }
    check_version(&connection)?;
    let read = || -> rusqlite::Result<BTreeMap<String, BuiltView>> {
        connection
            .prepare("SELECT object, definition_hash, document FROM driftless_views")?
            .query_map([], |row| {
                Ok((row.get(0)?, BuiltView { definition_hash: row.get(1)?, document: row.get(2)? }))
            })?
            .collect()
    };
    read().doing("base: read its views")
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

impl Snapshot for SqliteSnapshot<'_> {
    fn head(&mut self) -> PortResult<Head> {
        let SqliteReader { connection, table_ids, views, .. } = &*self.reader;
        let views: Vec<i64> = views.iter().map(|view| view.id).collect();
        head::read(connection, table_ids, &views)
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

    fn groups_after(&mut self, view: usize, after: Option<&str>, limit: usize) -> PortResult<Vec<Marked>> {
        self.reader.groups_after(view, after, limit)
    }

    fn mark(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<Commit>> {
        self.reader.mark(view, key)
    }

    fn recompute(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<GroupValue>> {
        self.reader.recompute(view, key)
    }

    fn recompute_sorted(&mut self, view: usize, keys: &[&str]) -> PortResult<Vec<Option<GroupValue>>> {
        self.reader.recompute_sorted(view, keys)
    }

    fn unmarked(
        &mut self,
        view: usize,
        place: &mut Option<Box<[Value]>>,
        groups: usize,
    ) -> PortResult<Vec<GroupKey>> {
        self.reader.unmarked(view, place, groups)
    }

    fn fingerprint(&mut self, table: usize, commit: Commit) -> PortResult<Option<Fingerprint>> {
        head::fingerprint(&self.reader.connection, self.reader.table_ids[table], commit)
    }

    fn row(&mut self, table: usize, key: &[Value]) -> PortResult<Option<Stored>> {
        self.reader.row(table, key)
    }

    fn rows_after(
        &mut self,
        table: usize,
        after: Option<&[Value]>,
        limit: usize,
    ) -> PortResult<Vec<(Box<[Value]>, Stored)>> {
        self.reader.rows_after(table, after, limit)
    }

    fn each_group(&mut self, view: usize, sink: &mut dyn FnMut(&[Value], &GroupValue)) -> PortResult<()> {
        self.reader.each_group(view, sink)
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
