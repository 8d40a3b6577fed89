//! `driftless contract impact`: who loses what when a column goes.

use serde_json::{Value as Json, json};

use crate::commands::output::{print_json, tell};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::pure::contract::{Consumer, View};
use crate::pure::impact::{Breaks, ViewImpact, measure_text, of_column};
use crate::pure::schema::Table;

const SCHEMA: &str = "driftless.impact/1";

/// Prints what breaks; the answer is no where anything does.
pub fn run(
    shapes: &[Table],
    views: &[View],
    column: &str,
    table: Option<&str>,
    format: Format,
) -> CommandResult {
    let (shape, position) = find(shapes, column, table)?;
    let found: Vec<(&View, ViewImpact)> = views
        .iter()
        .filter(|view| view.base == *shape.name)
        .map(|view| (view, of_column(view, shape, position)))
        .filter(|(_, impact)| impact.breaks != Breaks::Nothing)
        .collect();
    let key = shape.is_key(position);
    match format {
        Format::Json => print_json(&json!({
            "schema": SCHEMA, "table": &*shape.name, "column": column, "primary_key": key,
            "breaks": key || !found.is_empty(),
            "views": found.iter().map(|(view, impact)| view_json(view, impact)).collect::<Vec<_>>(),
        })),
        Format::Text => print_text(shape, column, key, &found),
    }
    Ok(if key || !found.is_empty() { Verdict::No } else { Verdict::Fine })
}

/// The table that has the column; named, where several have it.
fn find<'t>(
    shapes: &'t [Table],
    column: &str,
    table: Option<&str>,
) -> Result<(&'t Table, usize), CommandError> {
    let named = shapes.iter().filter(|shape| table.is_none_or(|table| *shape.name == *table));
    let holders: Vec<(&Table, usize)> =
        named.filter_map(|shape| Some((shape, shape.column(column)?))).collect();
    match holders.as_slice() {
        [one] => Ok(*one),
        [] => {
            let known: Vec<String> = shapes
                .iter()
                .map(|shape| {
                    let columns: Vec<&str> = shape.columns.iter().map(|column| &*column.name).collect();
                    format!("{} ({})", shape.name, columns.join(", "))
                })
                .collect();
            let what = match table {
                Some(table) => format!("table {table} has no column {column}, or is not configured"),
                None => format!("no configured table has a column {column}"),
            };
            Err(CommandError::usage(what, format!("configured are: {}", known.join("; "))))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(shape, _)| &*shape.name).collect();
            let what = format!("several tables have a column {column}: {}", names.join(", "));
            Err(CommandError::usage(what, "name one with --table"))
        }
    }
}

fn view_json(view: &View, impact: &ViewImpact) -> Json {
    let measure = |at: &usize| {
        let measure = &view.measures[*at];
        json!({
            "measure": measure.name, "column": measure.column, "text": measure_text(view, *at),
            "deprecated_since": view.deprecated.get(at).map(|word| &word.since),
        })
    };
    let consumer = |consumer: &Consumer| json!({"name": consumer.name, "owner": consumer.owner});
    json!({
        "view": view.object, "owner": view.owner, "breaks": impact.breaks.name(),
        "grain": impact.grain, "filters": impact.filters, "row_filter": impact.row_filter,
        "measures": impact.measures.iter().map(measure).collect::<Vec<_>>(),
        "deprecated_without_replacement":
            impact.replacements.iter().map(|at| &view.measures[*at].name).collect::<Vec<_>>(),
        "consumers": impact.consumers.iter().map(consumer).collect::<Vec<_>>(),
        "lineage": view.lineage,
        "contract_hash": view.contract_hash,
    })
}

fn print_text(shape: &Table, column: &str, key: bool, found: &[(&View, ViewImpact)]) {
    if !key && found.is_empty() {
        tell!("nothing reads {}.{column}: it can go", shape.name);
        return;
    }
    if key {
        tell!("{column} is in the primary key of {}: without it changes cannot be applied", shape.name);
    }
    for (view, impact) in found {
        let owner = view.owner.as_deref().unwrap_or("nobody named");
        match impact.breaks {
            Breaks::Whole => tell!("view {} breaks as a whole (owner: {owner})", view.object),
            Breaks::Measures => tell!("view {} loses measures (owner: {owner})", view.object),
            Breaks::Nothing => {}
        }
        if impact.grain {
            tell!("  grain      {column} is what its groups are made of");
        }
        for text in &impact.filters {
            tell!("  filter     {text}");
        }
        if let Some(text) = &impact.row_filter {
            tell!("  row filter {text}   (a policy: without it rows would be seen that must not be)");
        }
        for at in &impact.measures {
            let measure = &view.measures[*at];
            let deprecated =
                view.deprecated.get(at).map(|word| format!("   deprecated since {}", word.since));
            tell!(
                "  measure    {} = {}{}",
                measure.column,
                measure_text(view, *at),
                deprecated.unwrap_or_default()
            );
        }
        for at in &impact.replacements {
            tell!("  deprecated {} loses its replacement", view.measures[*at].column);
        }
        for consumer in &impact.consumers {
            let owner = consumer.owner.as_deref().unwrap_or("nobody named");
            tell!("  consumer   {} (owner: {owner})", consumer.name);
        }
        for text in &view.lineage {
            tell!("  lineage    {text}");
        }
    }
    tell!("who reads which measure through the router: driftless view usage");
}
