//! `driftless replay`: the log read once more, into a candidate beside the live generation or into the live one.

mod candidate;
mod live;
mod span;

pub use candidate::file_name;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::context::Context;
use super::{CommandResult, Shared};
use crate::pipeline::maintain::{Board, Numbers};

/// Read the log again: into a new generation, or into the live one.
///
/// A candidate is built beside the live generation, which goes on; compare it, certify it, activate it with `driftless
/// generations`. From `earliest` it is built from the log alone. From any other place it starts as a copy of the live
/// base, into which the log is read once more from there. A replay that was interrupted, by a kill too, is gone on
/// with by the same command.
///
/// Into the live generation, events that are in the base already change nothing; those that it had lost are applied.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless replay --why 'nightly proof'
         driftless replay --to seq:1469307 --why 'as it stood before the correction'
         driftless replay --from timestamp:2026-09-21T00:00:00Z --into live --why 'rows lost by a restore'
         driftless replay --dry-run")]
pub struct Arguments {
    /// earliest, offsets:TOPIC:PARTITION=OFFSET,…, timestamp:RFC3339 or seq:N.
    #[arg(long, default_value = "earliest", value_name = "PLACE")]
    from: String,
    /// end (what the log holds now), offsets:TOPIC:PARTITION=OFFSET,…, timestamp:RFC3339 or seq:N. A candidate that
    /// ends at such a place stands still there.
    #[arg(long, default_value = "end", value_name = "PLACE")]
    to: String,
    /// As --to seq:N: the view as it stood at a sequence number.
    #[arg(long, value_name = "N", conflicts_with = "to")]
    to_seq: Option<String>,
    #[arg(long, value_enum, default_value_t = Into::Candidate)]
    into: Into,
    /// Name of the candidate [default: the next number].
    #[arg(long)]
    name: Option<String>,
    /// Records a second at most [default: as fast as it goes].
    #[arg(long, value_name = "RECORDS_PER_SECOND")]
    rate: Option<NonZeroU64>,
    /// Say what would be read and what it would change, and do neither.
    #[arg(long)]
    dry_run: bool,
    /// Stays on record [default: the user's name].
    #[arg(long)]
    who: Option<String>,
    /// Stays on record.
    #[arg(long, default_value = "replay")]
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Into {
    Candidate,
    Live,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    match arguments.into {
        Into::Candidate => candidate::run(&context, arguments, shared.format),
        Into::Live => live::run(&context, arguments, shared.format),
    }
}

impl Arguments {
    fn to(&self) -> String {
        self.to_seq.as_ref().map_or_else(|| self.to.clone(), |seq| format!("seq:{seq}"))
    }
}

/// Shows how far a reading is until it is over: a bar on a terminal, a log line now and then elsewhere.
fn show_progress(board: &Board, bar: &ProgressBar, over: &AtomicBool) {
    let mut rounds = 0u32;
    while !over.load(Ordering::Relaxed) {
        let numbers = board.numbers();
        let left = left(&numbers);
        bar.set_length(numbers.consumed + left);
        bar.set_position(numbers.consumed);
        if let Some(trouble) = numbers.held_up.lines().next() {
            bar.set_message(trouble.to_owned());
        }
        rounds += 1;
        if bar.is_hidden() && rounds.is_multiple_of(50) {
            tracing::info!(consumed = numbers.consumed, left, "replay");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bar.finish_and_clear();
}

fn left(numbers: &Numbers) -> u64 {
    numbers.lag.unwrap_or(0) + numbers.left_to_reread
}
