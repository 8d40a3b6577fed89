//! Between driftless's types and SQLite's values.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::pure::seq::Seq;
use crate::pure::value::Value;

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl FromSql for Value {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Null => Ok(Value::Null),
            ValueRef::Integer(number) => Ok(Value::Integer(number)),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes)
                .map(Value::text)
                .map_err(|error| FromSqlError::Other(Box::new(error))),
            ValueRef::Real(_) | ValueRef::Blob(_) => Err(FromSqlError::InvalidType),
        }
    }
}

/// A plain sequence is an integer, any other twenty bytes that sort like it.
impl ToSql for Seq {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        use rusqlite::types::Value as Owned;
        if self.is_plain() && self.position <= Seq::POSITION_MAX {
            return Ok(ToSqlOutput::Owned(Owned::Integer(self.position as i64)));
        }
        Ok(ToSqlOutput::Owned(Owned::Blob(seq_bytes(*self))))
    }
}

/// The form of a sequence that is not plain.
pub(super) fn seq_bytes(seq: Seq) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20);
    bytes.extend_from_slice(&seq.epoch.to_be_bytes());
    bytes.extend_from_slice(&seq.position.to_be_bytes());
    bytes.extend_from_slice(&seq.row.to_be_bytes());
    bytes
}

impl FromSql for Seq {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(number) => {
                u64::try_from(number).map(Seq::at).map_err(|_| FromSqlError::OutOfRange(number))
            }
            ValueRef::Blob(bytes) => {
                let bytes: &[u8; 20] = bytes.try_into().map_err(|_| FromSqlError::InvalidType)?;
                let (epoch, rest) = bytes.split_at(4);
                let (position, row) = rest.split_at(8);
                Ok(Seq {
                    epoch: u32::from_be_bytes(epoch.try_into().unwrap_or_default()),
                    position: u64::from_be_bytes(position.try_into().unwrap_or_default()),
                    row: u64::from_be_bytes(row.try_into().unwrap_or_default()),
                })
            }
            _ => Err(FromSqlError::InvalidType),
        }
    }
}
