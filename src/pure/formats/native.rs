//! Decoder of the native change-log format. Knows a table's columns, and nothing of where bytes come from.
//!
//! A message is read once, front to back; a mistake in one field does not end the reading, so that a dead
//! letter can still carry the sequence of its event. An array holds several events, which count together.

mod envelope;
mod row;
mod scalar;

use std::sync::Arc;

use serde::de::DeserializeSeed;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection, RowChange};
use crate::pure::formats::field::{self, Encoding};
use crate::pure::formats::json::Json;
use crate::pure::formats::{Record, offset_seq};
use crate::pure::schema::{ColumnType, Table};
use crate::pure::seq::Seq;
use crate::pure::value::Value;
use envelope::{Envelope, EnvelopeSeed};
pub use scalar::column_value;

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
    /// By part of the primary key: the header that tells it.
    headers: Vec<Option<Box<str>>>,
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
        let headers = vec![None; table.key.len()];
        NativeDecoder { table, order, fields, headers }
    }

    /// Takes a part of the primary key from a message's header, where the event itself need not tell it.
    pub fn with_key_header(mut self, part: usize, header: &str) -> Self {
        self.headers[part] = Some(header.into());
        self
    }

    pub fn reads_headers(&self) -> bool {
        self.headers.iter().any(Option::is_some)
    }

    /// As [`decode_record`](NativeDecoder::decode_record), for a message without headers.
    pub fn decode(
        &self,
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Decoded, Rejection> {
        self.decode_record(&Record { offset, key, value, headers: &[] })
    }

    /// Decodes one message. A null value is a tombstone: it carries no sequence, so it is a delete of its
    /// message key where offsets order the events, and changes nothing elsewhere.
    pub fn decode_record(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let Some(value) = record.value else {
            return self.decode_tombstone(record);
        };
        if value.is_empty() {
            return Err(reject(
                Reason::EmptyValue,
                "the message has no bytes (a null value would be a tombstone)",
            ));
        }
        match value.trim_ascii_start().first() {
            Some(b'[') => self.decode_array(record, value),
            _ => self.decode_event(record, value, offset_seq(record.offset, 0)),
        }
    }

    /// `by_offset` is the event's sequence where offsets order.
    fn decode_event(&self, record: &Record<'_>, value: &[u8], by_offset: Seq) -> Result<Decoded, Rejection> {
        let mut message = serde_json::Deserializer::from_slice(value);
        let read = EnvelopeSeed(self)
            .deserialize(&mut message)
            .and_then(|envelope| message.end().map(|()| envelope));
        match read {
            Ok(Some(envelope)) => self.finish(record, by_offset, envelope),
            Ok(None) => Err(reject(Reason::NotObject, "the message is JSON, but not an object")),
            Err(error) => Err(reject(Reason::NotJson, error.to_string())),
        }
    }

    /// Several events in one message: all of them, or none. The first mistake is told, and the least sequence of
    /// all, for the watermark to wait below; where one cannot be read, none is told.
    fn decode_array(&self, record: &Record<'_>, value: &[u8]) -> Result<Decoded, Rejection> {
        let items = Json::parse(value).and_then(|json| json.items("the message"));
        let items = items.map_err(|(reason, detail)| reject(reason, detail))?;
        if items.is_empty() {
            return Err(reject(Reason::NotObject, "the array holds no event"));
        }
        let mut changes = Vec::with_capacity(items.len());
        let mut seqs = Vec::with_capacity(items.len());
        let mut mistake = None;
        for (index, item) in items.iter().enumerate() {
            let by_offset = offset_seq(record.offset, index as u64);
            match self.decode_event(record, item.raw().as_bytes(), by_offset) {
                Ok(Decoded::Change { seq, image }) => {
                    seqs.push(Some(seq));
                    changes.push(RowChange::new(seq, image));
                }
                Ok(_) => {
                    let detail = "a heartbeat is a message of its own".to_owned();
                    mistake.get_or_insert((Reason::NotObject, format!("event {}: {detail}", index + 1)));
                }
                Err(Rejection { reason, detail, seq }) => {
                    seqs.push(seq);
                    mistake.get_or_insert((reason, format!("event {}: {detail}", index + 1)));
                }
            }
        }
        match mistake {
            None => Ok(Decoded::Changes(changes)),
            Some((reason, detail)) => {
                Err(Rejection { reason, detail, seq: seqs.into_iter().min().flatten() })
            }
        }
    }

    fn decode_tombstone(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        if self.order == Order::SourceSeq {
            return Ok(Decoded::Control);
        }
        let (seq, key) = (record.offset_seq(), record.key);
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
    fn finish(
        &self,
        record: &Record<'_>,
        by_offset: Seq,
        envelope: Envelope<'_>,
    ) -> Result<Decoded, Rejection> {
        let seq = match (self.order, envelope.source_seq) {
            (Order::Offset, _) => Some(by_offset),
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
        let mut parts = envelope.key;
        if self.reads_headers() {
            self.take_headers(record, &mut parts).map_err(|(reason, detail)| fail(reason, detail))?;
        }
        let key = self.complete_key(parts, &fail)?;
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

    /// Key columns out of headers; what the event says as well must be the same.
    fn take_headers(&self, record: &Record<'_>, parts: &mut [Option<Value>]) -> Result<(), Mistake> {
        for (part, header) in self.headers.iter().enumerate() {
            let Some(name) = header else { continue };
            let column = &self.table.columns[self.table.key[part]];
            // A name may come again in a route of copies; the last one is the nearest.
            let found = record.headers.iter().rev().find(|header| header.name == *name);
            let Some(bytes) = found.and_then(|header| header.value.as_deref()) else { continue };
            let text = std::str::from_utf8(bytes)
                .map_err(|_| (Reason::WrongType, format!("header {name} is no text")))?;
            let json = serde_json::Value::from(text).to_string();
            let encoding = match column.column_type {
                ColumnType::Integer => Encoding::Decimal { scale: 0 },
                ColumnType::Text | ColumnType::Date => Encoding::Plain,
            };
            let value = Json::parse(json.as_bytes())
                .and_then(|json| field::read(column, &encoding, json))
                .map_err(|(reason, detail)| (reason, format!("header {name}: {detail}")))?;
            if let Some(told) = parts[part].replace(value.clone())
                && told != value
            {
                let detail = format!("{} is {told} in the event and {value} in header {name}", column.name);
                return Err((Reason::KeyMismatch, detail));
            }
        }
        Ok(())
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

fn reject(reason: Reason, detail: impl Into<String>) -> Rejection {
    Rejection { reason, detail: detail.into(), seq: None }
}
