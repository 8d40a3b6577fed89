//! Decoder of Maxwell's change events: one row a message, `old` beside an update with what it changed. Knows
//! Maxwell's envelope; dates and numbers come as MySQL shows them.

use std::sync::Arc;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection, RowChange};
use crate::pure::formats::field::{self, Field, read_key, read_row};
use crate::pure::formats::json::Object;
use crate::pure::formats::native::Order;
use crate::pure::formats::position::binlog_number;
use crate::pure::formats::{Record, SourceTable};
use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// The Maxwell format of one table.
#[derive(Clone, Debug)]
pub struct MaxwellDecoder {
    table: Arc<Table>,
    order: Order,
    source: SourceTable,
    fields: Arc<[Field]>,
}

impl MaxwellDecoder {
    pub fn new(table: Arc<Table>, order: Order, source: SourceTable, fields: Vec<Field>) -> Self {
        MaxwellDecoder { table, order, source, fields: fields.into() }
    }

    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        // Maxwell's own tombstones (`kafka_key_format`, compaction) follow a delete that was told.
        let Some(value) = record.value else { return Ok(Decoded::Control) };
        let mut seq = (self.order == Order::Offset).then(|| record.offset_seq());
        self.read(record, value, &mut seq).map_err(|(reason, detail)| Rejection { reason, detail, seq })
    }

    fn read(&self, record: &Record<'_>, value: &[u8], seq: &mut Option<Seq>) -> Result<Decoded, Mistake> {
        let event = record.json(value)?.object("the message")?;
        let kind = event.text("type")?;
        let kind = kind.ok_or_else(|| (Reason::MissingField, "type is missing".to_owned()))?;
        let is_row = matches!(&*kind, "insert" | "update" | "delete" | "bootstrap-insert");
        let ours = self.is_ours(&event)?;
        if !is_row || !ours {
            // Schema changes, the frame of a bootstrap, heartbeats; and rows of other tables.
            let known = kind.starts_with("bootstrap-")
                || kind.starts_with("table-")
                || kind.starts_with("database-")
                || kind == "heartbeat";
            if is_row || known {
                return self.beside(&event);
            }
            let detail = format!("type is {kind:?}, known are insert, update, delete and bootstrap-insert");
            return Err((Reason::UnknownOperation, detail));
        }
        if self.order == Order::SourceSeq {
            *seq = Some(position(&event)?);
        }
        let at = seq.ok_or_else(|| (Reason::NoPosition, "the event cannot be ordered".to_owned()))?;
        let data = event.some("data")?.ok_or_else(|| (Reason::MissingRow, format!("{kind} without data")))?;
        let data = data.object("data")?;
        let named = |(reason, detail): Mistake| (reason, format!("data: {detail}"));
        if kind == "delete" {
            let key = read_key(&self.table, &self.fields, &data).map_err(named)?;
            return Ok(Decoded::Change { seq: at, image: Image::Deleted(key.into()) });
        }
        let row = read_row(&self.table, &self.fields, &data).map_err(named)?;
        let old = event.some("old")?.map(|json| json.object("old")).transpose()?;
        let moved = old_key(&self.table, &self.fields, &row, old.as_ref())?;
        let image = Image::Row(row.into());
        Ok(match moved {
            None => Decoded::Change { seq: at, image },
            Some(old) => Decoded::Changes(vec![
                RowChange::new(at, Image::Deleted(old.into())),
                RowChange::new(at, image),
            ]),
        })
    }

    fn is_ours(&self, event: &Object<'_>) -> Result<bool, Mistake> {
        let (database, table) = (event.text("database")?, event.text("table")?);
        let path: Vec<&str> = database.as_deref().into_iter().chain(table.as_deref()).collect();
        Ok(table.is_some() && self.source.matches(&path))
    }

    fn beside(&self, event: &Object<'_>) -> Result<Decoded, Mistake> {
        Ok(match (self.order, position(event)) {
            (Order::SourceSeq, Ok(at)) => Decoded::Heartbeat(at.just_below()),
            _ => Decoded::Control,
        })
    }
}

/// The key that an update left, where it changed it: `old` has what was changed, the row the rest.
pub(super) fn old_key(
    table: &Table,
    fields: &[Field],
    row: &[Value],
    old: Option<&Object<'_>>,
) -> Result<Option<Vec<Value>>, Mistake> {
    let Some(old) = old else { return Ok(None) };
    let mut key = Vec::with_capacity(table.key.len());
    for &column in &table.key {
        let (shape, field) = (&table.columns[column], &fields[column]);
        key.push(match old.get(&field.source)? {
            Some(json) => field::read(shape, &field.encoding, json)
                .map_err(|(reason, detail)| (reason, format!("old: {detail}")))?,
            None => row[column].clone(),
        });
    }
    let same = table.key.iter().zip(&key).all(|(&column, part)| row[column] == *part);
    Ok((!same).then_some(key))
}

/// `"position": "mysql-bin.000003:154"` (with `output_binlog_position`) and the row's number in its transaction
/// (with `output_xoffset`); the last row is marked `commit`.
fn position(event: &Object<'_>) -> Result<Seq, Mistake> {
    let text = event.text("position")?.ok_or_else(|| {
        let detail = "position is missing: start Maxwell with output_binlog_position=true, or set watermark = \"offsets\"";
        (Reason::NoPosition, detail.to_owned())
    })?;
    let wrong = || (Reason::NoPosition, format!("position is {text:?}, it must be FILE:POSITION"));
    let (file, position) = text.rsplit_once(':').ok_or_else(wrong)?;
    let position = position.parse().map_err(|_| wrong())?;
    let commit = event.some("commit")?.is_some_and(|json| json.raw() == "true");
    let is_bootstrap = event.text("type")?.is_some_and(|kind| kind.starts_with("bootstrap-"));
    let row = match event.number("xoffset")? {
        // All rows of a bootstrap have the position that it began at, and stand before what follows.
        _ if is_bootstrap => 0,
        _ if commit => u64::MAX,
        Some(offset) => offset.saturating_add(1),
        // Without numbers, the rows of one position are of one statement, which changes each row once.
        None => 1,
    };
    Ok(Seq { epoch: binlog_number(file)?, position, row })
}
