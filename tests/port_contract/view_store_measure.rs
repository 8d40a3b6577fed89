//! What a publish costs on a real Redis here: time and memory. Judges nothing.

use driftless::ports::ViewStore;
use driftless::pure::publish::{Cursor, GroupValue, PublishReply};

use crate::view_store::*;

/// Not a test: run it with `--release -- --ignored --nocapture measure` to see what a publish costs here.
#[test]
#[ignore = "a measurement"]
fn measure_publish_throughput_and_memory() {
    const GROUPS: i64 = 2_000;
    const ROUNDS: u64 = 50;
    /// Batches with groups of their own; after them, groups are replaced.
    const BATCHES: i64 = 10;
    let bench = RealBench::start();
    let mut store = bench.store();
    let columns: Vec<String> =
        ["line_count", "order_count", "units", "gmv_cents", "cost_cents", "profit_cents"]
            .map(str::to_owned)
            .to_vec();
    let groups = |round: i64| {
        (0..GROUPS).map(move |n| {
            let key = format!("2026-09-{:02}:P{n:05}", round % BATCHES + 1);
            let mut write = set_all(&key, 0);
            let values = (0..6).map(|c| Some(1_000 * round + n * 37 * (c + 1))).collect();
            write.value = Some(GroupValue::Measures(values));
            write
        })
    };
    let used = || -> i64 {
        let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query(&mut bench.connection()).unwrap();
        info.get("used_memory").unwrap()
    };
    let before = used();
    let mut at = Cursor::default();
    let mut took = Vec::new();
    for round in 1..=ROUNDS {
        let next = cursor(round, "n");
        let mut batch = publish(&at, &next, groups(round as i64).collect());
        batch.change.as_mut().unwrap().keys.clear();
        let started = std::time::Instant::now();
        let reply = store.publish(VIEW, &columns, &batch).unwrap();
        took.push(started.elapsed().as_micros() as u64);
        assert!(matches!(reply, PublishReply::Accepted { .. }), "{reply:?}");
        at = next;
    }
    let stats: redis::InfoDict =
        redis::cmd("INFO").arg("commandstats").query(&mut bench.connection()).unwrap();
    let script: Option<String> = stats.get("cmdstat_evalsha");
    took.sort_unstable();
    let total: u64 = took.iter().sum();
    println!("{GROUPS} groups of 6 measures a script, {ROUNDS} rounds");
    println!("call: median {} us, greatest {} us", took[took.len() / 2], took[took.len() - 1]);
    println!("groups a second: {}", GROUPS as u64 * ROUNDS * 1_000_000 / total);
    println!("server: {}", script.unwrap_or_default());
    for _ in 0..3 {
        let started = std::time::Instant::now();
        let read = store.read_range(VIEW, None, None, 1_000).unwrap();
        println!("range of {} rows: {} us", read.rows.len(), started.elapsed().as_micros());
    }
    // The buffers of the connection are not the view's.
    drop(store);
    std::thread::sleep(std::time::Duration::from_millis(100));
    bench.run::<()>(&["DEL", &bench.keys().changes]);
    println!("memory a group: {} bytes", (used() - before) / (GROUPS * BATCHES));
    let row = bench.keys().row("2026-09-01:P00000");
    let of_row: i64 = bench.run(&["MEMORY", "USAGE", &row]);
    let of_index: i64 = bench.run(&["MEMORY", "USAGE", &bench.keys().index, "SAMPLES", "0"]);
    println!("of it: row {of_row} bytes, index {} bytes", of_index / (GROUPS * BATCHES));
}
