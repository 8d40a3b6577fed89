//! Promises that show at the seams: a batch that fails half-way (P1), a log that lost what was not read (P11), and
//! the limits of every batch (P12). Log and store are in memory, the base is real.

mod support;

#[path = "promises/watched_base.rs"]
mod watched_base;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use driftless::io::sqlite::{SqliteReader, SqliteWriter};
use driftless::io::twin::view_store::TwinStore;
use driftless::pipeline::ingest::Ingest;
use driftless::pipeline::maintain::{self, Board, MaintainSettings, Ports, Publishing};
use driftless::pipeline::publish::{PublishSettings, Succession};
use driftless::pipeline::read::{ReadSettings, Reader, plan_start};
use driftless::ports::{
    BaseWriter, KeyScan, Meta, Outline, PortError, PortResult, RangeRead, StoredFields, StoredGroup,
    ViewStore,
};
use driftless::pure::backoff::Backoff;
use driftless::pure::base::Action;
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{Publish, PublishReply};
use serde_json::{Value, json};

use support::oracle::Oracle;
use support::world::{World, partition};
use watched_base::WatchedBase;

/// The newest state of a line.
fn event(seq: u64, order: u64, product: &str) -> Value {
    let order = format!("O{order}");
    json!({
        "event_id": format!("EV{seq}"), "source_seq": seq, "op": "U", "order_id": order, "line_no": 1,
        "row": {
            "order_id": order, "line_no": 1, "order_date": "2026-09-22", "product_id": product,
            "customer_id": "C1", "channel": "web", "quantity": 1, "amount_cents": 100 + seq, "cost_cents": 1,
            "status": "paid",
        },
    })
}

/// Lines that move between products, on two partitions, with a message that is no event among them.
fn busy_world(events: u64) -> (World, Vec<Value>) {
    let world = World::new(&["watermark=dense"], 2);
    let events: Vec<Value> =
        (1..=events).map(|seq| event(seq, seq % 50, &format!("P{}", seq % 17))).collect();
    for (index, event) in events.iter().enumerate() {
        world.append((index % 2) as i32, event);
    }
    world.log.append(&partition(0), None, Some(b"no event"));
    (world, events)
}

/// Applies everything in one batch that fails at a call of the base. Whether it failed.
fn apply_failing_after(world: &World, calls: u64) -> bool {
    let mut writer =
        SqliteWriter::open(&world.base_settings("first"), &world.catalog, 77, 0).expect("the base opens");
    let known = writer.partitions().expect("positions");
    let mut log = world.log.client();
    let planned = plan_start(&mut log, &world.catalog, &known, &[None]).expect("a plan");
    let settings =
        ReadSettings { batch_records_max: 1_000, partition_refresh: Duration::ZERO, through: None };
    let mut reader =
        Reader::start(&mut log, world.catalog.clone(), &planned, vec![None], settings).expect("a reader");
    let items = reader.poll(Duration::ZERO).expect("items");
    let (mut base, watch) = WatchedBase::new(&mut writer);
    let mut ingest = Ingest::open(&mut base, world.catalog.clone(), world.clock.clone(), &planned)
        .expect("a restored state");
    watch.fail_after(calls);
    ingest.apply(&items).is_err()
}

#[test]
fn p1_a_batch_that_fails_at_any_call_leaves_the_base_as_it_was() {
    let mut calls = 0;
    loop {
        let (world, events) = busy_world(60);
        let before = world.run(|running| running.head());
        if !apply_failing_after(&world, calls) {
            assert!(calls > 100, "a batch makes many calls, {calls} were tried");
            return;
        }
        assert_eq!(world.base_rows("first"), Vec::<Vec<Value>>::new(), "call {calls}");
        let after = world.run(|running| running.head());
        assert_eq!((after.commit, after.positions), (before.commit, before.positions), "call {calls}");
        world.run(|running| running.catch_up());
        assert_eq!(world.base_rows("first"), Oracle::of(&events).base_rows(), "call {calls}");
        calls += 1 + calls / 8;
    }
}

