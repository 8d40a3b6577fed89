//! The formats of messages: one decoder each, and all end in the same type. The format is pinned by topic in the
//! configuration and never guessed. Knows bytes and a table's columns; not where bytes come from, nor what becomes
//! of a change.
//!
//! [`json`] reads documents without losing a digit, [`field`] brings one value to a column, with [`decimal`] and
//! [`time`] for what JSON has no type for; [`connect`] takes the converter's envelope off, and [`position`] orders
//! events as their source did. The native format, which is read most, has a reader of its own.

pub mod canal;
pub mod connect;
pub mod debezium;
pub mod debezium_unwrapped;
pub mod decimal;
pub mod field;
pub mod json;
pub mod maxwell;
pub mod native;
pub mod position;
pub mod time;
pub mod unavailable;
pub mod upsert;

use crate::pure::event::{Decoded, Mistake, Reason, Rejection};
use crate::pure::seq::Seq;

/// One message, as the log delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub offset: i64,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone, which an empty value is not.
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header],
}

/// A header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Box<str>,
    pub value: Option<Box<[u8]>>,
}

impl<'a> Record<'a> {
    /// The sequence of a message whose log carries none.
    pub fn offset_seq(&self) -> Seq {
        offset_seq(self.offset, 0)
    }

    /// The document that the value is.
    pub(crate) fn json(&self, value: &'a [u8]) -> Result<json::Json<'a>, Mistake> {
        if value.is_empty() {
            let detail = "the message has no bytes (a null value would be a tombstone)";
            return Err((Reason::EmptyValue, detail.to_owned()));
        }
        json::Json::parse(value)
    }
}

/// The sequence of the `row`th change that the message at an offset tells.
pub(crate) fn offset_seq(offset: i64, row: u64) -> Seq {
    Seq { epoch: 0, position: u64::try_from(offset).unwrap_or(0), row }
}

/// The table of the source whose records count; those of others stand beside them in the same topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTable {
    /// Database, schema and table as far as they are named, the table last.
    path: Vec<Box<str>>,
}

impl SourceTable {
    /// `table`, `schema.table` or `database.schema.table`.
    pub fn named(text: &str) -> Self {
        SourceTable { path: text.split('.').map(Into::into).collect() }
    }

    /// Whether the table of this path, outermost first, is the one.
    pub fn matches(&self, path: &[&str]) -> bool {
        let named = self.path.len();
        path.len() >= named && path[path.len() - named..].iter().zip(&self.path).all(|(a, b)| **a == **b)
    }
}

/// The decoder of one topic.
#[derive(Clone, Debug)]
pub enum Decoder {
    Native(native::NativeDecoder),
    Debezium(debezium::DebeziumDecoder),
    DebeziumUnwrapped(debezium_unwrapped::UnwrappedDecoder),
    Upsert(upsert::UpsertDecoder),
    Maxwell(maxwell::MaxwellDecoder),
    Canal(canal::CanalDecoder),
}

impl Decoder {
    /// Decodes one message. An error is a dead letter; it carries the message's sequence where that could be read.
    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        match self {
            Decoder::Native(decoder) => decoder.decode_record(record),
            Decoder::Debezium(decoder) => decoder.decode(record),
            Decoder::DebeziumUnwrapped(decoder) => decoder.decode(record),
            Decoder::Upsert(decoder) => decoder.decode(record),
            Decoder::Maxwell(decoder) => decoder.decode(record),
            Decoder::Canal(decoder) => decoder.decode(record),
        }
    }

    /// Whether it looks at a message's headers, so that they are worth fetching and keeping.
    pub fn reads_headers(&self) -> bool {
        match self {
            Decoder::Native(decoder) => decoder.reads_headers(),
            _ => false,
        }
    }
}
