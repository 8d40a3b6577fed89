//! Decoder of the native change-log format. Knows a table's columns, and nothing of where bytes come from.
//!
//! A message is read once, front to back; a mistake in one field does not end the reading, so that a dead
//! letter can still carry the sequence of its event.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::pure::event::{Decoded, Image, Reason, Rejection};
use crate::pure::schema::{Column, ColumnType, Table};
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// Where the order of a key's events comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From `source_seq` in each event.
    SourceSeq,
    /// From the offset: the log carries no sequence (watermark mode `offsets`).
    Offset,
}

/// The native format of one table.
#[derive(Clone, Debug)]
pub struct NativeDecoder {
    table: Arc<Table>,
    order: Order,
    fields: Vec<(Box<str>, Field)>,
}

/// What a top-level name of the event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    SourceSeq,
    Operation,
    Row,
    Heartbeat,
    /// A part of the primary key, by its place in the key.
    Key(usize),
    /// `new_<column>`: says again what the row says.
    New(usize),
}

impl NativeDecoder {
    pub fn new(table: Arc<Table>, order: Order) -> Self {
        let mut fields: Vec<(Box<str>, Field)> = vec![
            ("source_seq".into(), Field::SourceSeq),
            ("op".into(), Field::Operation),
            ("row".into(), Field::Row),
            ("heartbeat".into(), Field::Heartbeat),
        ];
        for (part, &column) in table.key.iter().enumerate() {
            fields.push((table.columns[column].name.as_ref().into(), Field::Key(part)));
        }
        for (index, column) in table.columns.iter().enumerate() {
            fields.push((format!("new_{}", column.name).into(), Field::New(index)));
        }
        NativeDecoder { table, order, fields }
    }