/// What a start says after the log was tampered with; the base and the store must be as before.
fn refused_start(tamper: impl FnOnce(&World)) -> PortError {
    let (world, _) = busy_world(20);
    world.run(|running| running.catch_up());
    let (rows, published) = (world.base_rows("first"), world.published());
    tamper(&world);
    let refusal = world.try_run_on("first", |running| {
        let items = running.reader.poll(Duration::ZERO)?;
        running.ingest.apply(&items).map(|_| ())
    });
    assert_eq!((world.base_rows("first"), world.published()), (rows, published));
    match refusal {
        Err(error) | Ok(Err(error)) => error,
        Ok(Ok(())) => panic!("the start goes on as if nothing had happened"),
    }
}

#[test]
fn p11_a_log_without_what_was_not_read_stops_the_start_and_names_the_place() {
    let cut = refused_start(|world| {
        for seq in 900..909 {
            world.append(0, &event(seq, 1, "P1"));
        }
        world.log.cut_below(&partition(0), 15);
    });
    let shorter = refused_start(|world| world.log.lose_tail(&partition(1), 3));
    let gone = refused_start(|world| world.log.remove_partition(&partition(1)));
    let another = refused_start(|world| {
        world.log.recreate("sales.changes");
        for seq in 0..40 {
            world.append(seq % 2, &event(500 + seq as u64, 3, "P9"));
        }
    });
    for (error, place) in [(cut, ":0"), (shorter, ":1"), (gone, ":1"), (another, "sales.changes:")] {
        assert!(!error.is_transient(), "{error}");
        assert!(error.what.contains(place), "{error}");
        assert!(error.hint.is_some(), "{error}");
    }
}

#[test]
fn p11_a_first_start_needs_the_whole_log_or_a_word() {
    let begin_late = |setting: &[&str]| {
        let world = World::new(setting, 1);
        for seq in 1..=9 {
            world.append(0, &event(seq, seq, "P1"));
        }
        world.log.cut_below(&partition(0), 4);
        world
    };
    let refused = begin_late(&["watermark=sparse"]).try_run_on("first", |_| ()).expect_err("no start");
    assert!(refused.to_string().contains("driftless seed"), "{refused}");
    let world = begin_late(&["watermark=sparse", "start=log-start"]);
    world.run(|running| running.catch_up());
    assert_eq!(world.meta()["history_from"], r#"{"sales.changes:0":4}"#);
}

#[test]
fn p5_a_conflict_holds_the_watermark_below_its_event_whatever_follows_in_its_batch() {
    let world = World::new(&["watermark=dense"], 1);
    for (seq, product) in [(1, "P1"), (2, "P2"), (3, "P3"), (3, "P9"), (4, "P4"), (5, "P5")] {
        world.append(0, &event(seq, seq, product));
    }
    world.run(|running| {
        running.catch_up();
        assert_eq!(running.watermark(), Some(2));
    });
}

#[test]
fn p5_a_partition_that_nobody_knows_yet_lifts_and_confirms_nothing() {
    let world = World::new(&["watermark=append_ordered"], 1);
    world.append(0, &event(100, 1, "P1"));
    world.run(|running| {
        running.catch_up();
        running.probe();
        running.publish_all();
        assert_eq!(running.watermark(), Some(100));
        let confirmed = world.meta()["confirmed_at"].clone();
        // 101 goes to a partition that was added, and after its acknowledgement 102 to the old one.
        world.clock.advance(60_000);
        world.log.add_partition(&partition(1));
        world.append(1, &event(101, 2, "P1"));
        world.append(0, &event(102, 3, "P1"));
        running.catch_up();
        running.probe();
        running.publish_all();
        assert_eq!(running.watermark(), Some(100));
        assert_eq!(world.meta()["confirmed_at"], confirmed);
    });
    world.run(|running| {
        running.catch_up();
        running.probe();
        assert_eq!(running.watermark(), Some(102));
    });
}

#[test]
fn p5_a_standby_that_is_behind_is_not_confirmed_by_what_another_base_was() {
    let world = World::new(&["watermark=dense"], 1);
    world.append(0, &event(1, 1, "P1"));
    world.run(|running| {
        running.catch_up();
        running.probe();
        world.clock.advance(2_000);
        running.publish_all();
    });
    assert_ne!(world.meta()["confirmed_at"], "");
    world.append(0, &event(2, 2, "P1"));
    world.run_on("second", |running| {
        // It stands by, having read nothing; then the view is gone and it publishes what it has.
        for _ in 0..3 {
            running.step().expect("a reachable store");
        }
        world.store.flush_all();
        for _ in 0..3 {
            running.step().expect("a reachable store");
        }
    });
    assert_eq!((world.meta()["confirmed_at"].as_str(), world.meta()["status"].as_str()), ("", "stale"));
}

#[test]
fn p5_a_waiver_names_no_sequence_where_there_are_no_holes() {
    let world = World::new(&["watermark=sparse"], 1);
    world.append(0, &event(1, 1, "P1"));
    world.log.append(&partition(0), None, Some(b"no event"));
    world.append(0, &event(2, 2, "P2"));
    world.run(|running| {
        running.catch_up();
        let (done, answer) = running.request(&Action::WaiveLetter { letter: 1, seq: Some(1_000) });
        assert!(!done, "{answer}");
        assert_eq!(running.watermark(), Some(1));
        assert!(running.request(&Action::WaiveLetter { letter: 1, seq: None }).0);
        assert_eq!(running.watermark(), Some(2));
    });
}

/// A store that asserts how much one call carries.
struct Bounded {
    inner: TwinStore,
    groups_max: usize,
}

impl ViewStore for Bounded {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        self.inner.read_meta(object)
    }

    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply> {
        assert!(
            publish.groups.len() <= self.groups_max,
            "P12: {} groups in one script",
            publish.groups.len()
        );
        self.inner.publish(object, columns, publish)
    }

    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead> {
        assert!(limit <= 1_000, "P12: a range of {limit} rows");
        self.inner.read_range(object, after, through, limit)
    }

    fn read_rows(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)> {
        self.inner.read_rows(object, keys)
    }

    fn read_groups(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)> {
        self.inner.read_groups(object, keys)
    }

    fn read_outline(&mut self, object: &str) -> PortResult<Outline> {
        self.inner.read_outline(object)
    }

    fn scan_strays(&mut self, object: &str, cursor: u64) -> PortResult<KeyScan> {
        self.inner.scan_strays(object, cursor)
    }
}

