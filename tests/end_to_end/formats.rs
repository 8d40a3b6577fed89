//! One history told in each format, put on a real topic as its writer would have put it there: all end in the same
//! groups, by the built program.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::registry::StandIn;
use crate::transcode;
use crate::world::{World, real_kafka};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// The checksum of the groups that were worked out by hand.
fn expected_checksum() -> String {
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let groups = expected["groups"].as_array().unwrap().iter();
    let rows: Vec<Vec<Value>> =
        groups.map(|group| group.as_object().unwrap().values().cloned().collect()).collect();
    let digest = Sha256::digest(serde_json::to_string(&rows).unwrap().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn one_history_ends_in_the_same_checksum_in_every_format_on_a_real_topic() {
    if real_kafka().is_none() {
        return;
    }
    let expected = expected_checksum();
    for name in ["native", "debezium", "debezium_plain", "debezium_unwrapped", "upsert", "maxwell", "canal"] {
        let configuration = std::fs::read_to_string(folder().join(name).join("driftless.toml")).unwrap();
        let (_, section) = configuration.split_once("[[topic]]").unwrap();
        let partitions = if ["native", "upsert"].contains(&name) { 3 } else { 1 };
        let Some(world) = World::with_topic_section(name, partitions, section) else { return };
        let messages = folder().join(name).join("messages.jsonl");
        world.run(&["produce", "--messages", messages.to_str().unwrap()]).expect(0);
        world.run(&["run", "--once"]).expect(0);
        world.run(&["dlq", "list"]).expect(0);
        assert_eq!(world.checksum(&[]), expected, "{name}");
    }
}

/// The recorded history in Avro, key and value, with the schemas that it names.
fn in_avro(registry: &StandIn) -> Vec<[Option<Vec<u8>>; 2]> {
    let text = std::fs::read_to_string(folder().join("debezium/messages.jsonl")).unwrap();
    let mut known: Vec<Value> = Vec::new();
    let mut encode = |text: &Value| {
        let enveloped: Value = serde_json::from_str(text.as_str()?).unwrap();
        let told = &enveloped["schema"];
        let at = known.iter().position(|known| known == told).unwrap_or_else(|| {
            registry.put(known.len() as u32 + 1, &transcode::schema_of(told));
            known.push(told.clone());
            known.len() - 1
        });
        Some(transcode::message(at as u32 + 1, told, &enveloped["payload"]))
    };
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ours = lines.filter(|line| line["topic"] == "shop.public.order_lines");
    ours.map(|line| [encode(&line["key"]), encode(&line["value"])]).collect()
}

#[test]
fn a_topic_in_avro_waits_for_its_registry_and_ends_in_the_same_checksum() {
    if real_kafka().is_none() {
        return;
    }
    let registry = StandIn::start();
    let configuration = std::fs::read_to_string(folder().join("debezium_avro/driftless.toml")).unwrap();
    let (_, section) = configuration.split_once("[[topic]]").unwrap();
    let section = format!("{section}\n[registry]\nurl = \"{}\"\nusername = \"reader\"\n", registry.url());
    let Some(world) = World::with_topic_section("avro", 1, &section) else { return };
    let producer = world.producer();
    for [key, value] in in_avro(&registry) {
        producer.send(&world.topic, Some(0), key.as_deref(), value.as_deref()).unwrap();
    }
    producer.flush(crate::world::PATIENCE).unwrap();
    let with_password = |password: &str| {
        let mut command = world.installation.command(&["run", "--once"]);
        command.env("DRIFTLESS_REGISTRY_PASSWORD", password);
        command
    };
    world.installation.run_command(with_password("wrong")).expect(2).says(&["DRIFTLESS_REGISTRY_PASSWORD"]);
    registry.fail_with(Some(503));
    let running = world.installation.start(with_password("secret"));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    registry.fail_with(None);
    running.wait(crate::world::PATIENCE).expect(0).says(&["status 503"]);
    world.run(&["dlq", "list"]).expect(0);
    assert_eq!(world.checksum(&[]), expected_checksum());
}

#[test]
fn a_topic_is_looked_at_and_the_proposal_reads_it() {
    let Some(world) = World::with_topic("inspect", 2, "watermark = \"dense\"") else { return };
    let messages = folder().join("debezium").join("messages.jsonl");
    world.run(&["produce", "--messages", messages.to_str().unwrap()]).expect(0);
    // Without a configuration of its own: only the brokers are known.
    let mut command = world.installation.command(&["inspect", &world.topic, "--format", "json"]);
    command.current_dir("/").env("DRIFTLESS_KAFKA", &world.brokers);
    let answer = world.installation.run_command(command).expect(0).json();
    assert_eq!(
        (&answer["format"], &answer["source_table"]),
        (&"debezium".into(), &"public.order_lines".into())
    );
    assert_eq!(answer["tried"]["dead_letters"], 0, "{answer}");
    let unsure = answer["unsure"].to_string();
    assert!(unsure.contains("2 partitions") && unsure.contains("public.odds"), "{unsure}");
    let command = world.installation.command(&["inspect", "nothing-here", "--wait", "2"]);
    world.installation.run_command(command).expect(2);
}