    /// Decodes one message. `None` as value is a tombstone: it carries no sequence, so it is a delete of its
    /// message key where offsets order the events, and changes nothing elsewhere.
    pub fn decode(
        &self,
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Decoded, Rejection> {
        let Some(value) = value else {
            return self.decode_tombstone(offset, key);
        };
        if value.is_empty() {
            return Err(reject(
                Reason::EmptyValue,
                "the message has no bytes (a null value would be a tombstone)",
            ));
        }
        let mut message = serde_json::Deserializer::from_slice(value);
        let read = EnvelopeSeed(self)
            .deserialize(&mut message)
            .and_then(|envelope| message.end().map(|()| envelope));
        match read {
            Ok(Some(envelope)) => self.finish(offset, envelope),
            Ok(None) => Err(reject(Reason::NotObject, "the message is JSON, but not an object")),
            Err(error) => Err(reject(Reason::NotJson, error.to_string())),
        }
    }

    fn decode_tombstone(&self, offset: i64, key: Option<&[u8]>) -> Result<Decoded, Rejection> {
        if self.order == Order::SourceSeq {
            return Ok(Decoded::Control);
        }
        let seq = offset_seq(offset);
        let fail = |reason, detail: String| Rejection { reason, detail, seq: Some(seq) };
        let bytes = key.ok_or_else(|| {
            fail(Reason::MissingField, "a tombstone without a message key names no row".into())
        })?;
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(bytes).map_err(|error| {
                fail(
                    Reason::NotJson,
                    format!("the message key is not a JSON object of the primary key: {error}"),
                )
            })?;
        let mut parts = Vec::with_capacity(self.table.key.len());
        for &column in &self.table.key {
            let column = &self.table.columns[column];
            let found = object.get(&*column.name).ok_or_else(|| {
                fail(Reason::MissingField, format!("message key: {} is missing", column.name))
            })?;
            let value = column_value(column, found)
                .map_err(|(reason, detail)| fail(reason, format!("message key: {detail}")))?;
            parts.push(value);
        }
        Ok(Decoded::Change { seq, image: Image::Deleted(parts.into()) })
    }

    /// From what was read to an event, or to the first mistake.
    fn finish(&self, offset: i64, envelope: Envelope<'_>) -> Result<Decoded, Rejection> {
        let seq = match (self.order, envelope.source_seq) {
            (Order::Offset, _) => Some(offset_seq(offset)),
            (Order::SourceSeq, seq) => seq,
        };
        let fail = |reason, detail: String| Rejection { reason, detail, seq };
        if let Some((reason, detail)) = envelope.mistake {
            return Err(fail(reason, detail));
        }
        if let Some(heartbeat) = envelope.heartbeat {
            return Ok(Decoded::Heartbeat(heartbeat));
        }
        let seq = seq.ok_or_else(|| {
            fail(Reason::MissingField, "source_seq is missing: the event cannot be ordered".into())
        })?;
        let operation = envelope
            .operation
            .as_deref()
            .ok_or_else(|| fail(Reason::MissingField, "op is missing".into()))?;
        let key = self.complete_key(envelope.key, &fail)?;
        match operation {
            "I" | "U" => {
                let row = envelope.row.ok_or_else(|| {
                    fail(Reason::MissingRow, format!("op {operation} needs the full new row"))
                })?;
                self.check_row(&row, &key, &envelope.new, &fail)?;
                Ok(Decoded::Change { seq, image: Image::Row(row.into()) })
            }
            "D" => Ok(Decoded::Change { seq, image: Image::Deleted(key.into()) }),
            other => Err(fail(Reason::UnknownOperation, format!("op is {other:?}, known are I, U and D"))),
        }
    }

    fn complete_key(
        &self,
        parts: Vec<Option<Value>>,
        fail: &dyn Fn(Reason, String) -> Rejection,
    ) -> Result<Vec<Value>, Rejection> {
        let mut key = Vec::with_capacity(parts.len());
        for (part, value) in parts.into_iter().enumerate() {
            key.push(value.ok_or_else(|| {
                let name = &self.table.columns[self.table.key[part]].name;
                fail(Reason::MissingField, format!("key column {name} is missing"))
            })?);
        }
        Ok(key)
    }

    /// The envelope repeats the key and may repeat new group columns: what differs is no event to guess about.
    fn check_row(
        &self,
        row: &[Value],
        key: &[Value],
        new: &[(usize, Value)],
        fail: &dyn Fn(Reason, String) -> Rejection,
    ) -> Result<(), Rejection> {
        for (part, &column) in self.table.key.iter().enumerate() {
            if row[column] != key[part] {
                let name = &self.table.columns[column].name;
                return Err(fail(
                    Reason::KeyMismatch,
                    format!("{name} is {} in the event and {} in its row", key[part], row[column]),
                ));
            }
        }
        for (column, value) in new {
            if row[*column] != *value {
                let name = &self.table.columns[*column].name;
                return Err(fail(
                    Reason::GroupMismatch,
                    format!("new_{name} is {value} and the row has {}", row[*column]),
                ));
            }
        }
        Ok(())
    }

    fn field(&self, name: &str) -> Option<(usize, Field)> {
        self.fields.iter().position(|(known, _)| **known == *name).map(|index| (index, self.fields[index].1))
    }
}

fn offset_seq(offset: i64) -> Seq {
    Seq::at(u64::try_from(offset).unwrap_or(0))
}

fn reject(reason: Reason, detail: impl Into<String>) -> Rejection {
    Rejection { reason, detail: detail.into(), seq: None }
}

/// What is wrong with a value, and its stable code.
pub type Mistake = (Reason, String);

/// What one reading of a message found.
struct Envelope<'de> {
    source_seq: Option<Seq>,
    operation: Option<Cow<'de, str>>,
    heartbeat: Option<Seq>,
    key: Vec<Option<Value>>,
    new: Vec<(usize, Value)>,
    row: Option<Vec<Value>>,
    mistake: Option<Mistake>,
}

impl Envelope<'_> {
    /// The first mistake is the one told.
    fn note(&mut self, mistake: Mistake) {
        self.mistake.get_or_insert(mistake);
    }
}

/// A scalar as JSON had it, not yet judged.
enum Raw<'de> {
    Null,
    Integer(i64),
    OutOfRange,
    Fraction,
    Text(Cow<'de, str>),
    Other,
}

impl Raw<'_> {
    /// A whole number that a double holds exactly was meant as one (1e3); any other was not.
    fn of_double(number: f64) -> Self {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match number {
            _ if number.abs() >= EXACT => Raw::OutOfRange,
            _ if number.fract() == 0.0 => Raw::Integer(number as i64),
            _ => Raw::Fraction,
        }
    }
}

