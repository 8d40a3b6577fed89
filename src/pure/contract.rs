//! A view as its contract document declares it, checked against the tables of the base, with the hashes that
//! pin its meaning. Must not know SQLite, Redis or a particular view; SQL text is `pure::recompute`'s.

mod document;
pub(in crate::pure) mod filter;
mod hash;
mod measure;
mod parse;
pub(in crate::pure) mod syntax;

#[cfg(test)]
mod tests;

pub use filter::{Comparison, Filter, Operator};
pub use hash::{ENGINE, LAYOUT};

use std::collections::BTreeMap;

use crate::pure::expression::Expression;
use crate::pure::group_key::GroupKey;
use crate::pure::schema::{ColumnType, Table};
use crate::pure::value::Value;

/// One accelerated aggregate, compiled. Column numbers are positions in the columns of its base table.
#[derive(Clone, Debug)]
pub struct View {
    /// The view's name: `[A-Za-z0-9_.-]+`, since it goes into a Redis hash tag.
    pub object: String,
    /// Name of the base table.
    pub base: String,
    /// What a group is: at least one dimension, in the order of the group key.
    pub grain: Vec<Dimension>,
    /// The contract's filters: a row belongs to the view where all hold.
    pub filters: Vec<Filter>,
    /// The policy's row filter, which holds in addition for everything that is published.
    pub row_filters: Vec<Filter>,
    /// In document order, which is the order of published columns.
    pub measures: Vec<Measure>,
    /// sha256 of the metric contract alone, as canonical JSON.
    pub contract_hash: String,
    /// sha256 of all that decides what Redis holds.
    pub definition_hash: String,
    /// Seconds after which a reader no longer calls the view fresh.
    pub freshness_slo_seconds: u64,
    pub owner: Option<String>,
    pub lineage: Vec<String>,
    pub consumers: Vec<Consumer>,
    pub policy: Policy,
    /// Measures that readers should leave, by their position; in no hash, since the numbers stay what they are.
    pub deprecated: BTreeMap<usize, Deprecation>,
    /// The document as read.
    pub document: serde_json::Value,
}

/// One column of the grain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub name: String,
    pub column: usize,
    pub column_type: ColumnType,
    pub nullable: bool,
}

/// One number of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The contract's name.
    pub name: String,
    /// The published field.
    pub column: String,
    pub aggregate: Aggregate,
    /// Whether the sum over groups means something. A count of distinct values, a minimum and a maximum
    /// have none, and nothing may ever sum them.
    pub additive: bool,
}

/// How the rows of a group become one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    CountRows,
    /// Rows in which the expression is not null; a bare column may be of any type.
    Count(Expression),
    /// Different values of the column, null left out.
    CountDistinct(usize),
    Sum(Expression),
    Min(Expression),
    Max(Expression),
}

impl Aggregate {
    /// Whether every group has a number for it: a count is never null.
    pub fn is_never_null(&self) -> bool {
        matches!(self, Aggregate::CountRows | Aggregate::Count(_) | Aggregate::CountDistinct(_))
    }

    pub fn is_additive(&self) -> bool {
        matches!(self, Aggregate::CountRows | Aggregate::Count(_) | Aggregate::Sum(_))
    }

    /// Calls `visit` with each column that the aggregate reads, repeated ones too.
    pub fn for_each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Aggregate::CountRows => {}
            Aggregate::CountDistinct(column) => visit(*column),
            Aggregate::Count(expression)
            | Aggregate::Sum(expression)
            | Aggregate::Min(expression)
            | Aggregate::Max(expression) => expression.for_each_column(visit),
        }
    }
}

/// Who reads the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    pub name: String,
    pub owner: Option<String>,
}

/// The owner's word that a measure is on its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// The day from which readers should not use it.
    pub since: String,
    /// Position of the measure to use instead.
    pub instead: Option<usize>,
    pub why: Option<String>,
}

/// Who may see what of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Text of the filter compiled into [`View::row_filters`].
    pub row_filter: Option<String>,
    /// Groups of fewer rows are not published.
    pub minimum_group_lines: Option<u64>,
    /// Roles that may read the view; `*` is everybody.
    pub roles: Vec<String>,
}

/// A contract that cannot be compiled: permanent until somebody edits the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ContractError {
    /// The document, e.g. its file name.
    pub place: String,
    /// Where in the document, e.g. `metric_contract.measures.units`; empty for the whole.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl View {
    /// Compiles a contract document. `place` names it in messages; `tables` are the configured base tables.
    pub fn compile(document_text: &str, place: &str, tables: &[Table]) -> Result<View, ContractError> {
        parse::compile(document_text, place, tables)
    }

    /// The published fields, in order.
    pub fn columns(&self) -> Vec<String> {
        self.measures.iter().map(|measure| measure.column.clone()).collect()
    }

    /// Types of the parts of a group key.
    pub fn grain_types(&self) -> Vec<ColumnType> {
        self.grain.iter().map(|dimension| dimension.column_type).collect()
    }

    /// Groups of fewer rows are withheld from everybody; 1 where the policy names none.
    pub fn minimum_group_lines(&self) -> u64 {
        self.policy.minimum_group_lines.unwrap_or(1).max(1)
    }

    /// The measure that is published under this name.
    pub fn measure(&self, column: &str) -> Option<usize> {
        self.measures.iter().position(|measure| measure.column == column)
    }

    /// The group that a row of the base table belongs to, whether or not the filters let it in.
    pub fn group_key(&self, row: &[Value]) -> GroupKey {
        GroupKey::encode_all(self.grain.iter().map(|dimension| &row[dimension.column]))
    }

    /// All filters, the contract's and the policy's.
    pub fn all_filters(&self) -> impl Iterator<Item = &Filter> {
        self.filters.iter().chain(&self.row_filters)
    }

    /// Whether a row of the base table is one that the view aggregates.
    pub fn admits(&self, row: &[Value]) -> bool {
        self.all_filters().all(|filter| filter.matches(row))
    }
}
