//! `driftless acceptance`: the example through the real pipeline, its evidence, and the comparison with what is
//! expected of it.

mod benchmark;
mod evidence;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use serde_json::Value as Json;

use super::output::{print_json, say, spinner};
use super::playground::{self, Own, Playground};
use super::{CommandError, CommandResult, Format, Shared, Verdict, context, run, story};
use crate::example::evidence::Check;
use crate::ports::PortError;
use crate::telemetry;

/// Run the example through Kafka, base and Redis, and compare its evidence with the expected values: totals,
/// checksums, dirty groups, staleness, the rerun, and a benchmark of 216,000 rows.
///
/// Prints the evidence as JSON with every checked value under `checks`. Exit 1 where any value differs; the
/// names are on standard error. Timings are shown and never judged. `--format text` prints tables instead.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless acceptance > evidence.json
         driftless acceptance --configured --config config/driftless.toml --format text")]
pub struct Arguments {
    /// Use the configured Kafka and Redis instead of embedded ones, under a topic and key prefixes of its own,
    /// which are removed at the end.
    #[arg(long)]
    configured: bool,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    telemetry::start(shared.log, true);
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = run::stop_on_signal(stop.clone())?;
    let overrides = context::overrides(shared)?;
    let own = Own { kafka: arguments.configured, redis: arguments.configured };
    let config = if arguments.configured {
        playground::configured(shared, &overrides)?
    } else {
        playground::shipped(&overrides)?
    };
    // 1. The story and the benchmark.
    let progress = spinner();
    progress.set_message("starting Kafka and Redis");
    let mut playground = Playground::open("acceptance", &config, own)?;
    let view = playground.context.catalog.views[story::VIEW].view.clone();
    progress.set_message("the story: nine lines, a tenth, the refresh, the rerun");
    let stages = story::tell(&playground.context, &stop, &mut |_| {})?;
    let beside = playground.beside("benchmark");
    let measured = benchmark::run(&beside, &stop, &progress)?;
    // 2. The evidence.
    let mut found = evidence::of_story(&view, &stages);
    found["servers"] = playground.servers_json();
    found["benchmark"] = measured;
    let checks = crate::example::evidence::check(&found).map_err(|error| {
        CommandError::from(PortError::permanent(format!("the expected values cannot be read: {error}")))
    })?;
    found["checks"] = checks.iter().map(Check::to_json).collect();
    let differing: Vec<&Check> = checks.iter().filter(|check| !check.ok()).collect();
    found["ok"] = differing.is_empty().into();
    progress.finish_and_clear();
    // 3. The verdict.
    match shared.format {
        Format::Text if shared.format_given => print_text(&playground, &found, &checks),
        _ => print_json(&found),
    }
    for check in &differing {
        eprintln!("differs: {} (expected {}, found {})", check.name, check.expected, check.found);
    }
    Ok(if differing.is_empty() { Verdict::Fine } else { Verdict::No })
}

/// Checks by the part of the evidence that they are about, then the timings.
fn print_text(playground: &Playground, found: &Json, checks: &[Check]) {
    say(&format!("driftless acceptance\n{}\n", playground.servers_text()));
    for (part, checks) in parts(checks) {
        let equal = checks.iter().filter(|check| check.ok()).count();
        let verdict = if equal == checks.len() { "ok" } else { "DIFFERS" };
        let values: Vec<String> = checks.iter().map(|check| short(check, &part)).collect();
        let part = part.trim_start_matches("stages.");
        say(&format!(
            "{verdict:8} {part:24} {equal:2} of {:2}  {}",
            checks.len(),
            cut(&values.join(", "), 96)
        ));
    }
    let equal = checks.iter().filter(|check| check.ok()).count();
    say(&format!("\n{equal} of {} values are as expected\n", checks.len()));
    say(&format!(
        "{:34} {:>9} {:>9} {:>9}",
        "GMV of January 2027 by product", "min ms", "median ms", "max ms"
    ));
    for (name, title) in [("base", "from 216,000 rows (SQLite)"), ("view", "from the view's groups (Redis)")]
    {
        let times = &found["benchmark"]["timings_ms"][name];
        let time = |field: &str| format!("{:.3}", times[field].as_f64().unwrap_or_default());
        say(&format!("{title:34} {:>9} {:>9} {:>9}", time("min"), time("median"), time("max")));
    }
    say("");
    for (name, value) in found["benchmark"]["disclosure"].as_object().into_iter().flatten() {
        say(&format!("{name:12} {}", value.as_str().unwrap_or_default()));
    }
}

/// Checks grouped by the name above theirs, in order.
fn parts(checks: &[Check]) -> Vec<(String, Vec<&Check>)> {
    let mut parts: Vec<(String, Vec<&Check>)> = Vec::new();
    for check in checks {
        let part = check.name.rsplit_once('.').map_or(check.name.as_str(), |(part, _)| part);
        match parts.iter_mut().find(|(known, _)| known == part) {
            Some((_, of_part)) => of_part.push(check),
            None => parts.push((part.to_owned(), vec![check])),
        }
    }
    parts
}

/// Name and value, the part's own name left out.
fn short(check: &Check, part: &str) -> String {
    let name = check.name.rsplit('.').next().unwrap_or_default();
    let value = match &check.found {
        // A checksum is known by its beginning.
        Json::String(text) if text.len() == 64 => cut(text, 9),
        Json::String(text) => cut(text, 32),
        Json::Array(items) if items.len() > 1 => format!("{} items", items.len()),
        other => cut(&other.to_string(), 32),
    };
    if check.name == part { value } else { format!("{name} {value}") }
}

fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(longest - 1).collect();
    shown.push('…');
    shown
}
