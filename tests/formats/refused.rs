//! What a format cannot read rightly is refused: by the configuration where it can be seen there, as a dead letter
//! with a reason that says what to do where only a message shows it.

use driftless::pure::event::{Decoded, Image, Reason, Rejection};
use driftless::pure::formats::Record;
use serde_json::{Value, json};

use super::messages::{append, catalog, json as parse, messages, try_catalog, world};

fn decode(
    file: &str,
    settings: &[&str],
    key: Option<&Value>,
    value: Option<&Value>,
) -> Result<Decoded, Rejection> {
    let (key, value) = (key.map(Value::to_string), value.map(Value::to_string));
    let (key, value) = (key.as_ref().map(String::as_bytes), value.as_ref().map(String::as_bytes));
    catalog(file, settings).topics[0].decoder.decode(&Record { offset: 7, key, value, headers: &[] })
}

#[track_caller]
fn refused(answer: Result<Decoded, Rejection>, reason: Reason, says: &str) {
    let rejection = answer.expect_err(says);
    assert_eq!(rejection.reason, reason, "{}", rejection.detail);
    assert!(rejection.detail.contains(says), "{}", rejection.detail);
}

/// The nth recorded message of a folder that has `part` in its value: key and value.
fn recorded(name: &str, part: &str) -> (Value, Value) {
    let messages = messages(name);
    let found =
        messages.iter().find(|message| message.value.as_deref().is_some_and(|value| value.contains(part)));
    let found = found.unwrap_or_else(|| panic!("{name} has no {part}"));
    (parse(found.key.as_deref().unwrap_or("null")), parse(found.value.as_deref().expect("a value")))
}

const PLAIN: &str = "debezium_plain/driftless.toml";
const UNWRAPPED: &str = "debezium_unwrapped/driftless.toml";
const OFFSETS: [&str; 2] = ["topic.0.watermark=offsets", "topic.0.shared_seq=false"];

