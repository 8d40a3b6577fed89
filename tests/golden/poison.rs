//! Nineteen messages that nobody can apply, each in the middle of good ones: kept with their bytes, counted,
//! in the way of nothing but the watermark, until an operator gives them up.

use driftless::pure::base::{Action, LetterState};
use serde_json::Value;

use crate::support::TABLE;
use crate::support::fixtures;
use crate::support::oracle::Oracle;
use crate::support::world::{Running, World, partition};

const PARTITIONS: i32 = 3;
/// After this delivery the base holds order line O2002/1 with sequence 1004, which some messages contradict.
const PLACE: usize = 4;
/// The partition of that delivery.
const PARTITION: i32 = 1;

/// What is expected of one message.
struct Case {
    name: &'static str,
    reason: &'static str,
    /// The watermark while the letter is open, everything else having been read: mode dense, where 1017 never
    /// comes, and mode sparse.
    held: [u64; 2],
}

const fn case(name: &'static str, reason: &'static str, dense: u64, sparse: u64) -> Case {
    Case { name, reason, held: [dense, sparse] }
}

/// A sequence that cannot be read holds the watermark where its partition was (1004); one that can be read,
/// just below it: 1003 where nothing was shown yet, and nowhere that matters where the message says 9001.
const CASES: [Case; 19] = [
    case("not_json", "not_json", 1_004, 1_004),
    case("not_object", "not_object", 1_004, 1_004),
    case("empty", "empty_value", 1_004, 1_004),
    case("bad_op", "unknown_operation", 1_016, 1_053),
    case("insert_without_row", "missing_row", 1_016, 1_053),
    case("missing_seq", "missing_field", 1_004, 1_004),
    case("key_mismatch", "key_mismatch", 1_016, 1_053),
    case("group_mismatch", "group_mismatch", 1_016, 1_053),
    case("float_quantity", "wrong_type", 1_016, 1_053),
    case("string_amount", "wrong_type", 1_016, 1_053),
    case("bool_quantity", "wrong_type", 1_016, 1_053),
    case("too_big", "number_out_of_range", 1_016, 1_053),
    case("bad_date", "not_a_date", 1_016, 1_053),
    case("date_time", "not_a_date", 1_016, 1_053),
    case("null_product", "null_not_allowed", 1_016, 1_053),
    case("same_id_other_content", "conflict", 1_004, 1_003),
    case("same_seq_other_id", "conflict", 1_004, 1_003),
    case("duplicate_json_key", "duplicate_field", 1_016, 1_053),
    case("nul_in_text", "nul_in_text", 1_016, 1_053),
];

/// Good deliveries on their partitions; old offsets once more are left out.
fn deliveries() -> Vec<(i32, Value)> {
    fixtures::documents("corrections/deliveries.jsonl")
        .into_iter()
        .filter(|delivery| delivery["kind"] != "consumer_redelivery")
        .map(|delivery| {
            (delivery["partition"].as_i64().expect("a partition") as i32, delivery["event"].clone())
        })
        .collect()
}

fn raw_messages() -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let poison = fixtures::documents("corrections/poison.jsonl");
    poison.iter().map(|line| (text(&line["case"]), text(&line["raw"]))).collect()
}

fn settled(world: &World) -> Value {
    serde_json::from_str(&world.meta()["settled"]).expect("JSON")
}

fn positions(world: &World) -> Value {
    serde_json::from_str(&world.meta()["positions"]).expect("JSON")
}

