//! Nine order lines, a tenth that is late to be shown, and everything once more.

use std::collections::BTreeMap;

use driftless::pure::checksum::{ChecksumWriter, Controls};
use driftless::pure::publish::GroupValue;
use driftless::pure::value::Value as Cell;
use serde_json::Value;

use crate::support::fixtures;
use crate::support::oracle::checksum;
use crate::support::world::{Running, World};
use driftless::ports::BaseReader;

const PARTITIONS: i32 = 2;
const BEFORE: &str = "10655f4e";
const AFTER: &str = "5cec628f";

/// The columns that the chapter's own checksum is about.
const CHAPTER_COLUMNS: [&str; 5] = ["line_count", "units", "gmv_cents", "cost_cents", "profit_cents"];

fn stage(name: &str) -> Value {
    let expected = fixtures::document("ch19/expected.json");
    let stages = expected["stages"].as_array().expect("stages");
    stages.iter().find(|stage| stage["stage"] == name).unwrap_or_else(|| panic!("stage {name}")).clone()
}

fn events() -> Vec<Value> {
    fixtures::documents("ch19/events.jsonl")
}

/// Each order has its partition.
fn partition_of(event: &Value) -> i32 {
    let order = event["order_id"].as_str().expect("order_id");
    i32::from(order.bytes().last().expect("an order") % PARTITIONS as u8)
}

fn append(world: &World, events: &[Value]) {
    for event in events {
        world.append(partition_of(event), event);
    }
}

/// The store's rows as the chapter's checksum takes them.
fn published_checksum(world: &World) -> String {
    let rows: Vec<Vec<Value>> = world
        .published()
        .iter()
        .map(|(key, fields)| {
            let (date, product) = key.split_once(':').expect("two parts");
            let numbers = CHAPTER_COLUMNS.iter().map(|name| fields[*name].parse::<i64>().expect("a number"));
            [Value::from(date), Value::from(product)].into_iter().chain(numbers.map(Value::from)).collect()
        })
        .collect();
    checksum(&rows)
}

/// The same checksum from the base, by the engine.
fn recomputed_checksum(running: &mut Running<'_>) -> String {
    let columns = running.world.catalog.views[0].view.columns();
    let chosen: Vec<usize> = CHAPTER_COLUMNS
        .iter()
        .map(|name| columns.iter().position(|column| column == name).expect("a column"))
        .collect();
    let mut writer = ChecksumWriter::new();
    let mut sink = |key: &[Cell], value: &GroupValue| {
        let GroupValue::Measures(numbers) = value else { panic!("no overflow here") };
        let numbers = chosen.iter().map(|&at| Cell::Integer(numbers[at].expect("not null")));
        let row: Vec<Cell> = key.iter().cloned().chain(numbers).collect();
        writer.row(&row);
    };
    running.base.snapshot().expect("a snapshot").each_group(0, &mut sink).expect("all groups");
    writer.finish()
}

fn controls(running: &mut Running<'_>) -> BTreeMap<String, i128> {
    let mut controls = Controls::new(&running.world.catalog.views[0].view);
    let mut sink = |_: &[Cell], value: &GroupValue| controls.add(value);
    running.base.snapshot().expect("a snapshot").each_group(0, &mut sink).expect("all groups");
    controls.totals().map(|(name, total)| (name.to_owned(), total)).collect()
}

fn published_gmv(world: &World) -> i64 {
    world.published().values().map(|fields| fields["gmv_cents"].parse::<i64>().expect("cents")).sum()
}

fn assert_controls(found: &BTreeMap<String, i128>, expected: &Value) {
    for (ours, theirs) in [
        ("line_count", "lines"),
        ("units", "units"),
        ("gmv_cents", "gmv_cents"),
        ("cost_cents", "cost_cents"),
        ("profit_cents", "profit_cents"),
    ] {
        assert_eq!(found[ours], i128::from(expected[theirs].as_i64().expect("a control")), "{ours}");
    }
    assert!(!found.contains_key("order_count"), "an order in two groups would be counted twice");
}

