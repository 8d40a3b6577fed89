//! `driftless run`: the maintainer.

mod supervise;
mod work;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;

pub use work::{follow, maintain};

use super::context::Context;
use super::output::{human, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::pipeline::maintain::{Board, Numbers};
use crate::ports::PortError;
use crate::telemetry;

/// Maintain the views: read the topics, keep the base, publish to Redis.
///
/// Ends on SIGTERM or Ctrl-C: what has been read is committed and published first, within ten seconds.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless run --config config/driftless.toml --log json
         driftless run --once    (read to the present end of the topics, publish, end)")]
pub struct Arguments {
    /// Read up to the end that the topics have now, publish, and end: for jobs and tests.
    #[arg(long)]
    once: bool,
    /// Seconds between status lines on a terminal.
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    telemetry::start(shared.log, false);
    let context = Context::load(shared)?;
    let shown = Shown::default();
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(stop.clone())?;
    let started = Instant::now();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| show_status(&shown, Duration::from_secs(arguments.every), &over));
        let result = supervise::run(context, arguments.once, &stop, &shown);
        over.store(true, Ordering::Relaxed);
        result
    })?;
    report(&shown.numbers(), started.elapsed(), shared.format);
    Ok(Verdict::Fine)
}

/// The board of the generation that is live now.
#[derive(Default)]
pub struct Shown(Mutex<Arc<Board>>);

impl Shown {
    /// An empty board in place of the last one.
    fn renew(&self) -> Arc<Board> {
        let board = Arc::new(Board::default());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = board.clone();
        board
    }

    fn numbers(&self) -> Numbers {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).numbers()
    }
}

/// Sets the flag on SIGTERM and on Ctrl-C. The runtime lives as long as what is returned.
pub fn stop_on_signal(stop: Arc<AtomicBool>) -> Result<tokio::runtime::Runtime, CommandError> {
    let fail = |error: std::io::Error| {
        CommandError::from(PortError::permanent(format!("signals cannot be listened for: {error}")))
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(fail)?;
    let _inside = runtime.enter();
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(fail)?;
    let mut interrupt =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(fail)?;
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending: committing and publishing what has been read");
        stop.store(true, Ordering::Relaxed);
    });
    drop(_inside);
    Ok(runtime)
}

/// One line every few seconds, on a terminal alone.
fn show_status(board: &Shown, every: Duration, over: &AtomicBool) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut before = board.numbers();
    let mut since = Instant::now();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        if since.elapsed() < every {
            continue;
        }
        let now = board.numbers();
        let seconds = since.elapsed().as_secs_f64();
        let line = status_line(&now, (now.consumed - before.consumed) as f64 / seconds);
        let _no_terminal = writeln!(std::io::stderr(), "{line}");
        (before, since) = (now, Instant::now());
    }
}

fn status_line(numbers: &Numbers, rate: f64) -> String {
    let watermarks: Vec<String> = numbers
        .watermarks
        .iter()
        .map(|watermark| watermark.map_or_else(|| "-".to_owned(), |watermark| watermark.to_string()))
        .collect();
    let lag = numbers.lag.map_or_else(|| "unknown".to_owned(), human);
    let groups: u64 = numbers.views.iter().map(|view| view.groups_published).sum();
    let mut line = format!(
        "{} events/s  lag {lag}  W {}  {} groups published",
        human(rate as u64),
        watermarks.join(", "),
        human(groups)
    );
    if let Some(trouble) = numbers.held_up.lines().next() {
        line.push_str(&format!("  [reading is held up: {trouble}]"));
    }
    for view in numbers.views.iter().filter(|view| !view.waits.is_empty()) {
        line.push_str(&format!("  [{}: {}]", view.object, view.waits.lines().next().unwrap_or_default()));
    }
    line
}

/// What was done, at the end.
fn report(numbers: &Numbers, elapsed: Duration, format: Format) {
    let seconds = elapsed.as_secs_f64();
    let rate = numbers.consumed as f64 / seconds.max(1e-9);
    match format {
        Format::Json => super::output::print_json(&serde_json::json!({
            "consumed": numbers.consumed,
            "applied": numbers.applied,
            "seconds": (seconds * 1000.0).round() / 1000.0,
            "events_per_second": rate.round(),
            "watermarks": numbers.watermarks.iter()
                .map(|watermark| watermark.map(|watermark| watermark.to_string())).collect::<Vec<_>>(),
            "views": numbers.views.iter().map(|view| serde_json::json!({
                "view": view.object, "version": view.version,
                "publishes": view.publishes, "groups_published": view.groups_published,
            })).collect::<Vec<_>>(),
        })),
        Format::Text => tell!(
            "{} events in {seconds:.1} s ({} a second), {} applied. {}",
            human(numbers.consumed),
            human(rate as u64),
            human(numbers.applied),
            status_line(numbers, rate)
        ),
    }
}
