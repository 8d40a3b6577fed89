//! The history of orders: whatever the format, the order of delivery and the number of deliveries, the base and the
//! view end as the source's database did.

use std::collections::BTreeMap;

use driftless::ports::BaseReader;
use driftless::pure::checksum::ChecksumWriter;
use driftless::pure::publish::GroupValue;
use driftless::pure::value::Value as Cell;
use serde_json::Value;

use super::messages::{FORMATS, Message, append, append_all, catalog, is_of, json, messages, text, world};
use crate::support::oracle::BASE_COLUMNS;
use crate::support::world::{Running, World};

const PARTITIONS: i32 = 3;

/// The rows that must be left, by hand, in the order of the key.
fn expected_rows() -> Vec<Vec<Value>> {
    let expected = json(&text("expected.json"));
    let rows = expected["rows"].as_array().expect("rows");
    rows.iter().map(|row| BASE_COLUMNS.iter().map(|name| row[*name].clone()).collect()).collect()
}

/// The groups that must be published, by encoded key.
fn expected_groups() -> BTreeMap<String, BTreeMap<String, String>> {
    let expected = json(&text("expected.json"));
    let group = |group: &Value| {
        let product = group["product_id"].as_str().expect("a product");
        let product = product.replace('%', "%25").replace(':', "%3A");
        let key = format!("{}:{product}", group["order_date"].as_str().expect("a day"));
        let measures = group.as_object().expect("a group").iter().filter(|(_, value)| value.is_i64());
        (key, measures.map(|(name, value)| (name.clone(), value.to_string())).collect())
    };
    expected["groups"].as_array().expect("groups").iter().map(group).collect()
}

fn rows(world: &World) -> Vec<Vec<Value>> {
    let columns = BASE_COLUMNS.len();
    world.base_rows("first").into_iter().map(|row| row[..columns].to_vec()).collect()
}

/// The view's checksum from the base, by the engine.
fn checksum(running: &mut Running<'_>) -> String {
    let mut writer = ChecksumWriter::new();
    let mut sink = |key: &[Cell], value: &GroupValue| {
        let GroupValue::Measures(numbers) = value else { panic!("no overflow here") };
        let numbers = numbers.iter().map(|number| Cell::Integer(number.expect("not null")));
        let row: Vec<Cell> = key.iter().cloned().chain(numbers).collect();
        writer.row(&row);
    };
    running.base.snapshot().expect("a snapshot").each_group(0, &mut sink).expect("all groups");
    writer.finish()
}

#[track_caller]
fn assert_history(world: &World, running: &mut Running<'_>, what: &str) {
    running.publish_all();
    let letters: Vec<_> =
        running.letters().into_iter().map(|letter| (letter.reason, letter.detail)).collect();
    assert_eq!(letters, [], "{what}");
    assert_eq!(rows(world), expected_rows(), "{what}");
    assert_eq!(world.published(), expected_groups(), "{what}");
}

/// Those of the topic that is configured.
fn history(name: &str) -> (World, Vec<Message>) {
    let catalog = catalog(&format!("{name}/driftless.toml"), &[]);
    let messages = messages(name).into_iter().filter(|message| is_of(message, &catalog)).collect();
    (world(catalog, PARTITIONS), messages)
}

#[test]
fn the_rows_worked_out_by_hand_are_those_that_postgresql_ended_with() {
    let number = |row: &Value, name: &str| row[name].clone();
    let cents = |text: &str| -> i64 { text.replace('.', "").parse().expect("two decimal places") };
    let recorded = text("final.jsonl");
    let found: Vec<Vec<Value>> = recorded
        .lines()
        .map(|line| {
            // Amounts are taken from the text: a double would change them.
            let raw: BTreeMap<String, &serde_json::value::RawValue> =
                serde_json::from_str(line).expect("a row");
            let row = json(line);
            BASE_COLUMNS
                .iter()
                .map(|name| match *name {
                    "amount_cents" => cents(raw["amount"].get()).into(),
                    "cost_cents" => cents(raw["cost"].get()).into(),
                    name => number(&row, name),
                })
                .collect()
        })
        .collect();
    assert_eq!(found, expected_rows());
}

#[test]
fn p4_one_history_ends_in_the_same_rows_groups_and_checksum_in_every_format() {
    let mut checksums = BTreeMap::new();
    for name in FORMATS {
        let (world, messages) = history(name);
        assert!(messages.len() > 20, "{name}");
        append_all(&world, &messages);
        world.run(|running| {
            running.ingest_all();
            assert_history(&world, running, name);
            assert_eq!(running.counts().consumed(), messages.len() as u64, "{name}: each offset once");
            checksums.insert(checksum(running), name);
        });
    }
    assert_eq!(checksums.len(), 1, "{checksums:?}");
}

