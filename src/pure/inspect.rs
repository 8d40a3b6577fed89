//! From a sample of messages to a proposal of how to read them: format, table, columns, key and watermark, and what
//! the sample leaves open. Proposes; what is right is checked by reading the sample with the proposal, and decided by
//! whoever takes it over.

mod columns;
mod propose;
mod recognise;

use std::collections::BTreeMap;

use crate::pure::formats::Header;
use crate::pure::formats::json::Object;
use columns::Columns;
pub use propose::Proposal;
pub use recognise::Recognised;

/// One message of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header],
}

/// What has been seen of a sample.
#[derive(Debug, Default)]
pub struct Inspector {
    messages: u64,
    /// How many messages look like which format.
    formats: BTreeMap<Recognised, u64>,
    /// By source table: rows, and what is known of their columns.
    tables: BTreeMap<String, TableSeen>,
    partitions: BTreeMap<i32, u64>,
    tombstones: u64,
    /// Messages without a key.
    keyless: u64,
    /// Sequences of native events in the order of arrival, with their partition.
    sequences: Vec<(i32, u64)>,
    /// Unwrapped rows that say whether they are deleted.
    says_deleted: u64,
    /// Rows with positions of the source.
    positions: u64,
    /// Some message came with the converter's schema.
    with_schema: bool,
}

/// One table of the source.
#[derive(Debug, Default)]
struct TableSeen {
    rows: u64,
    columns: Columns,
    /// The names that message keys have, by how many keys have exactly these.
    keys: BTreeMap<Vec<String>, u64>,
    /// Message keys that are one bare value.
    bare_keys: u64,
    /// Columns that a header of the same name tells, dashes for underscores.
    headers: BTreeMap<String, String>,
}

impl Inspector {
    /// Looks at one message.
    pub fn add(&mut self, sample: &Sample<'_>) {
        self.messages += 1;
        *self.partitions.entry(sample.partition).or_default() += 1;
        self.keyless += u64::from(sample.key.is_none());
        let Some(value) = sample.value else {
            self.tombstones += 1;
            return;
        };
        let seen = recognise::recognise(value);
        *self.formats.entry(seen.format).or_default() += 1;
        self.sequences.extend(seen.sequences.iter().map(|sequence| (sample.partition, *sequence)));
        self.says_deleted += u64::from(seen.says_deleted);
        self.positions += u64::from(seen.has_position);
        self.with_schema |= seen.schema.is_some();
        if seen.rows.is_empty() {
            return;
        }
        let table = self.tables.entry(seen.table.clone()).or_default();
        for row in &seen.rows {
            table.rows += 1;
            table.columns.add(row, seen.schema.as_ref());
            for header in sample.headers {
                let column = header.name.to_ascii_lowercase().replace('-', "_");
                if row.has(&column) {
                    table.headers.insert(column, header.name.to_string());
                }
            }
        }
        match (seen.key_names, sample.key) {
            (Some(names), _) => *table.keys.entry(names).or_default() += 1,
            (None, Some(key)) => match recognise::key_names(key) {
                Some(names) => *table.keys.entry(names).or_default() += 1,
                None => table.bare_keys += 1,
            },
            (None, None) => {}
        }
    }

    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.values().map(|seen| seen.rows).sum()
    }

    /// The topic has so many partitions, whether or not the sample has messages of each.
    pub fn note_partitions(&mut self, count: usize) {
        for partition in 0..count {
            self.partitions.entry(partition as i32).or_default();
        }
    }
}

/// Rows of a message, and the schema of their columns where it brought one.
pub(super) struct Seen<'a> {
    format: Recognised,
    table: String,
    rows: Vec<Object<'a>>,
    schema: Option<Object<'a>>,
    key_names: Option<Vec<String>>,
    sequences: Vec<u64>,
    says_deleted: bool,
    has_position: bool,
}
