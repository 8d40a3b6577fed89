//! The writer's lock: an OS lock on a file beside the base, which ends with the process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::ports::{PortError, PortResult};

/// Held for the life of a writer.
#[derive(Debug)]
pub struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock, or says who has it.
    pub fn take(base: &Path) -> PortResult<Self> {
        match Self::try_take(base)? {
            Ok(lock) => Ok(lock),
            Err(holder) => Err(PortError::permanent(format!(
                "base {} already has a writer (process {holder})",
                base.display()
            ))
            .with_hint("stop that process, or give this one a base file of its own")),
        }
    }

    /// Takes the lock, or returns the process id of its holder as text.
    pub fn try_take(base: &Path) -> PortResult<Result<Self, String>> {
        let path = lock_path(base);
        let fail = |error: std::io::Error| {
            PortError::permanent(format!("lock file {}: {error}", path.display()))
                .with_hint("check that the base's folder exists and is writable")
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).map_err(fail)?;
                write!(file, "{}", std::process::id()).map_err(fail)?;
                Ok(Ok(WriterLock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.rewind().map_err(fail)?;
                file.read_to_string(&mut holder).map_err(fail)?;
                Ok(Err(holder))
            }
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }
}

fn lock_path(base: &Path) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
