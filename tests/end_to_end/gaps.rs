//! A log that no longer holds what the base has not read stops the maintainer, and nothing is published (P11).

use std::time::Duration;

use crate::world::{World, sale, sales, wait_for};

/// A world in which ten sales are maintained and the maintainer is down.
fn with_ten_sales(case: &str) -> Option<World> {
    let world = World::with_topic(case, 1, "watermark = \"dense\"")?;
    world.send(0, sales(1..=10));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(10));
    Some(world)
}

/// `run` ends with 2, names partition and remedy, and leaves base and Redis as they were.
#[track_caller]
fn assert_refused(world: &World, says: &[&str]) {
    let (before, base) = (world.published(), base_checksum(world));
    let place = format!("{}:0", world.topic);
    let answer = world.run(&["run", "--once"]).expect(2);
    answer.says(&[&place, "remedy:", "new generation"]).says(says);
    assert_eq!(world.published(), before, "Redis is as it was");
    assert_eq!(base_checksum(world), base, "the base is as it was");
}

fn base_checksum(world: &World) -> String {
    world.run(&["checksum", "--from", "base"]).expect(0).out
}

#[test]
fn p11_a_recreated_topic_that_is_shorter_stops_the_maintainer() {
    let Some(world) = with_ten_sales("recreated-short") else { return };
    world.delete_topic();
    world.create_topic(1);
    world.send(0, [sale(11, 11, "P2", 7)]);
    assert_refused(&world, &["goes on at offset 10", "0 to 1"]);
}

#[test]
fn p11_a_recreated_topic_with_other_records_stops_the_maintainer() {
    let Some(world) = with_ten_sales("recreated-other") else { return };
    world.delete_topic();
    world.create_topic(1);
    world.send(0, (101..=120).map(|number| sale(number, number, "P2", 7)));
    assert_refused(&world, &["offset 9", "another record"]);
}

#[test]
fn p11_a_topic_that_is_gone_stops_the_maintainer() {
    let Some(world) = with_ten_sales("gone") else { return };
    world.delete_topic();
    let before = world.published();
    world.run(&["run", "--once"]).expect(2).says(&[&world.topic, "remedy:"]);
    assert_eq!(world.published(), before);
}

#[test]
fn p11_a_topic_recreated_under_a_running_maintainer_stops_it() {
    let Some(world) = World::with_topic("recreated-running", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=10));
    let mut maintainer = world.maintain(&[]);
    world.wait_published(&mut maintainer, 10);
    world.delete_topic();
    world.create_topic(1);
    world.send(0, (101..=120).map(|number| sale(number, number, "P2", 7)));
    // On a busy machine it may see that the topic is gone before it sees the new one.
    let said = maintainer.wait(Duration::from_secs(30)).expect(2).says(&[&world.topic, "remedy:"]).text();
    assert!(said.contains("re-created") || said.to_lowercase().contains("unknown topic"), "{said}");
    assert_eq!(world.gmv("P1"), Some(10));
    assert_eq!(world.gmv("P2"), None, "nothing of the new topic was applied");
    assert_eq!(world.watermark(), "10");
}

#[test]
fn p11_records_cut_before_they_were_read_stop_the_maintainer() {
    let Some(world) = with_ten_sales("cut") else { return };
    world.send(0, sales(11..=20));
    world.admin().delete_records_below(&world.place(0), 15).unwrap();
    assert_refused(&world, &["goes on at offset 10", "15 to 20"]);
}

#[test]
fn p11_records_cut_after_they_were_read_are_no_gap() {
    let Some(world) = with_ten_sales("cut-read") else { return };
    world.send(0, sales(11..=20));
    world.admin().delete_records_below(&world.place(0), 10).unwrap();
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(20));
    // And where nothing at all is left.
    world.admin().delete_records_below(&world.place(0), 20).unwrap();
    world.run(&["run", "--once"]).expect(0);
    world.send(0, sales(21..=22));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(22));
}

#[test]
fn a_partition_added_while_running_is_noticed_and_read_from_its_start() {
    let Some(world) = World::with_topic("grown", 1, "watermark = \"sparse\"") else { return };
    world.send(0, sales(1..=10));
    let mut maintainer = world.maintain(&[]);
    world.wait_published(&mut maintainer, 10);
    assert_eq!(world.watermark(), "10");
    world.admin().grow_topic(&world.topic, 2).unwrap();
    world.send(1, sales(11..=15));
    world.wait_published(&mut maintainer, 15);
    assert_eq!(world.gmv("P1"), Some(15));
    // It holds the watermark, and never lowers it.
    assert_eq!(world.watermark(), "10");
    world.send(0, sales(16..=20));
    wait_for(&mut maintainer, "W 15", Duration::from_secs(10), || (world.watermark() == "15").then_some(()));
    world.checksum(&[]);
}
