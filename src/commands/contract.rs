//! `driftless contract`: looks at a contract document.

mod diff;
mod impact;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::overrides;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::config::{Config, ContractText, contract_texts, load_tables};
use crate::pure::contract::View;
use crate::pure::recompute::Recompute;
use crate::pure::schema::Table;

/// Check a contract, print its hash, show what it compiles to, what a change of it means, what a column carries.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless contract hash contracts/agg_daily_product.json")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Compile it against the configured tables; exit 1 with the place of the first mistake.
    #[command(after_help = "Example: driftless contract check contracts/agg_daily_product.json")]
    Check { file: PathBuf },
    /// Print the semantic contract hash.
    #[command(after_help = "Example: driftless contract hash contracts/agg_daily_product.json")]
    Hash { file: PathBuf },
    /// Print grain, measures and the SQL that recomputes a group.
    #[command(after_help = "Example: driftless contract show contracts/agg_daily_product.json --format json")]
    Show { file: PathBuf },
    /// Print what a changed contract means: fields, hashes, and whose consumers have to follow; exit 1 where a new
    /// generation is needed.
    #[command(after_help = "Example: driftless contract diff contracts/agg_daily_product.json new.json")]
    Diff { old: PathBuf, new: PathBuf },
    /// Print what breaks if a column goes: measures, filters, policies, consumers with their owners; exit 1 where
    /// anything does.
    #[command(after_help = "Example: driftless contract impact --column cost_cents
         driftless contract impact --column channel --contract draft.json --format json")]
    Impact {
        /// The column of the base table.
        #[arg(long)]
        column: String,
        /// The table, where several have such a column.
        #[arg(long)]
        table: Option<String>,
        /// This contract instead of the configured ones.
        #[arg(long, value_name = "FILE")]
        contract: Option<PathBuf>,
    },
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    // The tables alone: a file may be a configured contract that went wrong.
    let config = Config::load(shared.config.as_deref(), &overrides(shared)?)?;
    let shapes = load_tables(&config)?;
    match &arguments.action {
        Action::Check { file } | Action::Hash { file } | Action::Show { file } => {
            match compile(&read(file)?, &shapes, shared.format) {
                Some(view) => Ok(one(&arguments.action, file, &shapes, &view, shared.format)),
                None => Ok(Verdict::No),
            }
        }
        Action::Diff { old, new } => {
            let (old, new) = (read(old)?, read(new)?);
            match (compile(&old, &shapes, shared.format), compile(&new, &shapes, shared.format)) {
                (Some(old), Some(new)) => diff::run(&old, &new, shared.format),
                _ => Ok(Verdict::No),
            }
        }
        Action::Impact { column, table, contract } => {
            let texts = match contract {
                Some(file) => vec![read(file)?],
                None => contract_texts(&config)?,
            };
            let mut views = Vec::new();
            for text in &texts {
                let Some(view) = compile(text, &shapes, shared.format) else { return Ok(Verdict::No) };
                views.push(view);
            }
            impact::run(&shapes, &views, column, table.as_deref(), shared.format)
        }
    }
}

fn read(file: &Path) -> Result<ContractText, CommandError> {
    let place = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(ContractText { text, place }),
        Err(error) => Err(CommandError::File(place, error)),
    }
}

/// The document's view; `None` where it does not compile, which is then told.
fn compile(contract: &ContractText, shapes: &[Table], format: Format) -> Option<View> {
    match (View::compile(&contract.text, &contract.place, shapes), format) {
        (Ok(view), _) => return Some(view),
        (Err(error), Format::Json) => print_json(&json!({"ok": false, "error": error.to_string()})),
        (Err(error), Format::Text) => tell!("{error}"),
    }
    None
}

fn one(action: &Action, file: &Path, shapes: &[Table], view: &View, format: Format) -> Verdict {
    let place = file.display();
    match (action, format) {
        (Action::Check { .. }, Format::Text) => {
            tell!("{place}: fine, view {} over {}", view.object, view.base)
        }
        (Action::Check { .. }, Format::Json) => print_json(&json!({"ok": true, "object": view.object})),
        (Action::Hash { .. }, Format::Text) => tell!("{}", view.contract_hash),
        (Action::Hash { .. }, Format::Json) => {
            print_json(&json!({"contract_hash": view.contract_hash, "definition_hash": view.definition_hash}))
        }
        _ => show(shapes, view, format),
    }
    Verdict::Fine
}

fn show(shapes: &[Table], view: &View, format: Format) {
    let Some(shape) = shapes.iter().find(|shape| *shape.name == *view.base) else { return };
    let recompute = Recompute::new(view, shape);
    if format == Format::Json {
        let measures: Vec<_> = view
            .measures
            .iter()
            .map(|measure| json!({"name": measure.name, "column": measure.column, "additive": measure.additive}))
            .collect();
        print_json(&json!({
            "object": view.object, "base": view.base,
            "grain": view.grain.iter().map(|dimension| &dimension.name).collect::<Vec<_>>(),
            "measures": measures,
            "contract_hash": view.contract_hash, "definition_hash": view.definition_hash,
            "freshness_slo_seconds": view.freshness_slo_seconds,
            "index_sql": recompute.index_sql, "group_sql": recompute.group_sql, "all_sql": recompute.all_sql,
        }));
        return;
    }
    tell!(
        "{} over {}\ncontract   {}\ndefinition {}",
        view.object,
        view.base,
        view.contract_hash,
        view.definition_hash
    );
    let grain: Vec<&str> = view.grain.iter().map(|dimension| dimension.name.as_str()).collect();
    tell!("one group a ({}); fresh within {} s", grain.join(", "), view.freshness_slo_seconds);
    let mut rows = table(&["measure", "field", "over several groups"]);
    for measure in &view.measures {
        rows.add_row([
            measure.name.as_str(),
            measure.column.as_str(),
            if measure.additive { "adds up" } else { "never added" },
        ]);
    }
    tell!("{rows}\n{}\n{}", recompute.index_sql, recompute.group_sql);
}
