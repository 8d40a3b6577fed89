//! Tests of the recompute plan on a real SQLite, against a recompute that is as naive as can be.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::json;

use super::*;
use crate::pure::publish::GroupValue;
use crate::pure::schema::{Column, ColumnType};
use crate::pure::value::Value;

fn trips() -> Table {
    let column = |name: &str, column_type, nullable| Column { name: name.into(), column_type, nullable };
    Table {
        name: "tr\"ips".into(),
        columns: vec![
            column("zone", ColumnType::Text, true),
            column("driver", ColumnType::Text, false),
            column("number", ColumnType::Integer, false),
            column("fare; --", ColumnType::Integer, true),
            column("tip", ColumnType::Integer, true),
            column("state", ColumnType::Text, true),
            column("day", ColumnType::Integer, false),
        ],
        key: vec![1, 2],
    }
}

const ALL_MEASURES: [(&str, &str); 9] = [
    ("rows", "count(*)"),
    ("fares", "count(\"fare; --\")"),
    ("drivers", "count(distinct driver)"),
    ("tips", "count(distinct tip)"),
    ("total", "sum(\"fare; --\" * 2 - tip)"),
    ("least", "min(\"fare; --\")"),
    ("greatest", "max(-tip)"),
    ("square", "sum(tip * tip)"),
    ("cube", "max(tip * tip * tip)"),
];

fn view(measures: &[(&str, &str)], filters: &[&str], policy: serde_json::Value) -> View {
    let measures: serde_json::Map<String, serde_json::Value> =
        measures.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    let document = json!({
        "object": "by_zone", "base": "tr\"ips",
        "metric_contract": {
            "filters": filters, "measures": measures, "aggregate_grain": ["day", "zone"],
        },
        "refresh": { "freshness_slo_seconds": 60 },
        "policy": policy,
    });
    View::compile(&document.to_string(), "t.json", &[trips()]).unwrap()
}

fn base(plan: &Recompute) -> Connection {
    let base = Connection::open_in_memory().unwrap();
    base.execute_batch(
        r#"CREATE TABLE "driftless_rows_tr""ips" (zone TEXT, driver TEXT NOT NULL, number INTEGER NOT NULL,
             "fare; --" INTEGER, tip INTEGER, state TEXT, day INTEGER NOT NULL, _seq INTEGER, _live INTEGER NOT NULL,
             PRIMARY KEY (driver, number)) STRICT, WITHOUT ROWID"#,
    )
    .unwrap();
    base.execute_batch(&plan.index_sql).unwrap();
    base
}

fn insert(base: &Connection, row: &[Value], live: bool) {
    let mut statement = base
        .prepare_cached(
            r#"INSERT OR REPLACE INTO "driftless_rows_tr""ips" VALUES (?1,?2,?3,?4,?5,?6,?7,1,?8)"#,
        )
        .unwrap();
    let mut values: Vec<rusqlite::types::Value> = row.iter().map(to_sqlite).collect();
    values.push(i64::from(live).into());
    statement.execute(rusqlite::params_from_iter(values)).unwrap();
}

fn to_sqlite(value: &Value) -> rusqlite::types::Value {
    match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Text(text) => text.to_string().into(),
    }
}

fn query(base: &Connection, sql: &str, parameters: &[Value]) -> Vec<Vec<Value>> {
    let mut statement = base.prepare(sql).unwrap();
    let width = statement.column_count();
    let parameters = rusqlite::params_from_iter(parameters.iter().map(to_sqlite));
    let rows = statement.query_map(parameters, |row| {
        (0..width)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    ValueRef::Integer(number) => Value::Integer(number),
                    ValueRef::Text(text) => Value::text(std::str::from_utf8(text).unwrap()),
                    _ => Value::Null,
                })
            })
            .collect()
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn steps(base: &Connection, sql: &str, parameters: usize) -> Vec<String> {
    let plan = format!("EXPLAIN QUERY PLAN {sql}");
    let rows = query(base, &plan, &vec![Value::Null; parameters]);
    rows.into_iter().map(|row| row[3].to_string()).collect()
}

