//! `driftless query`: asks the router.

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::pipeline::route::{self, Answer, Ports};
use crate::ports::UseBook;
use crate::pure::catalog::CatalogView;
use crate::pure::publish::GroupValue;
use crate::pure::query::{Ask, Query, parse_seconds};
use crate::pure::route::{Bars, Check, Finding, Route};
use crate::pure::schema::Table;
use crate::pure::value::Value;

/// Version of the JSON answer, docs/ROUTING.md.
const SCHEMA: &str = "driftless.query/1";

/// Ask a view: from Redis where it may answer, otherwise from the base with the same numbers.
///
/// The answer says which of the two it is from, and why. Exit 0 with an answer, 1 where it is refused.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: driftless query --view agg_daily_product --measures gmv_cents,units --group-by product_id \\
           --where 'order_date >= 2026-09-18 and order_date <= 2026-09-22'
         driftless query --measures order_count --where 'order_date = 2026-09-22' --explain"
)]
pub struct Arguments {
    #[command(flatten)]
    ask: AskArguments,
    /// Let this one answer, or nobody.
    #[arg(long, value_enum)]
    route: Option<RouteArgument>,
    /// Print every check with its evidence.
    #[arg(long)]
    explain: bool,
}

/// The question itself.
#[derive(Debug, Args)]
struct AskArguments {
    /// The view; may be left out where there is only one.
    #[arg(long)]
    view: Option<String>,
    /// Measures by their published names.
    #[arg(long, value_delimiter = ',', required = true)]
    measures: Vec<String>,
    /// Conditions joined by `and`: = != < <= > >= in between, is null, is not null.
    #[arg(long = "where", default_value = "", hide_default_value = true, value_name = "CONDITIONS")]
    conditions: String,
    /// Columns that make the rows of the answer [default: one total].
    #[arg(long, value_delimiter = ',')]
    group_by: Vec<String>,
    /// How old the answer may be, such as 60s, 15m, 2h [default: the contract's objective].
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    max_staleness: Option<u64>,
    /// The contract hash that the question was written for; another one is refused.
    #[arg(long, value_name = "HASH")]
    contract: Option<String>,
    /// On whose behalf: the caller's word, which the contract's policy looks at.
    #[arg(long)]
    role: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RouteArgument {
    Redis,
    Base,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let question = &arguments.ask;
    let ask = Ask {
        view: question.view.clone(),
        measures: question.measures.clone(),
        conditions: question.conditions.clone(),
        group_by: question.group_by.clone(),
        max_staleness_seconds: question.max_staleness,
        contract: question.contract.clone(),
        role: question.role.clone(),
    };
    let (view, query) = checked(&context, &ask)?;
    let forced = arguments.route.map(|route| match route {
        RouteArgument::Redis => Route::Redis,
        RouteArgument::Base => Route::Base,
    });
    let answer = answer(&context, view, &query, forced)?;
    let entry = &context.catalog.views[view];
    let shape = &context.catalog.tables[entry.table].shape;
    match shared.format {
        Format::Json => print_json(&as_json(&answer, entry, shape, &query, arguments.explain)),
        Format::Text => print_text(&answer, entry, shape, &query, arguments.explain),
    }
    Ok(if answer.route.is_some() { Verdict::Fine } else { Verdict::No })
}

/// The question checked against the view that it names.
pub fn checked(context: &Context, ask: &Ask) -> Result<(usize, Query), CommandError> {
    let view = context.view(ask.view.as_deref())?;
    let entry = &context.catalog.views[view];
    let query = ask
        .check(&entry.view, &context.catalog.tables[entry.table].shape)
        .map_err(|error| CommandError::usage(error.to_string(), "docs/ROUTING.md says what may be asked"))?;
    Ok((view, query))
}

fn answer(
    context: &Context,
    view: usize,
    query: &Query,
    forced: Option<Route>,
) -> Result<Answer, CommandError> {
    let (mut base, mut store) = (context.open_reader()?, context.open_store()?);
    let mut book = context.open_use_book();
    let book = book.as_mut().map(|book| book as &mut dyn UseBook);
    let mut ports = Ports { base: &mut base, store: &mut store, clock: &*context.clock };
    let settings = context.route_settings();
    Ok(route::answer(&mut ports, &context.catalog, view, query, forced, &settings, book)?)
}

fn as_json(answer: &Answer, entry: &CatalogView, shape: &Table, query: &Query, explain: bool) -> Json {
    let mut document = json!({
        "schema": SCHEMA,
        "view": entry.view.object,
        "route": answer.route.map(Route::name),
        "asked_route": answer.forced.map(Route::name),
        "reasons": answer.decision.reasons().iter().map(|code| code.name()).collect::<Vec<_>>(),
        "failed": answer.decision.failures().map(check_json).collect::<Vec<_>>(),
        "version": answer.basis.version,
        "watermark": known(&answer.basis.watermark),
        "as_of": known(&answer.basis.as_of),
        "generation": answer.basis.generation,
        "contract_hash": answer.basis.contract_hash,
        "warnings": answer.warnings,
        "rows": answer.rows.iter().map(|(key, value)| row_json(key, value, entry, shape, query)).collect::<Vec<_>>(),
    });
    if explain {
        document["checks"] = answer.decision.checks.iter().map(check_json).collect();
    }
    document
}

fn known(text: &str) -> Json {
    if text.is_empty() { Json::Null } else { text.into() }
}

fn check_json(check: &Check) -> Json {
    let bars = match check.bars {
        Bars::Redis => "redis",
        Bars::Both => "both",
    };
    json!({
        "code": check.code.name(), "finding": finding_name(check.finding), "bars": bars, "evidence": check.evidence,
    })
}

fn finding_name(finding: Finding) -> &'static str {
    match finding {
        Finding::Holds => "holds",
        Finding::Fails => "fails",
        Finding::Unknown => "unknown",
    }
}

