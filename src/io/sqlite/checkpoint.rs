//! Writes the WAL back to the file, beside the writer, so that no commit waits for it.

use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{BaseSettings, Doing, connect};
use crate::ports::PortResult;

/// The one connection that checkpoints a base.
pub struct Checkpointer {
    connection: Connection,
    wal: std::path::PathBuf,
    bytes_min: u64,
}

impl Checkpointer {
    pub fn open(settings: &BaseSettings) -> PortResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(settings, flags)?;
        connection
            .busy_timeout(Duration::from_millis(50))
            .and_then(|()| connection.pragma_update(None, "wal_autocheckpoint", 0))
            .doing("base: prepare checkpoints")?;
        let mut wal = settings.path.as_os_str().to_owned();
        wal.push("-wal");
        Ok(Checkpointer { connection, wal: wal.into(), bytes_min: settings.wal_checkpoint_bytes })
    }

    /// Bytes of the WAL file now.
    pub fn wal_bytes(&self) -> u64 {
        std::fs::metadata(&self.wal).map_or(0, |file| file.len())
    }

    /// Writes back what can be written without making anybody wait. Once the WAL is four times as large as it
    /// should be, asks the writer to pause for a moment (at most 50 ms), so that it starts from the front again.
    pub fn run(&mut self) -> PortResult<()> {
        let bytes = self.wal_bytes();
        if bytes < self.bytes_min {
            return Ok(());
        }
        self.checkpoint("PASSIVE")?;
        if bytes > 4 * self.bytes_min {
            self.checkpoint("RESTART")?;
        }
        Ok(())
    }

    /// Writes everything back and cuts the WAL to nothing, as a clean stop leaves it.
    pub fn finish(&mut self) -> PortResult<()> {
        self.checkpoint("TRUNCATE")
    }

    fn checkpoint(&self, mode: &str) -> PortResult<()> {
        let busy: i64 = self
            .connection
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0))
            .doing("base: checkpoint")?;
        tracing::trace!(mode, busy, "checkpoint");
        Ok(())
    }
}
