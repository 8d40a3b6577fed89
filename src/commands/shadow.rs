//! `driftless shadow`: a corpus of questions answered by both routes and compared: the evidence for moving a
//! dashboard over.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};

use super::context::Context;
use super::output::{print_json, progress, table, tell};
use super::query::checked;
use super::{CommandError, CommandResult, Format, Shared, Verdict as Answer};
use crate::pipeline::route::Ports;
use crate::pipeline::shadow::{Compared, Difference, Verdict, compare};
use crate::pure::publish::GroupValue;
use crate::pure::query::{Ask, Query};

const SCHEMA: &str = "driftless.shadow/1";
const PAUSE: Duration = Duration::from_millis(50);

/// Answer every question of a file by both routes, and compare results and times.
///
/// The file has one question a line, as JSON; docs/ROUTING.md has the fields. Nothing is counted as use. Exit 0 where
/// no answers differ, 1 where some do, 2 where some could not be compared.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless shadow --queries dashboard.jsonl --format json
         a line: {\"view\":\"agg_daily_product\",\"measures\":[\"gmv_cents\"],\"where\":\"order_date = 2026-09-22\",\"group_by\":[\"product_id\"]}")]
pub struct Arguments {
    /// One question a line; empty lines and lines that begin with # are left out.
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
}

/// A question of the file.
struct Line {
    number: usize,
    text: String,
    view: usize,
    query: Query,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let lines = read(&context, &arguments.queries)?;
    let results = answer_all(&context, &lines)?;
    let counts = verdicts(&results);
    let count = |verdict: Verdict| counts.get(&verdict).copied().unwrap_or(0);
    match shared.format {
        Format::Json => print_json(&as_json(&context, &lines, &results)),
        Format::Text => print_text(&context, &lines, &results),
    }
    match (count(Verdict::Differs), count(Verdict::Undecided)) {
        (0, 0) => Ok(Answer::Fine),
        (0, undecided) => Err(CommandError::usage(
            format!("{undecided} of {} questions could not be compared", lines.len()),
            "see `why` of each; run it again once Redis shows this base's view and the stream is quieter",
        )),
        _ => Ok(Answer::No),
    }
}

/// Reads and checks the whole file before anything is asked.
fn read(context: &Context, file: &PathBuf) -> Result<Vec<Line>, CommandError> {
    let place = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| CommandError::File(place.clone(), error))?;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |what: String| {
            let remedy = "docs/ROUTING.md has the fields of a question; nothing was asked";
            CommandError::usage(format!("{place}: line {}: {what}", index + 1), remedy)
        };
        let ask: Ask = serde_json::from_str(line).map_err(|error| at(error.to_string()))?;
        let (view, query) = checked(context, &ask).map_err(|error| match error {
            CommandError::Usage { what, .. } => at(what),
            other => other,
        })?;
        lines.push(Line { number: index + 1, text: line.to_owned(), view, query });
    }
    if lines.is_empty() {
        return Err(CommandError::usage(format!("{place}: no question in it"), "write one a line, as JSON"));
    }
    Ok(lines)
}

