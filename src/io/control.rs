//! The control file beside the bases: which generations there are and which one is live. Replaced as a whole, so
//! that a crash leaves the old one or the new one. Knows no rule about what may be written.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::ports::{PortError, PortResult};
use crate::pure::generation::Control;

/// Where the generations of a base are recorded, and where their files are.
#[derive(Clone, Debug)]
pub struct ControlFile {
    path: PathBuf,
    folder: PathBuf,
}

impl ControlFile {
    /// The control file of the base that is configured.
    pub fn of(base: &Path) -> Self {
        let folder = base.parent().map(Path::to_owned).unwrap_or_default();
        ControlFile { path: beside(base, ".generations.json"), folder }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The base file that a generation's entry names.
    pub fn base(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// `None` where no second generation has ever been made.
    pub fn load(&self) -> PortResult<Option<Control>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.trouble("read", &error)),
        };
        let control: Control =
            serde_json::from_str(&text).map_err(|error| self.unreadable(&error.to_string()))?;
        control.check().map_err(|what| self.unreadable(&what))?;
        Ok(Some(control))
    }

    /// Changes the file under its lock: two commands never overwrite each other. `first` is what an absent file
    /// stands for. An error of `change` leaves the file as it is.
    pub fn change<T, E: From<PortError>>(
        &self,
        first: impl FnOnce() -> Result<Control, E>,
        change: impl FnOnce(&mut Control) -> Result<T, E>,
    ) -> Result<T, E> {
        let _lock = self.lock()?;
        let mut control = match self.load()? {
            Some(control) => control,
            None => first()?,
        };
        let result = change(&mut control)?;
        self.save(&control)?;
        Ok(result)
    }

    fn lock(&self) -> PortResult<File> {
        let path = beside(&self.path, ".lock");
        let open = || -> std::io::Result<File> {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| self.trouble("lock", &error))
    }

    /// The new text reaches the disk before it gets the name, and the name before this returns.
    fn save(&self, control: &Control) -> PortResult<()> {
        control.check().map_err(|what| self.unreadable(&what))?;
        let text =
            serde_json::to_string_pretty(control).map_err(|error| self.unreadable(&error.to_string()))?;
        let draft = beside(&self.path, ".draft");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)?;
            let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| self.trouble("write", &error))
    }

    fn trouble(&self, doing: &str, error: &std::io::Error) -> PortError {
        PortError::permanent(format!("control file {}: {doing}: {error}", self.path.display()))
            .with_hint("check that the base's folder exists and is writable")
    }

    fn unreadable(&self, what: &str) -> PortError {
        PortError::permanent(format!("control file {}: {what}", self.path.display())).with_hint(
            "driftless writes this file as a whole: put a backup of it back, or the release that wrote it in use",
        )
    }
}

/// Deletes a base and what SQLite keeps beside it. The lock file goes last.
pub fn remove_base(base: &Path) -> PortResult<()> {
    for ending in ["", "-wal", "-shm", ".lock"] {
        let path = beside(base, ending);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(PortError::permanent(format!("{}: delete: {error}", path.display()))
                    .with_hint("check that the base's folder is writable"));
            }
        }
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
