//! `driftless view`: the kill switch, what is said of each view, and who uses it.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandResult, Format, Shared, Verdict, request};
use crate::ports::BaseReader;
use crate::pure::base::{Action, Head, ViewState};
use crate::pure::publish::timestamp_text;
use crate::pure::usage::UseCount;

const DAY_MS: i64 = 86_400_000;

/// Take a view out of use or back into it, list the views, see who uses which measure.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless view disable agg_daily_product --why 'numbers under review'
         driftless view list")]
pub struct Arguments {
    #[command(subcommand)]
    action: ViewCommand,
}

#[derive(Debug, Subcommand)]
enum ViewCommand {
    /// Every view with its contract hash and what operators and reconciler have said of it.
    #[command(after_help = "Example: driftless view list --format json")]
    List,
    /// Let the router answer from the base alone, at once; Redis shows the status with the next publish.
    #[command(after_help = "Example: driftless view disable agg_daily_product --why 'numbers under review'")]
    Disable(Switch),
    /// Let Redis answer again.
    #[command(after_help = "Example: driftless view enable agg_daily_product --why 'reviewed'")]
    Enable(Switch),
    /// How often the router was asked, by role, route, reason and measure.
    #[command(after_help = "Example: driftless view usage --days 30
         driftless view usage agg_daily_product --deprecated    (exit 1 while somebody uses what is on its way out)")]
    Usage {
        /// The view [default: all].
        view: Option<String>,
        /// The last days, today included.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=4_000))]
        days: u32,
        /// Deprecated measures alone.
        #[arg(long)]
        deprecated: bool,
    },
}

#[derive(Debug, Args)]
struct Switch {
    /// The view.
    view: String,
    /// Stays on record.
    #[arg(long)]
    why: String,
    /// Stays on record [default: the user's name].
    #[arg(long)]
    who: Option<String>,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    match &arguments.action {
        ViewCommand::List => list(&context, shared.format),
        ViewCommand::Disable(switch) => turn(&context, switch, false, shared.format),
        ViewCommand::Enable(switch) => turn(&context, switch, true, shared.format),
        ViewCommand::Usage { view, days, deprecated } => {
            usage(&context, view.as_deref(), *days, *deprecated, shared.format)
        }
    }
}

fn turn(context: &Context, switch: &Switch, enabled: bool, format: Format) -> CommandResult {
    context.view(Some(&switch.view))?;
    let action = Action::EnableView { view: switch.view.clone(), enabled };
    request::ask(context, &action, switch.who.as_deref(), &switch.why, format)
}

fn list(context: &Context, format: Format) -> CommandResult {
    let mut reader = context.open_reader()?;
    let head: Head = reader.snapshot()?.head()?;
    let views = context.catalog.views.iter().zip(&head.views);
    if format == Format::Json {
        let listed: Vec<Value> = views
            .map(|(entry, state)| {
                json!({
                    "view": entry.view.object, "base": entry.view.base, "owner": entry.view.owner,
                    "contract_hash": entry.view.contract_hash, "definition_hash": entry.view.definition_hash,
                    "roles": entry.view.policy.roles, "disabled": state.disabled,
                    "quarantined": state.quarantined, "reconciled": state.reconciled,
                })
            })
            .collect();
        print_json(&listed.into());
        return Ok(Verdict::Fine);
    }
    let mut rows = table(&["view", "contract", "owner", "state", "last reconciled"]);
    for (entry, state) in views {
        let reconciled = state.reconciled.as_ref().map_or_else(
            || "never".to_owned(),
            |last| format!("{} {}", timestamp_text(Some(last.at_ms)), last.verdict.name()),
        );
        rows.add_row([
            entry.view.object.as_str(),
            entry.view.contract_hash.get(..12).unwrap_or_default(),
            entry.view.owner.as_deref().unwrap_or("-"),
            &state_text(state),
            &reconciled,
        ]);
    }
    tell!("{rows}");
    Ok(Verdict::Fine)
}

fn state_text(state: &ViewState) -> String {
    let said = |what: &str, word: &crate::pure::base::Word| {
        format!("{what} by {} at {}: {}", word.who, timestamp_text(Some(word.at_ms)), word.why)
    };
    match (&state.disabled, &state.quarantined) {
        (Some(word), _) => said("disabled", word),
        (None, Some(word)) => said("quarantined", word),
        (None, None) => "in use".to_owned(),
    }
}

fn usage(
    context: &Context,
    view: Option<&str>,
    days: u32,
    deprecated: bool,
    format: Format,
) -> CommandResult {
    if let Some(object) = view {
        context.view(Some(object))?;
    }
    drop(context.open_reader()?);
    let book = context.use_book()?;
    let since_ms = context.clock.wall_ms().saturating_sub(i64::from(days - 1).saturating_mul(DAY_MS));
    let since: String = timestamp_text(Some(since_ms)).chars().take(10).collect();
    let counts = book.counts(view, &since)?;
    let is_deprecated = |count: &UseCount| {
        let entry = context.catalog.view(&count.view).map(|view| &context.catalog.views[view].view);
        entry.is_some_and(|view| {
            view.measure(&count.measure).is_some_and(|at| view.deprecated.contains_key(&at))
        })
    };
    let counts: Vec<(UseCount, bool)> = counts
        .into_iter()
        .map(|count| {
            let is_deprecated = is_deprecated(&count);
            (count, is_deprecated)
        })
        .filter(|(_, is_deprecated)| *is_deprecated || !deprecated)
        .collect();
    if format == Format::Json {
        print_json(&json!({
            "schema": "driftless.usage/1", "since": since,
            "counts": counts.iter().map(count_json).collect::<Vec<_>>(),
        }));
    } else if counts.is_empty() {
        tell!("nothing was asked since {since}");
    } else {
        print_counts(&since, &counts);
    }
    Ok(if deprecated && !counts.is_empty() { Verdict::No } else { Verdict::Fine })
}

fn count_json((count, deprecated): &(UseCount, bool)) -> Value {
    let or_null = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "view": count.view, "role": count.role, "route": count.route, "reason": or_null(&count.reason),
        "measure": or_null(&count.measure), "deprecated": deprecated, "times": count.times, "last_day": count.last_day,
    })
}

fn print_counts(since: &str, counts: &[(UseCount, bool)]) {
    let mut rows = table(&["view", "role", "route", "counted", "times", "last day"]);
    for (count, deprecated) in counts {
        let counted = match (count.reason.as_str(), count.measure.as_str()) {
            ("", "") => "questions".to_owned(),
            ("", measure) if *deprecated => format!("measure {measure} (deprecated)"),
            ("", measure) => format!("measure {measure}"),
            (reason, _) => reason.to_owned(),
        };
        rows.add_row([
            count.view.as_str(),
            &count.role,
            &count.route,
            &counted,
            &count.times.to_string(),
            &count.last_day,
        ]);
    }
    tell!("since {since}\n{rows}");
}
