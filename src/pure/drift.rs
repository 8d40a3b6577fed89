//! Drift: what a group, a key or the meta in the store may differ in from the base, and how that is told. Compares
//! values that are handed to it; must not know when they may be compared.

mod meta;
mod report;
mod rows;
mod tally;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::pure::publish::GroupValue;

pub use meta::{cursor_fields, meta_fields};
pub use report::{Compared, Report, SCHEMA, Scope, Unsettled};
pub use rows::{RowDifference, RowKind, RowTally, RowsReport, compare_rows};
pub use tally::Tally;

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The base has the group, the store has no row of it.
    Missing,
    /// The store has a row of a group that the base lacks.
    Extra,
    /// Both have the group, with other values.
    Different,
    /// A row without an index entry, an entry without a row, or an entry out of place.
    WrongIndex,
    /// A key under the view's name that is none of its kinds.
    ForeignKey,
    /// A field of the meta, or the key itself.
    WrongMeta,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Missing, Kind::Extra, Kind::Different, Kind::WrongIndex, Kind::ForeignKey, Kind::WrongMeta];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Missing => "missing",
            Kind::Extra => "extra",
            Kind::Different => "different",
            Kind::WrongIndex => "wrong_index",
            Kind::ForeignKey => "foreign_key",
            Kind::WrongMeta => "wrong_meta",
        }
    }
}

/// One field with both its values; `None` is a field that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDifference {
    pub field: String,
    /// What follows from the base.
    pub base: Option<String>,
    /// What the store shows.
    pub redis: Option<String>,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub kind: Kind,
    /// The encoded group key, or the name of the key.
    pub key: String,
    /// For people: what exactly, and what to do where no repair can mend it.
    pub detail: String,
    pub fields: Vec<FieldDifference>,
    /// The version that was compared at.
    pub version: u64,
    /// Seen to be right again later in the same run.
    #[serde(default)]
    pub mended: bool,
    /// How often this group has been repaired, where that is often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_times: Option<u64>,
}

impl Difference {
    pub fn new(kind: Kind, key: impl Into<String>, version: u64, detail: impl Into<String>) -> Self {
        Difference {
            kind,
            key: key.into(),
            detail: detail.into(),
            fields: Vec::new(),
            version,
            mended: false,
            repaired_times: None,
        }
    }

    /// Whether it is one of a group, which the publisher writes again once it is marked.
    pub fn is_of_group(&self) -> bool {
        !matches!(self.kind, Kind::ForeignKey | Kind::WrongMeta) && !self.key.starts_with(OWN_KEY)
    }

    pub fn with_fields(mut self, fields: Vec<FieldDifference>) -> Self {
        self.fields = fields;
        self
    }
}

/// Begins the `key` of a difference that is one of the view's own keys; no group key holds a blank.
pub const OWN_KEY: &str = "own key ";

/// Fields as they are stored.
pub type Fields = BTreeMap<String, String>;

/// Compares one group: what the base's rows give, and what the store shows of it.
pub fn compare_group(
    key: &str,
    value: Option<&GroupValue>,
    columns: &[String],
    fields: &Fields,
    indexed: bool,
    version: u64,
) -> Option<Difference> {
    let difference = |kind, detail: &str| Some(Difference::new(kind, key, version, detail));
    let Some(value) = value else {
        return match (indexed, fields.is_empty()) {
            (false, true) => None,
            (true, true) => {
                difference(Kind::WrongIndex, "an index entry without a row, of a group that the base lacks")
            }
            (true, false) => difference(Kind::Extra, "the base has no such group"),
            (false, false) => {
                difference(Kind::Extra, "a row without an index entry, of a group that the base lacks")
            }
        }
        .map(|difference| difference.with_fields(differing(&Fields::new(), fields)));
    };
    if indexed && value.is_stored_as(columns, fields) {
        return None;
    }
    let expected = value.fields(columns);
    let found = match (indexed, fields.is_empty()) {
        (true, true) => difference(Kind::Missing, "the index names the group, its row is gone"),
        (true, false) if fields.get("_error").is_some_and(|error| error == "wrongtype") => {
            difference(Kind::Different, "the row's key holds a value of another type")
        }
        (true, false) => difference(Kind::Different, "the row has other values"),
        (false, true) => difference(Kind::Missing, "neither row nor index entry"),
        (false, false) => difference(Kind::WrongIndex, "the row has no index entry"),
    };
    found.map(|difference| difference.with_fields(differing(&expected, fields)))
}

/// The fields that are not the same on both sides.
pub fn differing(base: &Fields, redis: &Fields) -> Vec<FieldDifference> {
    let names: BTreeSet<&String> = base.keys().chain(redis.keys()).collect();
    names
        .into_iter()
        .filter(|name| base.get(*name) != redis.get(*name))
        .map(|name| FieldDifference {
            field: name.clone(),
            base: base.get(name).cloned(),
            redis: redis.get(name).cloned(),
        })
        .collect()
}
