//! Decoder of rows that Debezium's `ExtractNewRecordState` has taken out of their envelope: the columns, and beside
//! them fields with a prefix. What the envelope said is there only as far as the transform was told to keep it.

use std::sync::Arc;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection, RowChange};
use crate::pure::formats::connect::{self, Plans, Unwrapped};
use crate::pure::formats::field::{Field, has_key, read_key};
use crate::pure::formats::json::{Json, Object};
use crate::pure::formats::native::Order;
use crate::pure::formats::unavailable::Unavailable;
use crate::pure::formats::{Record, SourceTable, position, upsert};
use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// How the transform tells that a row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// `__deleted` in every message (`rewrite`): a message without it comes from a transform that drops deletes.
    Rewrite,
    /// A null value (`tombstone`): only where offsets order events.
    Tombstone,
}

/// The unwrapped format of one table.
#[derive(Clone, Debug)]
pub struct UnwrappedDecoder {
    table: Arc<Table>,
    order: Order,
    /// Compared with `__table`, where it is named.
    source: Option<SourceTable>,
    plans: Plans,
    deletes: Deletes,
    unavailable: Unavailable,
}

impl UnwrappedDecoder {
    pub fn new(
        table: Arc<Table>,
        order: Order,
        source: Option<SourceTable>,
        plans: Plans,
        deletes: Deletes,
        unavailable: Unavailable,
    ) -> Self {
        UnwrappedDecoder { table, order, source, plans, deletes, unavailable }
    }

    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let mut seq = (self.order == Order::Offset).then(|| record.offset_seq());
        self.read(record, &mut seq).map_err(|(reason, detail)| Rejection { reason, detail, seq })
    }

    fn read(&self, record: &Record<'_>, seq: &mut Option<Seq>) -> Result<Decoded, Mistake> {
        // 1. Null: the delete itself, or the tombstone behind one that was told.
        let Some(value) = record.value else { return self.tombstone(record) };
        let Unwrapped { payload, schema } = connect::unwrap(record.json(value)?)?;
        if payload.is_null() {
            return self.tombstone(record);
        }
        let row = payload.object("the message")?;
        if row.has("op") && row.has("source") {
            let hint = "op and source stand beside each other: format = \"debezium\" reads an envelope";
            return Err((Reason::NotObject, hint.to_owned()));
        }
        // 2. Whose row it is, and where it stands.
        if self.order == Order::SourceSeq {
            *seq = Some(self.position(&row)?);
        }
        let at = seq.ok_or_else(|| (Reason::NoPosition, "the event cannot be ordered".to_owned()))?;
        if !self.is_ours(&row)? {
            return Ok(match self.order {
                Order::SourceSeq => Decoded::Heartbeat(at.just_below()),
                Order::Offset => Decoded::Control,
            });
        }
        // 3. What became of it.
        let fields = self.plans.of(schema, None)?;
        let change = if self.is_deleted(&row)? {
            RowChange::new(at, Image::Deleted(self.deleted_key(record, &fields, &row)?.into()))
        } else {
            self.unavailable.read_row(&self.table, &fields, &row)?.change(at)
        };
        self.agree(record, &fields, &change.image)?;
        Ok(match change.kept.is_empty() {
            true => Decoded::Change { seq: at, image: change.image },
            false => Decoded::Changes(vec![change]),
        })
    }

    fn tombstone(&self, record: &Record<'_>) -> Result<Decoded, Mistake> {
        match self.deletes {
            Deletes::Rewrite => Ok(Decoded::Control),
            Deletes::Tombstone => {
                let key = upsert::message_key(&self.table, self.plans.configured(), record)?;
                Ok(Decoded::Change { seq: record.offset_seq(), image: Image::Deleted(key.into()) })
            }
        }
    }

    /// `add.fields=source.lsn` makes `__source_lsn`, `add.fields=lsn` makes `__lsn`.
    fn position(&self, row: &Object<'_>) -> Result<Seq, Mistake> {
        let long = ["lsn", "file", "commit_lsn"].iter().any(|name| row.has(&format!("__source_{name}")));
        position::of_source(row, if long { "__source_" } else { "__" }).map_err(|(reason, detail)| {
            let hint = "; let the transform add it: add.fields=op,table,source.connector,source.snapshot and source.lsn,source.sequence (PostgreSQL) or source.file,source.pos,source.row (MySQL)";
            (reason, format!("{detail}{hint}"))
        })
    }

    fn is_ours(&self, row: &Object<'_>) -> Result<bool, Mistake> {
        let Some(source) = &self.source else { return Ok(true) };
        let field = |name: &str| -> Result<_, Mistake> {
            Ok(row.text(&format!("__source_{name}"))?.or(row.text(&format!("__{name}"))?))
        };
        let (db, schema) = (field("db")?, field("schema")?);
        let table = field("table")?.ok_or_else(|| {
            (
                Reason::MissingField,
                "__table is missing; let the transform add it: add.fields=table".to_owned(),
            )
        })?;
        let mut path: Vec<&str> = db.as_deref().into_iter().chain(schema.as_deref()).collect();
        path.push(&table);
        Ok(source.matches(&path))
    }

    fn is_deleted(&self, row: &Object<'_>) -> Result<bool, Mistake> {
        if row.text("__op")?.as_deref() == Some("d") {
            return Ok(true);
        }
        match (row.some("__deleted")?.map(Json::raw), self.deletes) {
            (Some("true" | "\"true\""), _) => Ok(true),
            (Some("false" | "\"false\""), _) | (None, Deletes::Tombstone) => Ok(false),
            (Some(other), _) => {
                Err((Reason::WrongType, format!("__deleted is {other}, it must be true or false")))
            }
            (None, Deletes::Rewrite) => Err((
                Reason::MissingField,
                "__deleted is missing: the transform drops deletes; set delete.tombstone.handling.mode=rewrite (delete.handling.mode=rewrite before Debezium 2.5)".to_owned(),
            )),
        }
    }

    /// A deleted row keeps its key columns, even where its other columns hold nothing true.
    fn deleted_key(
        &self,
        record: &Record<'_>,
        fields: &[Field],
        row: &Object<'_>,
    ) -> Result<Vec<Value>, Mistake> {
        if has_key(&self.table, fields, row) {
            return read_key(&self.table, fields, row);
        }
        upsert::message_key(&self.table, fields, record)
    }

    /// Without an envelope a change of the key cannot be told from a new row, so the message's key must be the row's.
    fn agree(&self, record: &Record<'_>, fields: &[Field], image: &Image) -> Result<(), Mistake> {
        let key = upsert::message_key(&self.table, fields, record)?;
        upsert::same_key(&self.table, &key, image)
    }
}
