//! What the example's rows and groups prove: totals, checksums and the shape of the cube, in the names of
//! `expected.json`, and the comparison with it. Takes what it is given; must not know where it was read.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{LINE_NO, ORDER_DATE, ORDER_ID, table};
use crate::pure::checksum::ChecksumWriter;
use crate::pure::contract::View;
use crate::pure::publish::GroupValue;
use crate::pure::value::Value;

/// The values that the example's evidence must have, by the names of the evidence.
const EXPECTED: &str = include_str!("expected.json");

/// Places in the table's columns, beside the key's.
const PRODUCT_ID: usize = 3;
const CHANNEL: usize = 5;
const QUANTITY: usize = 6;
const AMOUNT_CENTS: usize = 7;
const COST_CENTS: usize = 8;
const STATUS: usize = 9;

/// What the checksum of the base covers; customer and channel are not part of it.
const CHECKSUM_COLUMNS: [usize; 8] =
    [ORDER_ID, LINE_NO, ORDER_DATE, PRODUCT_ID, QUANTITY, AMOUNT_CENTS, COST_CENTS, STATUS];

/// All rows of the base table, whatever their status, in the columns of [`table`] and ordered by its key.
pub type Rows = [Vec<Value>];

/// Groups of the view, ordered by their grain's values.
pub type Groups = [(Vec<Value>, GroupValue)];

/// Totals of the paid lines of the base.
pub fn base_controls(rows: &Rows) -> Json {
    let paid: Vec<&Vec<Value>> = paid(rows).collect();
    let sum = |column: usize| paid.iter().map(|row| integer(&row[column])).sum::<i64>();
    let orders: BTreeSet<&Value> = paid.iter().map(|row| &row[ORDER_ID]).collect();
    let (gmv, cost) = (sum(AMOUNT_CENTS), sum(COST_CENTS));
    let mut controls = Map::new();
    controls.insert("lines".into(), paid.len().into());
    controls.insert("orders".into(), orders.len().into());
    controls.insert("units".into(), sum(QUANTITY).into());
    add_money(&mut controls, gmv, cost, gmv - cost);
    Json::Object(controls)
}

/// Totals over the groups of the view. That of the orders is none: an order in two groups counts twice.
pub fn aggregate_controls(view: &View, groups: &Groups) -> Json {
    let sum = |column: &str| total(view, groups, column);
    let mut controls = Map::new();
    controls.insert("lines".into(), sum("line_count").into());
    controls.insert("orders_additive_warning".into(), sum("order_count").into());
    controls.insert("units".into(), sum("units").into());
    add_money(&mut controls, sum("gmv_cents"), sum("cost_cents"), sum("profit_cents"));
    Json::Object(controls)
}

/// The sum of a published field over all groups.
pub fn total(view: &View, groups: &Groups, column: &str) -> i64 {
    groups.iter().map(|(_, group)| measure(view, group, column).map_or(0, |value| integer(&value))).sum()
}

fn add_money(controls: &mut Map<String, Json>, gmv: i64, cost: i64, profit: i64) {
    for (name, cents) in [("gmv", gmv), ("cost", cost), ("profit", profit)] {
        controls.insert(format!("{name}_cents"), cents.into());
    }
    for (name, cents) in [("gmv", gmv), ("cost", cost), ("profit", profit)] {
        controls.insert(format!("{name}_usd"), usd(cents));
    }
}

/// Cents as dollars: a whole number where they are whole.
pub fn usd(cents: i64) -> Json {
    if cents % 100 == 0 { (cents / 100).into() } else { (cents as f64 / 100.0).into() }
}

/// Cents for people: `740.00`.
pub fn dollars(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.unsigned_abs() / 100, cents.unsigned_abs() % 100)
}

/// sha256 of the base's rows by the example's own rule.
pub fn base_sha256(rows: &Rows) -> String {
    let mut writer = ChecksumWriter::new();
    for row in rows {
        writer.row(CHECKSUM_COLUMNS.iter().map(|&column| &row[column]));
    }
    writer.finish()
}

/// sha256 of the groups: their grain, then the fields named.
pub fn aggregate_sha256(view: &View, groups: &Groups, columns: &[&str]) -> String {
    let mut writer = ChecksumWriter::new();
    for (key, group) in groups {
        let measures: Vec<Value> =
            columns.iter().map(|column| measure(view, group, column).unwrap_or(Value::Null)).collect();
        writer.row(key.iter().chain(&measures));
    }
    writer.finish()
}

