//! Conditions of a question, on one column each: read from text, as a test of a value, and as SQL with parameters.
//! Must not know which columns a view has in its grain.

use sqlparser::ast::{BinaryOperator, Expr, InTarget, Value as Literal};

use crate::pure::contract::filter::{self, Comparison, Filter, Operator};
use crate::pure::contract::{View, syntax};
use crate::pure::schema::{ColumnType, Table, is_date};
use crate::pure::sql::quote_identifier;
use crate::pure::value::Value;

const SUPPORTED: &str = "a condition is `column op literal` with = != <> < <= > >=, `column in (…)`, \
     `column between … and …`, `column is null` or `column is not null`; several are joined by `and`";

/// One condition on one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub column: usize,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Compare(Comparison),
    /// Sorted, each once; never null.
    In(Vec<Value>),
}

impl Test {
    pub fn holds(&self, value: &Value) -> bool {
        match self {
            Test::Compare(comparison) => comparison.holds(value),
            Test::In(values) => values.binary_search(value).is_ok(),
        }
    }

    /// The values that it allows, where it names them.
    pub(super) fn values(&self) -> Option<Vec<Value>> {
        match self {
            Test::Compare(Comparison::With(Operator::Equal, value)) => Some(vec![value.clone()]),
            Test::Compare(Comparison::IsNull) => Some(vec![Value::Null]),
            Test::In(values) => Some(values.clone()),
            Test::Compare(_) => None,
        }
    }

    /// No value below this one passes.
    pub(super) fn least(&self) -> Option<&Value> {
        match self {
            Test::Compare(Comparison::With(operator, value)) => {
                matches!(operator, Operator::Equal | Operator::Greater | Operator::GreaterOrEqual)
                    .then_some(value)
            }
            Test::In(values) => values.first(),
            Test::Compare(_) => None,
        }
    }

    /// No value above this one passes.
    pub(super) fn greatest(&self) -> Option<&Value> {
        match self {
            Test::Compare(Comparison::With(operator, value)) => {
                matches!(operator, Operator::Equal | Operator::Less | Operator::LessOrEqual).then_some(value)
            }
            Test::In(values) => values.last(),
            Test::Compare(_) => None,
        }
    }
}

impl Condition {
    fn compare(column: usize, comparison: Comparison) -> Self {
        Condition { column, test: Test::Compare(comparison) }
    }

    /// Whether every row of the view passes it anyway, because it is one of the view's own filters.
    pub(super) fn is_implied(&self, view: &View) -> bool {
        let Test::Compare(comparison) = &self.test else { return false };
        let filter = Filter { column: self.column, comparison: comparison.clone() };
        view.all_filters().any(|own| *own == filter)
    }

    /// As a term of an SQL `WHERE`; its values are appended to `parameters` and bound by number.
    pub(super) fn sql(&self, table: &Table, parameters: &mut Vec<Value>) -> String {
        let column = quote_identifier(&table.columns[self.column].name);
        let mut bind = |value: &Value| {
            parameters.push(value.clone());
            format!("?{}", parameters.len())
        };
        match &self.test {
            Test::Compare(Comparison::IsNull) => format!("{column} IS NULL"),
            Test::Compare(Comparison::IsNotNull) => format!("{column} IS NOT NULL"),
            Test::Compare(Comparison::With(operator, value)) => {
                format!("{column} {} {}", operator.sql(), bind(value))
            }
            Test::In(values) => {
                let bound: Vec<String> = values.iter().map(bind).collect();
                format!("{column} IN ({})", bound.join(", "))
            }
        }
    }
}

/// Reads a conjunction; no text is no condition. Errors are messages without a place.
pub(super) fn parse(text: &str, table: &Table) -> Result<Vec<Condition>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut conditions = Vec::new();
    conjunction(&syntax::parse(text)?, table, &mut conditions)?;
    Ok(conditions)
}

fn conjunction(tree: &Expr, table: &Table, found: &mut Vec<Condition>) -> Result<(), String> {
    match tree {
        Expr::Nested(inner) => conjunction(inner, table, found)?,
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunction(left, table, found)?;
            conjunction(right, table, found)?;
        }
        Expr::IsNull(inner) => {
            found.push(Condition::compare(filter::left_column(inner, table)?, Comparison::IsNull));
        }
        Expr::IsNotNull(inner) => {
            found.push(Condition::compare(filter::left_column(inner, table)?, Comparison::IsNotNull));
        }
        Expr::In { expr, target: InTarget::List(list), negated: false, global: false } => {
            let column = filter::left_column(expr, table)?;
            let mut values: Vec<Value> =
                list.iter().map(|item| literal(item, column, table)).collect::<Result<_, _>>()?;
            values.sort_unstable();
            values.dedup();
            found.push(Condition { column, test: Test::In(values) });
        }
        Expr::Between { expr, negated: false, low, high } => {
            let column = filter::left_column(expr, table)?;
            for (operator, bound) in [(Operator::GreaterOrEqual, low), (Operator::LessOrEqual, high)] {
                let bound = literal(bound, column, table)?;
                found.push(Condition::compare(column, Comparison::With(operator, bound)));
            }
        }
        Expr::BinaryOp { left, op, right } => {
            let operator = filter::operator(op).ok_or_else(|| unsupported(tree))?;
            let column = filter::left_column(left, table)?;
            let value = literal(right, column, table)?;
            found.push(Condition::compare(column, Comparison::With(operator, value)));
        }
        other => return Err(unsupported(other)),
    }
    Ok(())
}

fn unsupported(tree: &Expr) -> String {
    format!("{:?} is not supported; {SUPPORTED}", tree.to_string())
}

/// As in a contract, and a day may stand without quotes.
fn literal(tree: &Expr, column: usize, table: &Table) -> Result<Value, String> {
    if table.columns[column].column_type == ColumnType::Date
        && let Some(day) = bare_day(tree)
    {
        return match is_date(&day) {
            true => Ok(Value::text(day)),
            false => Err(format!("{day} is no day of the calendar, written as YYYY-MM-DD")),
        };
    }
    filter::literal(tree, column, table)
}

/// `2026-09-22` as the parser sees it: two subtractions.
fn bare_day(tree: &Expr) -> Option<String> {
    let minus = |tree: &Expr| match tree {
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => Some((left.clone(), right.clone())),
        _ => None,
    };
    let digits = |tree: &Expr| match tree {
        Expr::Value(literal) => match &literal.value {
            Literal::Number(digits, false) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    };
    let (year_month, day) = minus(tree)?;
    let (year, month) = minus(&year_month)?;
    Some(format!("{}-{}-{}", digits(&year)?, digits(&month)?, digits(&day)?))
}
