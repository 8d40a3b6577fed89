//! A replay into the live base: a request that whoever holds the writer's lock carries out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::span::{Place, Stretch, stretches};
use super::{Arguments, show_progress};
use crate::commands::context::{Context, definitions};
use crate::commands::output::{human, print_json, progress, spinner, tell};
use crate::commands::request::caller;
use crate::commands::run::{follow, maintain, stop_on_signal};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::io::control::remove_base;
use crate::io::sqlite::{Copy, RequestBox, WriterLock, copy_base};
use crate::pipeline::maintain::Board;
use crate::ports::BaseReader;
use crate::pure::base::{Action, Word};

pub fn run(context: &Context, arguments: &Arguments, format: Format) -> CommandResult {
    let (from, to) = (Place::parse("--from", &arguments.from)?, Place::parse("--to", &arguments.to())?);
    if to != Place::End || arguments.name.is_some() {
        return Err(CommandError::usage(
            "the live base is read up to where it stands, and has its name",
            "leave --to and --name out",
        ));
    }
    let mut log = context.open_log()?;
    let live = context.open_reader()?.snapshot()?.head()?;
    let mut found = stretches(context, &mut log, &live, &from, &to)?;
    // Only what the base has passed is read again; the rest comes by itself.
    for stretch in &mut found {
        let position = live.positions.iter().find(|position| position.at == stretch.at);
        stretch.to = position.map_or(stretch.from, |position| position.next_offset);
    }
    found.retain(|stretch| stretch.from < stretch.to);
    let action = Action::Reread {
        from: found.iter().map(|stretch| (stretch.at.to_string(), stretch.from)).collect::<BTreeMap<_, _>>(),
    };
    let word = Word {
        who: caller(arguments.who.as_deref()),
        why: arguments.why.clone(),
        at_ms: context.clock.wall_ms(),
    };
    let answer = match arguments.dry_run {
        true => try_on_a_copy(context, arguments, &action, &word)?,
        false => ask(context, arguments, &action, &word)?,
    };
    print(&found, &answer, arguments.dry_run, format);
    Ok(if answer.0 { Verdict::Fine } else { Verdict::No })
}

/// The same reading into a copy that is thrown away: nothing else tells what it would change.
fn try_on_a_copy(
    context: &Context,
    arguments: &Arguments,
    action: &Action,
    word: &Word,
) -> Result<(bool, Value), CommandError> {
    let mut name = context.base_settings().path.into_os_string();
    name.push(".dry-run");
    let path = std::path::PathBuf::from(name);
    remove_base(&path)?;
    let generation = context.generation();
    let copy =
        Copy { generation, definitions: &definitions(&context.catalog), request: Some((action, word)) };
    copy_base(&context.base_settings(), &path, &copy)?;
    let scratch = context.over_base(path.clone());
    let result = read_here(&scratch, arguments, false);
    let answer = result.and_then(|()| {
        let requests = RequestBox::open(&scratch.base_settings())?;
        requests.newest_answer()?.ok_or_else(|| not_answered("the trial"))
    });
    remove_base(&path)?;
    answer
}

fn ask(
    context: &Context,
    arguments: &Arguments,
    action: &Action,
    word: &Word,
) -> Result<(bool, Value), CommandError> {
    let settings = context.base_settings();
    let requests = RequestBox::open(&settings)?;
    let id = requests.put(action, &word.who, &word.why, word.at_ms)?;
    if let Ok(lock) = WriterLock::try_take(&settings.path)? {
        drop(lock);
        read_here(context, arguments, true)?;
        return requests.answer(id)?.ok_or_else(|| not_answered(&format!("request {id}")));
    }
    let spinner = spinner();
    spinner.set_message("the running maintainer reads again");
    loop {
        if let Some(answer) = requests.answer(id)? {
            spinner.finish_and_clear();
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Nobody maintains the base: this process does, until the request is carried out.
fn read_here(context: &Context, arguments: &Arguments, publishes: bool) -> Result<(), CommandError> {
    let mut settings = context.maintain_settings(true);
    settings.records_per_second_max = arguments.rate;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(stop.clone())?;
    let (board, over) = (Board::default(), AtomicBool::new(false));
    let bar = progress(0, "events");
    std::thread::scope(|scope| {
        scope.spawn(|| show_progress(&board, &bar, &over));
        let result = if publishes {
            maintain(context, &settings, &stop, &board)
        } else {
            // Up to where the base stands: what comes after it is none of the trial's.
            let positions =
                context.open_reader().and_then(|mut reader| Ok(reader.snapshot()?.head()?.positions));
            positions.and_then(|positions| {
                let ends =
                    positions.into_iter().map(|position| (position.at, position.next_offset)).collect();
                follow(context, &settings, Some(ends), &stop, &board)
            })
        };
        over.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(())
}

fn not_answered(what: &str) -> CommandError {
    CommandError::usage(
        format!("{what} was not carried out to its end"),
        "it stays on record: driftless run, or the same command, goes on with it",
    )
}

fn print(found: &[Stretch], (done, answer): &(bool, Value), dry_run: bool, format: Format) {
    if format == Format::Json {
        print_json(&json!({
            "into": "live", "dry_run": dry_run, "done": done, "answer": answer,
            "partitions": found.iter().map(|stretch| json!({
                "partition": stretch.at.to_string(), "from": stretch.from, "to": stretch.to,
            })).collect::<Vec<_>>(),
        }));
        return;
    }
    tell!("{}", super::candidate::stretch_table(found));
    if !done {
        tell!("refused: {}", answer.as_str().unwrap_or_default());
        return;
    }
    let count = |class: &str| human(answer["classes"][class].as_u64().unwrap_or(0));
    tell!(
        "{} read again: {} duplicate, {} stale, {} control, {} {}, {} in conflict with what the base holds, {} rejected",
        human(answer["read"].as_u64().unwrap_or(0)),
        count("duplicate"),
        count("stale"),
        count("control"),
        count("applied"),
        if dry_run { "would be new" } else { "new" },
        count("conflict"),
        count("rejected")
    );
}
