//! One reading of an event's top level, front to back. Gathers what is there and the first mistake; whether it
//! makes an event is the decoder's to say.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::row::RowSeed;
use super::scalar::{Name, Raw, check, not_for_this_visitor, read_seq, skip};
use super::{Field, NativeDecoder};
use crate::pure::event::{Mistake, Reason};
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// What one reading of a message found.
pub(super) struct Envelope<'de> {
    pub(super) source_seq: Option<Seq>,
    pub(super) operation: Option<Cow<'de, str>>,
    pub(super) heartbeat: Option<Seq>,
    pub(super) key: Vec<Option<Value>>,
    pub(super) new: Vec<(usize, Value)>,
    pub(super) row: Option<Vec<Value>>,
    pub(super) mistake: Option<Mistake>,
}

impl Envelope<'_> {
    /// The first mistake is the one told.
    fn note(&mut self, mistake: Mistake) {
        self.mistake.get_or_insert(mistake);
    }
}

pub(super) struct EnvelopeSeed<'a>(pub(super) &'a NativeDecoder);

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_> {
    type Value = Option<Envelope<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
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
