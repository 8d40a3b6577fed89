//! One file a subcommand: wiring only. This file has what they share: arguments, errors, exit codes.

mod acceptance;
mod bench;
mod checksum;
mod context;
mod contract;
mod demo;
mod dlq;
mod explain;
mod generate;
mod generations;
mod inspect;
mod message_line;
mod output;
mod playground;
mod produce;
mod query;
mod reconcile;
mod replay;
mod request;
mod run;
mod seed;
mod shadow;
mod status;
mod story;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::config::ConfigError;
use crate::ports::PortError;
use crate::telemetry::LogFormat;

#[derive(Debug, Parser)]
#[command(
    name = "driftless",
    version,
    about = "Keeps precomputed aggregates in Redis true: Kafka in, SQLite base, Redis out, and no silent drift",
    after_help = "Exit codes: 0 fine, 1 the answer is no, 2 trouble.\nExample: driftless demo"
)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// Arguments that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Shared {
    /// Configuration file [default: driftless.toml, else config/driftless.toml].
    #[arg(long, global = true, env = "DRIFTLESS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Sets one setting, over file and environment; may be repeated: --set kafka.brokers=127.0.0.1:9092
    #[arg(long = "set", global = true, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Form of the answer on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Whether it was asked for, rather than the default.
    #[arg(skip)]
    pub format_given: bool,
    /// Form of log lines on standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Run(run::Arguments),
    Status(status::Arguments),
    Seed(seed::Arguments),
    Produce(produce::Arguments),
    Generate(generate::Arguments),
    Inspect(inspect::Arguments),
    Checksum(checksum::Arguments),
    Reconcile(reconcile::Arguments),
    Dlq(dlq::Arguments),
    Contract(contract::Arguments),
    Query(query::Arguments),
    Explain(explain::Arguments),
    Shadow(shadow::Arguments),
    View(view::Arguments),
    Replay(replay::Arguments),
    Generations(generations::Arguments),
    Acceptance(acceptance::Arguments),
    Bench(bench::Arguments),
}

/// What a command that ran to its end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// The answer to what was asked is no.
    No,
}

/// Why a command could not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// Says what and what to do.
    #[error("{what}\n  remedy: {remedy}")]
    Usage { what: String, remedy: String },
}

impl CommandError {
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        CommandError::Usage { what: what.into(), remedy: remedy.into() }
    }
}

pub type CommandResult = Result<Verdict, CommandError>;

/// Runs the program.
pub fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let given = matches.value_source("format") == Some(ValueSource::CommandLine);
    let Cli { mut shared, command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    shared.format_given = given;
    let result = match command {
        Command::Demo(arguments) => demo::run(&shared, &arguments),
        Command::Run(arguments) => run::run(&shared, &arguments),
        Command::Status(arguments) => status::run(&shared, &arguments),
        Command::Seed(arguments) => seed::run(&shared, &arguments),
        Command::Produce(arguments) => produce::run(&shared, &arguments),
        Command::Generate(arguments) => generate::run(&shared, &arguments),
        Command::Inspect(arguments) => inspect::run(&shared, &arguments),
        Command::Checksum(arguments) => checksum::run(&shared, &arguments),
        Command::Reconcile(arguments) => reconcile::run(&shared, &arguments),
        Command::Dlq(arguments) => dlq::run(&shared, &arguments),
        Command::Contract(arguments) => contract::run(&shared, &arguments),
        Command::Query(arguments) => query::run(&shared, &arguments),
        Command::Explain(arguments) => explain::run(&shared, &arguments),
        Command::Shadow(arguments) => shadow::run(&shared, &arguments),
        Command::View(arguments) => view::run(&shared, &arguments),
        Command::Replay(arguments) => replay::run(&shared, &arguments),
        Command::Generations(arguments) => generations::run(&shared, &arguments),
        Command::Acceptance(arguments) => acceptance::run(&shared, &arguments),
        Command::Bench(arguments) => bench::run(&shared, &arguments),
    };
    match result {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
