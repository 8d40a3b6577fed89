//! A question about one view: measures, conditions, grouping. Read from text and checked against the view, so that
//! what is left cannot be misunderstood. Must not know who may ask, nor which store answers.

mod condition;
mod fold;
mod keys;
mod selection;

#[cfg(test)]
mod tests;

use serde::Deserialize;

pub use condition::{Condition, Test};
pub use fold::{AddedUp, RowTrouble, Rows, TooManyGroups, Worked, WorkedRows, published_row};
pub use keys::{KEYS_MAX, Keys};
pub use selection::Selection;

use crate::pure::contract::View;
use crate::pure::schema::{ColumnType, Table, is_date};
use crate::pure::value::Value;

/// A question as people and programs write it: one line of a file of queries, or the arguments of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ask {
    /// May be left out where there is only one view.
    pub view: Option<String>,
    /// Published names of the measures.
    pub measures: Vec<String>,
    /// `column op literal and …`; empty asks for everything.
    #[serde(rename = "where")]
    pub conditions: String,
    /// Columns whose combinations make the rows of the answer; none makes one total.
    pub group_by: Vec<String>,
    /// How old an answer may be. Without it the contract's objective counts.
    pub max_staleness_seconds: Option<u64>,
    /// The contract hash that the asker was written for.
    pub contract: Option<String>,
    /// On whose behalf.
    pub role: Option<String>,
}

/// A question that is checked against its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Positions among the view's measures, in the order asked.
    pub measures: Vec<usize>,
    /// Those that the view's own filters do not imply already.
    pub conditions: Vec<Condition>,
    /// Columns of the base table, in the order asked.
    pub group_by: Vec<usize>,
    pub max_staleness_seconds: Option<u64>,
    pub contract: Option<String>,
    pub role: Option<String>,
}

/// A question that cannot be understood: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct QueryError {
    /// The part of the question: `measures`, `where`, `group_by`, `contract`.
    pub place: &'static str,
    pub message: String,
}

impl QueryError {
    fn new(place: &'static str, message: impl Into<String>) -> Self {
        QueryError { place, message: message.into() }
    }
}

impl Ask {
    /// Checks the question against the view that it is about and that view's base table.
    pub fn check(&self, view: &View, table: &Table) -> Result<Query, QueryError> {
        let conditions = condition::parse(&self.conditions, table)
            .map_err(|message| QueryError::new("where", message))?
            .into_iter()
            .filter(|condition| !condition.is_implied(view))
            .collect();
        if let Some(hash) = &self.contract {
            let is_hash = hash.len() == 64 && hash.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
            if !is_hash {
                let message = format!("{hash:?} is no contract hash; it has 64 digits of 0-9 a-f");
                return Err(QueryError::new("contract", message));
            }
        }
        Ok(Query {
            measures: self.measures(view)?,
            conditions,
            group_by: self.group_by(table)?,
            max_staleness_seconds: self.max_staleness_seconds,
            contract: self.contract.clone(),
            role: self.role.clone(),
        })
    }

    fn measures(&self, view: &View) -> Result<Vec<usize>, QueryError> {
        let known = || view.columns().join(", ");
        let mut measures = Vec::new();
        for name in &self.measures {
            let measure = view.measure(name).ok_or_else(|| {
                let message = format!("{name:?} is no measure of {}; it has {}", view.object, known());
                QueryError::new("measures", message)
            })?;
            if measures.contains(&measure) {
                return Err(QueryError::new("measures", format!("{name:?} is asked for twice")));
            }
            measures.push(measure);
        }
        if measures.is_empty() {
            let message = format!("none is named; {} has {}", view.object, known());
            return Err(QueryError::new("measures", message));
        }
        Ok(measures)
    }

    fn group_by(&self, table: &Table) -> Result<Vec<usize>, QueryError> {
        let mut columns = Vec::new();
        for name in &self.group_by {
            let column = table.column(name).ok_or_else(|| {
                let known = crate::pure::contract::syntax::column_names(table);
                let message = format!("{name:?} is no column of {}; its columns are {known}", table.name);
                QueryError::new("group_by", message)
            })?;
            if columns.contains(&column) {
                return Err(QueryError::new("group_by", format!("{name:?} is given twice")));
            }
            columns.push(column);
        }
        Ok(columns)
    }
}

