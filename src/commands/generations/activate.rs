//! `driftless generations activate` and `rollback`: the choice is recorded first; whoever maintains the live
//! generation carries it out, and after a crash whoever starts next.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{WordArguments, context_of};
use crate::commands::context::Context;
use crate::commands::output::{print_json, spinner, tell};
use crate::commands::request::Desk;
use crate::commands::run::{follow, maintain};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::io::sqlite::WriterLock;
use crate::pipeline::maintain::Board;
use crate::ports::{BaseReader, Requests, ViewStore};
use crate::pure::base::{Action, Head, Word};
use crate::pure::generation::{Control, Obstacle, Refusal};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The generation to show.
    generation: String,
    /// Although nobody has certified it.
    #[arg(long)]
    allow_uncertified: bool,
    /// Although it is behind the live one: readers then see an older state, and the watermark falls.
    #[arg(long)]
    allow_behind: bool,
    #[command(flatten)]
    rest: RollbackArguments,
}

#[derive(Debug, clap::Args)]
pub struct RollbackArguments {
    /// Say what would happen, and whom it would concern.
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for the generation to catch up with the live one, and then for readers to be shown it.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    word: WordArguments,
}

/// What the operator allows.
#[derive(Clone, Copy)]
struct Allowed {
    uncertified: bool,
    behind: bool,
}

pub fn run(context: &Context, arguments: &Arguments, format: Format) -> CommandResult {
    let allowed = Allowed { uncertified: arguments.allow_uncertified, behind: arguments.allow_behind };
    switch(context, &arguments.generation, allowed, &arguments.rest, format)
}

pub fn roll_back(context: &Context, arguments: &RollbackArguments, format: Format) -> CommandResult {
    let control = context.control()?;
    let Some(way_back) = control.way_back() else {
        return Err(CommandError::usage(
            "no generation was live before this one",
            "driftless generations list shows which there are; activate one of them",
        ));
    };
    switch(context, &way_back.name, Allowed { uncertified: true, behind: false }, arguments, format)
}

fn switch(
    context: &Context,
    name: &str,
    allowed: Allowed,
    arguments: &RollbackArguments,
    format: Format,
) -> CommandResult {
    let control = context.control()?;
    if control.is_live(name) {
        return Err(CommandError::usage(
            format!("generation {name} is live already"),
            "where Redis does not show it yet, the running maintainer does so, or the next start",
        ));
    }
    let candidate = context_of(context, &control, name)?;
    let deadline = Instant::now() + Duration::from_secs(arguments.timeout);
    // 1. May it be shown? One that follows the log gets the time to reach what is shown now.
    let refusals = wait_until_fit(context, &control, &candidate, name, allowed, arguments.dry_run, deadline)?;
    if arguments.dry_run {
        return announce(context, &candidate, name, &refusals, format);
    }
    if !refusals.is_empty() {
        return Ok(refuse(name, &refusals, format));
    }
    carry_kill_switches(context, &candidate)?;
    // 2. The choice, on record before anything follows from it.
    let word = arguments.word.word(context);
    let window_ms = i64::from(context.settings().base.rollback_hours) * 3_600_000;
    context.control_file().change(
        || Ok::<Control, CommandError>(context.first_control()),
        |control| {
            control.activate(name, word.clone(), allowed.behind, word.at_ms + window_ms);
            Ok(())
        },
    )?;
    let recorded = Instant::now();
    // 3. Carried out by the running maintainer, else here.
    let live = context.live_now()?;
    if let Ok(lock) = WriterLock::try_take(&context.base_settings().path)? {
        drop(lock);
        maintain(&live, &live.maintain_settings(true), &AtomicBool::new(false), &Board::default())?;
    }
    let shown = wait_until_shown(&live, deadline)?;
    report(&live, name, &word, &shown, recorded.elapsed(), format)
}

fn head(context: &Context) -> Result<Head, CommandError> {
    let mut reader = context.open_reader()?;
    let head = reader.snapshot()?.head()?;
    Ok(head)
}

