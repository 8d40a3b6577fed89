//! `driftless generations`: which bases there are, how they differ, and which one readers are shown.

mod activate;
mod build;
mod certify;
mod diff;
mod list;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::context::Context;
use super::output::tell;
use super::request::caller;
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::io::control::remove_base;
use crate::io::sqlite::WriterLock;
use crate::pure::base::Word;
use crate::pure::generation::{Control, Generation};

/// List, compare, certify, activate, roll back and drop generations.
///
/// A generation is one base file with its own positions and history. One is live: `driftless run` publishes it, and
/// lets candidates and the way back follow the log beside it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: driftless replay && driftless generations certify 2 && driftless generations activate 2
         driftless generations rollback --why 'numbers look wrong'"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// One line a generation: which is live, where each stands, what is certified.
    #[command(after_help = "Example: driftless generations list --format json")]
    List,
    /// Build a candidate with a changed contract from the live base's rows, without replay.
    #[command(
        after_help = "Example: driftless generations build --contract contracts/new/agg_daily_product.json --why 'net of refunds'"
    )]
    Build(build::Arguments),
    /// Compare two generations group by group; exit 1 where any group differs.
    #[command(after_help = "Example: driftless generations diff 1 2 --limit 20
         driftless generations diff 1 2 --out differences.jsonl")]
    Diff(diff::Arguments),
    /// Prove a candidate: the file, every group computed both ways, positions, dead letters; exit 1 where it is unfit.
    #[command(after_help = "Example: driftless generations certify 2 --why 'release of today'")]
    Certify {
        /// The generation.
        generation: String,
        #[command(flatten)]
        word: WordArguments,
    },
    /// Show readers this generation instead of the live one.
    #[command(after_help = "Example: driftless generations activate 2 --dry-run
         driftless generations activate 2 --why 'replayed after the restore'")]
    Activate(activate::Arguments),
    /// Activate the generation that was live before.
    #[command(after_help = "Example: driftless generations rollback --why 'numbers look wrong'")]
    Rollback(activate::RollbackArguments),
    /// Delete a generation that is not live, and its base file.
    #[command(after_help = "Example: driftless generations drop 1 --why 'a week has passed'")]
    Drop {
        /// The generation.
        generation: String,
        /// Also the way back, within its rollback window.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        word: WordArguments,
    },
}

/// Who and why, for the record.
#[derive(Clone, Debug, Args)]
pub struct WordArguments {
    /// Stays on record [default: the user's name].
    #[arg(long)]
    who: Option<String>,
    /// Stays on record.
    #[arg(long, default_value = "")]
    why: String,
}

impl WordArguments {
    fn word(&self, context: &Context) -> Word {
        Word { who: caller(self.who.as_deref()), why: self.why.clone(), at_ms: context.clock.wall_ms() }
    }
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    match &arguments.action {
        Action::List => list::run(&context, shared.format),
        Action::Build(arguments) => build::run(&context, arguments, shared.format),
        Action::Diff(arguments) => diff::run(&context, arguments, shared.format),
        Action::Certify { generation, word } => certify::run(&context, generation, word, shared.format),
        Action::Activate(arguments) => activate::run(&context, arguments, shared.format),
        Action::Rollback(arguments) => activate::roll_back(&context, arguments, shared.format),
        Action::Drop { generation, force, word } => drop(&context, generation, *force, word, shared.format),
    }
}

/// A generation of the control file, or what there is instead.
fn find<'a>(control: &'a Control, name: &str) -> Result<&'a Generation, CommandError> {
    control.get(name).ok_or_else(|| {
        let names: Vec<&str> =
            control.generations.iter().map(|generation| generation.name.as_str()).collect();
        CommandError::usage(
            format!("there is no generation {name}"),
            format!("name one of: {}", names.join(", ")),
        )
    })
}

/// The context of a generation that has a base already.
fn context_of(context: &Context, control: &Control, name: &str) -> Result<Context, CommandError> {
    find(control, name)?;
    context.of_generation(&context.control_file(), control, name)
}

fn drop(context: &Context, name: &str, force: bool, word: &WordArguments, format: Format) -> CommandResult {
    let file = context.control_file();
    let now_ms = context.clock.wall_ms();
    // 1. Off the record first: a maintainer that lets it follow then lets go of it.
    let path: PathBuf = file.change(
        || Ok(context.first_control()),
        |control| {
            let entry = find(control, name)?.clone();
            if control.is_live(name) {
                return Err(CommandError::usage(
                    format!("generation {name} is live"),
                    "activate another one first",
                ));
            }
            let way_back = control.way_back().is_some_and(|way_back| way_back.name == name);
            let window = entry.rollback_until_ms.is_some_and(|until| now_ms < until);
            if way_back && window && !force {
                return Err(CommandError::usage(
                    format!("generation {name} is the way back, and its rollback window is open"),
                    "wait, or say --force",
                ));
            }
            control.generations.retain(|generation| generation.name != name);
            Ok(file.base(&entry.file))
        },
    )?;
    // 2. Then the file, once nobody writes to it.
    let mut rounds = 0;
    let lock = loop {
        match WriterLock::try_take(&path)? {
            Ok(lock) => break lock,
            Err(holder) if rounds > 300 => {
                return Err(CommandError::usage(
                    format!("process {holder} still has {} open", path.display()),
                    format!("end it, then delete {}", path.display()),
                ));
            }
            Err(_) => rounds += 1,
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    remove_base(&path)?;
    std::mem::drop(lock);
    let word = word.word(context);
    tracing::info!(generation = name, who = word.who, why = word.why, "dropped");
    match format {
        Format::Json => super::output::print_json(&serde_json::json!({"dropped": name, "file": path})),
        Format::Text => tell!("generation {name} is dropped, {} deleted", path.display()),
    }
    Ok(Verdict::Fine)
}