impl Query {
    /// Whether the question is about nothing but columns of the grain; the columns that are not are named.
    pub fn grouped_outside(&self, view: &View) -> Vec<usize> {
        outside(view, self.group_by.iter().copied())
    }

    /// As [`grouped_outside`](Query::grouped_outside), for the conditions.
    pub fn filtered_outside(&self, view: &View) -> Vec<usize> {
        outside(view, self.conditions.iter().map(|condition| condition.column))
    }

    /// The dimensions that an answer adds up over: neither in its rows nor held to one value.
    pub fn rolled_up<'v>(&self, view: &'v View) -> Vec<&'v str> {
        let stays = |column: usize| {
            self.group_by.contains(&column) || self.values(column).is_some_and(|values| values.len() <= 1)
        };
        let free = view.grain.iter().filter(|dimension| !stays(dimension.column));
        free.map(|dimension| dimension.name.as_str()).collect()
    }

    /// The only values of a column that all conditions allow, where they name them; sorted.
    pub fn values(&self, column: usize) -> Option<Vec<Value>> {
        let here = || self.conditions.iter().filter(move |condition| condition.column == column);
        let named = here().find_map(|condition| condition.test.values()).or_else(|| {
            // `x between 5 and 5` names 5 as well.
            let (least, greatest) = (self.least(column)?, self.greatest(column)?);
            (least >= greatest).then(|| vec![least.clone()])
        })?;
        Some(named.into_iter().filter(|value| here().all(|condition| condition.test.holds(value))).collect())
    }

    /// The lower bound of a column, if any; values below it are not asked for.
    pub fn least(&self, column: usize) -> Option<&Value> {
        let bounds = self.conditions.iter().filter(|condition| condition.column == column);
        bounds.filter_map(|condition| condition.test.least()).max()
    }

    /// The upper bound of a column, if any.
    pub fn greatest(&self, column: usize) -> Option<&Value> {
        let bounds = self.conditions.iter().filter(|condition| condition.column == column);
        bounds.filter_map(|condition| condition.test.greatest()).min()
    }

    /// Whether a group of the view is one that is asked for; `grain` holds the values of its key.
    pub fn admits(&self, view: &View, grain: &[Value]) -> bool {
        self.conditions.iter().all(|condition| {
            let position = view.grain.iter().position(|dimension| dimension.column == condition.column);
            position.and_then(|position| grain.get(position)).is_some_and(|value| condition.test.holds(value))
        })
    }

    /// The row of the answer that a group of the view belongs to.
    pub fn row_of(&self, view: &View, grain: &[Value]) -> Vec<Value> {
        let value = |column: &usize| {
            let position = view.grain.iter().position(|dimension| dimension.column == *column);
            position.and_then(|position| grain.get(position)).cloned().unwrap_or(Value::Null)
        };
        self.group_by.iter().map(value).collect()
    }
}

fn outside(view: &View, columns: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut found: Vec<usize> =
        columns.filter(|column| view.grain.iter().all(|dimension| dimension.column != *column)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Seconds as people write them: `90`, `90s`, `15m`, `26h`, `2d`.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no time; write whole seconds, or 90s, 15m, 26h, 2d");
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|seconds| i64::try_from(*seconds).is_ok()).ok_or_else(wrong)
}

/// A value of a column as people write it on a command line.
pub fn parse_value(text: &str, name: &str, column_type: ColumnType) -> Result<Value, String> {
    match column_type {
        ColumnType::Integer => {
            text.parse().map(Value::Integer).map_err(|_| format!("{name}: {text:?} is no integer"))
        }
        ColumnType::Date if !is_date(text) => {
            Err(format!("{name}: {text:?} is no day written as YYYY-MM-DD"))
        }
        ColumnType::Date | ColumnType::Text => Ok(Value::text(text)),
    }
}
