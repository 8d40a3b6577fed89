//! What a pass counts: groups compared, controls and checksums of both sides. Adds up; must not know where groups
//! come from.

use std::collections::BTreeMap;

use super::{Difference, Fields, Kind};
use crate::pure::checksum::{ChecksumWriter, Controls};
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::schema::ColumnType;
use crate::pure::value::Value;

/// Counts, controls and checksums of one pass.
pub struct Tally {
    /// Groups of which both sides were known.
    pub compared: u64,
    /// Of those, groups that had to be looked at again.
    pub looked_again: u64,
    /// Of those, groups that the publisher compared in its own snapshot.
    pub settled_by_publisher: u64,
    kinds: BTreeMap<Kind, u64>,
    pub base: Controls,
    pub redis: Controls,
    sums: Sums,
    grain: Vec<ColumnType>,
    columns: Vec<String>,
}

/// One digest as long as both sides have been the same, which is as good as two.
enum Sums {
    Same(ChecksumWriter),
    Two { base: ChecksumWriter, redis: ChecksumWriter },
}

impl Tally {
    pub fn new(view: &View) -> Self {
        Tally {
            compared: 0,
            looked_again: 0,
            settled_by_publisher: 0,
            kinds: BTreeMap::new(),
            base: Controls::new(view),
            redis: Controls::new(view),
            sums: Sums::Same(ChecksumWriter::new()),
            grain: view.grain_types(),
            columns: view.columns(),
        }
    }

    pub fn count(&mut self, difference: &Difference) {
        *self.kinds.entry(difference.kind).or_default() += 1;
    }

    pub fn of_kind(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    pub fn differences(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// A group that was compared. `in_order`: it comes in the order of encoded keys, and takes part in the checksums.
    /// `equal`: both sides are the same.
    pub fn group(
        &mut self,
        key: &str,
        value: Option<&GroupValue>,
        fields: &Fields,
        indexed: bool,
        equal: bool,
        in_order: bool,
    ) {
        self.compared += 1;
        if let Some(value) = value {
            self.base.add(value);
        }
        // Equal sides are added up and hashed once.
        let shown = match value {
            _ if fields.is_empty() && !indexed => None,
            Some(value) if equal => Some(value.clone()),
            _ => Some(self.shown(fields)),
        };
        if let Some(shown) = &shown {
            self.redis.add(shown);
        }
        if in_order {
            let parts = GroupKey::from_encoded(key).decode(&self.grain);
            let parts = parts.unwrap_or_else(|| vec![Value::text(key)]);
            self.sum(&parts, value, fields, equal);
        }
    }

    /// A row's fields as far as they are numbers, for the controls.
    fn shown(&self, fields: &Fields) -> GroupValue {
        if fields.contains_key("_error") {
            return GroupValue::Overflow;
        }
        let numbers = self.columns.iter().map(|column| fields.get(column)?.parse().ok());
        GroupValue::Measures(numbers.collect())
    }

    fn sum(&mut self, parts: &[Value], value: Option<&GroupValue>, fields: &Fields, equal: bool) {
        if !equal && let Sums::Same(writer) = &self.sums {
            self.sums = Sums::Two { base: writer.clone(), redis: writer.clone() };
        }
        let measures = |value: &GroupValue| match value {
            GroupValue::Measures(numbers) => {
                numbers.iter().map(|number| number.map_or(Value::Null, Value::Integer)).collect()
            }
            GroupValue::Overflow => vec![Value::text("overflow")],
        };
        let of_base = value.map(measures);
        let (base, redis) = match &mut self.sums {
            Sums::Same(writer) => (writer, None),
            Sums::Two { base, redis } => (base, Some(redis)),
        };
        if let Some(measures) = &of_base {
            base.row(parts.iter().chain(measures));
        }
        let Some(redis) = redis else { return };
        match of_base {
            Some(measures) if equal => redis.row(parts.iter().chain(&measures)),
            _ if fields.is_empty() => {}
            _ => {
                // Whatever is there, field by field: it differs from the base, and so does the sum.
                let shown: Vec<Value> = fields
                    .iter()
                    .flat_map(|(field, text)| [field, text])
                    .map(|text| Value::text(text.as_str()))
                    .collect();
                redis.row(parts.iter().chain(&shown));
            }
        }
    }

    /// How many groups the checksums cover, and both.
    pub fn finish_sums(&mut self) -> (u64, String, String) {
        match std::mem::replace(&mut self.sums, Sums::Same(ChecksumWriter::new())) {
            Sums::Same(writer) => {
                let (rows, sum) = (writer.rows(), writer.finish());
                (rows, sum.clone(), sum)
            }
            Sums::Two { base, redis } => (base.rows(), base.finish(), redis.finish()),
        }
    }
}
