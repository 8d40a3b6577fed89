//! What every decoder produces: changes of rows, a heartbeat, or nothing that concerns the base.
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

/// One of the changes that a message tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub seq: Seq,
    pub image: Image,
    /// Columns whose value the message does not tell because the change leaves it as it is; null stands in for
    /// them in the image, and the stored row has them.
    pub kept: Box<[usize]>,
}

impl RowChange {
    pub fn new(seq: Seq, image: Image) -> Self {
        RowChange { seq, image, kept: Box::default() }
    }
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// One change, told in full.
    Change { seq: Seq, image: Image },
    /// Several changes, or one that is told in part. They are applied in one commit, and their offset is
    /// counted once.
    Changes(Vec<RowChange>),
    /// Every row with a lower sequence is gone.
    Truncate(Seq),
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
    /// The message has no key, or one that does not tell the row.
    MissingKey,
    /// Nothing in the message says what came before it, or its source is not known.
    NoPosition,
    /// A number that the column's scale cannot hold exactly.
    NotExact,
    /// The change leaves a column as it is, and the base has no row to take it from.
    NoStoredRow,
    /// A truncation that nothing orders among the changes of other partitions.
    Truncated,
    /// The message names a schema that is not known.
    UnknownSchema,
    /// The bytes are not what the schema says.
    NotAvro,
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
            Reason::MissingKey => "missing_key",
            Reason::NoPosition => "no_position",
            Reason::NotExact => "not_exact",
            Reason::NoStoredRow => "no_stored_row",
            Reason::Truncated => "truncated",
            Reason::UnknownSchema => "unknown_schema",
            Reason::NotAvro => "not_avro",
        }
    }
}

/// What is wrong with a part of a message: a stable code, and the field and what was wrong with it.
pub type Mistake = (Reason, String);

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

impl Class {
    /// The class of an offset that told changes of both classes: a dead letter is one whatever else came of its
    /// message, and what changed the base goes before what did not.
    pub fn together(self, other: Class) -> Class {
        let rank = |class: Class| match class {
            Class::Control => 0,
            Class::Duplicate => 1,
            Class::Stale => 2,
            Class::Expired => 3,
            Class::Applied => 4,
            Class::DeadLetter => 5,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}