fn answer_all(context: &Context, lines: &[Line]) -> Result<Vec<Compared>, CommandError> {
    let (mut base, mut store) = (context.open_reader()?, context.open_store()?);
    let mut ports = Ports { base: &mut base, store: &mut store, clock: &*context.clock };
    let settings = context.route_settings();
    let bar = progress(lines.len() as u64, "questions");
    let mut results = Vec::new();
    for line in lines {
        let mut pause = || std::thread::sleep(PAUSE);
        results.push(compare(&mut ports, &context.catalog, line.view, &line.query, &settings, &mut pause)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(results)
}

/// Times of one route over all questions that it answered, in microseconds, sorted.
fn times(results: &[Compared], of: impl Fn(&Compared) -> Option<u64>) -> Vec<u64> {
    let mut times: Vec<u64> = results.iter().filter_map(of).collect();
    times.sort_unstable();
    times
}

/// The time that this share of the questions did not exceed; `None` where nothing was measured.
fn percentile(times: &[u64], percent: usize) -> Option<u64> {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied()
}

const PERCENTS: [usize; 4] = [50, 95, 99, 100];

fn verdicts(results: &[Compared]) -> BTreeMap<Verdict, usize> {
    let mut counts = BTreeMap::new();
    results.iter().for_each(|result| *counts.entry(result.verdict).or_insert(0) += 1);
    counts
}

fn as_json(context: &Context, lines: &[Line], results: &[Compared]) -> Json {
    let percentiles = |times: Vec<u64>| -> Json {
        let named = PERCENTS.map(|percent| (format!("p{percent}_us"), json!(percentile(&times, percent))));
        let mut object: serde_json::Map<String, Json> = named.into_iter().collect();
        object.insert("questions".to_owned(), times.len().into());
        object.into()
    };
    let counts: serde_json::Map<String, Json> = verdicts(results)
        .into_iter()
        .map(|(verdict, count)| (verdict.name().to_owned(), count.into()))
        .collect();
    json!({
        "schema": SCHEMA,
        "questions": lines.len(),
        "verdicts": counts,
        "redis": percentiles(times(results, |result| result.redis_us)),
        "base": percentiles(times(results, |result| result.base_us)),
        "results": lines.iter().zip(results).map(|(line, result)| result_json(context, line, result)).collect::<Vec<_>>(),
    })
}

fn result_json(context: &Context, line: &Line, result: &Compared) -> Json {
    json!({
        "line": line.number,
        "view": context.catalog.views[line.view].view.object,
        "verdict": result.verdict.name(),
        "reasons": result.reasons.iter().map(|code| code.name()).collect::<Vec<_>>(),
        "why": result.why,
        "rows": result.rows,
        "pending": result.pending,
        "redis_us": result.redis_us,
        "base_us": result.base_us,
        "differences": result.differences.iter().map(difference_json).collect::<Vec<_>>(),
    })
}

fn difference_json(difference: &Difference) -> Json {
    let value = |value: &Option<GroupValue>| match value {
        None => Json::Null,
        Some(GroupValue::Overflow) => "overflow".into(),
        Some(GroupValue::Measures(numbers)) => json!(numbers),
    };
    let key: Vec<Json> = difference.key.iter().map(crate::pure::value::Value::to_json).collect();
    json!({"group": key, "redis": value(&difference.redis), "base": value(&difference.base)})
}

fn print_text(context: &Context, lines: &[Line], results: &[Compared]) {
    let milliseconds =
        |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1000.0));
    let mut rows = table(&["line", "view", "verdict", "against Redis now", "rows", "Redis ms", "base ms"]);
    for (line, result) in lines.iter().zip(results) {
        let reasons: Vec<&str> = result.reasons.iter().map(|code| code.name()).collect();
        rows.add_row([
            line.number.to_string(),
            context.catalog.views[line.view].view.object.clone(),
            result.verdict.name().to_owned(),
            reasons.join(", "),
            result.rows.to_string(),
            milliseconds(result.redis_us),
            milliseconds(result.base_us),
        ]);
    }
    tell!("{rows}");
    for (line, result) in lines.iter().zip(results) {
        if matches!(result.verdict, Verdict::Differs | Verdict::Undecided) {
            tell!("line {}: {} {}", line.number, result.verdict.name(), result.why);
            tell!("  {}", line.text);
        }
        for difference in &result.differences {
            tell!("  {}", difference_json(difference));
        }
    }
    let mut rows = table(&["route", "questions", "p50 ms", "p95 ms", "p99 ms", "longest ms"]);
    let both = [
        ("redis", times(results, |result| result.redis_us)),
        ("base", times(results, |result| result.base_us)),
    ];
    for (name, times) in both {
        let mut cells = vec![name.to_owned(), times.len().to_string()];
        cells.extend(PERCENTS.map(|percent| milliseconds(percentile(&times, percent))));
        rows.add_row(cells);
    }
    let counts: Vec<String> =
        verdicts(results).into_iter().map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
    tell!("{rows}\n{} questions: {}", lines.len(), counts.join(", "));
}