#[test]
fn p4_the_chapter_comes_out_to_the_cent_and_a_rerun_changes_nothing() {
    let world = World::new(&["watermark=append_ordered"], PARTITIONS);
    let events = events();
    world.run(|running| {
        // 1. Nine events.
        append(&world, &events[..9]);
        running.ingest_all();
        running.probe();
        running.publish_all();
        let canonical = stage("canonical");
        assert_controls(&controls(running), &canonical["agg_controls"]);
        assert!(published_checksum(&world).starts_with(BEFORE), "{}", published_checksum(&world));
        assert_eq!(recomputed_checksum(running), published_checksum(&world));
        assert_eq!(world.meta()["watermark"], "206");
        assert_eq!(world.meta()["status"], "fresh");
        let shown = running.publisher.version().expect("a version");

        // 2. The tenth is in the base and not in the store.
        append(&world, &events[9..]);
        running.ingest_all();
        running.probe();
        let stale = stage("stale");
        assert_controls(&controls(running), &stale["base_controls"]);
        let gap = controls(running)["gmv_cents"] - i128::from(published_gmv(&world));
        assert_eq!(gap, 8_000, "cents that the store does not show yet");
        assert_eq!(running.dirty_since(shown), ["2026-09-22:P100"]);
        assert!(published_checksum(&world).starts_with(BEFORE));
        assert_eq!(world.meta()["watermark"], "206");

        // 3. Published: one group, and the watermark with it.
        assert_eq!(running.publish_all(), 1);
        let refreshed = stage("refreshed");
        assert_controls(&controls(running), &refreshed["agg_controls"]);
        assert!(published_checksum(&world).starts_with(AFTER), "{}", published_checksum(&world));
        assert_eq!(recomputed_checksum(running), published_checksum(&world));
        assert_eq!(world.meta()["watermark"], "207");

        // 4. All events once more: produced again, then delivered again.
        let shown = running.publisher.version().expect("a version");
        append(&world, &events);
        running.ingest_all();
        for number in 0..PARTITIONS {
            world.log.redeliver(&crate::support::world::partition(number), 0);
        }
        running.ingest_all();
        running.probe();
        assert!(running.dirty_since(shown).is_empty(), "duplicates mark nothing");
        assert_eq!(running.publish_all(), 0);
        assert!(published_checksum(&world).starts_with(AFTER));
        assert_eq!(recomputed_checksum(running), published_checksum(&world));
        assert_eq!(world.meta()["watermark"], "207");
        let counts = running.counts();
        assert_eq!((counts.applied, counts.duplicate, counts.consumed()), (10, 10, 20));
    });
    // 5. The facts, and the published rows with every column.
    let facts: Vec<Vec<Value>> = world
        .base_rows("first")
        .into_iter()
        .map(|row| [0, 1, 2, 3, 6, 7, 8, 9].iter().map(|&at| row[at].clone()).collect())
        .collect();
    let expected = fixtures::document("ch19/expected.json");
    let text = expected["checksum_example_text"]["fact_sales_after"].as_str().expect("the text");
    assert_eq!(Value::from(facts), serde_json::from_str::<Value>(text).expect("JSON"));
    for row in stage("rerun")["agg_rows"].as_array().expect("rows") {
        let key = format!(
            "{}:{}",
            row["order_date"].as_str().expect("a date"),
            row["product_id"].as_str().expect("a product")
        );
        let fields = &world.published()[&key];
        assert_eq!(fields.len(), 6, "{key}");
        assert!(
            fields.iter().all(|(name, value)| row[name].as_i64() == value.parse().ok()),
            "{key}: {fields:?}"
        );
    }
}

#[test]
fn p5_append_ordered_an_idle_partition_is_lifted_by_the_ends_of_the_log_alone() {
    let world = World::new(&["watermark=append_ordered"], 2);
    let events = events();
    world.run(|running| {
        for event in &events[..9] {
            world.append(0, event);
        }
        running.catch_up();
        assert_eq!(world.meta()["watermark"], "", "partition 1 may still hold anything");
        running.probe();
        running.publish_all();
        assert_eq!(world.meta()["watermark"], "206");
        // An event that waits unread in the other partition is not passed.
        world.log.set_paused(&crate::support::world::partition(1), true);
        world.append(1, &events[9]);
        running.ingest_all();
        running.probe();
        running.publish_all();
        assert_eq!(world.meta()["watermark"], "206");
        world.log.set_paused(&crate::support::world::partition(1), false);
        running.ingest_all();
        running.probe();
        running.publish_all();
        assert_eq!(world.meta()["watermark"], "207");
    });
}

#[test]
fn the_contract_hash_is_that_of_the_metric_contract_alone() {
    let catalog = crate::support::catalog(&[]);
    let expected = fixtures::document("ch19/expected.json");
    assert_eq!(catalog.views[0].view.contract_hash, expected["semantic_contract_hash"]);
    assert_eq!(
        driftless::pure::canonical::sha256_hex(fixtures::raw("ch19/contract.canonical.json").as_bytes()),
        expected["semantic_contract_hash"]
    );
    let contract = fixtures::document("ch19/contract.json");
    assert_eq!(
        driftless::pure::canonical::canonical_json(&contract),
        fixtures::raw("ch19/contract.canonical.json")
    );
    let world = World::new(&["watermark=append_ordered"], 1);
    world.append(0, &events()[0]);
    world.run(|running| running.catch_up());
    assert_eq!(world.meta()["contract_hash"], expected["semantic_contract_hash"]);
}
