//! 59 deliveries of 54 events on three partitions: moves, deletes, re-inserts, duplicates, rewinds, and
//! disorder of every kind. The state after each delivery is known.

use std::collections::{BTreeMap, BTreeSet};

use driftless::pure::base::{Action, Counts};
use serde_json::Value;

use crate::support::fixtures;
use crate::support::oracle::{Effect, Oracle, checksum, encode};
use crate::support::world::{Running, World, partition};
use crate::support::{OBJECT, TABLE};

const PARTITIONS: i32 = 3;
const COLUMNS: [&str; 6] = ["line_count", "order_count", "units", "gmv_cents", "cost_cents", "profit_cents"];

fn partition_of(delivery: &Value) -> i32 {
    delivery["partition"].as_i64().expect("a partition") as i32
}

/// Lets the log hand on one delivery: a new record, or an old one once more.
fn deliver(world: &World, delivery: &Value) {
    let (number, offset) = (partition_of(delivery), delivery["offset"].as_i64().expect("an offset"));
    if delivery["kind"] == "consumer_redelivery" {
        world.log.redeliver(&partition(number), offset);
    } else {
        assert_eq!(world.append(number, &delivery["event"]), offset, "the fixture counts as the log does");
    }
}

/// A published row as the fixture writes it: date, product, measures.
fn published_rows(world: &World) -> Vec<Vec<Value>> {
    let mut rows: Vec<Vec<Value>> = world
        .published()
        .iter()
        .map(|(key, fields)| {
            assert_eq!(fields.len(), COLUMNS.len(), "{key}");
            let numbers = COLUMNS.iter().map(|name| fields[*name].parse::<i64>().expect("a number").into());
            key_parts(key).into_iter().map(Value::from).chain(numbers).collect()
        })
        .collect();
    // By the bytes of the values, which is not the order of encoded keys.
    rows.sort_by_key(|row| [0, 1].map(|at| row[at].as_str().expect("text").to_owned()));
    rows
}

/// Takes an encoded key apart, by a second reading of the rule.
fn key_parts(key: &str) -> Vec<String> {
    key.split(':')
        .map(|part| {
            let mut bytes = Vec::new();
            let mut rest = part.bytes();
            while let Some(byte) = rest.next() {
                bytes.push(match byte {
                    b'%' => {
                        let hex = [rest.next().expect("hex"), rest.next().expect("hex")];
                        let hex = std::str::from_utf8(&hex).expect("hex").to_owned();
                        u8::from_str_radix(&hex, 16).expect("hex")
                    }
                    other => other,
                });
            }
            String::from_utf8(bytes).expect("UTF-8")
        })
        .collect()
}

fn without_order_count(rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| [&row[..3], &row[4..]].concat()).collect()
}

/// The eight columns that the checksum of the facts is about.
fn fact_checksum(rows: &[Vec<Value>]) -> String {
    let rows: Vec<Vec<Value>> =
        rows.iter().map(|row| [0, 1, 2, 3, 6, 7, 8, 9].iter().map(|&at| row[at].clone()).collect()).collect();
    checksum(&rows)
}

fn json_rows(rows: &Value) -> Vec<Vec<Value>> {
    serde_json::from_value(rows.clone()).expect("rows")
}

fn assert_state(world: &World, step: &Value, oracle: &Oracle) {
    let delivery = &step["delivery"];
    // 1. The base: rows with their sequences by the oracle, the checksum by the fixture.
    let base = world.base_rows("first");
    assert_eq!(base, oracle.base_rows(), "after delivery {delivery}");
    assert_eq!(world.graves("first"), oracle.graves(), "after delivery {delivery}");
    assert_eq!(base.len() as u64, step["base_lines"].as_u64().expect("a number"), "after {delivery}");
    assert_eq!(fact_checksum(&base), step["sha256"]["fact_sales"], "after delivery {delivery}");
    // 2. What readers see: all columns, both checksums, and an index that names the same groups.
    let rows = published_rows(world);
    assert_eq!(rows, json_rows(&step["agg_rows"]), "after delivery {delivery}");
    assert_eq!(checksum(&rows), step["agg_sha256_with_order_count"], "after delivery {delivery}");
    assert_eq!(
        checksum(&without_order_count(&rows)),
        step["sha256"]["agg_daily_product"],
        "after delivery {delivery}"
    );
    let keys: Vec<String> = world.published().into_keys().collect();
    assert_eq!(world.index(), keys, "after delivery {delivery}");
    assert_eq!(world.published(), oracle.published(), "after delivery {delivery}");
    assert_eq!(world.meta()["groups"], keys.len().to_string(), "after delivery {delivery}");
}

/// What one delivery adds to the counters.
fn expected_counts(before: Counts, delivery: &Value, step: &Value) -> Counts {
    let mut counts = before;
    if delivery["kind"] == "consumer_redelivery" {
        return counts;
    }
    match step["effect"].as_str().expect("an effect") {
        "applied" | "applied_no_current_line" => counts.applied += 1,
        "ignored_duplicate" => counts.duplicate += 1,
        "ignored_stale" => counts.stale += 1,
        other => panic!("effect {other}"),
    }
    counts
}

