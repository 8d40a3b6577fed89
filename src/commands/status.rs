//! `driftless status`: what Redis shows, what the base holds, and how far they are behind the log.

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandResult, Format, Shared, Verdict};
use crate::ports::{BaseReader, Log, Meta, PortResult, ViewStore};
use crate::pure::base::{Head, ViewState, Word};
use crate::pure::meta::watermark_text;
use crate::pure::publish::{timestamp_ms, timestamp_text};
use crate::pure::seq::Commit;
use crate::pure::watermark::{Frontier, Mode};

/// Show views, watermark, positions, lag, freshness and dead letters.
///
/// Exit 0 where every view is fresh for its readers, 1 where one is not.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless status --format json")]
pub struct Arguments {
    /// Do not ask Kafka for the ends of the log: the lag is unknown then.
    #[arg(long)]
    offline: bool,
}

/// One view as readers and operators see it.
struct ViewStatus {
    object: String,
    meta: Result<Meta, String>,
    fresh: bool,
    freshness: String,
    /// Groups marked in the base since the version that Redis shows.
    pending: Option<usize>,
    /// What operators and reconciler have said of it.
    state: ViewState,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let mut reader = context.open_reader()?;
    let mut store = context.open_store()?;
    let head = reader.snapshot()?.head()?;
    let now_ms = context.clock.wall_ms();
    let views = (0..context.catalog.views.len())
        .map(|view| view_status(&context, view, &head, &mut reader, &mut store, now_ms))
        .collect::<PortResult<Vec<_>>>()?;
    let ends = if arguments.offline { Err("not asked".to_owned()) } else { ends(&context, &head) };
    let holes: Vec<Option<u64>> = (0..context.catalog.tables.len())
        .map(|table| first_hole(&context, &reader, &head, table))
        .collect::<PortResult<_>>()?;
    let facts = reader.facts()?;
    let redis = store.probe();
    match shared.format {
        Format::Json => print_json(&json!({
            "base": {
                "path": facts.path, "generation": head.generation, "commit": head.commit.0, "nonce": head.nonce,
                "committed_at": timestamp_text(facts.committed_ms),
                "history_from_commit": facts.history_from.map(|commit| commit.0),
            },
            "redis": match &redis {
                Ok(facts) => json!({"address": store.address(), "version": facts.version, "warnings": facts.warnings}),
                Err(error) => json!({"address": store.address(), "error": error.to_string()}),
            },
            "tables": tables_json(&context, &head, &holes),
            "views": views.iter().map(view_json).collect::<Vec<_>>(),
            "partitions": partitions_json(&head, &ends),
            "lag_error": ends.as_ref().err(),
        })),
        Format::Text => {
            tell!(
                "base   {} generation {} commit {} of {}",
                facts.path.display(),
                head.generation,
                head.commit,
                timestamp_text(facts.committed_ms)
            );
            match &redis {
                Ok(found) => {
                    tell!("redis  {} version {}", store.address(), found.version);
                    for warning in &found.warnings {
                        tell!("       {warning}");
                    }
                }
                Err(error) => tell!("redis  {} {error}", store.address()),
            }
            print_text(&context, &head, &views, &ends, &holes);
        }
    }
    Ok(if views.iter().all(|view| view.fresh) { Verdict::Fine } else { Verdict::No })
}

fn view_status(
    context: &Context,
    view: usize,
    head: &Head,
    reader: &mut dyn BaseReader,
    store: &mut dyn ViewStore,
    now_ms: i64,
) -> PortResult<ViewStatus> {
    let entry = &context.catalog.views[view].view;
    let meta = store.read_meta(&entry.object).map_err(|error| error.to_string());
    let pending = match &meta {
        Ok(meta) => {
            let version = meta.get("version").and_then(|text| text.parse().ok()).unwrap_or(0);
            Some(reader.snapshot()?.dirty_since(view, Commit(version))?.len())
        }
        Err(_) => None,
    };
    let (fresh, freshness) = match &meta {
        Ok(meta) => judge(meta, now_ms, entry.freshness_slo_seconds),
        Err(error) => (false, error.clone()),
    };
    let state = head.views[view].clone();
    Ok(ViewStatus { object: entry.object.clone(), meta, fresh, freshness, pending, state })
}

/// As a reader judges: status, no publish in parts under way, and confirmed within the objective.
fn judge(meta: &Meta, now_ms: i64, slo_seconds: u64) -> (bool, String) {
    let field = |name: &str| meta.get(name).map_or("", String::as_str);
    if meta.is_empty() {
        return (false, "not published".to_owned());
    }
    let age_ms = timestamp_ms(field("confirmed_at")).map(|at| now_ms.saturating_sub(at));
    let age = age_ms.map_or_else(
        || "never confirmed".to_owned(),
        |age| format!("confirmed {:.1} s ago", age as f64 / 1000.0),
    );
    let within = age_ms.is_some_and(|age| age as f64 <= slo_seconds as f64 * 1000.0);
    match field("status") {
        "fresh" if field("mixed") == "0" && within => {
            (true, format!("fresh, {age} (at most {slo_seconds} s)"))
        }
        "fresh" if field("mixed") != "0" => (false, format!("mixed: a publish in parts is under way, {age}")),
        "fresh" => (false, format!("stale, {age} (at most {slo_seconds} s)")),
        other => (false, format!("{other}, {age} (at most {slo_seconds} s)")),
    }
}

