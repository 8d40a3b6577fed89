//! Rows in which Debezium leaves a value out because the database's log does not hold it: a placeholder stands
//! there, and the stored row has the value. Knows the placeholder and no envelope.

use crate::pure::event::{Image, Mistake, Reason, RowChange};
use crate::pure::formats::decimal::to_base64;
use crate::pure::formats::field::{self, Field};
use crate::pure::formats::json::{Json, Kind, Object};
use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// What Debezium puts in place of such a value, unless it is told otherwise.
pub const UNAVAILABLE: &str = "__debezium_unavailable_value";

/// The placeholder as text, and as base64 where bytes are meant.
#[derive(Clone, Debug)]
pub struct Unavailable([Box<str>; 2]);

/// A row as the message has it.
pub struct Told {
    pub values: Vec<Value>,
    /// Columns that the message leaves to the stored row; null stands in for them.
    pub kept: Vec<usize>,
}

impl Told {
    pub fn change(self, seq: Seq) -> RowChange {
        RowChange { seq, image: Image::Row(self.values.into()), kept: self.kept.into() }
    }
}

impl Unavailable {
    pub fn new(placeholder: &str) -> Self {
        Unavailable([placeholder.into(), to_base64(placeholder.as_bytes()).into()])
    }

    /// The columns of a table out of a row.
    pub fn read_row(&self, table: &Table, fields: &[Field], from: &Object<'_>) -> Result<Told, Mistake> {
        let mut told = Told { values: Vec::with_capacity(fields.len()), kept: Vec::new() };
        for (index, (column, field)) in table.columns.iter().zip(fields).enumerate() {
            let json = from.get(&field.source)?.ok_or_else(|| field::missing(column, field))?;
            if !self.is(json)? {
                told.values.push(field::read(column, &field.encoding, json)?);
                continue;
            }
            if table.is_key(index) {
                let detail = format!("{} is not told, and is part of the key", column.name);
                return Err((Reason::MissingKey, detail));
            }
            told.kept.push(index);
            told.values.push(Value::Null);
        }
        Ok(told)
    }

    fn is(&self, json: Json<'_>) -> Result<bool, Mistake> {
        // A look at the length spares most values the reading.
        if self.0.iter().all(|known| known.len() + 2 != json.raw().len()) {
            return Ok(false);
        }
        Ok(match json.kind()? {
            Kind::Text(text) => self.0.iter().any(|known| **known == *text),
            _ => false,
        })
    }
}