/// Judges a scalar by the column it is for.
fn check(column: &Column, raw: Raw<'_>) -> Result<Value, Mistake> {
    let name = &column.name;
    let wrong = |found: &str| {
        let wanted = match column.column_type {
            ColumnType::Integer => "an integer",
            ColumnType::Text => "text",
            ColumnType::Date => "a date as text YYYY-MM-DD",
        };
        (Reason::WrongType, format!("{name} is {found}, it must be {wanted}"))
    };
    match (raw, column.column_type) {
        (Raw::Null, _) if column.nullable => Ok(Value::Null),
        (Raw::Null, _) => {
            Err((Reason::NullNotAllowed, format!("{name} is null, the table does not allow that")))
        }
        (Raw::Integer(number), ColumnType::Integer) => Ok(Value::Integer(number)),
        (Raw::Integer(_), _) => Err(wrong("a number")),
        (Raw::OutOfRange, _) => Err((Reason::NumberOutOfRange, format!("{name} is outside 64 bits"))),
        (Raw::Fraction, _) => Err(wrong("a fraction")),
        (Raw::Text(_), ColumnType::Integer) => Err(wrong("text")),
        (Raw::Text(text), _) if text.as_bytes().contains(&0) => {
            Err((Reason::NulInText, format!("{name} holds the character U+0000")))
        }
        (Raw::Text(text), ColumnType::Text) => Ok(Value::Text(text.into())),
        (Raw::Text(text), ColumnType::Date) if is_date(&text) => Ok(Value::Text(text.into())),
        (Raw::Text(text), ColumnType::Date) => {
            Err((Reason::NotADate, format!("{name} is {text:?}, which is no date YYYY-MM-DD")))
        }
        (Raw::Other, _) => Err(wrong("no plain value")),
    }
}

/// A JSON value as a column's value, or why it cannot be one.
pub fn column_value(column: &Column, json: &serde_json::Value) -> Result<Value, Mistake> {
    let raw = match json {
        serde_json::Value::Null => Raw::Null,
        serde_json::Value::String(text) => Raw::Text(text.as_str().into()),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Raw::Integer(number),
            (None, Some(number)) => Raw::of_double(number),
            (None, None) => Raw::OutOfRange,
        },
        _ => Raw::Other,
    };
    check(column, raw)
}

/// Exactly `YYYY-MM-DD`, and a day that the calendar has.
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes[at].wrapping_sub(b'0');
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    if [0, 1, 2, 3, 5, 6, 8, 9].iter().any(|&at| digit(at) > 9) {
        return false;
    }
    let year = (0..4).fold(0i16, |year, at| year * 10 + i16::from(digit(at)));
    let month = (digit(5) * 10 + digit(6)) as i8;
    let day = (digit(8) * 10 + digit(9)) as i8;
    jiff::civil::Date::new(year, month, day).is_ok()
}

struct EnvelopeSeed<'a>(&'a NativeDecoder);

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_> {
    type Value = Option<Envelope<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

/// Reads the value after a name that means nothing here.
fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// A visitor's answers for JSON values that are not what it is for.
macro_rules! not_for_this_visitor {
    ($answer:expr, null: $null:expr; $($method:ident: $kind:ty),*) => {
        $(fn $method<E: serde::de::Error>(self, _: $kind) -> Result<Self::Value, E> { Ok($answer) })*
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> { Ok($null) }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($answer)
        }
    };
}

