//! The one connection that changes a base. Statements are written once, when the file is opened.

use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use super::build::{MARK, ViewKeys};
use super::convert::seq_bytes;
use super::lock::WriterLock;
use super::statements::TableStatements;
use super::{BaseSettings, Doing, connect, head, records, rows, schema};
use crate::ports::{BaseWriter, Change, PortError, PortResult};
use crate::pure::apply::Stored;
use crate::pure::base::{
    Anchor, Answer, Counts, Letter, LetterState, NewLetter, PartitionState, ReconcileRun, Request,
    TableState, ViewState,
};
use crate::pure::catalog::Catalog;
use crate::pure::event::Image;
use crate::pure::group_key::GroupKey;
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::sql::{quote_identifier, storage_name};
use crate::pure::value::Value;
use crate::pure::watermark::{ChangedRuns, Run};

/// Entries of the change history deleted with one commit at most, or twice those that it appended where that is
/// more: no commit is a long one, and the history does not outgrow its limit.
const PRUNE_PER_COMMIT: i64 = 2_000;

/// The writer of a base file; it holds the file's lock.
pub struct SqliteWriter {
    pub(super) connection: Connection,
    _lock: WriterLock,
    tables: Vec<TableStatements>,
    /// The base's own numbers, by catalog index.
    pub(super) table_ids: Vec<i64>,
    pub(super) view_ids: Vec<i64>,
    pub(super) views: Vec<ViewKeys>,
    /// Views of each table, by catalog index.
    views_of: Vec<Vec<usize>>,
    nonce: String,
    /// Whether this writer's nonce has been stored; it is, with its first commit.
    lineage_stored: bool,
    pub(super) commit: Commit,
    next_change: i64,
    /// `next_change` when the open transaction began.
    first_change: i64,
    oldest_change: i64,
    history_changes_max: i64,
    /// `PRAGMA data_version` when requests were last looked for.
    data_version: i64,
}

impl SqliteWriter {
    /// Opens or makes the base, takes its lock, and makes what the catalog needs: tables, and the groups of
    /// views that the base does not know yet, built from its rows.
    ///
    /// `random` is drawn anew at each start: it names the lineage.
    pub fn open(settings: &BaseSettings, catalog: &Catalog, random: u64, at_ms: i64) -> PortResult<Self> {
        let lock = WriterLock::take(&settings.path)?;
        Self::open_locked(lock, settings, catalog, random, at_ms)
    }

    /// As [`open`](SqliteWriter::open), by the holder of the lock.
    pub fn open_locked(
        lock: WriterLock,
        settings: &BaseSettings,
        catalog: &Catalog,
        random: u64,
        at_ms: i64,
    ) -> PortResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(settings, flags)?;
        // Before anything is set: a file that is no base stays as it is.
        schema::prepare(&connection, &settings.generation, at_ms)?;
        let mode: String = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
            .doing("base: switch to WAL")?;
        if mode != "wal" {
            return Err(PortError::permanent("the base's disk does not allow SQLite's WAL")
                .with_hint("put base.path on a local disk"));
        }
        let synchronous = if settings.synchronous_full { "FULL" } else { "NORMAL" };
        connection
            .pragma_update(None, "synchronous", synchronous)
            .and_then(|()| connection.pragma_update(None, "wal_autocheckpoint", 0))
            .doing("base: set how it writes")?;
        let mut writer = SqliteWriter {
            tables: catalog.tables.iter().map(|table| TableStatements::new(table.shape.clone())).collect(),
            connection,
            _lock: lock,
            table_ids: Vec::new(),
            view_ids: Vec::new(),
            views: catalog.views.iter().map(ViewKeys::new).collect(),
            views_of: (0..catalog.tables.len())
                .map(|table| catalog.views_of(table).map(|(view, _)| view).collect())
                .collect(),
            nonce: format!("{random:016x}"),
            lineage_stored: false,
            commit: Commit(0),
            next_change: 1,
            first_change: 1,
            oldest_change: 1,
            history_changes_max: settings.history_changes_max.min(i64::MAX as u64) as i64,
            data_version: -1,
        };
        writer.load_numbers()?;
        writer.ensure_catalog(catalog, at_ms)?;
        Ok(writer)
    }

    fn load_numbers(&mut self) -> PortResult<()> {
        let doing = "base: read where it stands";
        let one = |sql: &str| -> PortResult<Option<i64>> {
            self.connection.query_row(sql, [], |row| row.get(0)).doing(doing)
        };
        self.commit = Commit(one("SELECT max(commit_no) FROM driftless_commits")?.unwrap_or(0) as u64);
        let newest = one("SELECT max(change_id) FROM driftless_changes")?;
        // A pruned history leaves the commits' own counting: numbers are never given twice.
        let counted = one("SELECT max(first_change) FROM driftless_commits")?.unwrap_or(1);
        self.next_change = newest.map_or(counted, |id| (id + 1).max(counted));
        self.oldest_change = one("SELECT min(change_id) FROM driftless_changes")?.unwrap_or(self.next_change);
        Ok(())
    }

    /// Runs a prepared statement of this connection.
    pub(super) fn run(&self, sql: &str, values: impl rusqlite::Params, doing: &str) -> PortResult<usize> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).doing(doing)
    }

    /// Forgets the oldest history beyond the limit, a little with each commit.
    fn prune_history(&mut self) -> PortResult<()> {
        let keep_from = self.next_change - self.history_changes_max;
        if keep_from <= self.oldest_change {
            return Ok(());
        }
        let appended = self.next_change - self.first_change;
        let below = keep_from.min(self.oldest_change + PRUNE_PER_COMMIT.max(2 * appended));
        self.run("DELETE FROM driftless_changes WHERE change_id < ?1", [below], "base: prune history")?;
        self.run(
            "DELETE FROM driftless_commits WHERE first_change < ?1 AND commit_no < ?2",
            params![below, self.commit.0 as i64],
            "base: prune history",
        )?;
        self.oldest_change = below;
        Ok(())
    }
}

