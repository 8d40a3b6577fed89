//! The row of an event, read straight into the table's columns. Knows one table's columns and no envelope.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::scalar::{Name, check, not_for_this_visitor, skip};
use crate::pure::event::{Mistake, Reason};
use crate::pure::schema::Table;
use crate::pure::value::Value;

/// Reads the row of an event: `Ok(None)` for null, a mistake for what the table does not allow.
pub(super) struct RowSeed<'a>(pub(super) &'a Table);

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Result<Option<Vec<Value>>, Mistake>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Result<Option<Vec<Value>>, Mistake>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a row")
    }

    not_for_this_visitor!(
        Err((Reason::WrongType, "row must be an object or null".into())), null: Ok(None);
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str
    );

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let columns = &self.0.columns;
        let mut row: Vec<Option<Value>> = vec![None; columns.len()];
        let mut mistake = None;
        let mut expected = 0;
        while let Some(Name(name)) = map.next_key()? {
            // Writers keep their order of columns: the one after the last is the likely one.
            let found = match columns.get(expected) {
                Some(column) if *column.name == *name => Some(expected),
                _ => self.0.column(&name),
            };
            let Some(index) = found else {
                skip(&mut map)?;
                continue;
            };
            expected = index + 1;
            match check(&columns[index], map.next_value()?) {
                Ok(_) if row[index].is_some() => {
                    mistake.get_or_insert((Reason::DuplicateField, format!("row: {name} occurs twice")));
                }
                Ok(value) => row[index] = Some(value),
                Err((reason, detail)) => {
                    mistake.get_or_insert((reason, format!("row: {detail}")));
                }
            }
        }
        let missing = row.iter().position(Option::is_none);
        Ok(match (mistake, missing) {
            (Some(mistake), _) => Err(mistake),
            (None, Some(index)) => {
                Err((Reason::MissingColumn, format!("row: column {} is missing", columns[index].name)))
            }
            (None, None) => Ok(Some(row.into_iter().flatten().collect())),
        })
    }
}
