//! From groups or rows to the rows of an answer: published numbers added up, or base rows worked out anew. Both end in
//! the same numbers. Must not know where groups and rows come from.

use std::collections::BTreeMap;

use super::{Query, Selection};
use crate::pure::catalog::CatalogView;
use crate::pure::contract::{Aggregate, View};
use crate::pure::publish::GroupValue;
use crate::pure::recompute::{Accumulator, inputs_and_aggregates};
use crate::pure::schema::Table;
use crate::pure::value::Value;

/// The rows of an answer: values of the columns grouped by, and the measures asked for, in order of the values.
pub type Rows = Vec<(Vec<Value>, GroupValue)>;

/// An answer that would have more rows than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyGroups;

/// Why a published row gives no numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTrouble {
    /// It says that some value left 64 bits; which one it does not say.
    Overflow,
    /// It is not what the publisher writes.
    Damaged(String),
}

/// The measures of a published row, all of them. `key` names it in messages.
pub fn published_row(
    view: &View,
    key: &str,
    fields: &BTreeMap<String, String>,
) -> Result<Vec<Option<i64>>, RowTrouble> {
    match fields.get("_error").map(String::as_str) {
        Some("overflow") => return Err(RowTrouble::Overflow),
        Some(other) => return Err(RowTrouble::Damaged(format!("row {key} is damaged: {other}"))),
        None => {}
    }
    let number = |measure: &crate::pure::contract::Measure| {
        let column = &measure.column;
        match fields.get(column) {
            None if measure.aggregate.is_never_null() => {
                Err(RowTrouble::Damaged(format!("row {key} has no field {column}")))
            }
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| RowTrouble::Damaged(format!("row {key}: field {column} is no integer"))),
        }
    };
    view.measures.iter().map(number).collect()
}

/// Adds up published groups. Only measures that may be added reach it with more than one group to a row.
pub struct AddedUp<'a> {
    query: &'a Query,
    view: &'a View,
    rows_max: usize,
    rows: BTreeMap<Vec<Value>, Vec<Option<i128>>>,
}

impl<'a> AddedUp<'a> {
    pub fn new(query: &'a Query, view: &'a View, rows_max: usize) -> Self {
        AddedUp { query, view, rows_max, rows: BTreeMap::new() }
    }

    /// Adds a group that the question admits; `numbers` are all measures of the view.
    pub fn add(&mut self, grain: &[Value], numbers: &[Option<i64>]) -> Result<(), TooManyGroups> {
        let key = self.query.row_of(self.view, grain);
        let asked = self.query.measures.iter().map(|measure| numbers[*measure].map(i128::from));
        let full = self.rows.len() >= self.rows_max;
        match self.rows.get_mut(&key) {
            None if full => return Err(TooManyGroups),
            None => {
                self.rows.insert(key, asked.collect());
            }
            Some(sums) => {
                for (sum, number) in sums.iter_mut().zip(asked) {
                    // 2^63 groups would be needed to leave 128 bits.
                    *sum = match (*sum, number) {
                        (Some(sum), Some(number)) => Some(sum + number),
                        (sum, number) => sum.or(number),
                    };
                }
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Rows {
        let narrow = |sum: Option<i128>| match sum {
            None => Some(None),
            Some(sum) => i64::try_from(sum).ok().map(Some),
        };
        let value = |sums: Vec<Option<i128>>| {
            let numbers: Option<Vec<_>> = sums.into_iter().map(narrow).collect();
            numbers.map_or(GroupValue::Overflow, GroupValue::Measures)
        };
        self.rows.into_iter().map(|(key, sums)| (key, value(sums))).collect()
    }
}

/// How an answer is worked out from the rows of the base.
pub struct Worked {
    pub selection: Selection,
    aggregates: Vec<Aggregate>,
    /// Positions of the answer's key among the leading columns of a selected row.
    key: Vec<usize>,
    /// Leading columns of a selected row.
    leading: usize,
    /// Groups of the view with fewer rows are in no answer: whoever subtracts what is shown from a total must not
    /// be left with one of them.
    rows_min: usize,
}

impl Worked {
    pub fn new(query: &Query, entry: &CatalogView, table: &Table) -> Self {
        let view = &entry.view;
        let asked = query.measures.iter().map(|measure| &view.measures[*measure]);
        let (inputs, aggregates) = inputs_and_aggregates(asked);
        let rows_min = usize::try_from(view.minimum_group_lines()).unwrap_or(usize::MAX);
        // Whether a group is shown is seen from its rows together, so they are read one group after another.
        let by_group = rows_min > 1;
        let leading: Vec<usize> = match by_group {
            true => view.grain.iter().map(|dimension| dimension.column).collect(),
            false => query.group_by.clone(),
        };
        let position = |column: &usize| leading.iter().position(|leading| leading == column);
        Worked {
            selection: Selection::new(query, &entry.recompute, table, &leading, &inputs, by_group),
            aggregates,
            key: query.group_by.iter().filter_map(position).collect(),
            leading: leading.len(),
            rows_min,
        }
    }

    pub fn fold(&self, rows_max: usize) -> WorkedRows<'_> {
        WorkedRows {
            plan: self,
            rows_max,
            rows: BTreeMap::new(),
            group: Vec::new(),
            held: Vec::new(),
            shown: false,
        }
    }
}

/// Adds one selected row after another.
pub struct WorkedRows<'a> {
    plan: &'a Worked,
    rows_max: usize,
    rows: BTreeMap<Vec<Value>, Accumulator<'a>>,
    /// The group of the view that is being read, where groups can be withheld.
    group: Vec<Value>,
    /// Its rows, until there are enough of them to be shown.
    held: Vec<Vec<Value>>,
    shown: bool,
}

impl WorkedRows<'_> {
    pub fn add(&mut self, row: &[Value]) -> Result<(), TooManyGroups> {
        let (leading, inputs) = row.split_at(self.plan.leading.min(row.len()));
        if self.plan.rows_min <= 1 {
            return self.add_shown(leading, inputs);
        }
        if self.group != leading {
            self.group = leading.to_vec();
            self.held.clear();
            self.shown = false;
        }
        if !self.shown {
            self.held.push(inputs.to_vec());
            if self.held.len() < self.plan.rows_min {
                return Ok(());
            }
            self.shown = true;
            for held in std::mem::take(&mut self.held) {
                self.add_shown(leading, &held)?;
            }
            return Ok(());
        }
        self.add_shown(leading, inputs)
    }

    fn add_shown(&mut self, leading: &[Value], inputs: &[Value]) -> Result<(), TooManyGroups> {
        let key: Vec<Value> = self.plan.key.iter().map(|position| leading[*position].clone()).collect();
        if let Some(row) = self.rows.get_mut(&key) {
            row.add(inputs);
            return Ok(());
        }
        if self.rows.len() >= self.rows_max {
            return Err(TooManyGroups);
        }
        let mut row = Accumulator::over(&self.plan.aggregates);
        row.add(inputs);
        self.rows.insert(key, row);
        Ok(())
    }

    pub fn finish(self) -> Rows {
        self.rows.into_iter().filter_map(|(key, mut row)| row.finish().map(|value| (key, value))).collect()
    }
}
