//! A replay into a candidate: recorded in the control file first, so that a kill leaves something to go on with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;

use super::span::{Place, Stretch, stretches};
use super::{Arguments, show_progress};
use crate::commands::context::{Context, definitions};
use crate::commands::output::{human, print_json, progress, table, tell};
use crate::commands::request::caller;
use crate::commands::run::{follow, stop_on_signal};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::io::sqlite::{Copy, copy_base};
use crate::pipeline::maintain::Board;
use crate::pipeline::read::plan_start;
use crate::ports::BaseReader;
use crate::pure::base::{Action, Counts, Head, Word};
use crate::pure::generation::{Bound, Control, Generation, Origin, Stage};
use crate::pure::seq::TopicPartition;

pub fn run(context: &Context, arguments: &Arguments, format: Format) -> CommandResult {
    let control = context.control()?;
    let begun = control.generations.iter().find(|generation| generation.stage == Stage::Building);
    let entry = match begun {
        Some(begun) => resume(begun, arguments)?,
        None => {
            let (from, to) =
                (Place::parse("--from", &arguments.from)?, Place::parse("--to", &arguments.to())?);
            let mut log = context.open_log()?;
            let live = context.open_reader()?.snapshot()?.head()?;
            let stretches = stretches(context, &mut log, &live, &from, &to)?;
            if from == Place::Earliest {
                // A log that begins too late is said so before anything is made.
                plan_start(&mut log, &context.catalog, &[], &vec![None; context.catalog.tables.len()])?;
            }
            if arguments.dry_run {
                return say_what_would_be(context, &stretches, &from, &to, format);
            }
            record(context, arguments, &from, &to, &stretches)?
        }
    };
    if arguments.dry_run {
        return Err(CommandError::usage(
            format!("generation {} is being built already", entry.name),
            "the same command without --dry-run goes on with it; driftless generations drop gives it up",
        ));
    }
    build(context, arguments, &entry, format)
}

fn resume(begun: &Generation, arguments: &Arguments) -> Result<Generation, CommandError> {
    let other = arguments.name.as_ref().is_some_and(|name| *name != begun.name);
    if other || matches!(begun.origin, Origin::Contracts { .. } | Origin::First) {
        return Err(CommandError::usage(
            format!("generation {} is being built, and there is one at a time", begun.name),
            format!("end it first, or give it up: driftless generations drop {}", begun.name),
        ));
    }
    tracing::warn!(
        generation = begun.name,
        "going on with the replay that was begun; --from and --to are as they were then"
    );
    Ok(begun.clone())
}

/// Puts the candidate on record.
fn record(
    context: &Context,
    arguments: &Arguments,
    from: &Place,
    to: &Place,
    stretches: &[Stretch],
) -> Result<Generation, CommandError> {
    let base = context.settings().base.path.clone();
    let word = Word {
        who: caller(arguments.who.as_deref()),
        why: arguments.why.clone(),
        at_ms: context.clock.wall_ms(),
    };
    let bound = Bound {
        through_seq: if let Place::Seq(seq) = to { Some(*seq) } else { None },
        offsets: match to {
            Place::Offsets(_) | Place::Timestamp(_) => {
                stretches.iter().map(|stretch| (stretch.at.to_string(), stretch.to)).collect()
            }
            Place::End | Place::Earliest | Place::Seq(_) => BTreeMap::new(),
        },
    };
    let reread = match from {
        Place::Earliest => None,
        _ => Some(Action::Reread {
            from: stretches.iter().map(|stretch| (stretch.at.to_string(), stretch.from)).collect(),
        }),
    };
    if reread.is_some() && !bound.is_none() {
        return Err(CommandError::usage(
            "a copy of the live base cannot end before the live base does",
            "leave --to out, or replay from earliest",
        ));
    }
    let entry = context.control_file().change(
        || Ok::<Control, CommandError>(context.first_control()),
        |control| {
            let name = arguments.name.clone().unwrap_or_else(|| control.next_name());
            let entry = Generation {
                file: file_name(&base, &name)?,
                stage: Stage::Building,
                origin: match reread {
                    Some(_) => Origin::Copy { of: control.live.clone() },
                    None => Origin::Log,
                },
                bound,
                created: word.clone(),
                definitions: definitions(&context.catalog),
                certificate: None,
                rollback_until_ms: None,
                activated: 0,
                name,
            };
            if control.get(&entry.name).is_some() {
                return Err(CommandError::usage(
                    format!("there is a generation {} already", entry.name),
                    "give the candidate another name",
                ));
            }
            control.generations.push(entry.clone());
            Ok(entry)
        },
    )?;
    if let Some(action) = &reread {
        let copy =
            Copy { generation: &entry.name, definitions: &entry.definitions, request: Some((action, &word)) };
        let path = context.control_file().base(&entry.file);
        tracing::info!(generation = entry.name, "copying the live base");
        if let Err(error) = copy_base(&context.base_settings(), &path, &copy) {
            // Without its copy the candidate would be built from the log alone, which is not what was asked for.
            forget(context, &entry.name)?;
            return Err(error.into());
        }
    }
    Ok(entry)
}

fn forget(context: &Context, name: &str) -> Result<(), CommandError> {
    context.control_file().change(
        || Ok(context.first_control()),
        |control| {
            control.generations.retain(|generation| generation.name != name);
            Ok(())
        },
    )
}

