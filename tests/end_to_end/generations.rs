//! A candidate beside the live generation: built from the log or from rows, killed and gone on with, proven, shown,
//! taken back. Readers look all the time and must never see two generations at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::fold::Fold;
use crate::world::{VIEW, World, sale, sales, wait_for};

/// Meta and the one group's total, of one instant.
fn sample(connection: &mut redis::Connection) -> (Value, Option<u64>) {
    let row = format!("{VIEW}:row:2026-10-01:P1");
    let (meta, gmv): (std::collections::BTreeMap<String, String>, Option<String>) = redis::pipe()
        .atomic()
        .cmd("HGETALL")
        .arg(VIEW)
        .cmd("HGET")
        .arg(row)
        .arg("gmv_cents")
        .query(connection)
        .unwrap();
    (serde_json::json!(meta), gmv.map(|gmv| gmv.parse().unwrap()))
}

/// Looks until it is told to end: one partition, one cent a sale and sequence, so the total is the watermark.
fn look_all_the_time(world: &World, over: &AtomicBool) -> u64 {
    let mut connection = world.redis_connection();
    let (mut samples, mut watermark) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let (meta, gmv) = sample(&mut connection);
        let text = |name: &str| meta[name].as_str().unwrap_or_default().to_owned();
        let shown: u64 = text("watermark").parse().unwrap_or(0);
        assert_eq!(text("mixed"), "0", "so few groups are one step: {meta}");
        assert_eq!(gmv, Some(shown), "rows and watermark belong together: {meta}");
        assert!(shown >= watermark, "W fell from {watermark} to {shown}: {meta}");
        watermark = shown;
        samples += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    samples
}

fn generation(world: &World) -> String {
    world.meta()["generation"].clone()
}

fn is(world: &World, name: &str) -> String {
    let list = world.run(&["generations", "list", "--format", "json"]).expect(0).json();
    let entries = list["generations"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{list}"));
    entry["is"].as_str().unwrap().to_owned()
}

#[test]
fn a_candidate_is_replayed_beside_a_stream_killed_twice_certified_shown_and_taken_back() {
    let Some(world) = World::with_topic("generations", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=6_000));
    let mut live = world.maintain(&[]);
    world.wait_published(&mut live, 6_000);
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(6_000));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| look_all_the_time(&world, &over));
        scope.spawn(|| {
            let producer = world.producer();
            while !over.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed) + 1;
                let event = sale(number, number, "P1", 1);
                producer.send(&world.topic, Some(0), None, Some(event.as_bytes())).unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            producer.flush(Duration::from_secs(10)).unwrap();
        });
        let _over = SetOnDrop(&over);
        // 1. Killed twice in the middle of the replay; meanwhile it can be neither certified nor shown.
        let replay = ["replay", "--rate", "2500", "--why", "proof", "--format", "json"];
        for _ in 0..2 {
            let begun = world.installation.start(world.installation.command(&replay));
            std::thread::sleep(Duration::from_millis(900));
            begun.kill();
            assert_eq!(is(&world, "2"), "being built");
            world.run(&["generations", "certify", "2"]).expect(2).says(&["still being built"]);
            world.run(&["generations", "activate", "2"]).expect(1).says(&["still being built"]);
        }
        let built = world.run(&replay).expect(0).json();
        assert!(built["consumed"].as_u64().unwrap() < 6_000, "it went on where it had stopped: {built}");
        // 2. It follows the log beside the live one; shown only with a certificate.
        wait_for(&mut live, "a candidate", Duration::from_secs(5), || {
            (is(&world, "2") == "candidate").then_some(())
        });
        world.run(&["generations", "activate", "2"]).expect(1).says(&["not certified"]);
        world.run(&["generations", "certify", "2"]).expect(0);
        assert_eq!(generation(&world), "1");
        world
            .run(&["generations", "activate", "2", "--why", "proven"])
            .expect(0)
            .says(&["is live and shown"]);
        assert_eq!((generation(&world).as_str(), is(&world, "1").as_str()), ("2", "way back"));
        // 3. Back and forth, without replay. The one before is not dropped by mistake.
        world.run(&["generations", "drop", "1"]).expect(2).says(&["way back"]);
        world.run(&["generations", "rollback", "--why", "in doubt"]).expect(0);
        assert_eq!(generation(&world), "1");
        world.run(&["generations", "rollback"]).expect(0);
        assert_eq!(generation(&world), "2");
        over.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 200, "readers looked");
    });
    // 4. The end state equals the fold of all events, in both generations.
    let last = sent.load(Ordering::Relaxed);
    world.wait_published(&mut live, last as i64);
    let mut fold = Fold::default();
    sales(1..=last).for_each(|event| fold.add(&event));
    assert_eq!(world.checksum(&[]), fold.checksum());
    world.run(&["generations", "diff", "1", "2"]).expect(0).says(&["0 different"]);
    world.run(&["generations", "drop", "1", "--force", "--why", "done"]).expect(0);
    assert!(!world.installation.files().contains(&"base.db".to_owned()));
    live.signal("TERM");
    live.wait(Duration::from_secs(10)).expect(0);
    // 5. The next start goes on with what is live.
    world.send(0, sales([last + 1]));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.gmv("P1"), generation(&world).as_str()), (Some(last as i64 + 1), "2"));
}