impl<'de> Visitor<'de> for EnvelopeSeed<'_> {
    type Value = Option<Envelope<'de>>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an event")
    }

    not_for_this_visitor!(None, null: None; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let decoder = self.0;
        let table = &*decoder.table;
        let mut seen = 0u128;
        let mut envelope = Envelope {
            source_seq: None,
            operation: None,
            heartbeat: None,
            key: vec![None; table.key.len()],
            new: Vec::new(),
            row: None,
            mistake: None,
        };
        while let Some(Name(name)) = map.next_key()? {
            let Some((index, field)) = decoder.field(&name) else {
                skip(&mut map)?;
                continue;
            };
            // Names past the 128th are not checked for repetition; no table here is that wide.
            let bit = 1u128.checked_shl(index as u32).unwrap_or(0);
            if seen & bit != 0 {
                envelope.note((Reason::DuplicateField, format!("{name} occurs twice")));
            }
            seen |= bit;
            match field {
                Field::SourceSeq => match read_seq(&name, map.next_value()?) {
                    Ok(seq) => envelope.source_seq = Some(seq),
                    Err(mistake) => envelope.note(mistake),
                },
                Field::Heartbeat => match read_seq(&name, map.next_value()?) {
                    Ok(seq) => envelope.heartbeat = Some(seq),
                    Err(mistake) => envelope.note(mistake),
                },
                Field::Operation => match map.next_value()? {
                    Raw::Text(text) => envelope.operation = Some(text),
                    _ => envelope.note((Reason::WrongType, "op must be text".into())),
                },
                Field::Row => match map.next_value_seed(RowSeed(table))? {
                    Ok(row) => envelope.row = row,
                    Err(mistake) => envelope.note(mistake),
                },
                Field::Key(part) => match check(&table.columns[table.key[part]], map.next_value()?) {
                    Ok(value) => envelope.key[part] = Some(value),
                    Err(mistake) => envelope.note(mistake),
                },
                Field::New(column) => match map.next_value()? {
                    // A delete leaves no new group; an insert whose row says more is not contradicted by null.
                    Raw::Null => {}
                    raw => match check(&table.columns[column], raw) {
                        Ok(value) => envelope.new.push((column, value)),
                        Err(mistake) => envelope.note(mistake),
                    },
                },
            }
        }
        Ok(Some(envelope))
    }
}

fn read_seq(name: &str, raw: Raw<'_>) -> Result<Seq, Mistake> {
    match raw {
        Raw::Integer(number) => u64::try_from(number)
            .map(Seq::at)
            .map_err(|_| (Reason::NumberOutOfRange, format!("{name} is {number}, sequences start at 0"))),
        Raw::OutOfRange => Err((Reason::NumberOutOfRange, format!("{name} is outside 64 bits"))),
        Raw::Null => Err((Reason::MissingField, format!("{name} is null"))),
        _ => Err((Reason::WrongType, format!("{name} must be an integer"))),
    }
}

/// A name of an object, borrowed from the message where it has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.into())))
            }
        }
        input.deserialize_str(NameVisitor)
    }
}

impl<'de> serde::Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value")
            }
            not_for_this_visitor!(Raw::Other, null: Raw::Null; visit_bool: bool);
            fn visit_i64<E>(self, number: i64) -> Result<Raw<'de>, E> {
                Ok(Raw::Integer(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Raw<'de>, E> {
                Ok(i64::try_from(number).map_or(Raw::OutOfRange, Raw::Integer))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Raw<'de>, E> {
                Ok(Raw::of_double(number))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Raw<'de>, E> {
                Ok(Raw::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw<'de>, E> {
                Ok(Raw::Text(Cow::Owned(text.into())))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Raw::Other)
            }
        }
        input.deserialize_any(RawVisitor)
    }
}

/// Reads the row of an event: `Ok(None)` for null, a mistake for what the table does not allow.
struct RowSeed<'a>(&'a Table);

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Result<Option<Vec<Value>>, Mistake>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Result<Option<Vec<Value>>, Mistake>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a row")
    }

    not_for_this_visitor!(
        Err((Reason::WrongType, "row must be an object or null".into())), null: Ok(None);
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str
    );

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let columns = &self.0.columns;
        let mut row: Vec<Option<Value>> = vec![None; columns.len()];
        let mut mistake = None;
        let mut expected = 0;
        while let Some(Name(name)) = map.next_key()? {
            // Writers keep their order of columns: the one after the last is the likely one.
            let found = match columns.get(expected) {
                Some(column) if *column.name == *name => Some(expected),
                _ => self.0.column(&name),
            };
            let Some(index) = found else {
                skip(&mut map)?;
                continue;
            };
            expected = index + 1;
            match check(&columns[index], map.next_value()?) {
                Ok(_) if row[index].is_some() => {
                    mistake.get_or_insert((Reason::DuplicateField, format!("row: {name} occurs twice")));
                }
                Ok(value) => row[index] = Some(value),
                Err((reason, detail)) => {
                    mistake.get_or_insert((reason, format!("row: {detail}")));
                }
            }
        }
        let missing = row.iter().position(Option::is_none);
        Ok(match (mistake, missing) {
            (Some(mistake), _) => Err(mistake),
            (None, Some(index)) => {
                Err((Reason::MissingColumn, format!("row: column {} is missing", columns[index].name)))
            }
            (None, None) => Ok(Some(row.into_iter().flatten().collect())),
        })
    }
}
