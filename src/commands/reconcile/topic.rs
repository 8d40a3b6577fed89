//! `driftless reconcile --against-topic`: the rows of the base against a replay of its log.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::context::Context;
use super::super::output::{human, print_json, progress, table, tell};
use super::super::{CommandError, CommandResult, Format, Verdict};
use super::Out;
use crate::io::sqlite::{BaseSettings, Checkpointer, SqliteReader, SqliteWriter};
use crate::pipeline::reconcile::topic::{self, TopicPorts};
use crate::ports::PortResult;
use crate::pure::catalog::Catalog;
use crate::pure::drift::RowsReport;

/// Dead letters of the live base that are looked at.
const LETTERS_MAX: usize = 100_000;

pub fn run(
    context: &Context,
    listed: usize,
    mut out: Option<Out>,
    stop: &AtomicBool,
    format: Format,
) -> CommandResult {
    let report = replay(context, out.as_mut(), stop)?;
    if let Some(out) = &mut out {
        out.finish()?;
    }
    match format {
        Format::Json => print_json(&report.to_json(listed)),
        Format::Text => print_text(&report, listed),
    }
    match report.verdict() {
        "in_sync" => Ok(Verdict::Fine),
        "drift" => Ok(Verdict::No),
        _ => Err(CommandError::usage("the replay was told to end before it was through", "run it again")),
    }
}

fn replay(context: &Context, mut out: Option<&mut Out>, stop: &AtomicBool) -> PortResult<RowsReport> {
    let mut live = context.open_reader()?;
    let letters: BTreeSet<_> =
        live.letters(None, false, LETTERS_MAX)?.into_iter().filter_map(|letter| letter.seq).collect();
    let mut log = context.open_log()?;
    let catalog = Arc::new(Catalog { views: Vec::new(), ..(*context.catalog).clone() });
    let place = Scratch::beside(&context.base_settings());
    let settings = &place.settings;
    let mut scratch = SqliteWriter::open(settings, &catalog, rand::random(), context.clock.wall_ms())?;
    let mut scratch_reader = SqliteReader::open(settings, &catalog)?;
    let mut checkpointer = Checkpointer::open(settings)?;
    let bar = progress(0, "offsets read");
    let ports = TopicPorts {
        log: &mut log,
        live: &mut live,
        scratch: &mut scratch,
        scratch_reader: &mut scratch_reader,
        clock: context.clock.clone(),
        checkpoint: &mut || {
            if let Err(error) = checkpointer.run() {
                tracing::debug!(%error, "checkpoint of the scratch base");
            }
        },
        stop,
        progress: &|read, all| {
            bar.set_length(all);
            bar.set_position(read);
        },
        found: &mut |difference| {
            out.as_deref_mut().map_or(Ok(()), |out| out.line(&serde_json::json!(difference)))
        },
        letters: &letters,
    };
    let report = topic::run(ports, catalog, context.maintain_settings(false).read);
    bar.finish_and_clear();
    report
}

/// A base file beside the live one, removed when it goes out of scope.
struct Scratch {
    settings: BaseSettings,
}

impl Scratch {
    fn beside(live: &BaseSettings) -> Self {
        let mut name = live.path.as_os_str().to_owned();
        name.push(format!(".scratch-{}", std::process::id()));
        let scratch = Scratch { settings: BaseSettings { path: PathBuf::from(name), ..live.clone() } };
        scratch.remove();
        scratch
    }

    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let mut name = self.settings.path.as_os_str().to_owned();
            name.push(suffix);
            let _absent = std::fs::remove_file(name);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

fn print_text(report: &RowsReport, listed: usize) {
    let seconds = (report.ended_ms - report.started_ms) as f64 / 1000.0;
    tell!(
        "rows against the log: {} in {seconds:.1} s",
        match report.verdict() {
            "drift" => "DRIFT",
            "in_sync" => "in sync",
            other => other,
        }
    );
    let mut rows = table(&[
        "table",
        "equal",
        "missing",
        "extra",
        "different",
        "not proven",
        "dead letters",
        "contradicting",
    ]);
    for tally in &report.tables {
        let counts = [
            tally.equal,
            tally.missing,
            tally.extra,
            tally.different,
            tally.unproven,
            tally.dead_letters,
            tally.contradicting,
        ];
        rows.add_row(std::iter::once(tally.table.clone()).chain(counts.map(human)));
    }
    tell!("{rows}");
    for (at, offset) in &report.trimmed {
        tell!(
            "{at}: the log begins at offset {offset} now; rows whose last event came before are not proven"
        );
    }
    if report.differences.is_empty() {
        return;
    }
    let mut rows = table(&["kind", "table", "key", "base seq", "log seq", "columns"]);
    for difference in report.differences.iter().take(listed) {
        let seq = |seq: &Option<String>, deleted: bool| match seq {
            None => "-".to_owned(),
            Some(seq) if deleted => format!("{seq} (deleted)"),
            Some(seq) => seq.clone(),
        };
        let key: Vec<String> = difference.key.iter().map(ToString::to_string).collect();
        let columns = difference.columns.iter().map(|one| {
            let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
            format!("{}: base {}, log {}", one.column, side(&one.base), side(&one.log))
        });
        rows.add_row([
            difference.kind.name().to_owned(),
            difference.table.clone(),
            key.join(", "),
            seq(&difference.base_seq, difference.base_deleted),
            seq(&difference.log_seq, difference.log_deleted),
            columns.collect::<Vec<_>>().join("\n"),
        ]);
    }
    tell!("{rows}");
}
