//! Redis goes away, comes back empty, hangs, or is emptied: reading and committing go on, and publishing heals by
//! itself (P8).

use std::time::Duration;

use crate::installation::{Running, send_signal};
use crate::world::{World, sales, wait_for};

/// The sum of the base's positions, as `status` tells them.
fn committed_offsets(world: &World) -> i64 {
    let status = world.status();
    let partitions = status["partitions"].as_array().unwrap().clone();
    partitions.iter().map(|partition| partition["next_offset"].as_i64().unwrap()).sum()
}

#[track_caller]
fn wait_committed(world: &World, maintainer: &mut Running, offsets: i64) {
    wait_for(maintainer, &format!("{offsets} offsets committed"), Duration::from_secs(20), || {
        (committed_offsets(world) >= offsets).then_some(())
    });
}

#[test]
fn p8_a_redis_that_comes_back_empty_is_filled_again_and_reading_goes_on_meanwhile() {
    let Some(mut world) = World::with_topic("redis-killed", 2, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=500));
    let mut maintainer = world.maintain(&[]);
    world.wait_published(&mut maintainer, 500);
    send_signal(world.redis.process_id(), "KILL");
    world.send(1, sales(501..=900));
    wait_committed(&world, &mut maintainer, 900);
    let status = world.run(&["status", "--format", "json"]).expect(1).json();
    assert_eq!(status["views"][0]["fresh"], false, "{status}");
    world.redis.restart().unwrap();
    world.wait_published(&mut maintainer, 900);
    assert_eq!(world.gmv("P1"), Some(900));
    assert_eq!(world.watermark(), "900");
    world.checksum(&[]);
    assert!(maintainer.log().contains("publishing waits"), "{}", maintainer.log());
}

#[test]
fn p8_a_redis_that_hangs_for_seconds_is_published_to_again() {
    let Some(world) = World::with_topic("redis-hangs", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=100));
    let mut maintainer = world.maintain(&[]);
    world.wait_published(&mut maintainer, 100);
    send_signal(world.redis.process_id(), "STOP");
    world.send(0, sales(101..=300));
    wait_committed(&world, &mut maintainer, 300);
    std::thread::sleep(Duration::from_secs(2));
    send_signal(world.redis.process_id(), "CONT");
    world.wait_published(&mut maintainer, 300);
    assert_eq!(world.gmv("P1"), Some(300));
    world.checksum(&[]);
}

#[test]
fn p8_an_emptied_redis_is_healed_within_a_few_beats_though_the_stream_is_idle() {
    let Some(world) = World::with_topic("flushall", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=100));
    let mut maintainer = world.maintain(&[]);
    world.wait_published(&mut maintainer, 100);
    // The version may still rise by a commit without changes.
    let shown = || {
        let mut all = world.published();
        all.get_mut("meta").unwrap().remove("version");
        all
    };
    let before = shown();
    redis::cmd("FLUSHALL").exec(&mut world.redis_connection()).unwrap();
    wait_for(&mut maintainer, "healed", Duration::from_secs(5), || (shown() == before).then_some(()));
    // A lost row and a stray one are noticed by the index's count as well.
    let mut connection = world.redis_connection();
    redis::cmd("DEL").arg("driftless:{agg_daily_product}:row:2026-10-01:P1").exec(&mut connection).unwrap();
    redis::cmd("ZREM")
        .arg("driftless:{agg_daily_product}:index")
        .arg("2026-10-01:P1")
        .exec(&mut connection)
        .unwrap();
    wait_for(&mut maintainer, "healed", Duration::from_secs(5), || (shown() == before).then_some(()));
}

#[test]
fn p8_a_start_without_redis_reads_and_commits_and_publishes_once_it_is_there() {
    let Some(mut world) = World::with_topic("redis-late", 1, "watermark = \"dense\"") else { return };
    send_signal(world.redis.process_id(), "KILL");
    world.send(0, sales(1..=100));
    let mut maintainer = world.maintain(&[]);
    wait_for(&mut maintainer, "a base", Duration::from_secs(10), || {
        world.installation.path("base.db").exists().then_some(())
    });
    wait_for(&mut maintainer, "status", Duration::from_secs(10), || {
        (world.run(&["status"]).code == Some(1)).then_some(())
    });
    wait_committed(&world, &mut maintainer, 100);
    world.redis.restart().unwrap();
    world.wait_published(&mut maintainer, 100);
    maintainer.signal("TERM");
    maintainer.wait(Duration::from_secs(10)).expect(0);
    world.checksum(&[]);
}