/// The base file of a generation, beside the first one: `driftless.db` and `driftless.2.db`.
pub fn file_name(base: &std::path::Path, name: &str) -> Result<String, CommandError> {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fit) {
        return Err(CommandError::usage(
            format!("{name:?} is no name for a generation"),
            "use 1 to 64 letters, digits, - and _",
        ));
    }
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = part(base.file_stem()).unwrap_or_else(|| "driftless".to_owned());
    let ending = part(base.extension()).map(|ending| format!(".{ending}")).unwrap_or_default();
    Ok(format!("{stem}.{name}{ending}"))
}

/// Reads until the target is reached, or somebody says to stop.
fn build(context: &Context, arguments: &Arguments, entry: &Generation, format: Format) -> CommandResult {
    let file = context.control_file();
    let path = file.base(&entry.file);
    if matches!(entry.origin, Origin::Copy { .. }) && !path.exists() {
        return Err(CommandError::usage(
            format!("generation {}: its copy of the live base was not finished", entry.name),
            format!("give it up and begin anew: driftless generations drop {}", entry.name),
        ));
    }
    let candidate = context.of_generation(&file, &context.control()?, &entry.name)?;
    let mut settings = candidate.maintain_settings(true);
    settings.read.through = entry.bound.through_seq;
    settings.records_per_second_max = arguments.rate;
    let ends = (!entry.bound.offsets.is_empty()).then(|| ends(&candidate, &entry.bound)).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(stop.clone())?;
    let (board, over, began) = (Board::default(), AtomicBool::new(false), Instant::now());
    let bar = progress(0, "events");
    std::thread::scope(|scope| {
        scope.spawn(|| show_progress(&board, &bar, &over));
        let result = follow(&candidate, &settings, ends, &stop, &board);
        over.store(true, Ordering::Relaxed);
        result
    })?;
    if stop.load(Ordering::Relaxed) {
        tell!("generation {} is not finished; the same command goes on with it", entry.name);
        return Ok(Verdict::No);
    }
    file.change(
        || Ok::<Control, CommandError>(context.first_control()),
        |control| {
            if let Some(entry) = control.get_mut(&entry.name) {
                entry.stage = Stage::Ready;
                entry.definitions = definitions(&candidate.catalog);
            }
            Ok(())
        },
    )?;
    let head = candidate.open_reader()?.snapshot()?.head()?;
    report(entry, &head, board.numbers().consumed, began.elapsed().as_secs_f64(), format);
    Ok(Verdict::Fine)
}

fn ends(context: &Context, bound: &Bound) -> Result<Vec<(TopicPartition, i64)>, CommandError> {
    use crate::ports::Log;
    let present = context.open_log()?.partitions()?;
    Ok(present
        .into_iter()
        .filter_map(|at| Some((at.clone(), *bound.offsets.get(&at.to_string())?)))
        .collect())
}

fn report(entry: &Generation, head: &Head, consumed: u64, seconds: f64, format: Format) {
    let mut counts = Counts::default();
    for position in &head.positions {
        counts.add(&position.counts);
    }
    let watermarks: Vec<String> = head
        .tables
        .iter()
        .map(|table| table.watermark.map_or_else(|| "-".to_owned(), |watermark| watermark.to_string()))
        .collect();
    if format == Format::Json {
        print_json(&json!({
            "generation": entry.name, "file": entry.file, "commit": head.commit.0, "consumed": consumed,
            "seconds": (seconds * 1000.0).round() / 1000.0, "classes": counts, "watermarks": watermarks,
        }));
        return;
    }
    tell!(
        "generation {} is ready: {} events in {seconds:.1} s, {} applied, {} duplicate, {} stale; watermark {}",
        entry.name,
        human(consumed),
        human(counts.applied),
        human(counts.duplicate),
        human(counts.stale),
        watermarks.join(", ")
    );
    tell!(
        "next: driftless generations certify {0}; driftless generations activate {0} --dry-run",
        entry.name
    );
}

fn say_what_would_be(
    context: &Context,
    found: &[Stretch],
    from: &Place,
    to: &Place,
    format: Format,
) -> CommandResult {
    let records: i64 = found.iter().map(|stretch| (stretch.to - stretch.from).max(0)).sum();
    let copied = !matches!(from, Place::Earliest);
    let bytes = std::fs::metadata(context.base_settings().path).map_or(0, |file| file.len());
    match format {
        Format::Json => print_json(&json!({
            "into": "candidate", "copies_live_base": copied, "offsets": records, "live_base_bytes": bytes,
            "stands_still": !matches!(to, Place::End),
            "partitions": found.iter().map(|stretch| json!({
                "partition": stretch.at.to_string(), "from": stretch.from, "to": stretch.to,
            })).collect::<Vec<_>>(),
        })),
        Format::Text => {
            tell!("{}", stretch_table(found));
            tell!(
                "{} offsets would be read into a new base{}; the live generation would not change. The live base has {} MiB, and the new one would have about as many.",
                human(records.unsigned_abs()),
                if copied { " that starts as a copy of the live one" } else { "" },
                bytes >> 20
            );
        }
    }
    Ok(Verdict::Fine)
}

pub fn stretch_table(found: &[Stretch]) -> comfy_table::Table {
    let mut rows = table(&["partition", "from", "to", "offsets"]);
    for Stretch { at, from, to } in found {
        rows.add_row([
            at.to_string(),
            from.to_string(),
            to.to_string(),
            human((to - from).max(0).unsigned_abs()),
        ]);
    }
    rows
}