/// Each measure of [`ALL_MEASURES`] over the rows of one group, by 128-bit iterators in any order.
fn naive(rows: &[Vec<Value>]) -> GroupValue {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(i128::from(*number)),
        _ => None,
    };
    let fares = || rows.iter().filter_map(|row| number(&row[3]));
    let tips = || rows.iter().filter_map(|row| number(&row[4]));
    let both = || rows.iter().filter_map(|row| Some(number(&row[3])? * 2 - number(&row[4])?));
    let drivers: HashSet<&Value> = rows.iter().map(|row| &row[1]).collect();
    let cubes: Option<Vec<i128>> = tips().map(|tip| (tip * tip).checked_mul(tip)).collect();
    let Some(cubes) = cubes else {
        return GroupValue::Overflow;
    };
    let numbers = [
        Some(rows.len() as i128),
        Some(fares().count() as i128),
        Some(drivers.len() as i128),
        Some(tips().collect::<HashSet<_>>().len() as i128),
        both().reduce(|left, right| left + right),
        fares().min(),
        tips().map(|tip| -tip).max(),
        tips().map(|tip| tip * tip).reduce(|left, right| left.saturating_add(right)),
        cubes.into_iter().max(),
    ];
    let narrow = numbers.map(|number| number.map_or(Ok(None), |number| i64::try_from(number).map(Some)));
    narrow.into_iter().collect::<Result<_, _>>().map_or(GroupValue::Overflow, GroupValue::Measures)
}

fn added(plan: &Recompute, rows: &[Vec<Value>]) -> Option<GroupValue> {
    let mut accumulator = Accumulator::new(plan);
    rows.iter().for_each(|inputs| accumulator.add(inputs));
    accumulator.finish()
}

fn inputs_of(plan: &Recompute, row: &[Value]) -> Vec<Value> {
    plan.inputs.iter().map(|column| row[*column].clone()).collect()
}

fn row() -> impl Strategy<Value = (Vec<Value>, bool)> {
    let number = || {
        prop_oneof![
            6 => (-3_i64..4).prop_map(Value::Integer),
            1 => Just(Value::Null),
            1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()].prop_map(Value::Integer),
        ]
    };
    let zone = prop_oneof![Just(Value::Null), Just("".into()), Just("a".into()), Just("é b".into())];
    let driver = prop_oneof![Just("x"), Just("y"), Just("o'z")].prop_map(Value::from);
    let state = prop_oneof![4 => Just("it's; --".into()), 1 => Just("no".into()), 1 => Just(Value::Null)];
    let key = (driver, 0_i64..12, 0_i64..3);
    (zone, key, number(), number(), state, any::<bool>()).prop_map(
        |(zone, (driver, line, day), fare, tip, state, live)| {
            (vec![zone, driver, line.into(), fare, tip, state, day.into()], live)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_queries_give_what_a_naive_recompute_gives(
        rows in proptest::collection::vec(row(), 0..40), minimum in 1_u64..4
    ) {
        let policy = json!({ "row_filter": "tip is not null", "minimum_group_lines": minimum });
        let view = view(&ALL_MEASURES, &["state = 'it''s; --'", "\"fare; --\" <> 3"], policy);
        let plan = Recompute::new(&view, &trips());
        let base = base(&plan);
        let mut kept: BTreeMap<(Value, Value), (Vec<Value>, bool)> = BTreeMap::new();
        for (row, live) in rows {
            insert(&base, &row, live);
            kept.insert((row[1].clone(), row[2].clone()), (row, live));
        }
        let mut groups: BTreeMap<Vec<Value>, Vec<Vec<Value>>> = BTreeMap::new();
        for (row, live) in kept.into_values() {
            if live && view.admits(&row) {
                groups.entry(vec![row[6].clone(), row[0].clone()]).or_default().push(row);
            }
        }
        let mut all = Vec::new();
        for (grain, rows) in &groups {
            let expected = (rows.len() as u64 >= minimum).then(|| naive(rows));
            let read = query(&base, &plan.group_sql, grain);
            prop_assert_eq!(&added(&plan, &read), &expected);
            all.extend(read.into_iter().map(|inputs| [grain.clone(), inputs].concat()));
        }
        let mut streamed = query(&base, &plan.all_sql, &[]);
        let order: Vec<Vec<Value>> = streamed.iter().map(|row| row[..2].to_vec()).collect();
        prop_assert!(order.is_sorted());
        streamed.sort();
        all.sort();
        prop_assert_eq!(streamed, all);
        let absent = query(&base, &plan.group_sql, &[7.into(), Value::Null]);
        prop_assert_eq!(added(&plan, &absent), None);
    }

    #[test]
    fn the_order_of_rows_does_not_matter(
        (rows, shuffled) in proptest::collection::vec(row(), 0..20)
            .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle()))
    ) {
        let plan = Recompute::new(&view(&ALL_MEASURES, &[], json!({})), &trips());
        let value = |rows: &[(Vec<Value>, bool)]| {
            let inputs: Vec<_> = rows.iter().map(|(row, _)| inputs_of(&plan, row)).collect();
            added(&plan, &inputs)
        };
        let whole: Vec<Vec<Value>> = rows.iter().map(|(row, _)| row.clone()).collect();
        prop_assert_eq!(value(&rows), (!rows.is_empty()).then(|| naive(&whole)));
        prop_assert_eq!(value(&rows), value(&shuffled));
    }
}