#[test]
fn p12_batches_commits_and_scripts_keep_to_their_limits_and_end_in_the_same_state() {
    let (world, events) = busy_world(600);
    let settings = MaintainSettings {
        read: ReadSettings { batch_records_max: 7, partition_refresh: Duration::from_secs(5), through: None },
        publish: PublishSettings { groups_per_script_max: 3, beat_ms: 1_000, takeover_ms: 5_000 },
        read_batches_max: 2,
        commit_records_max: 20,
        confirm: Duration::from_millis(10),
        backoff: Backoff::default(),
        once: true,
        succession: Succession::default(),
        records_per_second_max: None,
        random: 5,
    };
    let base_settings = world.base_settings("first");
    let mut writer = SqliteWriter::open(&base_settings, &world.catalog, 5, 0).expect("the base opens");
    let mut reader = SqliteReader::open(&base_settings, &world.catalog).expect("the base opens");
    let (mut base, watch) = WatchedBase::new(&mut writer);
    let (mut log, mut ends) = (world.log.client(), world.log.client());
    let mut store = Bounded { inner: world.store.clone(), groups_max: 3 };
    let ports = Ports {
        log: &mut log,
        ends: &mut ends,
        base: &mut base,
        publishing: Some(Publishing { reader: &mut reader, store: &mut store }),
        clock: world.clock.clone(),
        checkpoint: &mut || (),
    };
    let board = Board::default();
    maintain::run(ports, &world.catalog, &settings, &AtomicBool::new(false), &board)
        .expect("a run to the end");
    assert!(watch.rows_max.load(Ordering::Relaxed) <= 20, "rows of one commit");
    assert!(watch.calls.load(Ordering::Relaxed) > 600);
    let oracle = Oracle::of(&events);
    drop(writer);
    assert_eq!(world.base_rows("first"), oracle.base_rows());
    assert_eq!(world.published(), oracle.published());
    assert_eq!(board.numbers().consumed, 601);
}
