//! Decoder of topics that hold the latest state of each key: the key and the row, and null where the row is gone.
//! Nothing in a message orders it, so offsets do; states that compaction has taken away are not missed.

use std::sync::Arc;

use crate::pure::event::{Decoded, Image, Mistake, Reason, Rejection};
use crate::pure::formats::Record;
use crate::pure::formats::connect::{self, Plans, Unwrapped};
use crate::pure::formats::field::{self, Field, has_key, read_key};
use crate::pure::formats::json::{Json, Object};
use crate::pure::schema::{ColumnType, Table};
use crate::pure::value::Value;

/// The upsert format of one table.
#[derive(Clone, Debug)]
pub struct UpsertDecoder {
    table: Arc<Table>,
    plans: Plans,
}

impl UpsertDecoder {
    pub fn new(table: Arc<Table>, plans: Plans) -> Self {
        UpsertDecoder { table, plans }
    }

    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let seq = record.offset_seq();
        let image = self.image(record);
        image.map(|image| Decoded::Change { seq, image }).map_err(|(reason, detail)| Rejection {
            reason,
            detail,
            seq: Some(seq),
        })
    }

    fn image(&self, record: &Record<'_>) -> Result<Image, Mistake> {
        let gone =
            |fields: &[Field]| message_key(&self.table, fields, record).map(|key| Image::Deleted(key.into()));
        let Some(value) = record.value else { return gone(self.plans.configured()) };
        let Unwrapped { payload, schema } = connect::unwrap(record.json(value)?)?;
        let fields = self.plans.of(schema, None)?;
        if payload.is_null() {
            return gone(&fields);
        }
        let row = payload.object("the message")?;
        let key = message_key(&self.table, &fields, record)?;
        let image = Image::Row(self.row(&fields, &row, &key)?.into());
        same_key(&self.table, &key, &image)?;
        Ok(image)
    }

    /// A row may leave its key to the message's.
    fn row(&self, fields: &[Field], from: &Object<'_>, key: &[Value]) -> Result<Vec<Value>, Mistake> {
        let mut row = Vec::with_capacity(fields.len());
        for (index, (column, field)) in self.table.columns.iter().zip(fields).enumerate() {
            let part = self.table.key.iter().position(|&key| key == index);
            row.push(match (from.get(&field.source)?, part) {
                (Some(json), _) => field::read(column, &field.encoding, json)?,
                (None, Some(part)) => key[part].clone(),
                (None, None) => return Err(field::missing(column, field)),
            });
        }
        Ok(row)
    }
}

/// The primary key that a message's key tells: an object of its columns, or the bare value where the key is one
/// column.
pub(super) fn message_key(
    table: &Table,
    fields: &[Field],
    record: &Record<'_>,
) -> Result<Vec<Value>, Mistake> {
    let bytes = record.key.ok_or_else(|| {
        (Reason::MissingKey, "the message has no key: nothing says which row it is of".to_owned())
    })?;
    let named = |(reason, detail): Mistake| (reason, format!("message key: {detail}"));
    // Bare text, as string serialisers write it, is no JSON.
    let parsed = Json::parse(bytes).and_then(connect::unwrap).map(|Unwrapped { payload, .. }| payload);
    match parsed {
        Ok(json) if json.is_object() => {
            let object = json.object("the key").map_err(named)?;
            if !has_key(table, fields, &object) {
                let names: Vec<&str> = table.key.iter().map(|&column| &*fields[column].source).collect();
                return Err((
                    Reason::MissingKey,
                    format!("the message key lacks a part of the primary key ({})", names.join(", ")),
                ));
            }
            read_key(table, fields, &object).map_err(named)
        }
        parsed => bare_key(table, fields, bytes, parsed.ok()).map_err(named),
    }
}

fn bare_key(
    table: &Table,
    fields: &[Field],
    bytes: &[u8],
    json: Option<Json<'_>>,
) -> Result<Vec<Value>, Mistake> {
    let [only] = table.key[..] else {
        return Err((Reason::MissingKey, "it must be a JSON object of the primary key's columns".to_owned()));
    };
    let (column, encoding) = (&table.columns[only], &fields[only].encoding);
    let text = std::str::from_utf8(bytes).map_err(|_| (Reason::MissingKey, "it is no text".to_owned()))?;
    match json {
        // Text in quotes is JSON's; anything else that a text column gets is the text itself.
        Some(json) if column.column_type == ColumnType::Integer || text.starts_with('"') => {
            field::read(column, encoding, json).map(|value| vec![value])
        }
        _ => {
            let quoted = serde_json::Value::from(text).to_string();
            let json = Json::parse(quoted.as_bytes())?;
            field::read(column, encoding, json).map(|value| vec![value])
        }
    }
}

/// A row under another key than its message's would be written where nothing deletes it.
pub(super) fn same_key(table: &Table, key: &[Value], image: &Image) -> Result<(), Mistake> {
    for (part, &column) in table.key.iter().enumerate() {
        let found = image.key_part(table, part);
        if *found != key[part] {
            let name = &table.columns[column].name;
            return Err((
                Reason::KeyMismatch,
                format!("{name} is {} in the message key and {found} in the row", key[part]),
            ));
        }
    }
    Ok(())
}
