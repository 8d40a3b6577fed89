//! What the native format takes besides one event a message: arrays of events, and key columns in headers.

use driftless::pure::event::{Decoded, Reason, Rejection};
use driftless::pure::formats::{Header, Record};
use driftless::pure::seq::Seq;
use serde_json::{Value, json};

use super::messages::{append, catalog, json as parse, messages, world};

const FILE: &str = "native/driftless.toml";

fn decode(settings: &[&str], value: &Value, headers: &[(&str, &[u8])]) -> Result<Decoded, Rejection> {
    let value = value.to_string();
    let header =
        |(name, value): &(&str, &[u8])| Header { name: (*name).into(), value: Some((*value).into()) };
    let headers: Vec<Header> = headers.iter().map(header).collect();
    let record = Record { offset: 7, key: None, value: Some(value.as_bytes()), headers: &headers };
    catalog(FILE, settings).topics[0].decoder.decode(&record)
}

/// A delete of a line, which needs its key alone.
fn delete(seq: u64, line_no: Option<i64>) -> Value {
    let mut event = json!({"source_seq": seq, "op": "D", "order_id": "O1"});
    if let Some(line_no) = line_no {
        event["line_no"] = line_no.into();
    }
    event
}

#[test]
fn an_array_is_its_events_each_with_its_sequence() {
    let array = json!([delete(5, Some(1)), delete(3, Some(2))]);
    let seqs = |settings: &[&str]| match decode(settings, &array, &[]) {
        Ok(Decoded::Changes(changes)) => changes.iter().map(|change| change.seq).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(seqs(&[]), [Seq::at(5), Seq::at(3)]);
    let by_offset = |row| Seq { epoch: 0, position: 7, row };
    assert_eq!(seqs(&["topic.0.watermark=offsets"]), [by_offset(0), by_offset(1)]);
}

#[test]
fn an_array_with_a_mistake_is_none_of_its_events_and_tells_the_least_sequence() {
    let mut wrong = delete(4, Some(2));
    wrong["op"] = json!("X");
    let rejection =
        decode(&[], &json!([delete(6, Some(1)), wrong, delete(5, Some(3))]), &[]).expect_err("a mistake");
    assert_eq!((rejection.reason, rejection.seq), (Reason::UnknownOperation, Some(Seq::at(4))));
    assert!(rejection.detail.starts_with("event 2: "), "{}", rejection.detail);
    // Where one sequence cannot be read, nothing is known of where the array stands.
    let nameless = json!({"op": "D", "order_id": "O1", "line_no": 1});
    let rejection = decode(&[], &json!([delete(6, Some(1)), nameless]), &[]).expect_err("no sequence");
    assert_eq!((rejection.reason, rejection.seq), (Reason::MissingField, None));
    for (array, reason) in [
        (json!([]), Reason::NotObject),
        (json!([1]), Reason::NotObject),
        (json!([[]]), Reason::NotObject),
        (json!([delete(1, Some(1)), {"heartbeat": 3}]), Reason::NotObject),
    ] {
        assert_eq!(decode(&[], &array, &[]).expect_err("no events").reason, reason, "{array}");
    }
}

#[test]
fn a_header_tells_a_part_of_the_key_and_must_agree_with_the_event() {
    let whole = decode(&[], &delete(5, Some(1)), &[]);
    assert!(matches!(whole, Ok(Decoded::Change { .. })));
    for headers in [
        &[("line-no", &b"1"[..])][..],
        &[("other", b"9"), ("line-no", b"1")],
        // The last of a name is the nearest.
        &[("line-no", b"9"), ("line-no", b"1")],
    ] {
        assert_eq!(decode(&[], &delete(5, None), headers), whole, "{headers:?}");
        assert_eq!(decode(&[], &delete(5, Some(1)), headers), whole, "{headers:?}");
    }
    for (event, header, reason) in [
        (delete(5, Some(2)), &b"1"[..], Reason::KeyMismatch),
        (delete(5, None), b"one", Reason::WrongType),
        (delete(5, None), b"\xff", Reason::WrongType),
        (delete(5, None), b"9223372036854775808", Reason::NumberOutOfRange),
    ] {
        let rejection = decode(&[], &event, &[("line-no", header)]).expect_err("a mistake");
        assert_eq!((rejection.reason, rejection.seq), (reason, Some(Seq::at(5))), "{}", rejection.detail);
    }
    assert_eq!(decode(&[], &delete(5, None), &[]).expect_err("no key").reason, Reason::MissingField);
}

#[test]
fn p10_a_dead_letter_keeps_its_headers_for_another_try() {
    let world = world(catalog(FILE, &[]), 3);
    let recorded = messages("native");
    let mut message =
        recorded.into_iter().find(|message| !message.headers.is_empty()).expect("one with a header");
    let right = message.headers.clone();
    message.headers[0].value = Some(b"one"[..].into());
    append(&world, &message);
    world.run(|running| {
        running.ingest_all();
        let letters = running.letters();
        assert_eq!((letters[0].reason.as_str(), &letters[0].headers), ("wrong_type", &message.headers));
    });
    // Mended by hand in the base, as an operator might; the next try reads the headers that are stored there.
    let connection = rusqlite::Connection::open(world.base_path("first")).expect("the base");
    let stored: String = connection
        .query_row("SELECT headers FROM driftless_dead_letters", [], |row| row.get(0))
        .expect("headers");
    assert_eq!(parse(&stored), json!([["line-no", "b25l"]]));
    assert_eq!(right[0].value.as_deref(), Some(&b"1"[..]));
    connection
        .execute("UPDATE driftless_dead_letters SET headers = '[[\"line-no\",\"MQ==\"]]'", [])
        .expect("mended");
    world.run(|running| {
        let retry = driftless::pure::base::Action::RetryLetters { letter: None };
        assert_eq!(running.request(&retry).1["retried"], 1);
        assert_eq!(world.base_rows("first").len(), 1);
    });
}
