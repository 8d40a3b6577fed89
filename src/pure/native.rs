//! Decoder of the native change-log format. Knows a table's columns, and nothing of where bytes come from.
//!
//! A message is read once, front to back; a mistake in one field does not end the reading, so that a dead
//! letter can still carry the sequence of its event.

mod envelope;
mod row;
mod scalar;

use std::sync::Arc;

use serde::de::DeserializeSeed;

use crate::pure::event::{Decoded, Image, Reason, Rejection};
use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;
use envelope::{Envelope, EnvelopeSeed};
pub use scalar::{Mistake, column_value};

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
        // Beside a change a heartbeat says nothing that counts, and the change must not vanish behind it (P10).
        let changes = envelope.operation.is_some() || envelope.row.is_some();
        if let Some(heartbeat) = envelope.heartbeat.filter(|_| !changes) {
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
