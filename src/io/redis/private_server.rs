//! A Redis server of our own on a loopback port, for the demo and for tests: started, waited for, and ended by its
//! process id. Keeps nothing on disk, and touches no other server.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::RedisSettings;
use super::connect::Connector;
use crate::ports::{PortError, PortResult};
use crate::pure::secret::Secret;

const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(10);
/// Another process may take the free port before the server does.
const PORT_ATTEMPTS: usize = 5;

/// How to start a [`PrivateRedis`].
#[derive(Clone, Debug, Default)]
pub struct PrivateRedisOptions {
    /// The server's program; `redis-server`, else `valkey-server` from the `PATH` where it is not given.
    pub executable: Option<PathBuf>,
    /// What clients have to give, as `requirepass`.
    pub password: Option<Secret>,
    /// Speak TLS, and nothing else.
    pub tls: Option<TlsFiles>,
    /// Further lines of `redis.conf`, such as `maxmemory 2mb`.
    pub config: Vec<String>,
}

/// PEM files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A running server; dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct PrivateRedis {
    options: PrivateRedisOptions,
    executable: PathBuf,
    folder: TempDir,
    child: Child,
    port: u16,
}

impl PrivateRedis {
    /// Starts a server on a free port and waits until it answers.
    pub fn start(options: PrivateRedisOptions) -> PortResult<Self> {
        let executable = find_executable(options.executable.as_deref())?;
        let folder = tempfile::Builder::new()
            .prefix("driftless-redis-")
            .tempdir()
            .map_err(|error| cannot_start(&executable, &format!("no temporary folder: {error}")))?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port().map_err(|error| cannot_start(&executable, &error.to_string()))?;
            match launch(&executable, folder.path(), port, &options) {
                Ok(child) => {
                    return Ok(PrivateRedis { options, executable, folder, child, port });
                }
                Err(error) if attempts < PORT_ATTEMPTS && error.what.contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Settings that reach this server, password and certificate authority included.
    pub fn settings(&self) -> RedisSettings {
        settings(self.port, &self.options)
    }

    /// Address without credentials.
    pub fn url(&self) -> String {
        self.settings().url
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the server and starts it again at the same address: empty, for it saves nothing.
    pub fn restart(&mut self) -> PortResult<()> {
        end(&mut self.child);
        self.child = launch(&self.executable, self.folder.path(), self.port, &self.options)?;
        Ok(())
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// It holds nothing worth a farewell.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn settings(port: u16, options: &PrivateRedisOptions) -> RedisSettings {
    let scheme = if options.tls.is_some() { "rediss" } else { "redis" };
    RedisSettings {
        url: format!("{scheme}://127.0.0.1:{port}"),
        password: options.password.clone(),
        tls_ca_file: options.tls.as_ref().map(|files| files.ca.clone()),
        ..RedisSettings::default()
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// One attempt: writes the configuration, starts the process, waits for it to answer.
fn launch(executable: &Path, folder: &Path, port: u16, options: &PrivateRedisOptions) -> PortResult<Child> {
    let problem = |cause: &str| cannot_start(executable, cause);
    let log_file = folder.join("redis.log");
    let config_file = folder.join("redis.conf");
    write_config(&config_file, folder, port, options).map_err(|error| problem(&error.to_string()))?;
    let log = || File::create(&log_file).and_then(|out| Ok((out.try_clone()?, out)));
    let (out, err) = log().map_err(|error| problem(&error.to_string()))?;
    let mut child = Command::new(executable)
        .arg(&config_file)
        .stdin(Stdio::null())
        // Ctrl-C in a terminal is for us to act on: what was read is still published before the server ends.
        .process_group(0)
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| problem(&error.to_string()))?;
    match wait_until_it_answers(&mut child, port, options) {
        Ok(()) => Ok(child),
        Err(cause) => {
            end(&mut child);
            Err(problem(&format!("{cause}\n{}", last_lines(&log_file))))
        }
    }
}

/// In a file, for a password on the command line is there for all to see; the folder is ours alone.
fn write_config(file: &Path, folder: &Path, port: u16, options: &PrivateRedisOptions) -> std::io::Result<()> {
    let mut out = File::create(file)?;
    writeln!(out, "bind 127.0.0.1\ndir \"{}\"", folder.display())?;
    writeln!(out, "save \"\"\nappendonly no\ndaemonize no")?;
    match &options.tls {
        None => writeln!(out, "port {port}")?,
        Some(files) => {
            writeln!(out, "port 0\ntls-port {port}\ntls-auth-clients no")?;
            writeln!(out, "tls-ca-cert-file \"{}\"", files.ca.display())?;
            writeln!(out, "tls-cert-file \"{}\"", files.cert.display())?;
            writeln!(out, "tls-key-file \"{}\"", files.key.display())?;
        }
    }
    if let Some(password) = &options.password {
        writeln!(out, "requirepass \"{}\"", hex_escaped(password.expose()))?;
    }
    for line in &options.config {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// No quote in a password ends the word early; a line that the server cannot read is one that it would log.
fn hex_escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Whoever answers has to be the process that was started: the port may have gone to somebody else.
fn wait_until_it_answers(child: &mut Child, port: u16, options: &PrivateRedisOptions) -> Result<(), String> {
    let connector = Connector::new(&settings(port, options)).map_err(|error| error.to_string())?;
    let started = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended at once ({status})"));
        }
        let answer = connector.open().map(|mut connection| {
            let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection);
            info.map_err(|error| error.to_string())
        });
        let trouble = match answer {
            Ok(Ok(info)) if info.contains(&format!("process_id:{}\r", child.id())) => return Ok(()),
            Ok(Ok(_)) => "another server answers: Address already in use".to_owned(),
            Ok(Err(error)) => error,
            Err(error) => error.to_string(),
        };
        if started.elapsed() > START_TIMEOUT {
            return Err(format!("it does not answer: {trouble}"));
        }
        thread::sleep(START_POLL);
    }
}

fn find_executable(given: Option<&Path>) -> PortResult<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in ["redis-server", "valkey-server"] {
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err(PortError::permanent("neither redis-server nor valkey-server is on the PATH")
        .with_hint("install it (Debian, Ubuntu: `apt install redis-server`; macOS: `brew install redis`)"))
}

fn cannot_start(executable: &Path, cause: &str) -> PortError {
    PortError::permanent(format!("{} could not be started: {cause}", executable.display()))
        .with_hint("Redis 7.0 or later is needed; try the program by hand to see what it says")
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