/// The fields of the example's own checksum of the view, which leaves the distinct orders out.
pub const AGGREGATE_CHECKSUM: [&str; 5] = ["line_count", "units", "gmv_cents", "cost_cents", "profit_cents"];

/// Each group as an object of its grain and fields.
pub fn aggregate_rows(view: &View, groups: &Groups) -> Json {
    groups.iter().map(|(key, group)| aggregate_row(view, key, group)).collect()
}

/// One group as an object of its grain and fields.
pub fn aggregate_row(view: &View, key: &[Value], group: &GroupValue) -> Json {
    let mut row = Map::new();
    for (dimension, value) in view.grain.iter().zip(key) {
        row.insert(dimension.name.clone(), value.to_json());
    }
    for column in view.columns() {
        let value = measure(view, group, &column).unwrap_or(Value::Null);
        row.insert(column, value.to_json());
    }
    Json::Object(row)
}

/// How full the cube of day, product and channel is, over the paid lines.
pub fn cube(rows: &Rows) -> Json {
    let dimensions = [("order_date", ORDER_DATE), ("product_id", PRODUCT_ID), ("channel", CHANNEL)];
    let leaves: BTreeSet<Vec<&Value>> =
        paid(rows).map(|row| dimensions.iter().map(|(_, column)| &row[*column]).collect()).collect();
    let mut distinct = Map::new();
    let mut dense = 1;
    for (place, (name, _)) in dimensions.iter().enumerate() {
        let values: BTreeSet<&Value> = leaves.iter().map(|leaf| leaf[place]).collect();
        dense *= values.len();
        distinct.insert((*name).to_owned(), values.len().into());
    }
    let sparsity = if dense == 0 { 0.0 } else { 100.0 * (1.0 - leaves.len() as f64 / dense as f64) };
    json!({
        "dimensions": dimensions.len(),
        "grouping_sets_for_full_cube": 1 << dimensions.len(),
        "observed_leaf_combinations": leaves.len(),
        "dense_leaf_space": dense,
        "sparsity_pct": (sparsity * 100.0).round() / 100.0,
        "distinct": distinct,
    })
}

/// What a catalog of views says of this one, whose watermark is given.
pub fn catalog_entry(view: &View, watermark: Json) -> Json {
    let names = |additive: bool| {
        let measures = view.measures.iter().filter(move |measure| measure.additive == additive);
        measures.map(|measure| measure.column.as_str()).collect::<Vec<_>>()
    };
    json!({
        "object": view.object,
        "base": view.base,
        "grain": format!("one paid-sales aggregate row per {}", grain(view)),
        "measures": names(true),
        "non_additive_warning": format!(
            "{} cannot be summed across product/date groups for global distinct orders",
            names(false).join(", ")
        ),
        "refresh": {
            "mode": view.document["refresh"]["mode"],
            "watermark": watermark,
            "freshness_slo_seconds": view.freshness_slo_seconds,
        },
        "semantic_contract_hash": view.contract_hash,
        "owner": view.owner,
        "lineage": view.lineage,
    })
}

/// `order_date + product_id`.
pub fn grain(view: &View) -> String {
    view.grain.iter().map(|dimension| dimension.name.as_str()).collect::<Vec<_>>().join(" + ")
}

fn paid(rows: &Rows) -> impl Iterator<Item = &Vec<Value>> {
    let paid = Value::from("paid");
    rows.iter().filter(move |row| row[STATUS] == paid)
}

fn measure(view: &View, group: &GroupValue, column: &str) -> Option<Value> {
    let place = view.measures.iter().position(|measure| measure.column == column)?;
    match group {
        GroupValue::Measures(values) => values.get(place).copied().flatten().map(Value::Integer),
        GroupValue::Overflow => None,
    }
}

/// Integer columns of the example are never null.
fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        Value::Null | Value::Text(_) => 0,
    }
}

/// The columns of the base table, for a `SELECT`, and its order.
pub fn rows_sql() -> String {
    let shape = table();
    let names: Vec<&str> = shape.columns.iter().map(|column| &*column.name).collect();
    format!("SELECT {} FROM {} ORDER BY order_id, line_no", names.join(", "), shape.name)
}

