//! Filters: conjunctions of `column op literal`, as data, as a test of a row, and as SQL text. Must not know
//! which view they belong to.

use std::cmp::Ordering;

use sqlparser::ast::{BinaryOperator, Expr, Value as Literal};

use super::syntax;
use crate::pure::schema::{ColumnType, Table, is_date};
use crate::pure::sql::{quote_identifier, quote_literal};
use crate::pure::value::Value;

/// One condition on one column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub column: usize,
    pub comparison: Comparison,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    IsNull,
    IsNotNull,
    /// With a literal of the column's type, never null. A null column fails every one of these.
    With(Operator, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    pub fn sql(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "<>",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
        }
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::LessOrEqual => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Comparison {
    /// Whether a value satisfies it, exactly as SQLite decides it.
    pub fn holds(&self, value: &Value) -> bool {
        match self {
            Comparison::IsNull => value.is_null(),
            Comparison::IsNotNull => !value.is_null(),
            Comparison::With(operator, literal) => !value.is_null() && operator.holds(value.cmp(literal)),
        }
    }
}

impl Filter {
    /// Whether a row of the table satisfies the filter, exactly as SQLite decides it.
    pub fn matches(&self, row: &[Value]) -> bool {
        self.comparison.holds(row.get(self.column).unwrap_or(&Value::Null))
    }

    /// The filter as a term of an SQL `WHERE`.
    pub fn sql(&self, table: &Table) -> String {
        let column = quote_identifier(&table.columns[self.column].name);
        match &self.comparison {
            Comparison::IsNull => format!("{column} IS NULL"),
            Comparison::IsNotNull => format!("{column} IS NOT NULL"),
            Comparison::With(operator, literal) => {
                format!("{column} {} {}", operator.sql(), quote_literal(literal))
            }
        }
    }
}

/// Compiles a text such as `status = paid and quantity > 0`. Errors are messages without a place.
pub(in crate::pure) fn compile(text: &str, table: &Table) -> Result<Vec<Filter>, String> {
    let tree = syntax::parse(text)?;
    let mut filters = Vec::new();
    conjunction(&tree, table, &mut filters)?;
    Ok(filters)
}

fn conjunction(tree: &Expr, table: &Table, filters: &mut Vec<Filter>) -> Result<(), String> {
    match tree {
        Expr::Nested(inner) => conjunction(inner, table, filters),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunction(left, table, filters)?;
            conjunction(right, table, filters)
        }
        other => {
            filters.push(term(other, table)?);
            Ok(())
        }
    }
}

fn term(tree: &Expr, table: &Table) -> Result<Filter, String> {
    let null_test = |inner: &Expr, comparison| {
        let column = left_column(inner, table)?;
        Ok(Filter { column, comparison })
    };
    match tree {
        Expr::IsNull(inner) => null_test(inner, Comparison::IsNull),
        Expr::IsNotNull(inner) => null_test(inner, Comparison::IsNotNull),
        Expr::BinaryOp { left, op, right } => {
            let operator = operator(op).ok_or_else(|| unsupported(tree))?;
            let column = left_column(left, table)?;
            let literal = literal(right, column, table)?;
            let comparison = Comparison::With(operator, literal);
            Ok(Filter { column, comparison })
        }
        _ => Err(unsupported(tree)),
    }
}

pub(in crate::pure) fn operator(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Eq => Operator::Equal,
        BinaryOperator::NotEq => Operator::NotEqual,
        BinaryOperator::Lt => Operator::Less,
        BinaryOperator::LtEq => Operator::LessOrEqual,
        BinaryOperator::Gt => Operator::Greater,
        BinaryOperator::GtEq => Operator::GreaterOrEqual,
        _ => return None,
    })
}

fn unsupported(tree: &Expr) -> String {
    format!(
        "{:?} is not supported; a filter is made of `column op literal` with = != <> < <= > >=, \
         `column is null`, `column is not null`, joined by `and`",
        tree.to_string()
    )
}

pub(in crate::pure) fn left_column(tree: &Expr, table: &Table) -> Result<usize, String> {
    match tree {
        Expr::Nested(inner) => left_column(inner, table),
        Expr::Identifier(word) => syntax::column(table, word),
        other => Err(format!("{:?} is no column; a filter has the column on its left", other.to_string())),
    }
}

pub(in crate::pure) fn literal(tree: &Expr, column: usize, table: &Table) -> Result<Value, String> {
    let name = &table.columns[column].name;
    let column_type = table.columns[column].column_type;
    if let Some(number) = syntax::integer(tree) {
        let number = number?;
        return match column_type {
            ColumnType::Integer => Ok(Value::Integer(number)),
            _ => Err(format!("column {name:?} is no integer; write text as '{number}'")),
        };
    }
    let text = match tree {
        Expr::Nested(inner) => return literal(inner, column, table),
        Expr::Identifier(word) if table.column(&word.value).is_some() => {
            return Err(format!(
                "{:?} is a column, and two columns cannot be compared; text is put in single quotes",
                word.value
            ));
        }
        Expr::Identifier(word) if word.quote_style.is_none() => &word.value,
        Expr::Identifier(word) => return syntax::column(table, word).and(Err(unsupported(tree))),
        Expr::Value(literal) => match &literal.value {
            Literal::SingleQuotedString(text) => text,
            Literal::Null => {
                return Err(format!("nothing equals null; write `{name} is null` or `is not null`"));
            }
            _ => return Err(no_literal(tree)),
        },
        _ => return Err(no_literal(tree)),
    };
    match column_type {
        ColumnType::Integer => Err(format!("column {name:?} is an integer, and {text:?} is none")),
        ColumnType::Date if !is_date(text) => {
            Err(format!("column {name:?} is a date, and {text:?} is no day written as YYYY-MM-DD"))
        }
        ColumnType::Date | ColumnType::Text => Ok(Value::text(text.as_str())),
    }
}

fn no_literal(tree: &Expr) -> String {
    format!("{:?} is no integer and no word; put text in single quotes", tree.to_string())
}