#[test]
fn settings_that_would_lose_or_misread_events_are_refused_with_what_to_do() {
    for (name, settings, says) in [
        ("debezium", &["topic.0.watermark=dense", "topic.0.shared_seq=false"][..], "have holes"),
        ("debezium", &["topic.0.watermark=append_ordered", "topic.0.shared_seq=false"], "have holes"),
        ("debezium", &["topic.0.shared_seq=false"], "shared_seq = true"),
        ("debezium", &["topic.0.time_zone=Mars/Olympus"], "no time zone"),
        ("debezium", &["topic.0.source_table=a..b"], "names no table"),
        ("debezium", &["topic.0.deletes=rewrite"], "has no such setting"),
        ("debezium", &["topic.0.columns.channels.as=text"], "has no column channels"),
        ("debezium", &["topic.0.columns.channel.as=days"], "cannot hold it"),
        ("debezium", &["topic.0.columns.quantity.scale=2"], "only decimals"),
        (
            "debezium",
            &["topic.0.columns.quantity.as=decimal", "topic.0.columns.quantity.scale=19"],
            "from 0 to 18",
        ),
        ("debezium", &["topic.0.columns.quantity.as=decimal_bytes"], "bytes_scale"),
        ("debezium", &["topic.0.columns.line_no.header=line"], "reads no headers"),
        ("debezium_unwrapped", &["topic.0.deletes=drop"], "rows in the view that are gone"),
        ("debezium_unwrapped", &["topic.0.deletes=tombstone"], "no position"),
        ("upsert", &["topic.0.watermark=sparse"], "carry no sequence"),
        ("canal", &["topic.0.watermark=sparse"], "carry no sequence"),
        ("maxwell", &["topic.0.shared_seq=false"], "shared_seq = true"),
        ("native", &["topic.0.columns.status.header=status"], "primary key"),
        ("native", &["topic.0.columns.status.as=text"], "primary key"),
        ("native", &["topic.0.source_table=a"], "has no such setting"),
    ] {
        let error = try_catalog(&format!("{name}/driftless.toml"), settings).expect_err(says);
        assert!(error.contains(says) && error.contains("remedy: "), "{name} {settings:?}: {error}");
    }
    // What a format needs cannot be left out.
    let file = std::fs::read_to_string(super::messages::path("debezium/driftless.toml")).expect("a file");
    for (line, says) in [("source_table", "several tables"), ("watermark", "watermark")] {
        let contracts = concat!(env!("CARGO_MANIFEST_DIR"), "/contracts");
        let file = file.replace("../../../contracts", contracts);
        let without: Vec<&str> = file.lines().filter(|text| !text.starts_with(line)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("driftless.toml");
        std::fs::write(&path, without.join("\n")).expect("a file");
        let error = try_catalog(path.to_str().expect("UTF-8"), &[]).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn with_and_without_the_schema_envelope_a_message_says_the_same() {
    let (key, value) = recorded("debezium", "O1009");
    let file = "debezium/driftless.toml";
    let enveloped = decode(file, &[], Some(&key), Some(&value));
    assert!(matches!(enveloped, Ok(Decoded::Change { .. })), "{enveloped:?}");
    // Without its schema base64 is no decimal number, and nobody guesses.
    refused(decode(file, &[], Some(&key), Some(&value["payload"])), Reason::WrongType, "order_date");
    let told = [
        "topic.0.columns.order_date.as=days",
        "topic.0.columns.amount_cents.as=decimal_bytes",
        "topic.0.columns.amount_cents.bytes_scale=2",
        "topic.0.columns.cost_cents.as=decimal_bytes",
        "topic.0.columns.cost_cents.bytes_scale=2",
    ];
    assert_eq!(decode(file, &told, Some(&key["payload"]), Some(&value["payload"])), enveloped);
}

#[test]
fn the_kinds_of_record_that_stand_among_changes_are_control() {
    for value in [
        json!({"ts_ms": 1767225600000u64}),
        json!({"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": []}),
        json!({"ddl": "ALTER TABLE orders ADD x int", "databaseName": "shop", "tableChanges": []}),
        json!({"schema": {"type": "struct"}, "payload": null}),
    ] {
        assert_eq!(decode(PLAIN, &[], None, Some(&value)), Ok(Decoded::Control), "{value}");
    }
    assert_eq!(
        decode(PLAIN, &[], Some(&json!({"order_id": "O1", "line_no": 1})), None),
        Ok(Decoded::Control)
    );
    let (_, message) = recorded("debezium_plain", "\"op\":\"m\"");
    assert!(matches!(decode(PLAIN, &[], None, Some(&message)), Ok(Decoded::Heartbeat(_))));
}

#[test]
fn a_message_that_cannot_be_read_says_what_to_do() {
    let (key, value) = recorded("debezium_plain", "O1009");
    let with = |path: &str, new: Value| {
        let mut value = value.clone();
        *value.pointer_mut(path).expect(path) = new;
        decode(PLAIN, &[], Some(&key), Some(&value))
    };
    let without = |path: &str, name: &str| {
        let mut value = value.clone();
        value.pointer_mut(path).and_then(Value::as_object_mut).expect(path).remove(name);
        decode(PLAIN, &[], Some(&key), Some(&value))
    };
    refused(without("/after", "amount"), Reason::MissingColumn, "column amount, for amount_cents is missing");
    refused(with("/after", Value::Null), Reason::MissingRow, "after");
    refused(with("/op", json!("x")), Reason::UnknownOperation, "known are c, r, u, d, t and m");
    refused(with("/after/amount", json!("30.005")), Reason::NotExact, "amount_cents");
    refused(with("/after/amount", json!("NaN")), Reason::WrongType, "amount_cents");
    refused(with("/after/amount", json!(0.30000000000000004)), Reason::NotExact, "amount_cents");
    refused(with("/after/order_date", json!(2147483647)), Reason::NotADate, "order_date");
    refused(with("/after/order_date", json!("2026-10-01")), Reason::WrongType, "a number of days");
    refused(with("/after/quantity", json!("1")), Reason::WrongType, "quantity");
    refused(with("/after/status", Value::Null), Reason::NullNotAllowed, "status");
    refused(with("/after/line_no", json!("__debezium_unavailable_value")), Reason::MissingKey, "line_no");
    refused(with("/source/connector", json!("oracle")), Reason::NoPosition, "offsets");
    refused(without("/source", "lsn"), Reason::NoPosition, "lsn");
    refused(without("", "source"), Reason::MissingField, "source is missing");
    refused(without("", "op"), Reason::MissingField, "op is missing");
    let (_, flat) = recorded("debezium_unwrapped", "O1009");
    refused(decode(PLAIN, &[], Some(&key), Some(&flat)), Reason::MissingField, "debezium_unwrapped");
    // What could be read of the position is told, so that the watermark waits at the right place.
    assert!(without("/after", "amount").expect_err("no amount").seq.is_some());
}

#[test]
fn a_delete_and_a_move_need_a_key_that_tells_the_row() {
    let (key, delete) = recorded("debezium_plain", "\"op\":\"d\"");
    let mut bare = delete.clone();
    bare["before"] = Value::Null;
    let by_before = decode(PLAIN, &[], None, Some(&delete));
    assert!(matches!(&by_before, Ok(Decoded::Change { image: Image::Deleted(_), .. })), "{by_before:?}");
    assert_eq!(decode(PLAIN, &[], Some(&key), Some(&bare)), by_before, "the message key tells it too");
    refused(decode(PLAIN, &[], None, Some(&bare)), Reason::MissingKey, "names no row");
    // A connector that keys its messages by something else cannot say which row an update was.
    let (_, update) = recorded("debezium_plain", "\"op\":\"u\"");
    refused(
        decode(PLAIN, &[], Some(&json!({"id": 1})), Some(&update)),
        Reason::MissingKey,
        "primary_key must be",
    );
    let (_, insert) = recorded("debezium_plain", "\"op\":\"c\"");
    refused(decode(PLAIN, &OFFSETS, None, Some(&insert)), Reason::MissingKey, "no primary key");

    let (key, mut update) = recorded("debezium_plain", "\"op\":\"u\"");
    update["before"] = update["after"].clone();
    update["before"]["line_no"] = json!(99);
    match decode(PLAIN, &[], Some(&key), Some(&update)) {
        Ok(Decoded::Changes(changes)) => {
            assert_eq!(changes.len(), 2, "a changed key is a delete and a row");
            assert!(matches!(&changes[0].image, Image::Deleted(key) if key[1] == 99.into()), "{changes:?}");
        }
        other => panic!("{other:?}"),
    }
    update["after"]["channel"] = json!("__debezium_unavailable_value");
    refused(decode(PLAIN, &[], Some(&key), Some(&update)), Reason::NoStoredRow, "REPLICA IDENTITY FULL");
}

#[test]
fn an_update_that_leaves_a_column_out_needs_the_stored_row() {
    let world = world(catalog(PLAIN, &[]), 1);
    let recorded = messages("debezium_plain");
    let of_line = |message: &&super::messages::Message| {
        message.topic.as_deref() == Some("shop.public.order_lines")
            && message.key.as_deref().is_some_and(|key| key.contains("O1007"))
    };
    let [row, update] = recorded.iter().filter(of_line).collect::<Vec<_>>()[..] else {
        panic!("two messages")
    };
    assert!(update.value.as_deref().expect("a row").contains("__debezium_unavailable_value"));
    append(&world, update);
    world.run(|running| {
        running.ingest_all();
        assert_eq!(running.letters()[0].reason, "no_stored_row");
        // The row arrives after all; tried again, the update finds it.
        append(&world, row);
        running.ingest_all();
        let retry = driftless::pure::base::Action::RetryLetters { letter: None };
        assert_eq!(running.request(&retry).1["retried"], 1);
        let rows = world.base_rows("first");
        assert_eq!((&rows[0][6], rows[0][5].as_str().map(str::len)), (&json!(5), Some(2406)), "{rows:?}");
        // Delivered again it is the same event, not a conflict.
        append(&world, update);
        running.ingest_all();
        assert_eq!(running.counts().duplicate, 1);
    });
}

#[test]
fn deletes_that_an_unwrapping_transform_loses_are_noticed() {
    let (key, row) = recorded("debezium_unwrapped", "O1009");
    let without = |names: &[&str]| {
        let mut row = row.clone();
        names.iter().for_each(|name| drop(row.as_object_mut().expect("a row").remove(*name)));
        row
    };
    refused(
        decode(UNWRAPPED, &[], Some(&key), Some(&without(&["__deleted"]))),
        Reason::MissingField,
        "drops deletes",
    );
    refused(
        decode(UNWRAPPED, &[], Some(&key), Some(&without(&["__source_lsn"]))),
        Reason::NoPosition,
        "add.fields",
    );
    refused(
        decode(UNWRAPPED, &[], Some(&key), Some(&without(&["__table"]))),
        Reason::MissingField,
        "add.fields=table",
    );
    refused(decode(UNWRAPPED, &[], None, Some(&row)), Reason::MissingKey, "no key");
    let other = json!({"order_id": "O1009", "line_no": 77});
    refused(decode(UNWRAPPED, &[], Some(&other), Some(&row)), Reason::KeyMismatch, "line_no is 77");
    let (key, envelope) = recorded("debezium_plain", "O1009");
    refused(decode(UNWRAPPED, &[], Some(&key), Some(&envelope)), Reason::NotObject, "format = \"debezium\"");
    // Where offsets order, a null value can be the delete.
    let tombstones: Vec<&str> = OFFSETS.iter().copied().chain(["topic.0.deletes=tombstone"]).collect();
    let gone = decode(UNWRAPPED, &tombstones, Some(&key), None);
    assert!(matches!(gone, Ok(Decoded::Change { image: Image::Deleted(_), .. })), "{gone:?}");
    assert_eq!(decode(UNWRAPPED, &[], Some(&key), None), Ok(Decoded::Control));
}

#[test]
fn upsert_keys_are_objects_or_the_bare_value_and_agree_with_the_row() {
    const UPSERT: &str = "upsert/driftless.toml";
    let (key, row) = recorded("upsert", "O1009");
    assert!(decode(UPSERT, &[], Some(&key), Some(&row)).is_ok());
    let mut keyless = row.clone();
    keyless.as_object_mut().expect("a row").remove("line_no");
    assert_eq!(
        decode(UPSERT, &[], Some(&key), Some(&keyless)),
        decode(UPSERT, &[], Some(&key), Some(&row)),
        "the row may leave its key to the message's"
    );
    refused(
        decode(UPSERT, &[], Some(&json!({"order_id": "O1", "line_no": 1})), Some(&row)),
        Reason::KeyMismatch,
        "order_id",
    );
    refused(
        decode(UPSERT, &[], Some(&json!({"order_id": "O1"})), Some(&row)),
        Reason::MissingKey,
        "lacks a part",
    );
    refused(decode(UPSERT, &[], Some(&json!("O1009")), Some(&row)), Reason::MissingKey, "JSON object");
    refused(decode(UPSERT, &[], None, Some(&row)), Reason::MissingKey, "no key");
}

#[test]
fn several_changes_of_one_message_are_all_or_a_dead_letter_and_one_offset() {
    const CANAL: &str = "canal/driftless.toml";
    let (_, mut message) = recorded("canal", "O1009");
    assert_eq!(message["data"].as_array().expect("rows").len(), 2);
    let world = world(catalog(CANAL, &[]), 1);
    let put = |value: &Value| {
        let value = value.to_string();
        let at = driftless::pure::seq::TopicPartition { topic: "canal".into(), partition: 0 };
        world.log.append(&at, None, Some(value.as_bytes()));
    };
    message["data"][1]["quantity"] = json!("many");
    put(&message);
    message["data"][1]["quantity"] = json!("1");
    put(&message);
    world.run(|running| {
        running.ingest_all();
        let counts = running.counts();
        assert_eq!((counts.dead_letter, counts.applied, counts.consumed()), (1, 1, 2), "{counts:?}");
        let letter = &running.letters()[0];
        assert!(letter.detail.contains("data, row 2: quantity"), "{}", letter.detail);
        assert_eq!(world.base_rows("first").len(), 2);
    });
}
