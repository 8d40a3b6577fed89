//! A long stream replayed into a candidate beside a live generation that goes on, killed in the middle, proven, shown,
//! taken back and shown again, while readers look without a pause.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fold::Fold;
use crate::world::{VIEW, World, sale, wait_for};

/// Groups that a reader takes at once.
const GROUPS_PER_SAMPLE: usize = 50;
/// Events a second that the live generation takes meanwhile.
const LIVE_RATE: u64 = 500;
const LONG: Duration = Duration::from_secs(900);

type Row = BTreeMap<String, String>;

/// What readers saw.
#[derive(Default)]
struct Seen {
    samples: u64,
    mixed: u64,
    longest_mixed: Duration,
}

/// The stream: a file that is named, else a generated one.
fn stream(world: &World) -> PathBuf {
    if let Ok(file) = std::env::var("DRIFTLESS_SOAK_EVENTS") {
        return file.into();
    }
    let count = std::env::var("DRIFTLESS_SOAK_COUNT").unwrap_or_else(|_| "1500000".to_owned());
    world.run(&["generate", "--events", &count, "--out", "events.jsonl"]).expect(0);
    world.installation.path("events.jsonl")
}

/// Groups of all over the view and what they hold: nothing that comes later touches them.
fn quiet_groups(world: &World) -> Vec<(String, Row)> {
    let mut connection = world.redis_connection();
    let keys: Vec<String> =
        redis::cmd("ZRANGE").arg(format!("{VIEW}:index")).arg(0).arg(-1).query(&mut connection).unwrap();
    let step = (keys.len() / 2_000).max(1);
    keys.into_iter()
        .step_by(step)
        .map(|key| {
            let row = redis::cmd("HGETALL").arg(format!("{VIEW}:row:{key}")).query(&mut connection).unwrap();
            (key, row)
        })
        .collect()
}

/// Takes groups and meta in one atomic read, again and again.
fn look(world: &World, groups: &[(String, Row)], over: &AtomicBool) -> Seen {
    let mut connection = world.redis_connection();
    let mut seen = Seen::default();
    let mut mixed_since: Option<Instant> = None;
    for chunk in groups.chunks(GROUPS_PER_SAMPLE).cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("HGETALL").arg(VIEW);
        for (key, _) in chunk {
            pipeline.cmd("HGETALL").arg(format!("{VIEW}:row:{key}"));
        }
        let mut answer: Vec<Row> = pipeline.query(&mut connection).unwrap();
        let rows = answer.split_off(1);
        seen.samples += 1;
        if answer[0]["mixed"] == "0" {
            mixed_since = None;
            for ((key, expected), row) in chunk.iter().zip(&rows) {
                assert_eq!(row, expected, "{key} in generation {}", answer[0]["generation"]);
            }
        } else {
            seen.mixed += 1;
            let since = mixed_since.get_or_insert_with(Instant::now);
            seen.longest_mixed = seen.longest_mixed.max(since.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    seen
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = run();
    println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
    result
}

#[test]
#[ignore = "takes minutes: by hand"]
fn a_replay_of_a_long_stream_beside_a_live_generation() {
    let Some(world) = World::with_topic("soak-generations", 4, "watermark = \"dense\"") else { return };
    // 1. The live generation takes the whole stream.
    let file = stream(&world);
    let (mut fold, mut records, mut greatest) = (Fold::default(), 0u64, 0u64);
    for line in BufReader::new(std::fs::File::open(&file).unwrap()).lines() {
        let line = line.unwrap();
        fold.add(&line);
        let event: Value = serde_json::from_str(&line).unwrap();
        greatest = greatest.max(event["source_seq"].as_u64().unwrap());
        records += 1;
    }
    let path = file.display().to_string();
    timed("produced", || world.run(&["produce", &path, "--partitions", "4"]).expect(0));
    let mut live = world.maintain(&["--set", "base.cache_mib=64"]);
    timed("the live generation has read it", || {
        wait_for(&mut live, "read", LONG, || (world.published_offsets() >= records as i64).then_some(()));
    });
    let groups = quiet_groups(&world);
    println!("{records} records, watermark {}, {} groups", world.watermark(), world.meta()["groups"]);
    // 2. More comes all the time, and readers look all the time.
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = std::thread::scope(|scope| {
        let looking: Vec<_> = (0..2).map(|_| scope.spawn(|| look(&world, &groups, &over))).collect();
        scope.spawn(|| {
            let (producer, began) = (world.producer(), Instant::now());
            while !over.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed) + 1;
                let event = sale(greatest + number, number, &format!("Q{}", number % 50), 1);
                let event = event.replace("2026-10-01", "2031-01-01");
                producer.send(&world.topic, Some((number % 4) as i32), None, Some(event.as_bytes())).unwrap();
                sent.store(number, Ordering::Relaxed);
                let due = Duration::from_secs_f64(number as f64 / LIVE_RATE as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            producer.flush(Duration::from_secs(10)).unwrap();
        });
        let _over = SetOnDrop(&over);
        // 3. Killed twice in the middle, gone on with, proven.
        for _ in 0..2 {
            let begun = world.installation.start(world.installation.command(&["replay", "--why", "soak"]));
            std::thread::sleep(Duration::from_secs(8));
            begun.kill();
        }
        let running =
            |arguments: &[&str]| world.installation.start(world.installation.command(arguments)).wait(LONG);
        let built =
            timed("replay, the last part", || running(&["replay", "--format", "json"]).expect(0).json());
        println!("  read in the last part: {}", built["consumed"]);
        timed("certify", || running(&["generations", "certify", "2"]).expect(0));
        // 4. Shown, taken back, shown.
        for (what, arguments) in [
            ("activate", vec!["generations", "activate", "2"]),
            ("rollback", vec!["generations", "rollback"]),
            ("activate again", vec!["generations", "activate", "2"]),
        ] {
            timed(what, || running(&arguments).expect(0));
        }
        let diff = timed("diff", || running(&["generations", "diff", "1", "2"]).expect(0));
        println!("  {}", diff.out.trim());
        over.store(true, Ordering::Relaxed);
        looking.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for seen in &seen {
        println!(
            "a reader: {} samples, {} in a flagged window, the longest of which lasted {:.1} s",
            seen.samples,
            seen.mixed,
            seen.longest_mixed.as_secs_f64()
        );
        assert!(seen.mixed * 50 <= seen.samples, "flagged windows are under 2 % of samples");
        assert!(seen.longest_mixed < Duration::from_secs(30));
    }
    // 5. The end state equals the fold.
    let more = sent.load(Ordering::Relaxed);
    for number in 1..=more {
        let event = sale(greatest + number, number, &format!("Q{}", number % 50), 1);
        fold.add(&event.replace("2026-10-01", "2031-01-01"));
    }
    wait_for(&mut live, "the rest", LONG, || {
        (world.published_offsets() >= (records + more) as i64).then_some(())
    });
    assert_eq!(world.checksum(&[]), fold.checksum());
    println!("{more} events came meanwhile; the end state equals the fold: {}", fold.checksum());
}

/// Ends the other threads also where an assertion fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