/// What an operator has taken out of use stays so, whichever generation shows it.
fn carry_kill_switches(context: &Context, candidate: &Context) -> Result<(), CommandError> {
    let (live, other) = (head(context)?, head(candidate)?);
    for (entry, state) in context.catalog.views.iter().zip(&live.views) {
        let view = &entry.view.object;
        let Some(at) = candidate.catalog.view(view) else { continue };
        if state.disabled.is_some() == other.views[at].disabled.is_some() {
            continue;
        }
        let (who, why) = match &state.disabled {
            Some(word) => (word.who.as_str(), word.why.as_str()),
            None => ("driftless", "in use when another generation was activated"),
        };
        let action = Action::EnableView { view: view.clone(), enabled: state.disabled.is_none() };
        let never = AtomicBool::new(false);
        Desk::open(candidate, Some(who), &never)?.ask(&action, why)?.map_err(|refusal| {
            CommandError::usage(
                format!("the kill switch of {view} cannot be carried over: {refusal}"),
                "see driftless view list",
            )
        })?;
    }
    Ok(())
}

fn wait_until_fit(
    context: &Context,
    control: &Control,
    candidate: &Context,
    name: &str,
    allowed: Allowed,
    dry_run: bool,
    deadline: Instant,
) -> Result<Vec<Refusal>, CommandError> {
    let live = head(context)?;
    let still = candidate.held().is_some_and(|held| held.stands_still);
    let maintained = WriterLock::try_take(&context.base_settings().path)?.is_err();
    let spinner = spinner();
    let mut has_read = false;
    loop {
        let now = head(candidate)?;
        let mut refusals = control.refusals(name, &now, &live);
        refusals.retain(|refusal| match refusal.obstacle {
            Obstacle::Behind => !allowed.behind,
            Obstacle::Uncertified => !allowed.uncertified,
            Obstacle::Unknown | Obstacle::Building => true,
        });
        let only_late =
            !refusals.is_empty() && refusals.iter().all(|refusal| refusal.obstacle == Obstacle::Behind);
        if !only_late || still || dry_run || has_read || Instant::now() > deadline {
            spinner.finish_and_clear();
            return Ok(refusals);
        }
        spinner.set_message(format!("generation {name} catches up with the live one"));
        if maintained {
            std::thread::sleep(Duration::from_millis(100));
        } else {
            // Nobody lets it follow the log but this process.
            let settings = candidate.maintain_settings(true);
            follow(candidate, &settings, None, &AtomicBool::new(false), &Board::default())?;
            has_read = true;
        }
    }
}

fn refuse(name: &str, refusals: &[Refusal], format: Format) -> Verdict {
    match format {
        Format::Json => print_json(&json!({
            "generation": name, "activated": false,
            "refusals": refusals.iter().map(refusal_json).collect::<Vec<_>>(),
        })),
        Format::Text => {
            tell!("generation {name} is not activated:");
            for Refusal { what, remedy, .. } in refusals {
                tell!("  {what}\n    remedy: {remedy}");
            }
        }
    }
    Verdict::No
}

fn refusal_json(refusal: &Refusal) -> Value {
    json!({"what": refusal.what, "remedy": refusal.remedy})
}

/// A view whose meaning changes with the switch, and whom its contract names as its readers.
fn mismatches(context: &Context, candidate: &Context) -> Vec<Value> {
    let changed = context.catalog.views.iter().filter_map(|entry| {
        let ours = &entry.view;
        let other = &candidate.catalog.views[candidate.catalog.view(&ours.object)?].view;
        (ours.contract_hash != other.contract_hash).then(|| {
            let readers = ours.consumers.iter().chain(&other.consumers);
            let mut consumers: Vec<Value> =
                readers.map(|consumer| json!({"name": consumer.name, "owner": consumer.owner})).collect();
            consumers.dedup();
            json!({
                "view": ours.object, "contract_hash": ours.contract_hash,
                "new_contract_hash": other.contract_hash, "owner": ours.owner, "consumers": consumers,
            })
        })
    });
    changed.collect()
}

