//! Events that cannot be applied, in the middle of good ones: kept, told, and resolved by commands, beside a running
//! maintainer and without one.

use std::time::Duration;

use serde_json::Value;

use crate::world::{World, sale, sales, wait_for};

/// After five good ones: an event that is cut off, one whose line is no number, and four good ones.
fn send_poison(world: &World) {
    let mut values = vec![r#"{"event_id":"E6","source_seq":"#.to_owned()];
    values.push(sale(6, 6, "P1", 1).replace("\"line_no\":1", "\"line_no\":\"one\""));
    values.extend(sales(7..=10));
    world.send(0, values);
}

fn open_letters(world: &World) -> Vec<Value> {
    world.run(&["dlq", "list", "--format", "json"]).json().as_array().unwrap().clone()
}

#[test]
fn p5_dead_letters_hold_the_watermark_not_the_stream_and_are_waived_beside_a_running_maintainer() {
    let Some(world) = World::with_topic("poison", 1, "watermark = \"dense\"") else { return };
    let mut maintainer = world.maintain(&[]);
    world.send(0, sales(1..=5));
    world.wait_published(&mut maintainer, 5);
    send_poison(&world);
    world.wait_published(&mut maintainer, 11);
    assert_eq!(world.gmv("P1"), Some(9), "the rest went on");
    let meta = world.meta();
    assert_eq!((meta["watermark"].as_str(), meta["status"].as_str()), ("5", "incomplete"));
    assert_eq!(meta["dead_letters"], "2");
    assert_eq!(meta["settled"], format!("{{\"{}:0\":5}}", world.topic));
    world.run(&["status"]).expect(1).says(&["incomplete", "2 dead letters are open"]);
    let letters = open_letters(&world);
    assert_eq!((&letters[0]["offset"], &letters[0]["seq"]), (&5.into(), &Value::Null));
    assert_eq!((&letters[1]["offset"], &letters[1]["seq"]), (&6.into(), &"6".into()));
    assert_eq!(letters[0]["reason"], "not_json");
    world.run(&["dlq", "list"]).expect(1).says(&["not_json", &world.topic]);
    world.run(&["dlq", "show", "1"]).expect(0).says(&["E6", "not_json", "offset"]);
    world.run(&["dlq", "show", "99"]).expect(1);

    // Retried, they stay what they are.
    world.run(&["dlq", "retry", "--why", "again"]).expect(1).says(&["still_open", "2"]);
    assert_eq!(open_letters(&world).len(), 2);
    // Given up, one after the other, with who and why on record.
    world.run(&["dlq", "waive", "1", "--why", "a test message", "--who", "ann"]).expect(0);
    assert_eq!(world.run(&["dlq", "show", "1", "--format", "json"]).expect(0).json()["who"], "ann");
    // The verdict is of all letters, not of those that fit into the list.
    world.run(&["dlq", "list", "--all", "--limit", "1"]).expect(1);
    let answer =
        world.run(&["dlq", "waive", "2", "--why", "no such line", "--format", "json"]).expect(0).json();
    assert_eq!(answer["answer"]["watermark"], "10", "{answer}");
    wait_for(&mut maintainer, "W 10", Duration::from_secs(5), || (world.watermark() == "10").then_some(()));
    world.run(&["dlq", "list"]).expect(0).says(&["no dead letters"]);
    world.run(&["dlq", "waive", "2", "--why", "again"]).expect(1).says(&["no open dead letter 2"]);
    wait_for(&mut maintainer, "fresh", Duration::from_secs(5), || {
        (world.run(&["status"]).code == Some(0)).then_some(())
    });
    let counts = &world.status()["partitions"][0]["counts"];
    assert_eq!((&counts["applied"], &counts["dead_letter"]), (&9.into(), &2.into()));
    let all = world.run(&["dlq", "list", "--all", "--format", "json"]).expect(0).json();
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[test]
fn dead_letters_are_waived_without_a_maintainer_and_the_next_start_publishes_it() {
    let Some(world) = World::with_topic("poison-down", 1, "watermark = \"sparse\"") else { return };
    world.send(0, sales(1..=5));
    send_poison(&world);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.watermark().as_str(), world.gmv("P1")), ("5", Some(9)));
    world.run(&["dlq", "waive", "1", "--why", "cut off"]).expect(0).says(&["done"]);
    world.run(&["dlq", "waive", "2", "--why", "no number"]).expect(0).says(&["10"]);
    assert_eq!(world.watermark(), "5", "a command does not publish");
    world.run(&["run", "--once"]).expect(0);
    let meta = world.meta();
    assert_eq!((meta["watermark"].as_str(), meta["dead_letters"].as_str()), ("10", "0"));
    world.run(&["status"]).expect(0);
    world.checksum(&[]);
}

#[test]
fn p10_a_contradiction_is_kept_and_a_retry_resolves_it_once_a_newer_event_has_settled_it() {
    let Some(world) = World::with_topic("conflict", 1, "watermark = \"sparse\"") else { return };
    let mut maintainer = world.maintain(&[]);
    // The same sequence with another content: the first stays.
    world.send(0, [sale(1, 1, "P1", 100), sale(2, 1, "P1", 200), sale(2, 1, "P1", 999)]);
    world.wait_published(&mut maintainer, 3);
    assert_eq!(world.gmv("P1"), Some(200));
    assert_eq!(open_letters(&world)[0]["reason"], "conflict");
    world.run(&["dlq", "retry", "1"]).expect(1);
    world.send(0, [sale(3, 1, "P1", 300)]);
    world.wait_published(&mut maintainer, 4);
    let answer = world.run(&["dlq", "retry", "1", "--why", "settled", "--format", "json"]).expect(0).json();
    assert_eq!(answer["answer"]["retried"], 1, "{answer}");
    wait_for(&mut maintainer, "W 3", Duration::from_secs(5), || (world.watermark() == "3").then_some(()));
    assert_eq!(world.gmv("P1"), Some(300));
    // The offset has moved from one class to another.
    let counts = &world.status()["partitions"][0]["counts"];
    assert_eq!((&counts["stale"], &counts["dead_letter"]), (&1.into(), &0.into()));
    // The same without a maintainer.
    maintainer.signal("TERM");
    maintainer.wait(Duration::from_secs(10)).expect(0);
    world.send(0, [sale(3, 1, "P1", 301)]);
    world.run(&["run", "--once"]).expect(0);
    world.run(&["dlq", "retry"]).expect(1);
    world.send(0, [sale(4, 1, "P1", 400)]);
    world.run(&["run", "--once"]).expect(0);
    world.run(&["dlq", "retry"]).expect(0);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.watermark().as_str(), world.gmv("P1")), ("4", Some(400)));
}
