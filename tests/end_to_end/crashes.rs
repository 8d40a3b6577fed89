//! A long stream through a maintainer that is ended and killed in the middle of it, again and again.

use std::time::{Duration, Instant};

use driftless::example::Workload;
use serde_json::Value;

use crate::fold::Fold;
use crate::installation::Running;
use crate::world::{World, wait_for};

const PARTITIONS: i32 = 4;

/// Sends a workload at a pace, folds it, and returns the expected checksum and how many records there are.
fn produce(world: &World, workload: &Workload, per_second: u64) -> (String, i64) {
    let producer = world.producer();
    let mut fold = Fold::default();
    let since = Instant::now();
    let mut sent = 0;
    for event in workload.events() {
        fold.add(&event.json);
        // By order, as a producer that keys by primary key does: a line stays in its partition.
        let partition = event.key.bytes().map(u32::from).sum::<u32>() % PARTITIONS as u32;
        let (key, value) = (event.key.as_bytes(), event.json.as_bytes());
        producer.send(&world.topic, Some(partition as i32), Some(key), Some(value)).unwrap();
        sent += 1;
        let ahead = Duration::from_secs_f64(sent as f64 / per_second as f64).saturating_sub(since.elapsed());
        if ahead > Duration::from_millis(2) {
            std::thread::sleep(ahead);
        }
    }
    producer.flush(Duration::from_secs(30)).unwrap();
    (fold.checksum(), sent)
}

/// Every class of every partition sums to the offsets consumed, and those are all that there are.
#[track_caller]
fn assert_accounted(status: &Value, records: i64) -> Vec<Value> {
    let partitions = status["partitions"].as_array().unwrap();
    let mut consumed = 0;
    for partition in partitions {
        let next = partition["next_offset"].as_i64().unwrap() - partition["first_offset"].as_i64().unwrap();
        let counts = partition["counts"].as_object().unwrap();
        let classes = ["applied", "duplicate", "stale", "expired", "control", "dead_letter"];
        let sum: i64 = classes.iter().map(|class| counts[*class].as_i64().unwrap()).sum();
        assert_eq!(sum, next, "{partition}");
        assert_eq!(partition["lag"], 0, "{partition}");
        consumed += next;
    }
    assert_eq!(consumed, records);
    partitions.clone()
}

fn total(partitions: &[Value], class: &str) -> i64 {
    partitions.iter().map(|partition| partition["counts"][class].as_i64().unwrap()).sum()
}

/// Waits until it has published something of its own.
fn wait_for_progress(world: &World, maintainer: &mut Running, before: i64) {
    wait_for(maintainer, "progress", Duration::from_secs(15), || {
        (world.published_offsets() > before).then_some(())
    });
}

#[test]
fn p10_a_maintainer_ended_and_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing() {
    let Some(world) = World::with_topic("crashes", PARTITIONS, "watermark = \"dense\"") else { return };
    let workload = Workload { events: 30_000, days: 5, products: 300, ..Workload::default() };
    // Small scripts, so that deaths fall into publishes in parts as well.
    let settings = ["--set", "maintain.groups_per_script_max=20"];
    let (checksum, records) = std::thread::scope(|scope| {
        let producing = scope.spawn(|| produce(&world, &workload, 4_000));
        // 1. Ended in the middle: within ten seconds, and everything that was read is published.
        let mut maintainer = world.maintain(&settings);
        wait_for_progress(&world, &mut maintainer, 0);
        maintainer.signal("TERM");
        let answer = maintainer.wait(Duration::from_secs(10)).expect(0);
        let status = world.status();
        assert_eq!(status["views"][0]["pending_groups"], 0, "{}", answer.text());
        let read: i64 = status["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|partition| partition["next_offset"].as_i64().unwrap())
            .sum();
        assert_eq!(world.published_offsets(), read);
        assert_eq!(answer.json()["consumed"], read);
        // 2. Killed in the middle, several times, at moments that differ.
        for round in 0..5 {
            let before = world.published_offsets();
            let mut maintainer = world.maintain(&settings);
            wait_for_progress(&world, &mut maintainer, before);
            std::thread::sleep(Duration::from_millis(37 * round));
            maintainer.kill();
        }
        producing.join().unwrap()
    });
    // 3. The last one reads to the end.
    let mut maintainer = world.maintain(&settings);
    world.wait_published(&mut maintainer, records);
    wait_for(&mut maintainer, "confirmed", Duration::from_secs(10), || {
        (world.run(&["status"]).code == Some(0)).then_some(())
    });
    let partitions = assert_accounted(&world.status(), records);
    assert_eq!(total(&partitions, "dead_letter"), 0);
    assert_eq!(
        total(&partitions, "duplicate") + total(&partitions, "stale"),
        records - total(&partitions, "applied")
    );
    assert!(total(&partitions, "applied") <= 30_000 && total(&partitions, "applied") > 29_000);
    assert_eq!(world.watermark(), "30000");
    assert_eq!(world.checksum(&[]), checksum);
    maintainer.signal("INT");
    maintainer.wait(Duration::from_secs(10)).expect(0);
}
