//! `driftless contract`: looks at a contract document.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::overrides;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::config::{Config, load_tables};
use crate::pure::contract::View;
use crate::pure::recompute::Recompute;
use crate::pure::schema::Table;

/// Check a contract, print its hash, or show what it compiles to.
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
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    let (Action::Check { file } | Action::Hash { file } | Action::Show { file }) = &arguments.action;
    let place = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| CommandError::File(place.clone(), error))?;
    // The tables alone: the file may be a configured contract that went wrong.
    let config = Config::load(shared.config.as_deref(), &overrides(shared)?)?;
    let shapes = load_tables(&config)?;
    let view = match View::compile(&text, &place, &shapes) {
        Ok(view) => view,
        Err(error) => {
            match shared.format {
                Format::Json => print_json(&json!({"ok": false, "error": error.to_string()})),
                Format::Text => tell!("{error}"),
            }
            return Ok(Verdict::No);
        }
    };
    match (&arguments.action, shared.format) {
        (Action::Check { .. }, Format::Text) => {
            tell!("{place}: fine, view {} over {}", view.object, view.base)
        }
        (Action::Check { .. }, Format::Json) => print_json(&json!({"ok": true, "object": view.object})),
        (Action::Hash { .. }, Format::Text) => tell!("{}", view.contract_hash),
        (Action::Hash { .. }, Format::Json) => {
            print_json(&json!({"contract_hash": view.contract_hash, "definition_hash": view.definition_hash}))
        }
        (Action::Show { .. }, format) => show(&shapes, &view, format),
    }
    Ok(Verdict::Fine)
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