/// Runs all deliveries one by one, and asks `watermark` what it has to be after each.
fn run_all(settings: &[&str], mut watermark: impl FnMut(&Value, &Value) -> Option<u64>) -> World {
    let world = World::new(settings, PARTITIONS);
    let deliveries = fixtures::documents("corrections/deliveries.jsonl");
    let steps = fixtures::document("corrections/expected.json")["steps"].clone();
    let mut oracle = Oracle::default();
    let mut counts = Counts::default();
    world.run(|running| {
        running.catch_up();
        for (delivery, step) in deliveries.iter().zip(steps.as_array().expect("steps")) {
            let number = &delivery["delivery"];
            let shown = running.head().commit;
            oracle.deliver(&delivery["event"]);
            deliver(&world, delivery);
            running.ingest_all();
            assert_dirty(running, shown, step);
            running.publish_all();
            assert_state(&world, step, &oracle);
            counts = Counts { below_watermark: running.counts().below_watermark, ..counts };
            counts = expected_counts(counts, delivery, step);
            assert_eq!(running.counts(), counts, "P10 after delivery {number}");
            assert_eq!(running.watermark(), watermark(delivery, step), "P5 after delivery {number}");
            let shown = running.watermark().map(|seq| seq.to_string()).unwrap_or_default();
            assert_eq!(world.meta()["watermark"], shown, "P5 after delivery {number}");
        }
    });
    world
}

fn assert_dirty(running: &mut Running<'_>, shown: driftless::pure::seq::Commit, step: &Value) {
    let dirty: BTreeSet<String> = running.dirty_since(shown).into_iter().collect();
    let required = json_rows(&step["dirty_keys"]);
    for key in &required {
        let key = encode(&(key[0].as_str().expect("text").into(), key[1].as_str().expect("text").into()));
        assert!(dirty.contains(&key), "P3: {key} is not marked after delivery {}", step["delivery"]);
    }
    let effect = step["effect"].as_str().expect("an effect");
    if effect.starts_with("ignored") {
        assert!(dirty.is_empty(), "nothing changed by delivery {}: {dirty:?}", step["delivery"]);
    }
}

fn assert_final(world: &World) {
    let expected = &fixtures::document("corrections/expected.json")["final"];
    assert_eq!(world.base_rows("first"), json_rows(&expected["base_rows"]));
    assert_eq!(published_rows(world), json_rows(&expected["agg_rows"]));
    assert_eq!(fact_checksum(&world.base_rows("first")), expected["sha256"]["fact_sales"]);
}

#[test]
fn p2_p3_p4_p10_every_delivery_leaves_the_state_that_was_worked_out_by_hand() {
    let mut seen: BTreeMap<i32, u64> = BTreeMap::new();
    let world = run_all(&["watermark=sparse"], |delivery, step| {
        let greatest = seen.entry(partition_of(delivery)).or_default();
        *greatest = (*greatest).max(step["source_seq"].as_u64().expect("a sequence"));
        (seen.len() == PARTITIONS as usize).then(|| *seen.values().min().expect("partitions"))
    });
    assert_final(&world);
    world.run(|running| {
        assert_eq!(running.watermark(), Some(1_053));
        let counts = running.counts();
        assert_eq!(counts.consumed(), 56, "59 deliveries, of which 3 are old offsets once more");
    });
}

#[test]
fn p5_dense_stops_below_the_number_that_never_comes_until_an_operator_says_so() {
    let mut world = run_all(&["watermark=dense", "first_seq=1001"], |_, step| {
        let missing = step["undelivered_below_max"].as_array().expect("a list");
        let first = missing.first().map(|seq| seq.as_u64().expect("a sequence") - 1);
        first.or(step["max_source_seq_delivered"].as_u64())
    });
    assert_final(&world);
    let waive = |table: &str| Action::WaiveSeq { table: table.to_owned(), from: 1_017, to: 1_017 };
    world.run(|running| {
        assert_eq!(running.watermark(), Some(1_016), "kept over a restart");
        let (done, why) = running.request(&waive("nothing"));
        assert!(!done, "{why}");
        let (done, answer) = running.request(&waive(TABLE));
        assert!(done, "{answer}");
        assert_eq!(answer["watermark"], "1055");
        assert_eq!(answer["first_hole"], Value::Null);
        running.publish_all();
    });
    assert_eq!(world.meta()["watermark"], "1055");
    world.sizes.batch_records_max = 1;
    world.run(|running| assert_eq!(running.watermark(), Some(1_055), "kept over a restart"));
}

#[test]
fn p2_batches_of_any_size_end_in_the_same_state() {
    for batch_records_max in [1, 2, 7, 1_000] {
        let mut world = World::new(&["watermark=sparse"], PARTITIONS);
        world.sizes.batch_records_max = batch_records_max;
        for delivery in fixtures::documents("corrections/deliveries.jsonl") {
            if delivery["kind"] != "consumer_redelivery" {
                deliver(&world, &delivery);
            }
        }
        world.run(|running| running.catch_up());
        assert_final(&world);
    }
}

#[test]
fn p2_each_event_once_in_the_order_of_its_sequence_ends_in_the_same_state() {
    let world = World::new(&["watermark=sparse"], 1);
    let mut oracle = Oracle::default();
    for event in fixtures::documents("corrections/events.jsonl") {
        assert_eq!(oracle.deliver(&event), Effect::Applied);
        world.append(0, &event);
    }
    world.run(|running| running.catch_up());
    assert_final(&world);
    assert_eq!(world.store.changes(OBJECT).len(), 1, "one publish for the whole backlog");
}
