//! Two maintainers of one view: on one base file the second is refused; with a base of its own it stands by, and
//! takes over when the first is gone.

use std::time::{Duration, Instant};

use crate::world::{World, sales, wait_for};

#[test]
fn a_second_maintainer_on_the_same_base_is_refused_and_the_first_is_named() {
    let Some(world) = World::with_topic("same-base", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=10));
    let mut first = world.maintain(&[]);
    world.wait_published(&mut first, 10);
    let process = format!("process {}", first.process_id());
    world.run(&["run"]).expect(2).says(&["base.db", &process, "remedy:"]);
    world.run(&["run", "--once"]).expect(2).says(&[&process]);
    // The first does not notice.
    world.send(0, sales(11..=12));
    world.wait_published(&mut first, 12);
    // Killed, it holds the file no longer.
    first.kill();
    world.run(&["run", "--once"]).expect(0);
}

#[test]
fn p7_a_standby_publishes_nothing_until_the_first_is_gone_and_the_watermark_never_falls() {
    let Some(world) = World::with_topic("standby", 2, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=100));
    let mut first = world.maintain(&[]);
    world.wait_published(&mut first, 100);
    let nonce = world.meta()["nonce"].clone();
    let mut second = world.maintain(&["--set", "base.path=standby.db"]);
    let mut watermark = 0;
    let mut number = 100;
    let mut look = |world: &World| {
        let meta = world.meta();
        let now: u64 = meta["watermark"].parse().unwrap();
        assert!(now >= watermark, "W fell from {watermark} to {now}");
        watermark = now;
        meta["nonce"].clone()
    };
    // 1. While the first lives, longer than the silence that the second waits for, every cursor is the first's.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(4) {
        number += 1;
        world.send((number % 2) as i32, sales([number]));
        assert_eq!(look(&world), nonce, "the second published; its log:\n{}", second.log());
        assert!(!second.has_ended(), "{}", second.log());
    }
    world.wait_published(&mut first, number as i64);
    // 2. Killed, it is followed within the silence and a little more.
    first.kill();
    let died = Instant::now();
    world.send(0, sales(number + 1..=number + 50));
    wait_for(&mut second, "taken over", Duration::from_secs(10), || (look(&world) != nonce).then_some(()));
    assert!(died.elapsed() > Duration::from_millis(1_000), "it waited for the silence: {:?}", died.elapsed());
    world.wait_published(&mut second, number as i64 + 50);
    assert_eq!(world.gmv("P1"), Some(number as i64 + 50));
    // 3. Started again, the first stands by in its turn.
    let taken_by = world.meta()["nonce"].clone();
    let mut first = world.maintain(&[]);
    world.send(1, sales(number + 51..=number + 60));
    world.wait_published(&mut second, number as i64 + 60);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(look(&world), taken_by);
    assert!(!first.has_ended(), "{}", first.log());
    assert_eq!(world.watermark(), (number + 60).to_string());
}
