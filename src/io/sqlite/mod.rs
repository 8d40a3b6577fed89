//! The base file: opening, locking, schema. `writer` changes it, `reader` looks at snapshots of it.
//!
//! WAL, STRICT tables, one writer under an OS lock. A table's facts live in `driftless_rows_<table>` together
//! with the graves of deleted rows; a SQL view of the table's own name shows the facts alone.

mod build;
mod checkpoint;
mod convert;
mod copy;
mod explain;
mod groups;
mod head;
mod lock;
mod query;
mod reader;
mod records;
mod rows;
mod schema;
mod statements;
mod usage;
mod writer;

use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};

pub use checkpoint::Checkpointer;
pub use copy::{Copy, copy_base};
pub use explain::{Cause, GroupChange, GroupFacts, RowMove};
pub use lock::WriterLock;
pub use query::FactQuery;
pub use reader::{BaseFacts, BuiltView, SqliteReader, built_views};
pub use records::{PassOnRecord, RequestBox};
pub use schema::SCHEMA_VERSION;
pub use usage::SqliteUseBook;
pub use writer::SqliteWriter;

use crate::ports::{PortError, PortResult};

/// The version of SQLite that this program was built with.
pub fn library_version() -> &'static str {
    rusqlite::version()
}

/// How the base file is kept.
#[derive(Clone, Debug)]
pub struct BaseSettings {
    pub path: PathBuf,
    /// Names the history of a new file; an old one must have it.
    pub generation: String,
    /// `PRAGMA synchronous=FULL` instead of `NORMAL`.
    pub synchronous_full: bool,
    /// Page cache of a connection, in KiB.
    pub cache_kib: u32,
    /// Entries kept in the change history.
    pub history_changes_max: u64,
    /// Size of the WAL from which it is written back to the file, in bytes.
    pub wal_checkpoint_bytes: u64,
}

/// The oldest SQLite whose WAL is safe with a checkpointer beside the writer.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

fn connect(settings: &BaseSettings, flags: OpenFlags) -> PortResult<Connection> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(PortError::permanent(format!(
            "SQLite {} is linked, 3.51.3 or newer is needed",
            rusqlite::version()
        ))
        .with_hint("build with the bundled SQLite, as the default build does"));
    }
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&settings.path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "cache_size", -i64::from(settings.cache_kib))?;
        connection.pragma_update(None, "mmap_size", 0)?;
        connection.set_prepared_statement_cache_capacity(128);
        Ok(connection)
    };
    open().map_err(|error| trouble(error, &format!("base {}", settings.path.display())))
}

/// Names what failed and says whether it may pass by itself.
fn trouble(error: rusqlite::Error, doing: &str) -> PortError {
    use rusqlite::ErrorCode;
    let what = format!("{doing}: {error}");
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            PortError::transient(what).with_hint("another process holds the file; see who has it open")
        }
        Some(ErrorCode::DiskFull) => PortError::transient(what)
            .with_hint("free space on the base's disk; reading goes on by itself then"),
        Some(ErrorCode::SystemIoFailure) => PortError::transient(what)
            .with_hint("check the base's disk; reading goes on by itself once it answers"),
        Some(ErrorCode::CannotOpen) => {
            PortError::permanent(what).with_hint("check the path, and that its folder exists and is writable")
        }
        Some(ErrorCode::ReadOnly) => {
            PortError::permanent(what).with_hint("make the base file and its folder writable")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => PortError::permanent(what)
            .with_hint("the file is damaged or no base: name another base.path and replay the log"),
        _ => PortError::permanent(what),
    }
}

/// Adds what was being done to a SQLite error.
trait Doing<T> {
    fn doing(self, what: &str) -> PortResult<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &str) -> PortResult<T> {
        self.map_err(|error| trouble(error, what))
    }
}
