//! A table of odd values, recorded from PostgreSQL through Debezium with schemas and without: numbers beyond a
//! double, dates beyond the calendar, columns that come, go and widen, and a truncation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::messages::{Message, append, append_all, catalog, is_of, json as parse, messages, world};
use crate::support::world::World;

/// The folder and the configuration that reads it.
const VARIANTS: [(&str, &str); 2] =
    [("debezium", "odds/with_schema.toml"), ("debezium_plain", "odds/without_schema.toml")];

const COLUMNS: [&str; 11] =
    ["id", "small", "big", "yes", "whole", "free", "day", "at", "at3", "at_zone", "note"];

fn world_of(name: &str, file: &str, settings: &[&str]) -> (World, Vec<Message>) {
    let catalog = catalog(file, settings);
    let messages = messages(name).into_iter().filter(|message| is_of(message, &catalog)).collect();
    (world(catalog, 1), messages)
}

fn op(message: &Message) -> String {
    let value = parse(message.value.as_deref().expect("no tombstones here"));
    let value = if value["payload"].is_object() { &value["payload"] } else { &value };
    value["op"].as_str().expect("an op").to_owned()
}

/// Live rows by id, without nulls.
fn rows(world: &World) -> BTreeMap<i64, Value> {
    let connection = rusqlite::Connection::open(world.base_path("first")).expect("the base");
    let sql = format!("SELECT {} FROM odds", COLUMNS.join(", "));
    let mut statement = connection.prepare(&sql).expect("the view of the facts");
    let rows = statement.query_map([], |row| {
        let mut shown = serde_json::Map::new();
        for (index, name) in COLUMNS.iter().enumerate().skip(1) {
            match row.get::<_, rusqlite::types::Value>(index)? {
                rusqlite::types::Value::Integer(number) => drop(shown.insert((*name).into(), number.into())),
                rusqlite::types::Value::Text(text) => drop(shown.insert((*name).into(), text.into())),
                _ => {}
            }
        }
        Ok((row.get(0)?, Value::Object(shown)))
    });
    rows.and_then(Iterator::collect).expect("rows")
}

#[test]
fn odd_values_are_exact_or_dead_letters_that_name_the_column() {
    for (name, file) in VARIANTS {
        let (world, messages) = world_of(name, file, &[]);
        let before = messages.iter().take_while(|message| op(message) != "t");
        before.for_each(|message| append(&world, message));
        world.run(|running| {
            running.ingest_all();
            let letters: Vec<String> = running
                .letters()
                .iter()
                .map(|letter| {
                    format!("{} {}", letter.reason, letter.detail.split(':').next().unwrap_or_default())
                })
                .collect();
            // The first row's numeric(20, 0) is beyond 64 bits; NaN has become null where decimals are bytes.
            let mut expected = vec![
                "number_out_of_range whole",
                "not_a_date day",
                "not_a_date day",
                "not_a_date day",
                "not_a_date at",
                "not_a_date at_zone",
                "missing_column column big is missing",
            ];
            if name == "debezium_plain" {
                expected.insert(6, "wrong_type free");
            }
            assert_eq!(letters, expected, "{name}");
            let rows = rows(&world);
            assert_eq!(rows[&5], json!({"day": "2024-02-29"}), "{name}");
            assert_eq!(rows[&8], json!({"whole": -1, "free": -1}), "{name}: -0.01 is one hundredth");
            assert_eq!(rows[&9], json!({"whole": 128, "free": 12_800}), "{name}");
            assert_eq!(rows[&10], json!({"whole": -128, "free": 0}), "{name}");
            assert_eq!(rows[&12], json!({}), "{name}: a new column is ignored");
            assert_eq!(rows[&13], json!({"small": 70_000}), "{name}: a widened type is taken");
            assert_eq!(rows.contains_key(&11), name == "debezium");
            assert!([20, 21, 30].iter().all(|id| rows.contains_key(id)), "{name}: overlapping transactions");
        });
    }
}

#[test]
fn the_snapshot_and_the_zone_decide_the_same_day_with_and_without_a_schema() {
    for (name, file) in VARIANTS {
        let (world, messages) = world_of(name, file, &[]);
        let mut first = messages.into_iter().next().expect("the row of the snapshot");
        // What 64 bits hold, in place of what they do not: 128 as text and as bytes.
        let value = first.value.expect("a row").replace("12345678901234567890", "128");
        first.value = Some(value.replace("AKtUqYzrHwrS", "AIA="));
        append(&world, &first);
        world.run(|running| {
            running.ingest_all();
            assert!(running.letters().is_empty(), "{name}: {:?}", running.letters());
            let expected = json!({
                "small": 7, "big": 9_007_199_254_740_993i64, "yes": 1, "whole": 128, "free": 1850,
                "day": "2026-03-08", "at": "2026-03-08", "at3": "2026-03-08",
                // 2025-12-31T17:30Z is the first minute but thirty of the year in the configured zone.
                "at_zone": "2026-01-01", "note": "snapshot",
            });
            assert_eq!(rows(&world)[&1], expected, "{name}");
        });
    }
}

#[test]
fn a_truncation_removes_what_came_before_it_and_nothing_else() {
    for (name, file) in VARIANTS {
        let offsets: &[&str] = &["topic.0.watermark=offsets", "topic.0.shared_seq=false"];
        for settings in [&[][..], offsets] {
            for size in [1, 1_000] {
                // The source has dropped a column before its truncation; here nothing is read from it.
                let all: Vec<&str> =
                    settings.iter().copied().chain(["topic.0.columns.big.from=id"]).collect();
                let (mut world, messages) = world_of(name, file, &all);
                world.sizes.batch_records_max = size;
                append_all(&world, &messages);
                world.run(|running| {
                    running.catch_up();
                    let left = rows(&world);
                    assert_eq!(left.keys().collect::<Vec<_>>(), [&15], "{name} {settings:?}");
                    assert_eq!(world.store.rows("odds_by_day").len(), 1, "{name}: its groups are gone too");
                    // Everything once more changes nothing: what came before the truncation stays gone.
                    let before = running.counts();
                    append_all(&world, &messages);
                    running.catch_up();
                    if settings.is_empty() {
                        assert_eq!(rows(&world), left, "{name}");
                        assert!(running.counts().applied == before.applied, "{name}: nothing applies twice");
                    }
                });
            }
        }
    }
}

#[test]
fn a_truncation_that_nothing_orders_is_a_dead_letter() {
    let (name, file) = VARIANTS[1];
    let catalog = catalog(file, &["topic.0.watermark=offsets", "topic.0.shared_seq=false"]);
    let world = world(catalog.clone(), 2);
    let messages: Vec<_> = messages(name).into_iter().filter(|message| is_of(message, &catalog)).collect();
    append_all(&world, &messages);
    world.run(|running| {
        running.ingest_all();
        let letters = running.letters();
        assert!(letters.iter().any(|letter| letter.reason == "truncated"), "{letters:?}");
        assert!(rows(&world).len() > 5, "nothing was removed by a guess");
    });
}