#[test]
fn p2_batches_of_any_size_and_restarts_end_in_the_same_state() {
    for name in FORMATS {
        for size in [1, 2, 7] {
            let (mut world, messages) = history(name);
            world.sizes.batch_records_max = size;
            for (number, message) in messages.iter().enumerate() {
                append(&world, message);
                if number % 5 == size % 5 {
                    world.run(|running| running.catch_up());
                }
            }
            world.run(|running| {
                running.ingest_all();
                assert_history(&world, running, &format!("{name} by {size}"));
            });
        }
    }
}

#[test]
fn p2_where_the_source_orders_events_any_order_and_repetition_ends_in_the_same_state() {
    // An event that leaves a column to the stored row needs the row before it; the recordings have one of those.
    for name in ["native", "debezium_mysql", "debezium_sqlserver", "maxwell"] {
        let (world, mut messages) = history(name);
        let mut random = 7u64;
        for _ in 0..messages.len() * 3 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (a, b) = ((random >> 33) as usize % messages.len(), (random >> 3) as usize % messages.len());
            messages.swap(a, b);
        }
        for round in 0..2 {
            for (number, message) in messages.iter_mut().enumerate() {
                message.partition = (number + round) as i32 % PARTITIONS;
                append(&world, message);
            }
        }
        world.run(|running| {
            running.ingest_all();
            assert_history(&world, running, name);
            let counts = running.counts();
            assert_eq!(counts.consumed(), 2 * messages.len() as u64, "{name}");
            assert!(counts.duplicate + counts.stale >= messages.len() as u64 / 2, "{name}: {counts:?}");
        });
    }
}

#[test]
fn p5_the_watermark_follows_the_source_and_waits_below_what_may_share_a_position() {
    for (name, least) in [
        ("native", "28"),
        ("debezium", "0.2"),
        ("debezium_plain", "0.2"),
        ("debezium_mysql", "4.6"),
        ("debezium_sqlserver", "39."),
        ("debezium_unwrapped", "0.2"),
        ("maxwell", "4."),
    ] {
        let catalog = catalog(&format!("{name}/driftless.toml"), &[]);
        let messages = messages(name);
        let of_topic: Vec<_> = messages.iter().filter(|message| is_of(message, &catalog)).collect();
        let partitions = if name == "native" { PARTITIONS } else { 1 };
        let world = world(catalog.clone(), partitions);
        let mut shown = None;
        world.run(|running| {
            for message in of_topic {
                append(&world, message);
                running.ingest_all();
                let watermark = running.ingest.watermark(0);
                assert!(watermark >= shown, "{name}: it never falls");
                shown = watermark;
            }
            running.publish_all();
            assert_eq!(running.counts().below_watermark, 0, "{name}: nothing came below it");
            let watermark = world.meta()["watermark"].clone();
            assert!(watermark.starts_with(least), "{name}: {watermark}");
        });
    }
}

#[test]
fn p10_records_of_other_tables_and_kinds_in_the_topic_are_control_and_counted() {
    for (name, others) in [("debezium", 15), ("debezium_plain", 60)] {
        let world = world(catalog(&format!("{name}/driftless.toml"), &[]), 1);
        let messages = messages(name);
        append_all(&world, &messages);
        world.run(|running| {
            running.ingest_all();
            assert_history(&world, running, name);
            let counts = running.counts();
            assert_eq!(counts.consumed(), messages.len() as u64, "{name}");
            assert!(counts.control > others, "{name}: {counts:?}");
            // The last record of all is of another table, and the watermark has come to just below it.
            let last = messages.iter().rev().find_map(|message| {
                let value = json(message.value.as_deref()?);
                let value = if value["payload"].is_object() { value["payload"].clone() } else { value };
                value["source"]["lsn"].as_u64()
            });
            let watermark = running.ingest.watermark(0).expect("a watermark");
            assert_eq!(
                (watermark.position, watermark.row + 1),
                (last.expect("a position"), last.expect("a position"))
            );
        });
    }
}

#[test]
fn with_offsets_the_order_of_the_log_decides() {
    for name in ["native", "debezium", "debezium_plain", "debezium_unwrapped", "maxwell"] {
        let modes: &[&str] = match name {
            "native" => &["topic.0.watermark=offsets"],
            _ => &["topic.0.watermark=offsets", "topic.0.shared_seq=false"],
        };
        let catalog = catalog(&format!("{name}/driftless.toml"), modes);
        let world = world(catalog.clone(), PARTITIONS);
        let messages: Vec<_> =
            messages(name).into_iter().filter(|message| is_of(message, &catalog)).collect();
        append_all(&world, &messages);
        world.run(|running| {
            running.ingest_all();
            assert_history(&world, running, name);
            assert_eq!(running.ingest.watermark(0), None);
        });
    }
}