/// What has been said of a view, in one line.
fn said(state: &ViewState) -> String {
    let word = |what: &str, word: &Option<Word>| {
        word.as_ref().map(|word| {
            format!("; {what} since {} by {}: {}", timestamp_text(Some(word.at_ms)), word.who, word.why)
        })
    };
    let reconciled = state.reconciled.as_ref().map_or_else(
        || "never reconciled".to_owned(),
        |last| {
            let at = timestamp_text(Some(last.at_ms));
            format!("reconciled at {at}, version {}: {}", last.version, last.verdict.name())
        },
    );
    let quarantined = word("quarantined", &state.quarantined).unwrap_or_default();
    let disabled = word("disabled", &state.disabled).unwrap_or_default();
    format!("{reconciled}{quarantined}{disabled}")
}

fn ends(context: &Context, head: &Head) -> Result<Vec<i64>, String> {
    let mut log = context.open_log().map_err(|error| error.to_string())?;
    head.positions
        .iter()
        .map(|position| log.bounds(&position.at).map(|bounds| bounds.high).map_err(|error| error.to_string()))
        .collect()
}

/// The lowest position that a dense sequence misses below what has been seen.
fn first_hole(
    context: &Context,
    reader: &crate::io::sqlite::SqliteReader,
    head: &Head,
    table: usize,
) -> PortResult<Option<u64>> {
    let mode = context.catalog.tables[table].mode;
    if !matches!(mode, Mode::Dense { .. }) {
        return Ok(None);
    }
    let frontier = Frontier::restore(mode, head.tables[table].watermark, [], reader.runs(table)?, []);
    Ok(frontier.holes(1).first().map(|run| run.from))
}

fn tables_json(context: &Context, head: &Head, holes: &[Option<u64>]) -> Value {
    let table = |index: usize| {
        json!({
            "table": &*context.catalog.tables[index].shape.name,
            "watermark_mode": context.catalog.tables[index].mode.name(),
            "watermark": head.tables[index].watermark.map(|seq| seq.to_string()),
            "greatest_seq": head.tables[index].greatest.map(|seq| seq.to_string()),
            "first_hole": holes[index],
            "open_dead_letters": head.open_letters[index],
        })
    };
    (0..holes.len()).map(table).collect()
}

fn view_json(view: &ViewStatus) -> Value {
    json!({
        "view": view.object,
        "fresh": view.fresh,
        "freshness": view.freshness,
        "pending_groups": view.pending,
        "state": view.state,
        "meta": view.meta.as_ref().ok(),
        "error": view.meta.as_ref().err(),
    })
}

fn partitions_json(head: &Head, ends: &Result<Vec<i64>, String>) -> Value {
    head.positions
        .iter()
        .enumerate()
        .map(|(index, position)| {
            let end = ends.as_ref().ok().map(|ends| ends[index]);
            json!({
                "partition": position.at.to_string(),
                "first_offset": position.first_offset,
                "next_offset": position.next_offset,
                "settled": position.settled,
                "end": end,
                "lag": end.map(|end| (end - position.next_offset).max(0)),
                "counts": position.counts,
            })
        })
        .collect()
}

fn print_text(
    context: &Context,
    head: &Head,
    views: &[ViewStatus],
    ends: &Result<Vec<i64>, String>,
    holes: &[Option<u64>],
) {
    let mut rows = table(&["view", "version", "W", "groups", "pending", "dead letters", "freshness"]);
    for view in views {
        let field = |name: &str| {
            view.meta
                .as_ref()
                .ok()
                .and_then(|meta| meta.get(name))
                .filter(|text| !text.is_empty())
                .cloned()
                .unwrap_or_else(|| "-".into())
        };
        rows.add_row([
            view.object.clone(),
            field("version"),
            field("watermark"),
            field("groups"),
            view.pending.map_or_else(|| "-".into(), |count| count.to_string()),
            field("dead_letters"),
            view.freshness.clone(),
        ]);
    }
    tell!("{rows}");
    for view in views {
        tell!("view {}: {}", view.object, said(&view.state));
    }
    for (index, hole) in holes.iter().enumerate() {
        let entry = &context.catalog.tables[index];
        tell!(
            "table {} ({}): W {} in the base{}{}",
            entry.shape.name,
            entry.mode.name(),
            watermark_text(head, index),
            hole.map(|seq| format!(", sequence {seq} is missing")).unwrap_or_default(),
            match head.open_letters[index] {
                0 => String::new(),
                open => format!(", {open} dead letters are open (driftless dlq list)"),
            }
        );
    }
    let mut rows =
        table(&["partition", "next", "settled", "lag", "applied", "duplicate", "stale", "control", "dead"]);
    for (index, position) in head.positions.iter().enumerate() {
        let lag = ends.as_ref().map_or_else(
            |_| "unknown".to_owned(),
            |ends| (ends[index] - position.next_offset).max(0).to_string(),
        );
        let counts = &position.counts;
        rows.add_row([
            position.at.to_string(),
            position.next_offset.to_string(),
            position.settled.to_string(),
            lag,
            counts.applied.to_string(),
            counts.duplicate.to_string(),
            counts.stale.to_string(),
            counts.control.to_string(),
            counts.dead_letter.to_string(),
        ]);
    }
    tell!("{rows}");
    if let Err(error) = ends {
        tell!("lag unknown: {error}");
    }
}