fn run_case(case: &Case, raw: &str, mode: usize) {
    let settings: &[&str] = [&["watermark=dense", "first_seq=1001"][..], &["watermark=sparse"][..]][mode];
    let world = World::new(settings, PARTITIONS);
    let name = case.name;
    let key = b"key \xff of the message";
    let mut oracle = Oracle::default();
    world.run(|running| {
        // 1. Good ones, the bad one, the rest.
        let mut offset = 0;
        for (count, (number, event)) in deliveries().iter().enumerate() {
            world.append(*number, event);
            oracle.deliver(event);
            running.ingest_all();
            if count + 1 == PLACE {
                offset = world.log.append(&partition(PARTITION), Some(key), Some(raw.as_bytes()));
                running.ingest_all();
            }
        }
        running.publish_all();
        // 2. Everything else is as if it had never been.
        assert_eq!(world.base_rows("first"), oracle.base_rows(), "{name}");
        assert_eq!(world.published(), oracle.published(), "{name}");
        // 3. Kept, whole, with its reason, and counted.
        let letters = running.letters();
        assert_eq!(letters.len(), 1, "{name}");
        let letter = &letters[0];
        assert_eq!(letter.reason, case.reason, "{name}: {}", letter.detail);
        assert_eq!((letter.at.clone(), letter.offset), (partition(PARTITION), offset), "{name}");
        assert_eq!(letter.value.as_deref(), Some(raw.as_bytes()), "{name}");
        assert_eq!(letter.key.as_deref(), Some(&key[..]), "{name}");
        assert_eq!(letter.state, LetterState::Open);
        let counts = running.counts();
        assert_eq!((counts.dead_letter, counts.consumed()), (1, 57), "{name}");
        // 4. Readers are told, and the watermark waits.
        let meta = world.meta();
        assert_eq!((meta["status"].as_str(), meta["dead_letters"].as_str()), ("incomplete", "1"), "{name}");
        assert_eq!(meta["watermark"], case.held[mode].to_string(), "{name}");
        assert_eq!(settled(&world)[partition(PARTITION).to_string()], offset, "{name}");
        assert_ne!(settled(&world), positions(&world));
        retry_changes_nothing(running, name);
    });
    // 5. Given up, after a restart.
    world.run(|running| {
        assert_eq!(running.watermark(), Some(case.held[mode]), "{name}: kept over a restart");
        let letter = running.letters()[0].id;
        let (done, answer) = running.request(&Action::WaiveLetter { letter, seq: None });
        assert!(done, "{name}: {answer}");
        let (done, _) = running.request(&Action::WaiveLetter { letter, seq: None });
        assert!(!done, "{name}: it is open no more");
        if mode == 0 {
            assert_eq!(running.watermark(), Some(1_016), "{name}");
            let hole = Action::WaiveSeq { table: TABLE.to_owned(), from: 1_017, to: 1_017 };
            assert!(running.request(&hole).0, "{name}");
        }
        running.publish_all();
        let meta = world.meta();
        assert_eq!(meta["watermark"], ["1055", "1053"][mode], "{name}");
        assert_eq!(meta["dead_letters"], "0", "{name}");
        assert_ne!(meta["status"], "incomplete", "{name}");
        assert_eq!(settled(&world), positions(&world), "{name}");
        assert_eq!(world.published(), oracle.published(), "{name}");
        let letters = running.letters();
        assert_eq!((letters[0].state, letters[0].who.as_str()), (LetterState::Waived, "tester"), "{name}");
        assert_eq!(running.counts().dead_letter, 1, "{name}: it was consumed as one");
    });
}

/// Trying again does not help a message that cannot be read.
fn retry_changes_nothing(running: &mut Running<'_>, name: &str) {
    // A conflict is one only while the stored row has that sequence; this one has moved on.
    if running.letters()[0].reason == "conflict" {
        return;
    }
    let before = running.counts();
    let (done, answer) = running.request(&Action::RetryLetters { letter: None });
    assert!(done, "{name}: {answer}");
    assert_eq!((&answer["retried"], &answer["still_open"]), (&0.into(), &1.into()), "{name}");
    assert_eq!(running.counts(), before, "{name}");
}

#[test]
fn p10_every_bad_message_is_kept_counted_and_told_and_holds_the_watermark_until_it_is_waived() {
    let messages = raw_messages();
    assert_eq!(messages.len(), CASES.len());
    for (case, (name, raw)) in CASES.iter().zip(&messages) {
        assert_eq!(case.name, name, "the fixture's order");
        for mode in [0, 1] {
            run_case(case, raw, mode);
        }
    }
}

#[test]
fn p10_a_tombstone_is_control_and_in_nobodys_way() {
    let world = World::new(&["watermark=dense", "first_seq=1001"], PARTITIONS);
    world.run(|running| {
        world.log.append(&partition(0), Some(b"{\"order_id\":\"O2001\",\"line_no\":1}"), None);
        world.log.append_marker(&partition(0));
        running.catch_up();
        for (number, event) in deliveries() {
            world.append(number, &event);
        }
        running.catch_up();
        let counts = running.counts();
        assert_eq!((counts.control, counts.dead_letter), (2, 0));
        assert!(running.letters().is_empty());
        assert_eq!(running.watermark(), Some(1_016));
    });
}

#[test]
fn p10_a_conflict_that_is_tried_again_after_its_row_moved_on_is_stale_and_counted_once() {
    let world = World::new(&["watermark=sparse"], PARTITIONS);
    let (_, raw) = raw_messages().into_iter().find(|(name, _)| name == "same_seq_other_id").expect("a case");
    let mut oracle = Oracle::default();
    world.run(|running| {
        for (count, (number, event)) in deliveries().iter().enumerate() {
            world.append(*number, event);
            oracle.deliver(event);
            running.ingest_all();
            if count + 1 == PLACE {
                world.log.append(&partition(PARTITION), None, Some(raw.as_bytes()));
                running.ingest_all();
                let (_, answer) = running.request(&Action::RetryLetters { letter: None });
                assert_eq!(answer["still_open"], 1, "the stored row still contradicts it");
            }
        }
        let before = running.counts();
        let (_, answer) = running.request(&Action::RetryLetters { letter: None });
        assert_eq!(answer["retried"], 1, "{answer}");
        let after = running.counts();
        assert_eq!((after.stale, after.dead_letter), (before.stale + 1, before.dead_letter - 1));
        assert_eq!(after.consumed(), before.consumed());
        running.publish_all();
        assert_eq!(world.meta()["watermark"], "1053");
        assert_eq!(world.published(), oracle.published());
        assert_eq!(running.letters()[0].state, LetterState::Retried);
    });
}
