//! The tables of a base file and how they are made. The only place with their definitions.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Doing, PortError, PortResult};
use crate::pure::catalog::Catalog;
use crate::pure::schema::{ColumnType, Table};
use crate::pure::sql::{quote_identifier, storage_name};
use crate::pure::watermark::Mode;

/// `PRAGMA user_version` of this release's bases. An older file is copied and migrated, a newer one refused.
pub const SCHEMA_VERSION: i64 = 1;

/// `PRAGMA application_id`: the letters "drft".
const APPLICATION_ID: i64 = 0x6472_6674;

const TABLES: &str = "
CREATE TABLE driftless_facts (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE driftless_lineage (
  first_commit INTEGER PRIMARY KEY, nonce TEXT NOT NULL UNIQUE, started_ms INTEGER NOT NULL) STRICT;
CREATE TABLE driftless_commits (
  commit_no INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, first_change INTEGER NOT NULL,
  told BLOB NOT NULL) STRICT;
CREATE TABLE driftless_tables (
  table_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, definition TEXT NOT NULL,
  floor ANY, watermark ANY, greatest ANY) STRICT;
CREATE TABLE driftless_partitions (
  partition_id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  table_id INTEGER NOT NULL REFERENCES driftless_tables, first_offset INTEGER NOT NULL,
  next_offset INTEGER NOT NULL, frontier ANY, anchor_offset INTEGER, anchor_checksum INTEGER,
  applied INTEGER NOT NULL, duplicate INTEGER NOT NULL, stale INTEGER NOT NULL, expired INTEGER NOT NULL,
  control INTEGER NOT NULL, dead_letter INTEGER NOT NULL, below_watermark INTEGER NOT NULL,
  UNIQUE (topic, partition)) STRICT;
CREATE TABLE driftless_runs (
  table_id INTEGER NOT NULL, from_seq INTEGER NOT NULL, to_seq INTEGER NOT NULL,
  PRIMARY KEY (table_id, from_seq)) STRICT, WITHOUT ROWID;
CREATE TABLE driftless_waived_runs (
  waiver_id INTEGER PRIMARY KEY, table_id INTEGER NOT NULL, from_seq INTEGER NOT NULL, to_seq INTEGER NOT NULL,
  who TEXT NOT NULL, why TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT;
CREATE TABLE driftless_views (
  view_id INTEGER PRIMARY KEY, object TEXT NOT NULL UNIQUE, definition_hash TEXT NOT NULL,
  document TEXT NOT NULL, since_commit INTEGER NOT NULL, state TEXT NOT NULL DEFAULT '{}') STRICT;
CREATE TABLE driftless_groups (
  view_id INTEGER NOT NULL, group_key TEXT NOT NULL, changed_at INTEGER NOT NULL,
  PRIMARY KEY (view_id, group_key)) STRICT, WITHOUT ROWID;
CREATE TABLE driftless_changes (
  change_id INTEGER PRIMARY KEY, commit_no INTEGER NOT NULL, view_id INTEGER NOT NULL, group_key TEXT NOT NULL,
  partition_id INTEGER, offset INTEGER, seq ANY) STRICT;
CREATE TABLE driftless_dead_letters (
  letter_id INTEGER PRIMARY KEY, partition_id INTEGER NOT NULL, offset INTEGER NOT NULL, seq ANY,
  reason TEXT NOT NULL, detail TEXT NOT NULL, key BLOB, value BLOB, headers TEXT, state TEXT NOT NULL, hold ANY,
  created_ms INTEGER NOT NULL, resolved_ms INTEGER, who TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX driftless_dead_letters_open ON driftless_dead_letters (partition_id, offset) WHERE state = 'open';
CREATE TABLE driftless_requests (
  request_id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
  action TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', answer TEXT, answered_ms INTEGER) STRICT;
CREATE TABLE driftless_reconciles (
  reconcile_id INTEGER PRIMARY KEY, object TEXT NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
  version INTEGER NOT NULL, watermark TEXT NOT NULL, verdict TEXT NOT NULL, whole INTEGER NOT NULL,
  who TEXT NOT NULL, report TEXT NOT NULL) STRICT;
CREATE TABLE driftless_repairs (
  object TEXT NOT NULL, group_key TEXT NOT NULL, times INTEGER NOT NULL, last_ms INTEGER NOT NULL,
  PRIMARY KEY (object, group_key)) STRICT, WITHOUT ROWID;
CREATE TABLE driftless_uses (
  day TEXT NOT NULL, object TEXT NOT NULL, role TEXT NOT NULL, route TEXT NOT NULL, reason TEXT NOT NULL,
  measure TEXT NOT NULL, times INTEGER NOT NULL,
  PRIMARY KEY (day, object, role, route, reason, measure)) STRICT, WITHOUT ROWID;
CREATE INDEX driftless_requests_open ON driftless_requests (request_id) WHERE state = 'open';
";

/// Makes the base's own tables where the file is new, and checks them where it is not.
pub(super) fn prepare(connection: &Connection, generation: &str, at_ms: i64) -> PortResult<()> {
    if is_empty(connection)? {
        return create(connection, generation, at_ms).doing("base: create its tables");
    }
    check_version(connection)?;
    check_generation(connection, generation)
}

/// The file is a base, and of this release.
pub(super) fn check_version(connection: &Connection) -> PortResult<()> {
    let number = |pragma: &str| -> PortResult<i64> {
        connection.pragma_query_value(None, pragma, |row| row.get(0)).doing("base: read its schema version")
    };
    if number("application_id")? != APPLICATION_ID {
        return Err(PortError::permanent("the file is a SQLite database, but not a driftless base")
            .with_hint("name another file in base.path"));
    }
    match number("user_version")? {
        SCHEMA_VERSION => Ok(()),
        newer => Err(PortError::permanent(format!(
            "the base has schema version {newer}, this release knows {SCHEMA_VERSION}"
        ))
        .with_hint("use the release that wrote it, or a newer one")),
    }
}

fn check_generation(connection: &Connection, configured: &str) -> PortResult<()> {
    let stored: String = connection
        .query_row("SELECT value FROM driftless_facts WHERE name = 'generation'", [], |row| row.get(0))
        .doing("base: read its generation")?;
    if stored == configured {
        return Ok(());
    }
    Err(PortError::permanent(format!(
        "the base holds generation {stored}, base.generation says {configured}"
    ))
    .with_hint("name the generation that the file holds, or a new file in base.path for a new generation"))
}

pub(super) fn is_empty(connection: &Connection) -> PortResult<bool> {
    connection
        .query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
        .doing("base: look at its tables")
}

fn create(connection: &Connection, generation: &str, at_ms: i64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(TABLES)?;
    let mut fact = connection.prepare("INSERT INTO driftless_facts VALUES (?1, ?2)")?;
    fact.execute(params!["generation", generation])?;
    fact.execute(params!["created_ms", at_ms])?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    connection.execute_batch("COMMIT")
}

/// Makes what the catalog's tables need, inside the caller's transaction. Returns the base's numbers of the
/// tables. A table whose definition changed is refused: that is a new generation.
pub(super) fn ensure_tables(connection: &Connection, catalog: &Catalog) -> PortResult<Vec<i64>> {
    let mut ids = Vec::new();
    for table in &catalog.tables {
        let name = &*table.shape.name;
        let definition = definition(&table.shape, table.mode);
        let known: Option<(i64, String)> = connection
            .query_row("SELECT table_id, definition FROM driftless_tables WHERE name = ?1", [name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .doing("base: look for a table")?;
        match known {
            Some((id, stored)) if stored == definition => ids.push(id),
            Some((_, stored)) => {
                return Err(PortError::permanent(format!(
                    "table {name} is configured otherwise than in the base:\n  configured {definition}\n  base       {stored}"
                ))
                .with_hint("a changed table is another base: name a new file in base.path and another redis.prefix, and read the log into it"));
            }
            None => {
                connection
                    .execute_batch(&storage_sql(&table.shape))
                    .and_then(|()| {
                        connection.execute(
                            "INSERT INTO driftless_tables (name, definition) VALUES (?1, ?2)",
                            params![name, definition],
                        )
                    })
                    .doing(&format!("base: create table {name}"))?;
                ids.push(connection.last_insert_rowid());
            }
        }
    }
    Ok(ids)
}

fn definition(table: &Table, mode: Mode) -> String {
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|column| serde_json::json!([&*column.name, type_name(column.column_type), column.nullable]))
        .collect();
    let key: Vec<_> = table.key.iter().map(|&column| &*table.columns[column].name).collect();
    let watermark = match mode {
        Mode::Dense { first } => serde_json::json!([mode.name(), first]),
        Mode::Sparse { shared } => serde_json::json!([mode.name(), shared]),
        Mode::AppendOrdered | Mode::Offsets => serde_json::json!([mode.name()]),
    };
    serde_json::json!({"columns": columns, "key": key, "watermark": watermark}).to_string()
}

fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "integer",
        ColumnType::Text => "text",
        ColumnType::Date => "date",
    }
}

/// Facts and graves share one table, so that one look finds the latest event of a key. A grave has only its key.
fn storage_sql(table: &Table) -> String {
    let storage = quote_identifier(&storage_name(&table.name));
    let columns: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let kind = match column.column_type {
                ColumnType::Integer => "INTEGER",
                ColumnType::Text | ColumnType::Date => "TEXT",
            };
            let constraint = if table.is_key(index) { " NOT NULL" } else { "" };
            format!("{} {kind}{constraint}", quote_identifier(&column.name))
        })
        .collect();
    let key: Vec<String> =
        table.key.iter().map(|&column| quote_identifier(&table.columns[column].name)).collect();
    let names: Vec<String> = table.columns.iter().map(|column| quote_identifier(&column.name)).collect();
    format!(
        "CREATE TABLE {storage} ({}, _seq ANY NOT NULL, _live INTEGER NOT NULL, PRIMARY KEY ({})) STRICT, WITHOUT ROWID;
         CREATE VIEW {} AS SELECT {} FROM {storage} WHERE _live = 1;",
        columns.join(", "),
        key.join(", "),
        quote_identifier(&table.name),
        names.join(", "),
    )
}
