//! What every decoder produces: one change of one row, a heartbeat, or nothing that concerns the base.
//! Knows no format and no storage.

use crate::pure::schema::Table;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// The row that a change leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// All columns of the table, in its order.
    Row(Box<[Value]>),
    /// The row is gone; only the key columns, in key order.
    Deleted(Box<[Value]>),
}

impl Image {
    /// The `part`th value of the primary key.
    pub fn key_part<'a>(&'a self, table: &Table, part: usize) -> &'a Value {
        match self {
            Image::Row(row) => &row[table.key[part]],
            Image::Deleted(key) => &key[part],
        }
    }

    pub fn row(&self) -> Option<&[Value]> {
        match self {
            Image::Row(row) => Some(row),
            Image::Deleted(_) => None,
        }
    }

    /// Orders images of one table by primary key, as the base's own tree is ordered.
    pub fn compare_keys(&self, other: &Image, table: &Table) -> std::cmp::Ordering {
        (0..table.key.len())
            .map(|part| self.key_part(table, part).cmp(other.key_part(table, part)))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    }
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    Change {
        seq: Seq,
        image: Image,
    },
    /// The log's writer says: nothing with a sequence up to this one is still to come in this partition.
    Heartbeat(Seq),
    /// A message that changes nothing by its nature, such as a tombstone.
    Control,
}

/// Why a message is a dead letter. The code is stable: scripts branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    EmptyValue,
    NotJson,
    NotObject,
    DuplicateField,
    MissingField,
    UnknownOperation,
    MissingRow,
    MissingColumn,
    KeyMismatch,
    GroupMismatch,
    WrongType,
    NumberOutOfRange,
    NullNotAllowed,
    NotADate,
    NulInText,
    /// The sequence of a stored row with another content.
    Conflict,
}

impl Reason {
    pub fn code(self) -> &'static str {
        match self {
            Reason::EmptyValue => "empty_value",
            Reason::NotJson => "not_json",
            Reason::NotObject => "not_object",
            Reason::DuplicateField => "duplicate_field",
            Reason::MissingField => "missing_field",
            Reason::UnknownOperation => "unknown_operation",
            Reason::MissingRow => "missing_row",
            Reason::MissingColumn => "missing_column",
            Reason::KeyMismatch => "key_mismatch",
            Reason::GroupMismatch => "group_mismatch",
            Reason::WrongType => "wrong_type",
            Reason::NumberOutOfRange => "number_out_of_range",
            Reason::NullNotAllowed => "null_not_allowed",
            Reason::NotADate => "not_a_date",
            Reason::NulInText => "nul_in_text",
            Reason::Conflict => "conflict",
        }
    }
}

/// A message that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: Reason,
    /// Names the field and what was wrong with it.
    pub detail: String,
    /// The message's own sequence where it could be read all the same.
    pub seq: Option<Seq>,
}

/// The one class that each consumed offset is counted in (P10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Applied,
    Duplicate,
    Stale,
    Expired,
    Control,
    DeadLetter,
}
