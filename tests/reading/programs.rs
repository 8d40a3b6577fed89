//! Runs the page's programs, each with its interpreter, as the reader that the page's ACL line makes. What cannot be
//! had here (an interpreter, a client library) skips its programs by name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use driftless::io::redis::{PrivateRedis, READ_SCRIPT};

use crate::fixture;
use crate::page::{Page, Program};

const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);
const INSTALL_TIMEOUT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Bash,
    Python,
    JavaScript,
}

impl Language {
    pub fn of(program: &Program) -> Option<Self> {
        match program.language.as_str() {
            "bash" => Some(Language::Bash),
            "python" => Some(Language::Python),
            "javascript" => Some(Language::JavaScript),
            _ => None,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Language::Bash => "sh",
            Language::Python => "py",
            Language::JavaScript => "mjs",
        }
    }

    /// The interpreter, with what the programs need of it at hand in `folder`; else why not.
    fn interpreter(self, folder: &Path) -> Result<PathBuf, String> {
        match self {
            Language::Bash => {
                let client = program("redis-cli", &["--version"], folder);
                client.succeed(PROGRAM_TIMEOUT)?;
                Ok("bash".into())
            }
            Language::Python => python(folder),
            Language::JavaScript => javascript(folder),
        }
    }
}

/// Runs all programs of one language and compares what they print.
pub fn check(page: &Page, language: Language) {
    let programs = || page.programs.iter().filter(|program| Language::of(program) == Some(language));
    assert!(programs().count() > 0, "docs/READING.md has no program in {language:?}");
    let folder = tempfile::Builder::new().prefix("driftless-reading-").tempdir().unwrap();
    let interpreter = match language.interpreter(folder.path()) {
        Ok(interpreter) => interpreter,
        Err(why) => {
            programs().for_each(|program| skipped(program, &why));
            return;
        }
    };
    fs::write(folder.path().join("read.lua"), READ_SCRIPT).unwrap();
    let server = fixture::start();
    let address = reader(page, &server);
    let failures: Vec<String> = programs()
        .filter_map(|program| run(program, language, &interpreter, folder.path(), &address).err())
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Past the test harness, which hides what a passing test prints.
fn skipped(program: &Program, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED docs/READING.md {}: {why}", program.name);
}

/// Makes the page's reader; the address carries its name and password.
fn reader(page: &Page, server: &PrivateRedis) -> String {
    let line = &page.program("acl").text;
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..3], ["ACL", "SETUSER", "driftless-reader"]);
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis::cmd(words[0]).arg(&words[1..]).exec(&mut connection).unwrap();
    format!("redis://driftless-reader:secret@127.0.0.1:{}", server.port())
}

fn run(
    program: &Program,
    language: Language,
    interpreter: &Path,
    folder: &Path,
    address: &str,
) -> Result<(), String> {
    let file = folder.join(&program.name).with_extension(language.ending());
    fs::write(&file, &program.text).unwrap();
    let mut command = Command::new(interpreter);
    command.arg(&file).env("REDIS_URL", address);
    let printed = Running { name: &program.name, command, folder }.succeed(PROGRAM_TIMEOUT)?;
    match &program.output {
        Some(output) if *output != printed => {
            Err(format!("{}: the page says\n{output}--- it printed\n{printed}", program.name))
        }
        _ => Ok(()),
    }
}

/// With the library that is installed, else with one in our folder.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let usable = || program("python3", &["-c", "import redis; redis.Redis.eval_ro"], folder);
    if usable().succeed(PROGRAM_TIMEOUT).is_err() {
        let install =
            "-m pip install --quiet --retries=1 --disable-pip-version-check --target=python redis>=5,<9";
        let install: Vec<&str> = install.split(' ').collect();
        program("python3", &install, folder).succeed(INSTALL_TIMEOUT)?;
        usable().succeed(PROGRAM_TIMEOUT)?;
    }
    Ok("python3".into())
}

fn javascript(folder: &Path) -> Result<PathBuf, String> {
    program("node", &["--version"], folder).succeed(PROGRAM_TIMEOUT)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n").unwrap();
    let install = ["install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "redis@6"];
    program("npm", &install, folder).succeed(INSTALL_TIMEOUT)?;
    let usable = ["--input-type=module", "--eval", "await import('redis')"];
    program("node", &usable, folder).succeed(PROGRAM_TIMEOUT)?;
    Ok("node".into())
}

fn program<'a>(name: &'a str, arguments: &[&str], folder: &'a Path) -> Running<'a> {
    let mut command = Command::new(name);
    command.args(arguments);
    Running { name, command, folder }
}

/// A command that is about to run in a folder of ours.
struct Running<'a> {
    name: &'a str,
    command: Command,
    folder: &'a Path,
}

impl Running<'_> {
    /// What it printed; an error tells what it said instead. Both go through files, which no output fills up.
    fn succeed(mut self, limit: Duration) -> Result<String, String> {
        let (out, err) = (self.folder.join("stdout"), self.folder.join("stderr"));
        self.command
            .current_dir(self.folder)
            .env("PATH", path())
            .env("PYTHONIOENCODING", "utf-8")
            .env("PYTHONPATH", self.folder.join("python"))
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        let mut child = self.command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > limit {
                child.kill().and_then(|()| child.wait()).unwrap();
                return Err(format!("{}: not done after {} s", self.name, limit.as_secs()));
            }
            std::thread::sleep(POLL);
        };
        let text = |file: &Path| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        if status.success() {
            return Ok(text(&out));
        }
        Err(format!("{}: {status}: {}", self.name, text(&err).trim()))
    }
}

/// A server from elsewhere has its client beside it.
fn path() -> OsString {
    let server = std::env::var_os("DRIFTLESS_REDIS_SERVER").map(PathBuf::from);
    let beside = server.and_then(|server| server.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).chain(beside)).unwrap_or(path)
}
