//! `driftless reconcile`: proves that Redis shows what the base's rows give, or what differs.

mod history;
pub mod scheduled;
mod show;
mod topic;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};

use super::context::Context;
use super::output::progress;
use super::request::Desk;
use super::run::stop_on_signal;
use super::{CommandError, CommandResult, Shared, Verdict};
use crate::pipeline::reconcile::{self, Ports, ReconcileSettings};
use crate::ports::PortResult;
use crate::pure::base::ReconcileVerdict;
use crate::pure::drift::{Difference, Report, Scope};

/// Prove that Redis shows what a full recompute of the base's rows gives, or say what differs.
///
/// Runs beside a maintainer or without one, while the stream moves. Exit 0 in sync, 1 drift found (also where
/// --repair mended it), 2 could not decide. Drift puts the view under quarantine until a whole pass is clean.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: driftless reconcile --view agg_daily_product
         driftless reconcile --from 2026-09-18 --to 2026-09-22 --format json
         driftless reconcile --repair --why 'nightly job' --out drift.jsonl
         driftless reconcile --against-topic
         driftless reconcile history"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Sub>,
    /// The view [default: each, one after the other].
    #[arg(long)]
    view: Option<String>,
    /// First group to compare: an encoded key, or the first parts of one.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Last group to compare: an encoded key, or the first parts of one, with all that begin so.
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Compare so many groups drawn at random from those that the base knows.
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sample: Option<u32>,
    /// Differences that are printed and kept on record at most.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    limit: u32,
    /// Write every difference to this file, one JSON document a line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replay the topics into a scratch base up to the live positions, and compare the rows: the only check that
    /// finds changes which the base itself has lost.
    #[arg(long, conflicts_with_all = ["view", "from", "to", "sample", "repair"])]
    against_topic: bool,
    /// Have the publisher mend what differs, and look again.
    #[arg(long)]
    repair: bool,
    /// Stays on record [default: the user's name].
    #[arg(long)]
    who: Option<String>,
    /// Stays on record with a repair.
    #[arg(long, default_value = "reconcile")]
    why: String,
}

#[derive(Debug, Subcommand)]
enum Sub {
    History(history::Arguments),
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    if let Some(Sub::History(arguments)) = &arguments.action {
        return history::run(&context, shared.format, arguments);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(stop.clone())?;
    let listed = arguments.limit as usize;
    let mut out = arguments.out.as_deref().map(Out::create).transpose()?;
    if arguments.against_topic {
        return topic::run(&context, listed, out, &stop, shared.format);
    }
    let views = match &arguments.view {
        None => (0..context.catalog.views.len()).collect(),
        Some(object) => vec![context.view(Some(object))?],
    };
    let settings = ReconcileSettings {
        scope: Scope {
            from: arguments.from.clone(),
            to: arguments.to.clone(),
            sample: arguments.sample.map(|count| count as usize),
        },
        share: 1.0,
        beat_ms: context.settings().maintain.beat_ms,
        repair: arguments.repair,
        why: arguments.why.clone(),
        listed,
    };
    let mut reports = Vec::new();
    for view in views {
        let mut desk = Desk::open(&context, arguments.who.as_deref(), &stop)?;
        let report = one_view(&context, view, &settings, &mut desk, &stop, out.as_mut())?;
        reconcile::record(&mut desk, &report, settings.listed)?;
        reports.push(report);
    }
    if let Some(out) = &mut out {
        out.finish()?;
    }
    show::print(&reports, settings.listed, shared.format);
    verdict(&reports)
}

fn one_view(
    context: &Context,
    view: usize,
    settings: &ReconcileSettings,
    desk: &mut Desk<'_>,
    stop: &AtomicBool,
    mut out: Option<&mut Out>,
) -> PortResult<Report> {
    let bar = progress(0, "groups");
    let (mut reader, mut store) = (context.open_reader()?, context.open_store()?);
    let ports = Ports {
        base: &mut reader,
        requests: desk,
        clock: context.clock.clone(),
        wait: &mut std::thread::sleep,
        stop,
        progress: &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        },
        found: &mut |difference| out.as_deref_mut().map_or(Ok(()), |out| out.write(difference)),
    };
    let report = reconcile::run(ports, &mut store, &context.catalog, view, settings);
    bar.finish_and_clear();
    report
}

/// The gravest verdict of all views.
fn verdict(reports: &[Report]) -> CommandResult {
    let verdicts: Vec<ReconcileVerdict> = reports.iter().map(Report::verdict).collect();
    if verdicts.iter().any(|verdict| matches!(verdict, ReconcileVerdict::Drift | ReconcileVerdict::Repaired))
    {
        return Ok(Verdict::No);
    }
    match verdicts.contains(&ReconcileVerdict::Undecided) {
        false => Ok(Verdict::Fine),
        true => Err(CommandError::usage(
            "the pass could not decide",
            "see \"troubles\" and \"unsettled\" above; run it again once these are settled",
        )),
    }
}

/// The file with every difference.
struct Out {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Out {
    fn create(path: &Path) -> Result<Self, CommandError> {
        let file =
            File::create(path).map_err(|error| CommandError::File(path.display().to_string(), error))?;
        Ok(Out { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn write(&mut self, difference: &Difference) -> PortResult<()> {
        self.line(&serde_json::json!(difference))
    }

    fn line(&mut self, document: &serde_json::Value) -> PortResult<()> {
        self.told(|out| writeln!(out.file, "{document}"))
    }

    fn finish(&mut self) -> PortResult<()> {
        self.told(|out| out.file.flush())
    }

    fn told(&mut self, write: impl FnOnce(&mut Self) -> std::io::Result<()>) -> PortResult<()> {
        write(self).map_err(|error| {
            crate::ports::PortError::permanent(format!("{}: {error}", self.path.display()))
                .with_hint("name a file with room in --out")
        })
    }
}
