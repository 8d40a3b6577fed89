//! The native change-log format at its edges: what is odd and still an event, what is none and why. Each reason
//! code of the decoder occurs once.

use std::collections::BTreeSet;
use std::sync::Arc;

use driftless::pure::event::{Decoded, Image, Reason, Rejection};
use driftless::pure::formats::native::{NativeDecoder, Order};
use driftless::pure::schema::{Column, ColumnType, Table};
use driftless::pure::seq::Seq;
use driftless::pure::value::Value;

/// A table with a key of two columns, a date, a number, and a text that may be null.
fn decoder(order: Order) -> NativeDecoder {
    let column = |name: &str, column_type, nullable| Column { name: name.into(), column_type, nullable };
    let table = Table {
        name: "facts".into(),
        columns: vec![
            column("place", ColumnType::Text, false),
            column("number", ColumnType::Integer, false),
            column("day", ColumnType::Date, false),
            column("amount", ColumnType::Integer, false),
            column("note", ColumnType::Text, true),
        ],
        key: vec![0, 1],
    };
    NativeDecoder::new(Arc::new(table), order)
}

fn decode(text: &str) -> Result<Decoded, Rejection> {
    decoder(Order::SourceSeq).decode(5, None, Some(text.as_bytes()))
}

const ROW: &str = r#"{"place":"A","number":1,"day":"2026-10-01","amount":7,"note":null}"#;

/// An event with this row.
fn event(row: &str) -> String {
    format!(r#"{{"source_seq":9,"op":"U","place":"A","number":1,"row":{row}}}"#)
}

/// The row of an event that has to be one.
#[track_caller]
fn row_of(text: &str) -> (Seq, Vec<Value>) {
    match decode(text) {
        Ok(Decoded::Change { seq, image: Image::Row(row) }) => (seq, row.into_vec()),
        other => panic!("{text}: {other:?}"),
    }
}

/// The amount of an event whose amount is written like this.
#[track_caller]
fn amount(text: &str) -> Result<i64, Reason> {
    let row = ROW.replace("7", text);
    match decode(&event(&row)) {
        Ok(Decoded::Change { image: Image::Row(row), .. }) => match row[3] {
            Value::Integer(number) => Ok(number),
            ref other => panic!("{text}: {other:?}"),
        },
        Ok(other) => panic!("{text}: {other:?}"),
        Err(rejection) => Err(rejection.reason),
    }
}

#[test]
fn an_event_is_its_sequence_and_the_whole_row() {
    let (seq, row) = row_of(&event(ROW));
    assert_eq!(seq, Seq::at(9));
    assert_eq!(row, ["A".into(), 1.into(), "2026-10-01".into(), 7.into(), Value::Null]);
}

#[test]
fn order_of_names_blanks_and_unknown_names_do_not_matter() {
    let plain = row_of(&event(ROW));
    let text = r#" { "row" : {"note":null,"later":[1,{"place":"B"}],"amount":7,
        "day":"2026-10-01","number":1,"place":"A"}, "number":1, "extra":{"op":"D","source_seq":1},
        "place":"A", "op":"I", "old_day":"wrong", "old_amount":{}, "applied_at":12, "source_seq":9 }
    "#;
    assert_eq!(row_of(text), plain);
}

#[test]
fn escapes_in_names_and_texts_are_read() {
    let text = r#"{"\u0073ource_seq":9,"o\u0070":"\u0055","pl\u0061ce":"\u0041","number":1,
        "row":{"pl\u0061ce":"A","number":1,"day":"2026\u002d10-01","amount":7,
        "note":"\ud83d\ude00 \"\\\/\b\f\n\r\t é"}}"#;
    let (_, row) = row_of(text);
    assert_eq!(row[4], "\u{1f600} \"\\/\u{8}\u{c}\n\r\t é".into());
    // A repeated name is the same name however it is written.
    let twice = event(ROW).replace(r#""op":"U""#, r#""op":"U","\u006fp":"D""#);
    assert_eq!(decode(&twice).unwrap_err().reason, Reason::DuplicateField);
}

#[test]
fn texts_are_taken_as_they_are() {
    for text in ["", " ", "null", "7", "007", "caf\u{e9}", "cafe\u{301}", "%~", "\u{7f}", "\u{feff}"] {
        let row = ROW.replace("null", &serde_json::Value::from(text).to_string());
        assert_eq!(row_of(&event(&row)).1[4], text.into());
    }
}