impl BaseWriter for SqliteWriter {
    fn partitions(&mut self) -> PortResult<Vec<PartitionState>> {
        let doing = "base: read positions";
        let table_ids = &self.table_ids;
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT partition_id, topic, partition, table_id, first_offset, next_offset, frontier, anchor_offset,
                   anchor_checksum, applied, duplicate, stale, expired, control, dead_letter, below_watermark
                 FROM driftless_partitions ORDER BY topic, partition",
            )
            .doing(doing)?;
        let mut rows = statement.query([]).doing(doing)?;
        let mut partitions = Vec::new();
        while let Some(row) = rows.next().doing(doing)? {
            let read = || -> rusqlite::Result<Option<PartitionState>> {
                let table_id: i64 = row.get(3)?;
                // A table that is no longer configured keeps its positions, and nobody reads them.
                let Some(table) = table_ids.iter().position(|&id| id == table_id) else {
                    return Ok(None);
                };
                let anchor_offset: Option<i64> = row.get(7)?;
                let anchor_checksum: Option<u32> = row.get(8)?;
                Ok(Some(PartitionState {
                    id: row.get(0)?,
                    at: TopicPartition { topic: row.get::<_, String>(1)?.into(), partition: row.get(2)? },
                    table,
                    first_offset: row.get(4)?,
                    next_offset: row.get(5)?,
                    frontier: row.get(6)?,
                    anchor: anchor_offset
                        .zip(anchor_checksum)
                        .map(|(offset, checksum)| Anchor { offset, checksum }),
                    counts: records::counts(row, 9)?,
                }))
            };
            partitions.extend(read().doing(doing)?);
        }
        Ok(partitions)
    }

    fn table_state(&mut self, table: usize) -> PortResult<TableState> {
        records::table_state(&self.connection, self.table_ids[table])
    }

    fn runs(&mut self, table: usize) -> PortResult<Vec<Run>> {
        records::runs(&self.connection, self.table_ids[table])
    }

    fn holds(&mut self, table: usize) -> PortResult<Vec<(i64, Option<Seq>)>> {
        records::holds(&self.connection, self.table_ids[table])
    }

    fn begin(&mut self) -> PortResult<()> {
        self.run("BEGIN IMMEDIATE", [], "base: begin")?;
        self.first_change = self.next_change;
        Ok(())
    }

    fn stored(&mut self, table: usize, key: &[&Value]) -> PortResult<Option<Stored>> {
        let statements = &self.tables[table];
        let read = || -> rusqlite::Result<Option<Stored>> {
            let mut statement = self.connection.prepare_cached(&statements.select)?;
            let mut rows = statement.query(params_from_iter(key))?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            rows::stored(row, &statements.shape).map(Some)
        };
        read().doing("base: read a row")
    }

    fn store(&mut self, table: usize, seq: Seq, image: &Image, replaces: bool) -> PortResult<()> {
        let statements = &self.tables[table];
        let (sql, values) = match (image, replaces) {
            (Image::Row(row), false) => (&statements.insert, row),
            (Image::Row(row), true) => (&statements.update, row),
            (Image::Deleted(key), false) => (&statements.insert_grave, key),
            (Image::Deleted(key), true) => (&statements.update_grave, key),
        };
        let write = || -> rusqlite::Result<usize> {
            let mut statement = self.connection.prepare_cached(sql)?;
            for (index, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(index + 1, value)?;
            }
            statement.raw_bind_parameter(values.len() + 1, seq)?;
            statement.raw_execute()
        };
        let written = write().doing("base: store a row")?;
        assert!(written == 1, "P1: a row that was looked up is written exactly once");
        Ok(())
    }

    fn mark(&mut self, view: usize, key: &GroupKey) -> PortResult<()> {
        let values = params![self.view_ids[view], key.as_str(), self.commit.next().0 as i64];
        self.run(MARK, values, "base: mark a group").map(|_| ())
    }

    fn mark_all(&mut self, table: usize) -> PortResult<()> {
        for view in self.views_of[table].clone() {
            self.mark_all_groups(view)?;
        }
        Ok(())
    }

    fn truncate(&mut self, table: usize, below: Seq) -> PortResult<()> {
        self.mark_all(table)?;
        // A plain sequence is below this one where its number is, or where it is of an earlier epoch.
        let plain = below.position.saturating_add(u64::from(below.row > 0)).min(Seq::POSITION_MAX) as i64;
        let values = params![plain, below.epoch > 0, seq_bytes(below), below];
        self.run(&self.tables[table].truncate, values, "base: truncate a table").map(|_| ())
    }

    fn is_empty(&mut self, table: usize) -> PortResult<bool> {
        let storage = quote_identifier(&storage_name(&self.tables[table].shape.name));
        self.connection
            .query_row(&format!("SELECT NOT EXISTS (SELECT 1 FROM {storage})"), [], |row| row.get(0))
            .doing("base: see whether a table is empty")
    }

    fn append_change(&mut self, change: &Change<'_>) -> PortResult<()> {
        self.run(
            "INSERT INTO driftless_changes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.next_change,
                self.commit.next().0 as i64,
                self.view_ids[change.view],
                change.key.as_str(),
                change.event.map(|event| event.partition),
                change.event.map(|event| event.offset),
                change.event.map(|event| event.seq)
            ],
            "base: append to the history",
        )?;
        self.next_change += 1;
        Ok(())
    }

    fn save_partition(&mut self, partition: &PartitionState) -> PortResult<i64> {
        let Counts { applied, duplicate, stale, expired, control, dead_letter, below_watermark } =
            partition.counts;
        let id = (partition.id != 0).then_some(partition.id);
        self.run(
            "INSERT INTO driftless_partitions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT (partition_id) DO UPDATE SET next_offset = excluded.next_offset,
               frontier = excluded.frontier, anchor_offset = excluded.anchor_offset,
               anchor_checksum = excluded.anchor_checksum, applied = excluded.applied, duplicate = excluded.duplicate,
               stale = excluded.stale, expired = excluded.expired, control = excluded.control,
               dead_letter = excluded.dead_letter, below_watermark = excluded.below_watermark",
            params![
                id,
                &*partition.at.topic,
                partition.at.partition,
                self.table_ids[partition.table],
                partition.first_offset,
                partition.next_offset,
                partition.frontier,
                partition.anchor.map(|anchor| anchor.offset),
                partition.anchor.map(|anchor| anchor.checksum),
                applied as i64,
                duplicate as i64,
                stale as i64,
                expired as i64,
                control as i64,
                dead_letter as i64,
                below_watermark as i64
            ],
            "base: save a position",
        )?;
        Ok(id.unwrap_or_else(|| self.connection.last_insert_rowid()))
    }

    fn save_table(&mut self, table: usize, state: &TableState) -> PortResult<()> {
        self.run(
            "UPDATE driftless_tables SET floor = ?2, watermark = ?3, greatest = ?4 WHERE table_id = ?1",
            params![self.table_ids[table], state.floor, state.watermark, state.greatest],
            "base: save a table's watermark",
        )
        .map(|_| ())
    }

    fn save_runs(&mut self, table: usize, changed: &ChangedRuns) -> PortResult<()> {
        let (doing, id) = ("base: save seen sequences", self.table_ids[table]);
        for &from in &changed.removed {
            self.run(
                "DELETE FROM driftless_runs WHERE table_id = ?1 AND from_seq = ?2",
                params![id, from as i64],
                doing,
            )?;
        }
        for run in &changed.stored {
            self.run(
                "INSERT OR REPLACE INTO driftless_runs VALUES (?1, ?2, ?3)",
                params![id, run.from as i64, run.to as i64],
                doing,
            )?;
        }
        Ok(())
    }

    fn add_letter(&mut self, letter: &NewLetter<'_>, at_ms: i64) -> PortResult<i64> {
        records::add_letter(self, letter, at_ms)
    }

    fn save_hold(&mut self, letter: i64, cap: Option<Seq>) -> PortResult<()> {
        self.run(
            "UPDATE driftless_dead_letters SET hold = ?2 WHERE letter_id = ?1",
            params![letter, cap],
            "base: save what a dead letter holds",
        )
        .map(|_| ())
    }

    fn open_letters(&mut self, only: Option<i64>, after: i64, limit: usize) -> PortResult<Vec<Letter>> {
        let filter = records::LetterFilter { only, open_only: true, after, limit };
        records::letters(&self.connection, &filter)
    }

    fn resolve_letter(
        &mut self,
        letter: i64,
        state: LetterState,
        who: &str,
        why: &str,
        at_ms: i64,
    ) -> PortResult<()> {
        let values = params![letter, state.name(), who, why, at_ms];
        self.run(
            "UPDATE driftless_dead_letters SET state = ?2, who = ?3, why = ?4, resolved_ms = ?5 WHERE letter_id = ?1",
            values,
            "base: resolve a dead letter",
        )
        .map(|_| ())
    }

    fn record_waived_run(
        &mut self,
        table: usize,
        run: Run,
        who: &str,
        why: &str,
        at_ms: i64,
    ) -> PortResult<()> {
        self.run(
            "INSERT INTO driftless_waived_runs (table_id, from_seq, to_seq, who, why, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![self.table_ids[table], run.from as i64, run.to as i64, who, why, at_ms],
            "base: record a waiver",
        )
        .map(|_| ())
    }

    fn view_state(&mut self, view: usize) -> PortResult<ViewState> {
        records::view_state(&self.connection, self.view_ids[view])
    }

    fn save_view_state(&mut self, view: usize, state: &ViewState) -> PortResult<()> {
        records::save_view_state(self, view, state)
    }

    fn add_reconcile(&mut self, view: usize, run: &ReconcileRun, who: &str) -> PortResult<i64> {
        records::add_reconcile(self, &self.views[view].object, run, who)
    }

    fn count_repair(&mut self, view: usize, key: &GroupKey, at_ms: i64) -> PortResult<u64> {
        records::count_repair(self, &self.views[view].object, key, at_ms)
    }

    fn open_requests(&mut self) -> PortResult<Vec<Request>> {
        let version: i64 = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .doing("base: look for requests")?;
        // Nobody else has written: there can be no new request.
        if version == self.data_version {
            return Ok(Vec::new());
        }
        let requests = records::open_requests(&self.connection)?;
        if requests.is_empty() {
            self.data_version = version;
        }
        Ok(requests)
    }

    fn answer_request(&mut self, request: i64, answer: &Answer, at_ms: i64) -> PortResult<()> {
        let (state, text) = match answer {
            Ok(done) => ("done", done.to_string()),
            Err(refusal) => ("refused", serde_json::Value::from(refusal.as_str()).to_string()),
        };
        self.run(
            "UPDATE driftless_requests SET state = ?2, answer = ?3, answered_ms = ?4 WHERE request_id = ?1",
            params![request, state, text, at_ms],
            "base: answer a request",
        )
        .map(|_| ())
    }

    fn commit(&mut self, at_ms: i64) -> PortResult<Commit> {
        let next = self.commit.next();
        if !self.lineage_stored {
            self.run(
                "INSERT INTO driftless_lineage VALUES (?1, ?2, ?3)",
                params![next.0 as i64, self.nonce, at_ms],
                "base: begin a lineage",
            )?;
        }
        let told = head::fingerprints(&self.connection, &self.table_ids)?;
        self.run(
            "INSERT INTO driftless_commits VALUES (?1, ?2, ?3, ?4)",
            params![next.0 as i64, at_ms, self.first_change, told],
            "base: number a commit",
        )?;
        self.prune_history()?;
        self.run("COMMIT", [], "base: commit")?;
        self.lineage_stored = true;
        self.commit = next;
        Ok(next)
    }

    fn rollback(&mut self) {
        // Fails only where SQLite has rolled back by itself.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "base: roll back");
        }
        if let Err(error) = self.load_numbers() {
            tracing::warn!(error = %error, "base: read where it stands after a rollback");
        }
    }
}