fn announce(
    context: &Context,
    candidate: &Context,
    name: &str,
    refusals: &[Refusal],
    format: Format,
) -> CommandResult {
    let mismatches = mismatches(context, candidate);
    let verdict = if refusals.is_empty() { Verdict::Fine } else { Verdict::No };
    if format == Format::Json {
        print_json(&json!({
            "generation": name, "live": context.generation(), "dry_run": true,
            "refusals": refusals.iter().map(refusal_json).collect::<Vec<_>>(), "contract_changes": mismatches,
        }));
        return Ok(verdict);
    }
    tell!("generation {name} would be shown instead of {}", context.generation());
    for change in &mismatches {
        tell!(
            "{}: the contract changes from {} to {}; whoever pins the old hash gets CONTRACT_MISMATCH",
            change["view"].as_str().unwrap_or_default(),
            change["contract_hash"].as_str().unwrap_or_default(),
            change["new_contract_hash"].as_str().unwrap_or_default()
        );
        tell!("  owner: {}", change["owner"].as_str().unwrap_or("not declared"));
        for consumer in change["consumers"].as_array().into_iter().flatten() {
            tell!(
                "  consumer: {} (owner: {})",
                consumer["name"].as_str().unwrap_or_default(),
                consumer["owner"].as_str().unwrap_or("not declared")
            );
        }
    }
    for Refusal { what, remedy, .. } in refusals {
        tell!("it would be refused: {what}\n    remedy: {remedy}");
    }
    tell!("how the groups differ: driftless generations diff {} {name}", context.generation());
    Ok(verdict)
}

/// Waits until Redis shows every view of the generation, whole. Returns the metas.
fn wait_until_shown(live: &Context, deadline: Instant) -> Result<Vec<crate::ports::Meta>, CommandError> {
    let mut store = live.open_store()?;
    let spinner = spinner();
    loop {
        let mut metas = Vec::new();
        let mut waits = String::new();
        for entry in &live.catalog.views {
            let object = &entry.view.object;
            match store.read_meta(object) {
                Ok(meta) => {
                    let is = |field: &str, value: &str| meta.get(field).is_some_and(|shown| shown == value);
                    if !(is("generation", live.generation()) && is("mixed", "0")) {
                        waits = format!("{object} is not shown whole yet");
                    }
                    metas.push(meta);
                }
                Err(error) => waits = error.to_string(),
            }
        }
        if waits.is_empty() {
            spinner.finish_and_clear();
            return Ok(metas);
        }
        if Instant::now() > deadline {
            return Err(CommandError::usage(
                format!(
                    "generation {} is live from now on, but Redis does not show it: {waits}",
                    live.generation()
                ),
                "see the maintainer's log, or start driftless run; it goes on by itself",
            ));
        }
        spinner.set_message(waits);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn report(
    live: &Context,
    name: &str,
    word: &Word,
    metas: &[crate::ports::Meta],
    took: Duration,
    format: Format,
) -> CommandResult {
    let seconds = (took.as_secs_f64() * 1000.0).round() / 1000.0;
    let field = |meta: &crate::ports::Meta, name: &str| meta.get(name).cloned().unwrap_or_default();
    match format {
        Format::Json => print_json(&json!({
            "generation": name, "activated": true, "seconds": seconds, "who": word.who, "why": word.why,
            "views": metas.iter().map(|meta| json!({
                "view": field(meta, "object"), "version": field(meta, "version"),
                "watermark": field(meta, "watermark"), "groups": field(meta, "groups"),
            })).collect::<Vec<_>>(),
        })),
        Format::Text => {
            tell!("generation {name} is live and shown, {seconds} s after the choice was recorded");
            for meta in metas {
                tell!(
                    "{}: watermark {}, {} groups",
                    field(meta, "object"),
                    field(meta, "watermark"),
                    field(meta, "groups")
                );
            }
            tell!(
                "back: driftless generations rollback (within {} hours it needs no replay)",
                live.settings().base.rollback_hours
            );
        }
    }
    Ok(Verdict::Fine)
}
