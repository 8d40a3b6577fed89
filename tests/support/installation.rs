//! An installation of driftless of a test's own: a folder with configuration and contract, and the built program
//! run in it. The program sees none of this process's DRIFTLESS variables. Must not know what is asserted.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use driftless::example;
use tempfile::TempDir;

/// The longest that a command may take here.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);

/// The example's table as the configuration declares it.
pub const TABLE: &str = r#"
[[table]]
name = "fact_sales"
primary_key = ["order_id", "line_no"]

[table.columns]
order_id = "text"
line_no = "integer"
order_date = "date"
product_id = "text"
customer_id = "text"
channel = "text"
quantity = "integer"
amount_cents = "integer"
cost_cents = "integer"
status = "text"
"#;

/// A folder with `driftless.toml` and the example's contract; commands run in it.
pub struct Installation {
    folder: TempDir,
    commands: AtomicU32,
}

impl Installation {
    pub fn new(configuration: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("driftless-test-").tempdir().unwrap();
        let installation = Installation { folder, commands: AtomicU32::new(0) };
        installation.write("driftless.toml", configuration);
        installation.write("agg_daily_product.json", example::CONTRACT);
        installation
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Names of the files in the folder, but for what commands printed.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("printed-"))
            .collect();
        names.sort();
        names
    }

    /// The program with these arguments, in the folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_driftless"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DRIFTLESS_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Answer {
        self.run_command(self.command(arguments))
    }

    pub fn run_command(&self, command: Command) -> Answer {
        self.start(command).wait(COMMAND_TIMEOUT)
    }

    pub fn start(&self, mut command: Command) -> Running {
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let (out, err) =
            (self.path(&format!("printed-{number}.out")), self.path(&format!("printed-{number}.err")));
        let shown = command.get_args().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        Running { child, shown, out, err }
    }
}

/// A program that runs; dropping it kills it.
pub struct Running {
    child: Child,
    shown: String,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        text_of(&self.err)
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// `kill -9`, and what it had said.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log()
    }

    /// Waits for its end.
    pub fn wait(mut self, longest: Duration) -> Answer {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let (out, err) = (text_of(&self.out), text_of(&self.err));
                return Answer { shown: self.shown.clone(), code: status.code(), out, err };
            }
            assert!(
                since.elapsed() < longest,
                "driftless {} has not ended in {longest:?}; its log:\n{}",
                self.shown,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// By the shell's own `kill`, which every machine has.
pub fn send_signal(process_id: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {process_id}")]).status().unwrap();
    assert!(status.success(), "kill -{name} {process_id}");
}

fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// What a command said.
pub struct Answer {
    shown: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Answer {
    /// The same, where its exit code is this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text());
        self
    }

    /// Whatever it printed names every one of these.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let text = self.text();
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    pub fn text(&self) -> String {
        format!("driftless {}\n{}\n{}", self.shown, self.out, self.err)
    }
}