/// Ends the other threads also where an assertion fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_replay_to_a_sequence_shows_the_view_as_it_stood_then_and_is_never_called_fresh() {
    let Some(world) = World::with_topic("to-seq", 2, "watermark = \"dense\"") else { return };
    // Sequence 4 takes back what sequence 2 sold; spread over partitions, out of order.
    let corrected = sale(4, 2, "P1", 1).replace("\"paid\"", "\"cancelled\"");
    world.send(0, [sale(1, 1, "P1", 1), corrected, sale(5, 5, "P1", 7)]);
    world.send(1, [sale(3, 3, "P1", 1), sale(2, 2, "P1", 1)]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.gmv("P1"), world.watermark().as_str()), (Some(9), "5"));
    world.run(&["replay", "--to-seq", "3", "--dry-run"]).expect(0).says(&["5 offsets would be read"]);
    world.run(&["replay", "--to-seq", "3", "--name", "then", "--why", "as it stood"]).expect(0);
    let diff = world.run(&["generations", "diff", "1", "then", "--format", "json"]).expect(1).json();
    let shown = &diff["views"][0]["differences"][0];
    assert_eq!(
        (&shown["first"]["gmv_cents"], &shown["second"]["gmv_cents"]),
        (&"9".into(), &"3".into()),
        "{diff}"
    );
    world.run(&["generations", "certify", "then"]).expect(0).says(&["watermark 3"]);
    // An older state is shown only on an operator's explicit word.
    world
        .run(&["generations", "activate", "then"])
        .expect(1)
        .says(&["watermark 3, live 5", "--allow-behind"]);
    world.run(&["generations", "activate", "then", "--allow-behind"]).expect(0);
    assert_eq!((world.gmv("P1"), world.watermark().as_str()), (Some(3), "3"));
    assert_eq!(world.meta()["status"], "stale");
    // It stands still, whatever comes.
    world.send(0, [sale(6, 6, "P1", 1)]);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.gmv("P1"), world.meta()["confirmed_at"].as_str()), (Some(3), ""));
    world.run(&["generations", "rollback"]).expect(0);
    assert_eq!((world.gmv("P1"), world.watermark().as_str()), (Some(10), "6"));
}

#[test]
fn p2_a_row_that_the_base_lost_comes_back_by_reading_again_and_nothing_else_changes() {
    let Some(world) = World::with_topic("again", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=50).chain(sales(10..=12)));
    world.run(&["run", "--once"]).expect(0);
    let before = world.published();
    let lose = |order: &str| {
        let base = rusqlite::Connection::open(world.installation.path("base.db")).unwrap();
        let lost =
            base.execute("DELETE FROM driftless_rows_fact_sales WHERE order_id = ?1", [order]).unwrap();
        assert_eq!(lost, 1);
    };
    let partitions = world.status()["partitions"].clone();
    let counts = |answer: &Value| {
        let classes = &answer["answer"]["classes"];
        (classes["applied"].as_u64().unwrap(), classes["duplicate"].as_u64().unwrap())
    };
    // 1. Without a maintainer: said first, then done.
    lose("O20");
    let trial = world.run(&["replay", "--into", "live", "--dry-run", "--format", "json"]).expect(0).json();
    assert_eq!(counts(&trial), (1, 52));
    assert!(world.installation.files().iter().all(|name| !name.contains("dry-run")));
    let again = world.run(&["replay", "--into", "live", "--format", "json"]).expect(0).json();
    assert_eq!(counts(&again), (1, 52));
    // 2. Beside one, from a sequence and from an offset.
    let mut live = world.maintain(&[]);
    for (order, from) in [("O30", "seq:25".to_owned()), ("O40", format!("offsets:{}:0=39", world.topic))] {
        lose(order);
        let again = world.run(&["replay", "--into", "live", "--from", &from, "--format", "json"]).expect(0);
        assert_eq!(counts(&again.json()).0, 1, "{}", again.text());
    }
    // 3. Offsets are counted once, and what is published is what was.
    wait_for(&mut live, "published as before", Duration::from_secs(10), || {
        let strip =
            |mut shown: std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>>| {
                let meta = shown.get_mut("meta").unwrap();
                meta.retain(|name, _| name != "version" && name != "nonce");
                shown
            };
        (strip(world.published()) == strip(before.clone())).then_some(())
    });
    assert_eq!(world.status()["partitions"], partitions);
    let refused = format!("offsets:{}:0=60", world.topic);
    world
        .run(&["replay", "--into", "live", "--from", &refused])
        .expect(2)
        .says(&["past the base's position 53"]);
    assert!(!live.has_ended(), "{}", live.log());
}

