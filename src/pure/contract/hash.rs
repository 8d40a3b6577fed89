//! The two hashes of a view: of its meaning, and of all that decides what Redis holds. Must not know how a
//! document is read.

use serde_json::{Value, json};

use super::View;
use crate::pure::canonical::{canonical_json, sha256_hex};
use crate::pure::schema::{ColumnType, Table};

/// Layout of published rows; another layout is another definition.
pub const LAYOUT: &str = "rows/1";

/// Number of the engine's arithmetic: raised whenever the same rows would publish other values.
pub const ENGINE: u32 = 1;

pub(super) fn contract_hash(metric_contract: &Value) -> String {
    sha256_hex(canonical_json(metric_contract).as_bytes())
}

/// Everything but the definition hash itself must be set in `view`.
pub(super) fn definition_hash(view: &View, table: &Table) -> String {
    let fields: Vec<Value> =
        view.measures.iter().map(|measure| json!([measure.name, measure.column])).collect();
    let key: Vec<&str> = table.key.iter().map(|column| &*table.columns[*column].name).collect();
    let definition = json!({
        "contract_hash": view.contract_hash,
        "columns": fields,
        "policy": {
            "row_filter": view.policy.row_filter,
            "minimum_group_lines": view.policy.minimum_group_lines,
        },
        "retention": null,
        "late": "update",
        "layout": LAYOUT,
        "engine": ENGINE,
        "base": { "table": &*table.name, "key": key, "columns": used_columns(view, table) },
    });
    sha256_hex(canonical_json(&definition).as_bytes())
}

/// Name, type and nullability of the columns that the view reads, key included, in table order.
fn used_columns(view: &View, table: &Table) -> Vec<Value> {
    let mut used = vec![false; table.columns.len()];
    let mut mark = |column: usize| used[column] = true;
    table.key.iter().copied().for_each(&mut mark);
    view.grain.iter().for_each(|dimension| mark(dimension.column));
    view.all_filters().for_each(|filter| mark(filter.column));
    for measure in &view.measures {
        measure.aggregate.for_each_column(&mut mark);
    }
    let columns = table.columns.iter().zip(used).filter(|(_, used)| *used);
    columns
        .map(|(column, _)| json!([&*column.name, type_name(column.column_type), column.nullable]))
        .collect()
}

fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "integer",
        ColumnType::Text => "text",
        ColumnType::Date => "date",
    }
}
