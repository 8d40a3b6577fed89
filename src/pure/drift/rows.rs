//! The rows of a base against those that its log gives. Compares values that are handed to it.

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::pure::apply::Stored;
use crate::pure::event::Image;
use crate::pure::publish::timestamp_text;
use crate::pure::schema::Table;
use crate::pure::value::Value;

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The log has an event of the key, the base has none.
    Missing,
    /// The base has a row or a grave that no event of the log gave.
    Extra,
    /// Both have the key, with another event or another content.
    Different,
}

impl RowKind {
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Missing => "missing",
            RowKind::Extra => "extra",
            RowKind::Different => "different",
        }
    }
}

/// One column with both its values; `None` is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnDifference {
    pub column: String,
    pub base: Option<String>,
    pub log: Option<String>,
}

/// One key of a table that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowDifference {
    pub table: String,
    pub kind: RowKind,
    /// The primary key's values.
    pub key: Vec<Json>,
    /// The sequences of the latest event as the base and the log have it.
    pub base_seq: Option<String>,
    pub log_seq: Option<String>,
    pub base_deleted: bool,
    pub log_deleted: bool,
    /// Columns that are not the same, where both have a row.
    pub columns: Vec<ColumnDifference>,
}

/// Compares the latest event of one key.
pub fn compare_rows(
    shape: &Table,
    key: &[Value],
    base: Option<&Stored>,
    log: Option<&Stored>,
) -> Option<RowDifference> {
    if base == log {
        return None;
    }
    let kind = match (base, log) {
        (None, _) => RowKind::Missing,
        (_, None) => RowKind::Extra,
        _ => RowKind::Different,
    };
    let row = |side: Option<&Stored>| side.and_then(|stored| stored.image.row().map(<[Value]>::to_vec));
    let deleted =
        |side: Option<&Stored>| side.is_some_and(|stored| matches!(stored.image, Image::Deleted(_)));
    let mut columns = Vec::new();
    if let (Some(ours), Some(theirs)) = (row(base), row(log)) {
        for ((column, ours), theirs) in shape.columns.iter().zip(ours).zip(theirs) {
            if ours != theirs {
                columns.push(ColumnDifference {
                    column: column.name.to_string(),
                    base: text(&ours),
                    log: text(&theirs),
                });
            }
        }
    }
    Some(RowDifference {
        table: shape.name.to_string(),
        kind,
        key: key.iter().map(Value::to_json).collect(),
        base_seq: base.map(|stored| stored.seq.to_string()),
        log_seq: log.map(|stored| stored.seq.to_string()),
        base_deleted: deleted(base),
        log_deleted: deleted(log),
        columns,
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.to_string()),
    }
}

/// What became of the keys of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowTally {
    pub table: String,
    pub equal: u64,
    pub missing: u64,
    pub extra: u64,
    pub different: u64,
    /// Rows of a first load, or older than what the log still holds: it cannot speak of them.
    pub unproven: u64,
    /// Their latest event is a dead letter of the live base.
    pub dead_letters: u64,
    /// The log holds two contents under one sequence; which one stays depends on who came first.
    pub contradicting: u64,
}

impl RowTally {
    pub fn new(table: String) -> Self {
        RowTally { table, ..Self::default() }
    }

    pub fn count(&mut self, kind: RowKind) {
        *match kind {
            RowKind::Missing => &mut self.missing,
            RowKind::Extra => &mut self.extra,
            RowKind::Different => &mut self.different,
        } += 1;
    }

    pub fn differences(&self) -> u64 {
        self.missing + self.extra + self.different
    }
}

/// Everything that a comparison with the log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsReport {
    pub started_ms: i64,
    pub ended_ms: i64,
    /// By partition: where both bases stood in the end.
    pub positions: Vec<(String, i64)>,
    /// By partition whose log begins later than the base's knowledge: where.
    pub trimmed: Vec<(String, i64)>,
    /// By table: what a first load stands for.
    pub floors: Vec<Option<String>>,
    pub tables: Vec<RowTally>,
    /// The first ones.
    pub differences: Vec<RowDifference>,
    /// It was told to end before it was through.
    pub stopped: bool,
}

impl RowsReport {
    pub fn differing(&self) -> u64 {
        self.tables.iter().map(RowTally::differences).sum()
    }

    pub fn verdict(&self) -> &'static str {
        match (self.differing(), self.stopped) {
            (1.., _) => "drift",
            (0, true) => "undecided",
            (0, false) => "in_sync",
        }
    }

    pub fn to_json(&self, listed: usize) -> Json {
        let by_partition = |pairs: &[(String, i64)]| -> Json {
            pairs
                .iter()
                .map(|(at, offset)| (at.clone(), (*offset).into()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        json!({
            "schema": super::SCHEMA,
            "against": "topic",
            "verdict": self.verdict(),
            "started_at": timestamp_text(Some(self.started_ms)),
            "ended_at": timestamp_text(Some(self.ended_ms)),
            "duration_ms": self.ended_ms - self.started_ms,
            "positions": by_partition(&self.positions),
            "log_begins_later": by_partition(&self.trimmed),
            "first_load_through": self.floors,
            "tables": self.tables,
            "differences": self.differences.iter().take(listed).collect::<Vec<_>>(),
        })
    }
}