#[test]
fn both_queries_read_the_covering_index_alone_and_never_sort() {
    let no_filter: &[&str] = &[];
    let equality: &[&str] = &["state = done"];
    let ranges: &[&str] = &["state >= a and tip is not null", "number > 0", "zone is null"];
    let on_grain: &[&str] = &["zone = a", "day > 3"];
    for filters in [no_filter, equality, ranges, on_grain] {
        for measures in [&ALL_MEASURES[..], &ALL_MEASURES[..1]] {
            let plan = Recompute::new(&view(measures, filters, json!({})), &trips());
            let base = base(&plan);
            for (sql, parameters, verb) in [(&plan.group_sql, 2, "SEARCH "), (&plan.all_sql, 0, "")] {
                let steps = steps(&base, sql, parameters);
                assert_eq!(steps.len(), 1, "{sql}: {steps:?}");
                assert!(steps[0].starts_with(verb), "{sql}: {steps:?}");
                assert!(
                    steps[0].contains("USING COVERING INDEX driftless_index_by_zone_"),
                    "{sql}: {steps:?}"
                );
            }
        }
    }
}

#[test]
fn the_plan_reads_each_column_once_and_leaves_the_key_to_the_table() {
    let plan = Recompute::new(&view(&ALL_MEASURES, &["state = done", "number > 0"], json!({})), &trips());
    assert_eq!(plan.inputs, [3, 1, 4]);
    assert!(plan.index_sql.contains(
        r#" ON "driftless_rows_tr""ips" ("day", "zone", "fare; --", "tip", "state", "_live") WHERE"#
    ));
    assert!(plan.group_sql.ends_with(r#" AND "day" = ?1 AND "zone" IS ?2"#));
    let counting = Recompute::new(&view(&ALL_MEASURES[..1], &[], json!({})), &trips());
    assert!(counting.inputs.is_empty());
    assert!(counting.group_sql.starts_with("SELECT 1 FROM"));
}

#[test]
fn a_changed_view_gets_an_index_of_its_own() {
    let sql = |filters: &[&str]| Recompute::new(&view(&ALL_MEASURES, filters, json!({})), &trips()).index_sql;
    let name = |sql: String| sql.split(" ON ").next().unwrap().to_owned();
    assert_eq!(name(sql(&["state = a"])), name(sql(&["state = a"])));
    assert_ne!(name(sql(&["state = a"])), name(sql(&["state = b"])));
}

#[test]
fn only_a_final_value_outside_64_bits_is_an_overflow() {
    let view = view(&[("total", "sum(tip)"), ("scaled", "sum(tip * tip * \"fare; --\")")], &[], json!({}));
    let plan = Recompute::new(&view, &trips());
    assert_eq!(plan.inputs, [4, 3]);
    let value = |rows: &[[i64; 2]]| {
        let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.map(Value::Integer).to_vec()).collect();
        added(&plan, &rows).unwrap()
    };
    let measures = |total, scaled| GroupValue::Measures(vec![Some(total), Some(scaled)]);
    let max = i64::MAX;
    assert_eq!(value(&[[max, 0], [max, 0], [-max, 0]]), measures(max, 0));
    assert_eq!(value(&[[max, 0], [1, 0]]), GroupValue::Overflow);
    assert_eq!(
        value(&[[max, 2], [max, 2], [max, -2], [max, -2], [-max, 0], [-max, 0], [-max, 0]]),
        measures(max, 0)
    );
    assert_eq!(value(&[[max, max], [max, -max]]), GroupValue::Overflow);
    let mut accumulator = Accumulator::new(&plan);
    accumulator.add(&[max.into(), max.into()]);
    assert_eq!(accumulator.finish(), Some(GroupValue::Overflow));
    assert_eq!(accumulator.finish(), None);
    accumulator.add(&[Value::Null, 1.into()]);
    assert_eq!(accumulator.finish(), Some(GroupValue::Measures(vec![None, None])));
}