#[test]
fn integers_stay_integers() {
    assert_eq!(amount("9007199254740993"), Ok((1 << 53) + 1), "a double would lose one");
    assert_eq!(amount("9223372036854775807"), Ok(i64::MAX));
    assert_eq!(amount("-9223372036854775808"), Ok(i64::MIN));
    assert_eq!(amount("-0"), Ok(0));
    assert_eq!(amount("1e3"), Ok(1_000));
    assert_eq!(amount("2.0"), Ok(2));
    for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e16", "1e300"] {
        assert_eq!(amount(text), Err(Reason::NumberOutOfRange), "{text}");
    }
    for text in ["0.5", "1e-3", "\"7\"", "true", "[7]", "{}"] {
        assert_eq!(amount(text), Err(Reason::WrongType), "{text}");
    }
    for text in ["07", "+7", ".5", "0x7", "NaN", "1e999", "7;"] {
        assert_eq!(amount(text), Err(Reason::NotJson), "{text}");
    }
    assert_eq!(amount("null"), Err(Reason::NullNotAllowed));
}

#[test]
fn sequences_are_what_the_base_can_count() {
    let with = |text: &str| decode(&event(ROW).replace(r#":9,"#, &format!(":{text},")));
    for (text, position) in [("0", 0), ("9223372036854775807", i64::MAX as u64), ("1e3", 1_000)] {
        assert_eq!(row_of(&event(ROW).replace(":9,", &format!(":{text},"))).0, Seq::at(position));
    }
    for text in ["-1", "9223372036854775808"] {
        assert_eq!(with(text).unwrap_err().reason, Reason::NumberOutOfRange, "{text}");
    }
    assert_eq!(with("null").unwrap_err().reason, Reason::MissingField);
    assert_eq!(with("\"9\"").unwrap_err().reason, Reason::WrongType);
}

#[test]
fn dates_are_days_of_the_calendar() {
    for day in
        ["2026-02-29", "2026-13-01", "2026-00-10", "2026-1-1", "2026-10-01T00:00:00Z", " 2026-10-01", ""]
    {
        let row = ROW.replace("2026-10-01", day);
        assert_eq!(decode(&event(&row)).unwrap_err().reason, Reason::NotADate, "{day}");
    }
    for day in ["2024-02-29", "0001-01-01", "9999-12-31"] {
        assert_eq!(row_of(&event(&ROW.replace("2026-10-01", day))).1[2], day.into());
    }
}

#[test]
fn a_delete_needs_its_key_alone() {
    let deleted = Image::Deleted(["A".into(), 1.into()].into());
    for text in [
        r#"{"source_seq":9,"op":"D","place":"A","number":1}"#.to_owned(),
        r#"{"number":1,"place":"A","row":null,"new_day":null,"op":"D","source_seq":9}"#.to_owned(),
        event(ROW).replace(r#""U""#, r#""D""#),
    ] {
        assert_eq!(decode(&text), Ok(Decoded::Change { seq: Seq::at(9), image: deleted.clone() }), "{text}");
    }
}

#[test]
fn what_the_event_says_twice_must_agree() {
    let with = |more: &str| decode(&event(ROW).replace(r#""op""#, &format!(r#"{more},"op""#)));
    assert!(with(r#""new_day":"2026-10-01","new_note":null,"new_amount":7"#).is_ok());
    assert!(with(r#""new_amount":null"#).is_ok(), "null says nothing");
    assert_eq!(with(r#""new_amount":8"#).unwrap_err().reason, Reason::GroupMismatch);
    assert_eq!(with(r#""new_day":"2026-10-02""#).unwrap_err().reason, Reason::GroupMismatch);
    let other = event(ROW).replace(r#""number":1,"row""#, r#""number":2,"row""#);
    assert_eq!(decode(&other).unwrap_err().reason, Reason::KeyMismatch);
}

#[test]
fn each_reason_has_its_message() {
    let cases: [(Reason, String); 15] = [
        (Reason::EmptyValue, String::new()),
        (Reason::NotJson, event(ROW) + "}"),
        (Reason::NotObject, "[1]".into()),
        (Reason::DuplicateField, event(&ROW.replace("\"amount\":7", "\"amount\":7,\"amount\":7"))),
        (Reason::MissingField, event(ROW).replace("\"op\":\"U\",", "")),
        (Reason::UnknownOperation, event(ROW).replace("\"U\"", "\"u\"")),
        (Reason::MissingRow, event("null")),
        (Reason::MissingColumn, event(&ROW.replace("\"amount\":7,", ""))),
        (Reason::KeyMismatch, event(&ROW.replace("\"A\"", "\"B\""))),
        (Reason::GroupMismatch, event(ROW).replace("\"op\"", "\"new_amount\":1,\"op\"")),
        (Reason::WrongType, event("7")),
        (Reason::NumberOutOfRange, event(&ROW.replace('7', "1e40"))),
        (Reason::NullNotAllowed, event(&ROW.replace('7', "null"))),
        (Reason::NotADate, event(&ROW.replace("2026-10-01", "yesterday"))),
        (Reason::NulInText, event(&ROW.replace("null", "\"\\u0000\""))),
    ];
    let mut codes = BTreeSet::new();
    for (reason, text) in cases {
        let rejection = decode(&text).expect_err(&text);
        assert_eq!(rejection.reason, reason, "{text}: {}", rejection.detail);
        assert!(codes.insert(reason.code()), "{reason:?} occurs once");
        // What could be read of the sequence is told, so that the watermark waits at the right place.
        let readable = !matches!(reason, Reason::EmptyValue | Reason::NotJson | Reason::NotObject);
        assert_eq!(rejection.seq, readable.then_some(Seq::at(9)), "{text}");
    }
}

#[test]
fn other_json_is_no_event_and_broken_bytes_are_no_json() {
    for text in ["null", "7", "\"op\"", "true", "[]", "1.5", "-1"] {
        assert_eq!(decode(text).unwrap_err().reason, Reason::NotObject, "{text}");
    }
    for text in ["{", "{}{}", "\u{feff}{}", "{\"op\":\"\\ud800\"}", "{'op':1}", "{\"op\":1,}", " "] {
        assert_eq!(decode(text).unwrap_err().reason, Reason::NotJson, "{text}");
    }
    let broken = decoder(Order::SourceSeq).decode(5, None, Some(b"{\"op\":\"\xff\"}"));
    assert_eq!(broken.unwrap_err().reason, Reason::NotJson);
}

#[test]
fn the_first_mistake_is_told_and_the_sequence_is_found_behind_it() {
    let text = r#"{"op":7,"row":{"amount":"x"},"place":null,"source_seq":41}"#;
    let rejection = decode(text).unwrap_err();
    assert_eq!((rejection.reason, rejection.seq), (Reason::WrongType, Some(Seq::at(41))));
    assert!(rejection.detail.starts_with("op "), "{}", rejection.detail);
}

#[test]
fn a_heartbeat_is_a_message_of_its_own() {
    assert_eq!(decode(r#"{"heartbeat":12}"#), Ok(Decoded::Heartbeat(Seq::at(12))));
    assert_eq!(decode(r#"{"heartbeat":-1}"#).unwrap_err().reason, Reason::NumberOutOfRange);
    assert_eq!(decode(r#"{"heartbeat":"12"}"#).unwrap_err().reason, Reason::WrongType);
}

#[test]
fn p10_a_change_that_carries_a_heartbeat_does_not_vanish() {
    let both = event(ROW).replace(r#""op""#, r#""heartbeat":12,"op""#);
    assert!(!matches!(decode(&both), Ok(Decoded::Heartbeat(_) | Decoded::Control)), "{:?}", decode(&both));
    let delete = r#"{"heartbeat":12,"source_seq":9,"op":"D","place":"A","number":1}"#;
    assert!(!matches!(decode(delete), Ok(Decoded::Heartbeat(_) | Decoded::Control)));
}

#[test]
fn a_tombstone_is_control_where_sequences_order_and_a_delete_where_offsets_do() {
    let key = br#"{"number":1,"place":"A"}"#;
    assert_eq!(decoder(Order::SourceSeq).decode(5, Some(key), None), Ok(Decoded::Control));
    let by_offset = decoder(Order::Offset);
    let image = Image::Deleted(["A".into(), 1.into()].into());
    assert_eq!(by_offset.decode(5, Some(key), None), Ok(Decoded::Change { seq: Seq::at(5), image }));
    for (key, reason) in [
        (None, Reason::MissingField),
        (Some(&b"A:1"[..]), Reason::NotJson),
        (Some(&br#"{"place":"A"}"#[..]), Reason::MissingField),
        (Some(&br#"{"place":"A","number":"1"}"#[..]), Reason::WrongType),
        (Some(&br#"{"place":null,"number":1}"#[..]), Reason::NullNotAllowed),
        (Some(&br#"{"place":"A","number":9223372036854775808}"#[..]), Reason::NumberOutOfRange),
    ] {
        let rejection = by_offset.decode(5, key, None).unwrap_err();
        assert_eq!((rejection.reason, rejection.seq), (reason, Some(Seq::at(5))), "{key:?}");
    }
}

#[test]
fn where_offsets_order_the_sequence_of_the_event_means_nothing() {
    let by_offset = decoder(Order::Offset);
    for text in [event(ROW), event(ROW).replace("\"source_seq\":9,", "")] {
        let Ok(Decoded::Change { seq, .. }) = by_offset.decode(77, None, Some(text.as_bytes())) else {
            panic!("{text}");
        };
        assert_eq!(seq, Seq::at(77));
    }
}
