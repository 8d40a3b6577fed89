//! Decoder of Debezium's change events, with the converter's schema envelope and without it. Knows the envelope
//! (`op`, `before`, `after`, `source`) and the kinds of record that stand among changes; what a value means is
//! `field`'s, and where an event stands in its source's log `position`'s.

use std::sync::Arc;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection, RowChange};
use crate::pure::formats::connect::{self, Plans, Unwrapped};
use crate::pure::formats::field::{Field, has_key, read_key};
use crate::pure::formats::json::{Json, Object};
use crate::pure::formats::native::Order;
use crate::pure::formats::unavailable::Unavailable;
use crate::pure::formats::{Record, SourceTable, position};
use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// The Debezium format of one table.
#[derive(Clone, Debug)]
pub struct DebeziumDecoder {
    table: Arc<Table>,
    order: Order,
    source: SourceTable,
    plans: Plans,
    unavailable: Unavailable,
}

impl DebeziumDecoder {
    pub fn new(
        table: Arc<Table>,
        order: Order,
        source: SourceTable,
        plans: Plans,
        unavailable: Unavailable,
    ) -> Self {
        DebeziumDecoder { table, order, source, plans, unavailable }
    }

    /// Decodes one message. A tombstone follows a delete and says nothing that it did not say.
    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let Some(value) = record.value else { return Ok(Decoded::Control) };
        let mut seq = None;
        self.read(record, value, &mut seq).map_err(|(reason, detail)| Rejection { reason, detail, seq })
    }

    /// `seq` is filled as soon as it is known, for the rejection to carry.
    fn read(&self, record: &Record<'_>, value: &[u8], seq: &mut Option<Seq>) -> Result<Decoded, Mistake> {
        if self.order == Order::Offset {
            *seq = Some(record.offset_seq());
        }
        // 1. The envelope.
        let Unwrapped { payload, schema } = connect::unwrap(record.json(value)?)?;
        if payload.is_null() {
            return Ok(Decoded::Control);
        }
        let event = payload.object("the message")?;
        let Some(op) = event.text("op")? else { return not_a_change(&event) };
        // 2. Whose event it is, and where it stands.
        let source = event.some("source")?.map(|json| json.object("source")).transpose()?;
        let source = source.ok_or_else(|| (Reason::MissingField, "source is missing".to_owned()))?;
        if self.order == Order::SourceSeq {
            *seq = Some(position::of_source(&source, "")?);
        }
        let at = seq.ok_or_else(|| (Reason::NoPosition, "the event cannot be ordered".to_owned()))?;
        if &*op == "m" || !self.is_ours(&source)? {
            return Ok(self.beside(at));
        }
        // 3. What it says.
        let fields = self.plans.of(schema, Some("after"))?;
        let part = |name: &str| match event.get(name)? {
            Some(json) => json.object_or_null(name),
            None => Ok(None),
        };
        match &*op {
            "c" | "r" | "u" => self.written(record, at, &op, &fields, part("before")?, part("after")?),
            "d" => {
                let key = self.old_key(record, &fields, part("before")?.as_ref())?;
                let key = key.ok_or_else(|| {
                    (
                        Reason::MissingKey,
                        "a delete without message key and before-image names no row".to_owned(),
                    )
                })?;
                Ok(Decoded::Change { seq: at, image: Image::Deleted(key.into()) })
            }
            "t" => Ok(Decoded::Truncate(at)),
            other => {
                Err((Reason::UnknownOperation, format!("op is {other:?}, known are c, r, u, d, t and m")))
            }
        }
    }

    /// A record that changes nothing here, but stands in the same log: nothing below it is still to come.
    fn beside(&self, at: Seq) -> Decoded {
        match self.order {
            Order::SourceSeq => Decoded::Heartbeat(at.just_below()),
            Order::Offset => Decoded::Control,
        }
    }

    fn is_ours(&self, source: &Object<'_>) -> Result<bool, Mistake> {
        let (db, schema, table) = (source.text("db")?, source.text("schema")?, source.text("table")?);
        let Some(table) = table else { return Ok(false) };
        let mut path: Vec<&str> = db.as_deref().into_iter().chain(schema.as_deref()).collect();
        path.push(&table);
        Ok(self.source.matches(&path))
    }

    /// A create, a snapshot's row or an update; one that changes the key leaves no row under the old one.
    fn written(
        &self,
        record: &Record<'_>,
        seq: Seq,
        op: &str,
        fields: &[Field],
        before: Option<Object<'_>>,
        after: Option<Object<'_>>,
    ) -> Result<Decoded, Mistake> {
        let after = after.ok_or_else(|| (Reason::MissingRow, format!("op {op} needs the row in after")))?;
        let row = self.unavailable.read_row(&self.table, fields, &after)?;
        if self.order == Order::Offset && record.key.is_none() {
            return Err((
                Reason::MissingKey,
                "the message has no key: the source table has no primary key, and offsets order only what stays in one partition".to_owned(),
            ));
        }
        let key: Vec<&Value> = self.table.key.iter().map(|&column| &row.values[column]).collect();
        let old = if op == "u" { self.old_key(record, fields, before.as_ref())? } else { None };
        let moved = old.filter(|old| old.iter().ne(key.iter().copied()));
        if moved.is_some() && !row.kept.is_empty() {
            return Err((
                Reason::NoStoredRow,
                "an update that changes the key leaves columns out; set REPLICA IDENTITY FULL on the source table".to_owned(),
            ));
        }
        let change = row.change(seq);
        Ok(match moved {
            Some(old) => Decoded::Changes(vec![RowChange::new(seq, Image::Deleted(old.into())), change]),
            None if change.kept.is_empty() => Decoded::Change { seq, image: change.image },
            None => Decoded::Changes(vec![change]),
        })
    }

    /// The key that the row had before: of the before-image where that has it, otherwise of the message.
    fn old_key(
        &self,
        record: &Record<'_>,
        fields: &[Field],
        before: Option<&Object<'_>>,
    ) -> Result<Option<Vec<Value>>, Mistake> {
        let named = |(reason, detail): Mistake| (reason, format!("before: {detail}"));
        if let Some(before) = before.filter(|before| has_key(&self.table, fields, before)) {
            return read_key(&self.table, fields, before).map(Some).map_err(named);
        }
        match record.key {
            Some(bytes) => self.message_key(bytes, fields).map(Some),
            None => Ok(None),
        }
    }

    fn message_key(&self, bytes: &[u8], fields: &[Field]) -> Result<Vec<Value>, Mistake> {
        let wrong = |(reason, detail): Mistake| match reason {
            Reason::NotJson | Reason::NotObject => {
                (Reason::MissingKey, format!("the message key is no JSON object: {detail}"))
            }
            Reason::MissingColumn => (
                Reason::MissingKey,
                format!("message key: {detail}; primary_key must be what the connector keys its messages by"),
            ),
            reason => (reason, format!("message key: {detail}")),
        };
        let read = || {
            // The key's own schema says of its columns what the row's says.
            let Unwrapped { payload, .. } = connect::unwrap(Json::parse(bytes)?)?;
            read_key(&self.table, fields, &payload.object("the message key")?)
        };
        read().map_err(wrong)
    }
}

/// Heartbeats, transaction records and schema changes are no changes; anything else without `op` is a mistake.
fn not_a_change(event: &Object<'_>) -> Result<Decoded, Mistake> {
    let heartbeat = event.names().all(|name| name == "ts_ms" || name == "ts_us" || name == "ts_ns");
    let transaction = event.has("status") && event.has("id");
    let schema_change = event.has("ddl") || event.has("tableChanges");
    if heartbeat || transaction || schema_change {
        return Ok(Decoded::Control);
    }
    let hint = if event.names().any(|name| name.starts_with("__")) {
        "; the rows look unwrapped: format = \"debezium_unwrapped\" reads them"
    } else {
        ""
    };
    Err((Reason::MissingField, format!("op is missing{hint}")))
}