/// A row of an answer; a group's columns and its measures may have the same names.
fn row_json(key: &[Value], value: &GroupValue, entry: &CatalogView, shape: &Table, query: &Query) -> Json {
    let group: serde_json::Map<String, Json> = query
        .group_by
        .iter()
        .zip(key)
        .map(|(column, value)| (shape.columns[*column].name.to_string(), value.to_json()))
        .collect();
    match value {
        GroupValue::Overflow => json!({"group": group, "error": "overflow"}),
        GroupValue::Measures(numbers) => {
            let names = query.measures.iter().map(|measure| entry.view.measures[*measure].column.clone());
            let measures: serde_json::Map<String, Json> =
                names.zip(numbers.iter().map(|number| json!(number))).collect();
            json!({"group": group, "measures": measures})
        }
    }
}

fn print_text(answer: &Answer, entry: &CatalogView, shape: &Table, query: &Query, explain: bool) {
    if explain {
        let mut rows = table(&["check", "finding", "evidence"]);
        for check in &answer.decision.checks {
            rows.add_row([check.code.name(), finding_name(check.finding), check.evidence.as_str()]);
        }
        tell!("{rows}");
    }
    let reasons: Vec<&str> = answer.decision.reasons().iter().map(|code| code.name()).collect();
    let reasons = reasons.join(", ");
    let Some(route) = answer.route else {
        let asked = answer.forced.map_or_else(String::new, |route| format!(" by {}", route.name()));
        tell!("refused{asked}: {reasons}");
        for check in answer.decision.failures() {
            tell!("  {}: {}", check.code.name(), check.evidence);
        }
        return;
    };
    let mut header: Vec<&str> = query.group_by.iter().map(|column| &*shape.columns[*column].name).collect();
    header.extend(query.measures.iter().map(|measure| entry.view.measures[*measure].column.as_str()));
    let mut rows = table(&header);
    for (key, value) in &answer.rows {
        let mut cells: Vec<String> = key.iter().map(Value::to_string).collect();
        match value {
            GroupValue::Overflow => cells.extend(query.measures.iter().map(|_| "overflow".to_owned())),
            GroupValue::Measures(numbers) => cells.extend(
                numbers
                    .iter()
                    .map(|number| number.map_or_else(|| "null".to_owned(), |number| number.to_string())),
            ),
        }
        rows.add_row(cells);
    }
    tell!("{rows}");
    let basis = &answer.basis;
    let or_unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    tell!("from {} ({reasons})", route.name());
    if route == Route::Base {
        for check in answer.decision.failures() {
            tell!("  {}: {}", check.code.name(), check.evidence);
        }
    }
    tell!(
        "version {}  watermark {}  as of {}  generation {}  contract {}",
        basis.version,
        or_unknown(&basis.watermark),
        or_unknown(&basis.as_of),
        basis.generation,
        basis.contract_hash.get(..12).unwrap_or(&basis.contract_hash)
    );
    for warning in &answer.warnings {
        tell!("warning: {warning}");
    }
}
