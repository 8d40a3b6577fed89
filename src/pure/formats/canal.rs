//! Decoder of Canal's flat messages: the rows of one statement together, every value as text. Knows Canal's
//! envelope. Its `id` begins anew with each start of Canal and `es` is a time, so offsets order the events.

use std::sync::Arc;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection, RowChange};
use crate::pure::formats::field::{Field, read_key, read_row};
use crate::pure::formats::json::Object;
use crate::pure::formats::{Record, SourceTable, maxwell, offset_seq};
use crate::pure::schema::Table;

/// The Canal format of one table.
#[derive(Clone, Debug)]
pub struct CanalDecoder {
    table: Arc<Table>,
    source: SourceTable,
    fields: Arc<[Field]>,
}

impl CanalDecoder {
    pub fn new(table: Arc<Table>, source: SourceTable, fields: Vec<Field>) -> Self {
        CanalDecoder { table, source, fields: fields.into() }
    }

    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let Some(value) = record.value else { return Ok(Decoded::Control) };
        let seq = Some(record.offset_seq());
        self.read(record, value).map_err(|(reason, detail)| Rejection { reason, detail, seq })
    }

    fn read(&self, record: &Record<'_>, value: &[u8]) -> Result<Decoded, Mistake> {
        let event = record.json(value)?.object("the message")?;
        let kind = event.text("type")?;
        let kind = kind.ok_or_else(|| (Reason::MissingField, "type is missing".to_owned()))?;
        let is_ddl = matches!(event.some("isDdl")?, Some(json) if json.raw() == "true");
        if is_ddl || !self.is_ours(&event)? {
            // A truncation of our table is no row's change, and must not pass for none.
            return Ok(if kind == "TRUNCATE" && self.is_ours(&event)? {
                Decoded::Truncate(record.offset_seq())
            } else {
                Decoded::Control
            });
        }
        let rows = |name: &str| -> Result<Vec<Object<'_>>, Mistake> {
            let Some(json) = event.some(name)? else { return Ok(Vec::new()) };
            json.items(name)?.into_iter().map(|item| item.object(name)).collect()
        };
        let data = rows("data")?;
        let changes = match &*kind {
            "INSERT" => self.written(record, &data, &[])?,
            "UPDATE" => self.written(record, &data, &rows("old")?)?,
            "DELETE" => self.deleted(record, &data)?,
            // Statements as text, which change nothing that is not told as rows.
            "QUERY" => return Ok(Decoded::Control),
            other => {
                let detail = format!("type is {other:?}, known are INSERT, UPDATE and DELETE");
                return Err((Reason::UnknownOperation, detail));
            }
        };
        if changes.is_empty() {
            return Err((Reason::MissingRow, format!("{kind} without data")));
        }
        Ok(Decoded::Changes(changes))
    }

    fn is_ours(&self, event: &Object<'_>) -> Result<bool, Mistake> {
        let (database, table) = (event.text("database")?, event.text("table")?);
        let path: Vec<&str> = database.as_deref().into_iter().chain(table.as_deref()).collect();
        Ok(table.is_some() && self.source.matches(&path))
    }

    /// The rows of an insert or update. All leave before any arrives, so that keys may be passed on within.
    fn written(
        &self,
        record: &Record<'_>,
        data: &[Object<'_>],
        old: &[Object<'_>],
    ) -> Result<Vec<RowChange>, Mistake> {
        let mut rows = Vec::with_capacity(data.len());
        let mut left = Vec::new();
        for (index, from) in data.iter().enumerate() {
            let named = |(reason, detail): Mistake| (reason, format!("data, row {}: {detail}", index + 1));
            let row = read_row(&self.table, &self.fields, from).map_err(named)?;
            left.extend(maxwell::old_key(&self.table, &self.fields, &row, old.get(index)).map_err(named)?);
            rows.push(row);
        }
        let images = left.into_iter().map(|key| Image::Deleted(key.into()));
        let images = images.chain(rows.into_iter().map(|row| Image::Row(row.into())));
        Ok(numbered(record, images))
    }

    fn deleted(&self, record: &Record<'_>, data: &[Object<'_>]) -> Result<Vec<RowChange>, Mistake> {
        let mut keys = Vec::with_capacity(data.len());
        for (index, from) in data.iter().enumerate() {
            let named = |(reason, detail): Mistake| (reason, format!("data, row {}: {detail}", index + 1));
            keys.push(Image::Deleted(read_key(&self.table, &self.fields, from).map_err(named)?.into()));
        }
        Ok(numbered(record, keys.into_iter()))
    }
}

/// The changes of one message, in its order.
fn numbered(record: &Record<'_>, images: impl Iterator<Item = Image>) -> Vec<RowChange> {
    images
        .enumerate()
        .map(|(row, image)| RowChange::new(offset_seq(record.offset, row as u64), image))
        .collect()
}
