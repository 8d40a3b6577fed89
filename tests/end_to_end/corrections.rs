//! The corrections fixture, end to end: late, doubled, moved and deleted lines end in the published numbers,
//! whatever the partitions and the mode of the watermark.

use serde_json::Value;

use crate::world::World;

const DELIVERIES: &str = include_str!("../fixtures/corrections/deliveries.jsonl");
const EXPECTED: &str = include_str!("../fixtures/corrections/expected.json");
const ALL_COLUMNS: &str = "e8ed9e0d2b6bdcf11c7cae406b4fb40fd2ae37e80e6b34424e861879cb9d176f";
const WITHOUT_ORDERS: &str = "13f91cf182ca1fa7f70d2015114aef209ee896aad63a4752fb9bfd539dc42e42";
const ADDITIVE: [&str; 5] = ["line_count", "units", "gmv_cents", "cost_cents", "profit_cents"];

#[track_caller]
fn assert_final_numbers(world: &World) {
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    let last = &expected["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(last["agg_sha256_with_order_count"], ALL_COLUMNS, "the fixture is the one this test is for");
    assert_eq!(last["sha256"]["agg_daily_product"], WITHOUT_ORDERS);
    assert_eq!(world.checksum(&[]), ALL_COLUMNS);
    assert_eq!(world.checksum(&ADDITIVE), WITHOUT_ORDERS);
}

/// Produces to the partitions that the fixture names.
fn produce_to_three(world: &World) {
    world.installation.write("deliveries.jsonl", DELIVERIES);
    world
        .run(&["produce", "deliveries.jsonl", "--deliveries", "--partitions", "3", "--format", "json"])
        .expect(0)
        .says(&["\"delivered\": 59"]);
}

/// Produces in the order of delivery to whichever partition the key leads to.
fn produce_by_key(world: &World, partitions: &str) {
    let events: Vec<String> = DELIVERIES
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].to_string())
        .collect();
    world.installation.write("events.jsonl", events.join("\n"));
    world.run(&["produce", "events.jsonl", "--partitions", partitions]).expect(0).says(&["59 events"]);
}

#[test]
fn p2_corrections_over_three_partitions_end_in_the_published_numbers() {
    let Some(world) = World::new("corrections3", "watermark = \"sparse\"") else { return };
    produce_to_three(&world);
    let summary = world.run(&["run", "--once", "--format", "json"]).expect(0).json();
    assert_eq!(summary["consumed"], 59);
    assert_final_numbers(&world);
    // The least of what the three partitions have reached: 1054, 1055 and 1053.
    assert_eq!(world.watermark(), "1053");
    assert_eq!(world.run(&["status", "--format", "json"]).expect(0).json()["views"][0]["fresh"], true);
}

#[test]
fn p2_corrections_keyed_into_one_partition_end_in_the_same_numbers() {
    let Some(world) = World::new("corrections1", "watermark = \"sparse\"") else { return };
    produce_by_key(&world, "1");
    world.run(&["run", "--once"]).expect(0);
    assert_final_numbers(&world);
    assert_eq!(world.watermark(), "1055");
}

#[test]
fn p2_corrections_keyed_into_four_partitions_end_in_the_same_numbers() {
    let Some(world) = World::new("corrections4", "watermark = \"sparse\"") else { return };
    produce_by_key(&world, "4");
    world.run(&["run", "--once"]).expect(0);
    assert_final_numbers(&world);
}

#[test]
fn p5_a_dense_watermark_stops_below_a_hole_until_the_hole_is_waived() {
    let Some(world) = World::new("dense", "watermark = \"dense\"\nfirst_seq = 1001") else { return };
    produce_to_three(&world);
    world.run(&["run", "--once"]).expect(0);
    assert_final_numbers(&world);
    assert_eq!(world.watermark(), "1016");
    world.run(&["status"]).says(&["sequence 1017 is missing", "W 1016"]);
    assert_eq!(world.status()["tables"][0]["first_hole"], 1017);
    world
        .run(&["dlq", "waive", "--table", "fact_sales", "--seq", "1017", "--why", "never issued"])
        .expect(0)
        .says(&["1055"]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.watermark(), "1055");
    assert_eq!(world.status()["tables"][0]["first_hole"], Value::Null);
    assert_final_numbers(&world);
}

#[test]
fn p4_a_second_run_over_the_same_log_changes_nothing() {
    let Some(world) = World::new("again", "watermark = \"sparse\"") else { return };
    produce_to_three(&world);
    world.run(&["run", "--once"]).expect(0);
    let first = world.published();
    let summary = world.run(&["run", "--once", "--format", "json"]).expect(0).json();
    assert_eq!(summary["consumed"], 0);
    assert_eq!(world.published(), first);
}