/// One value of the evidence beside the one that it must have.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Path in the evidence: `stages.stale.staleness_gap_cents`.
    pub name: String,
    pub expected: Json,
    /// Null where the evidence has no such value.
    pub found: Json,
}

impl Check {
    pub fn ok(&self) -> bool {
        self.expected == self.found
    }

    pub fn to_json(&self) -> Json {
        json!({"name": self.name, "expected": self.expected, "found": self.found, "ok": self.ok()})
    }
}

/// Compares evidence with what is expected of it, value by value. Evidence may hold more than that.
pub fn check(evidence: &Json) -> Result<Vec<Check>, serde_json::Error> {
    let expected: Json = serde_json::from_str(EXPECTED)?;
    let mut checks = Vec::new();
    compare("", &expected, evidence, &mut checks);
    Ok(checks)
}

fn compare(name: &str, expected: &Json, found: &Json, checks: &mut Vec<Check>) {
    let below = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match expected {
        Json::Object(fields) => {
            for (field, expected) in fields.iter().filter(|(field, _)| *field != "stage") {
                compare(&below(field), expected, &found[field], checks);
            }
        }
        // Stages are looked up by their names.
        Json::Array(items) if items.iter().all(|item| item["stage"].is_string()) && !items.is_empty() => {
            for item in items {
                let stage = &item["stage"];
                let found =
                    found.as_array().and_then(|found| found.iter().find(|item| item["stage"] == *stage));
                let part = stage.as_str().unwrap_or_default();
                compare(&below(part), item, found.unwrap_or(&Json::Null), checks);
            }
        }
        expected => {
            checks.push(Check { name: name.to_owned(), expected: expected.clone(), found: found.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{CONTRACT, canonical_events, decode_row};
    use crate::pure::formats::native::{NativeDecoder, Order};

    fn rows(through: u64) -> Vec<Vec<Value>> {
        let decoder = NativeDecoder::new(std::sync::Arc::new(table()), Order::SourceSeq);
        let mut rows: Vec<Vec<Value>> = canonical_events()
            .iter()
            .filter_map(|event| decode_row(&decoder, &event.json))
            .filter(|(seq, _)| *seq <= through)
            .map(|(_, row)| row.into_vec())
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn the_base_of_each_stage_has_the_expected_evidence() {
        for (stage, through) in [("canonical", 206), ("stale", 207)] {
            let rows = rows(through);
            let evidence = json!({
                "stages": [{
                    "stage": stage, "base_controls": base_controls(&rows),
                    "sha256": {"fact_sales": base_sha256(&rows)},
                }],
                "cube": cube(&rows),
            });
            let checks = check(&evidence).expect("expected.json is JSON");
            let of_base =
                [format!("stages.{stage}.base_controls"), format!("stages.{stage}.sha256.fact_sales")];
            let met = checks.iter().filter(|check| of_base.iter().any(|name| check.name.starts_with(name)));
            assert_eq!(met.inspect(|check| assert!(check.ok(), "{check:?}")).count(), 10);
            let cube: Vec<_> =
                checks.iter().filter(|check| check.name.starts_with("cube.distinct")).collect();
            assert_eq!(cube.len(), 3);
            assert!(through < 207 || cube.iter().all(|check| check.ok()));
        }
    }

    #[test]
    fn a_value_that_is_missing_or_differs_is_not_ok() {
        let checks = check(&json!({"freshness_slo_seconds": 901})).expect("expected.json is JSON");
        assert!(checks.len() > 80);
        assert!(checks.iter().all(|check| !check.ok()));
        let slo = checks.iter().find(|check| check.name == "freshness_slo_seconds").expect("it is expected");
        assert_eq!((&slo.expected, &slo.found), (&json!(900), &json!(901)));
    }

    #[test]
    fn the_catalog_entry_follows_from_the_contract() {
        let view = View::compile(CONTRACT, "contract", &[table()]).expect("the shipped contract compiles");
        let evidence = json!({"catalog_entry": catalog_entry(&view, 207.into())});
        for check in check(&evidence).expect("expected.json is JSON") {
            assert!(check.ok() || !check.name.starts_with("catalog_entry"), "{check:?}");
        }
    }

    #[test]
    fn money_is_shown_to_the_cent() {
        assert_eq!([dollars(74_000), dollars(-5), dollars(1_205)], ["740.00", "-0.05", "12.05"]);
        assert_eq!([usd(74_000), usd(150)], [json!(740), json!(1.5)]);
    }
}
