//! Defends the shipped example's fixed data: ten events, and the benchmark's rows with their published totals.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::*;

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("{other} is no integer"),
    }
}

#[test]
fn the_contract_is_over_the_table() {
    let contract: serde_json::Value = serde_json::from_str(CONTRACT).expect("the contract is JSON");
    let table = table();
    assert_eq!(contract["base"], *table.name);
    for column in contract["metric_contract"]["aggregate_grain"].as_array().expect("a list") {
        assert!(table.column(column.as_str().expect("a name")).is_some());
    }
    assert_eq!(table.column("order_date"), Some(ORDER_DATE));
    assert_eq!(table.columns.len(), 10);
}

#[test]
fn the_canonical_events_keep_their_bytes_and_keys() {
    let events = canonical_events();
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [121, 122, 123, 125, 126, 201, 202, 203, 206, 207]);
    assert!(events.iter().map(|event| event.json.as_str()).eq(CANONICAL_EVENTS.lines()));
    assert_eq!(events[9].key, r#"{"order_id":"O1010","line_no":1}"#);
}

#[test]
fn the_benchmark_rows_have_the_published_totals_and_groups() {
    let mut rows = 0;
    let mut keys = std::collections::BTreeSet::new();
    let mut totals = [0i64; 3];
    let mut groups: BTreeMap<(Value, Value), [i64; 4]> = BTreeMap::new();
    for row in benchmark_rows() {
        assert_eq!(row[9], Value::from("paid"));
        rows += 1;
        keys.insert((row[0].clone(), row[1].clone()));
        let group = groups.entry((row[2].clone(), row[3].clone())).or_default();
        group[0] += 1;
        for (at, column) in (6..9).enumerate() {
            totals[at] += integer(&row[column]);
            group[at + 1] += integer(&row[column]);
        }
    }
    assert_eq!(rows, 216_000);
    assert_eq!(keys.len(), 216_000);
    assert_eq!(totals, [264_000, 1_776_000_000, 1_080_000_000]);
    assert_eq!(groups.len(), 731);

    let listed: Vec<serde_json::Value> = groups
        .iter()
        .map(|((date, product), [lines, units, gmv, cost])| {
            serde_json::json!([date.to_json(), product.to_json(), lines, units, gmv, cost])
        })
        .collect();
    let text = serde_json::to_string(&listed).expect("plain values");
    let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "78bea8abbbf1d78162bcd20281d01a36813647aaf6109cfef5b2ad8d5b9e3e40");
}

#[test]
fn the_first_benchmark_rows_are_named_after_their_copy() {
    let rows: Vec<_> = benchmark_rows().skip(9 * 181).take(3).collect();
    assert_eq!(rows[0][ORDER_ID], Value::from("O1001-B00181"));
    assert_eq!(rows[0][ORDER_DATE], Value::from("2026-09-19"));
    assert_eq!(rows[2][ORDER_ID], Value::from("O1002-B00181"));
}