#[test]
fn a_changed_contract_is_built_beside_the_old_one_and_replaces_it_only_when_activated() {
    let Some(world) = World::with_topic("contract", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=20));
    let old = driftless::example::CONTRACT;
    let new = old.replace("sum(quantity)", "max(quantity)");
    let mut live = world.maintain(&[]);
    world.wait_published(&mut live, 20);
    let hash = world.meta()["contract_hash"].clone();
    world.installation.write("new.json", &new);
    // 1. Built from rows while the live one goes on; its readers are named before they are concerned.
    world
        .run(&["generations", "build", "--contract", "agg_daily_product.json"])
        .expect(2)
        .says(&["as the live generation has it"]);
    world.run(&["generations", "build", "--contract", "new.json", "--why", "largest"]).expect(0);
    world.run(&["generations", "certify", "2"]).expect(0);
    world.run(&["generations", "activate", "2", "--dry-run"]).expect(0).says(&[
        "CONTRACT_MISMATCH",
        &hash,
        "certified sales dashboard",
        "Sales Ops",
    ]);
    world.send(0, sales(21..=25));
    world.wait_published(&mut live, 25);
    assert_eq!(world.meta()["contract_hash"], hash);
    // 2. Shown; the maintainer goes on with it though the file says the old one. What was out of use stays so.
    world.run(&["view", "disable", "agg_daily_product", "--why", "under review"]).expect(0);
    world.run(&["generations", "activate", "2"]).expect(0);
    wait_for(&mut live, "disabled", Duration::from_secs(5), || {
        (world.meta()["status"] == "disabled").then_some(())
    });
    world.run(&["view", "enable", "agg_daily_product", "--why", "reviewed"]).expect(0);
    assert_ne!(world.meta()["contract_hash"], hash);
    world.send(0, sales(26..=30));
    world.wait_published(&mut live, 30);
    let row: std::collections::BTreeMap<String, String> = redis::cmd("HGETALL")
        .arg(format!("{VIEW}:row:2026-10-01:P1"))
        .query(&mut world.redis_connection())
        .unwrap();
    assert_eq!((row["units"].as_str(), row["gmv_cents"].as_str()), ("1", "30"));
    world.checksum(&[]);
    live.signal("TERM");
    live.wait(Duration::from_secs(10)).expect(0).says(&["is that of another generation"]);
    // 3. With the new file in place the warning is gone; a third one is refused with what to do.
    world.installation.write("agg_daily_product.json", &new);
    let quiet = world.run(&["run", "--once"]).expect(0).text();
    assert!(!quiet.contains("another generation"), "{quiet}");
    world.installation.write("agg_daily_product.json", old.replace("sum(quantity)", "min(quantity)"));
    world
        .run(&["run", "--once"])
        .expect(2)
        .says(&["never changed in place", "driftless generations build --contract"]);
    world.run(&["status"]).says(&["generation 2"]);
}

#[test]
fn p11_a_log_that_was_cut_becomes_a_new_generation_only_on_an_operators_word() {
    let Some(world) = World::with_topic("cut-generation", 1, "watermark = \"dense\"") else { return };
    world.send(0, sales(1..=10));
    world.run(&["run", "--once"]).expect(0);
    world.send(0, sales(11..=20));
    world.admin().delete_records_below(&world.place(0), 15).unwrap();
    world.run(&["run", "--once"]).expect(2).says(&["goes on at offset 10", "driftless replay"]);
    // 1. What is left is built only where the topic says that it may begin there.
    let cut = "topic.0.start=log-start";
    world.run(&["replay"]).expect(2).says(&["begins at offset 15", "log-start"]);
    world.run(&["replay", "--set", cut, "--why", "the topic was cut"]).expect(0);
    let lost = world.run(&["generations", "diff", "1", "2", "--format", "json"]).expect(1).json();
    assert_eq!(lost["views"][0]["differences"][0]["first"]["gmv_cents"], "10", "{lost}");
    world.run(&["generations", "certify", "2"]).expect(0);
    // 2. Shown only on a second word, since it knows less than readers have seen.
    world.run(&["generations", "activate", "2", "--set", cut]).expect(1).says(&["watermark 0, live 10"]);
    assert_eq!((world.gmv("P1"), generation(&world).as_str()), (Some(10), "1"));
    world.run(&["generations", "activate", "2", "--allow-behind", "--set", cut]).expect(0);
    assert_eq!((world.gmv("P1"), generation(&world).as_str()), (Some(5), "2"));
    assert!(world.meta()["history_from"].contains("15"), "{:?}", world.meta());
    // 3. The sequences that are gone are given up on record, and the watermark is true again.
    world.run(&["dlq", "waive", "--table", "fact_sales", "--seq", "1-15", "--why", "cut"]).expect(0);
    world.run(&["run", "--once", "--set", cut]).expect(0);
    assert_eq!(world.watermark(), "20");
    world.run(&["reconcile"]).expect(0);
}
