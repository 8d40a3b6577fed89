//! Writes the WAL back to the file, beside the writer, so that no commit waits for it.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::{BaseSettings, Doing, connect};
use crate::ports::PortResult;

/// A round that took at most this long has left little for the next.
const QUICK: Duration = Duration::from_millis(20);
const ROUNDS_MAX: u32 = 10;

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
    /// should be, has the writer start from its front again, which makes it wait for as long as the last frames and
    /// their syncs take: only after a round that was quick, so that little is left. A disk that is too slow for
    /// that lets the WAL grow, up to thirty-two times, before the writer is made to wait all the same.
    pub fn run(&mut self) -> PortResult<()> {
        if self.wal_bytes() < self.bytes_min {
            return Ok(());
        }
        let mut took = self.checkpoint("PASSIVE")?;
        if self.wal_bytes() <= 4 * self.bytes_min {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            if took <= QUICK {
                break;
            }
            took = self.checkpoint("PASSIVE")?;
        }
        if took <= QUICK || self.wal_bytes() > 32 * self.bytes_min {
            self.checkpoint("RESTART")?;
        }
        Ok(())
    }

    /// Writes everything back and cuts the WAL to nothing, as a clean stop leaves it.
    pub fn finish(&mut self) -> PortResult<()> {
        self.checkpoint("TRUNCATE").map(|_| ())
    }

    fn checkpoint(&self, mode: &str) -> PortResult<Duration> {
        let started = Instant::now();
        let busy: i64 = self
            .connection
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0))
            .doing("base: checkpoint")?;
        let took = started.elapsed();
        tracing::trace!(mode, busy, ?took, "checkpoint");
        Ok(took)
    }
}
