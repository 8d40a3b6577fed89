//! Measures: from the text of an aggregate to [`Aggregate`]. Must not know groups or how they are computed.

use sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator,
};

use super::Aggregate;
use super::syntax;
use crate::pure::expression::Expression;
use crate::pure::schema::{ColumnType, Table};

const SUPPORTED: &str = "supported are count(*), count(e), count(distinct column), sum(e), min(e), max(e)";

/// Compiles the text of one measure. Errors are messages without a place.
pub(super) fn compile(text: &str, table: &Table) -> Result<Aggregate, String> {
    let tree = syntax::parse(text)?;
    let Expr::Function(call) = &tree else {
        return Err(format!("{text:?} is no aggregate; {SUPPORTED}"));
    };
    let name = call.name.to_string().to_ascii_lowercase();
    let refuse = |what: &str| format!("{name}(...) {what}; {SUPPORTED}");
    match name.as_str() {
        "count" | "sum" | "min" | "max" => {}
        "avg" => return Err("avg(...) is not supported; use sum and count".to_owned()),
        _ => return Err(refuse("is not supported")),
    }
    let (argument, distinct) = single_argument(call).map_err(refuse)?;
    match (name.as_str(), argument, distinct) {
        ("count", FunctionArgExpr::Wildcard, false) => Ok(Aggregate::CountRows),
        ("count", FunctionArgExpr::Expr(Expr::Identifier(word)), true) => {
            syntax::column(table, word).map(Aggregate::CountDistinct)
        }
        ("count", _, true) => Err(refuse("of distinct values takes one column")),
        (_, _, true) => Err(refuse("of distinct values is not supported")),
        // Any type can be counted, but only integers have arithmetic.
        ("count", FunctionArgExpr::Expr(Expr::Identifier(word)), false) => {
            let column = syntax::column(table, word)?;
            Ok(Aggregate::Count(Expression::Column(column)))
        }
        (_, FunctionArgExpr::Expr(inner), false) => {
            let expression = arithmetic(inner, table)?;
            Ok(match name.as_str() {
                "count" => Aggregate::Count(expression),
                "sum" => Aggregate::Sum(expression),
                "min" => Aggregate::Min(expression),
                _ => Aggregate::Max(expression),
            })
        }
        _ => Err(refuse("does not take *")),
    }
}

/// The one argument of a plain call, and whether it is `distinct`.
fn single_argument(call: &Function) -> Result<(&FunctionArgExpr, bool), &'static str> {
    let FunctionArguments::List(list) = &call.args else {
        return Err("takes one argument");
    };
    let plain = !call.uses_odbc_syntax
        && call.parameters == FunctionArguments::None
        && call.within_group.is_empty()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.over.is_none()
        && list.clauses.is_empty()
        && list.duplicate_treatment != Some(DuplicateTreatment::All);
    if !plain {
        return Err("with filter, over, order by or the like is not supported");
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(argument)] => Ok((argument, list.duplicate_treatment.is_some())),
        _ => Err("takes one argument"),
    }
}

fn arithmetic(tree: &Expr, table: &Table) -> Result<Expression, String> {
    if let Some(number) = syntax::integer(tree) {
        return number.map(Expression::Literal);
    }
    let inside = |tree: &Expr| arithmetic(tree, table).map(Box::new);
    match tree {
        Expr::Nested(inner) => arithmetic(inner, table),
        Expr::Identifier(word) => {
            let column = syntax::column(table, word)?;
            match table.columns[column].column_type {
                ColumnType::Integer => Ok(Expression::Column(column)),
                ColumnType::Text | ColumnType::Date => Err(format!(
                    "column {:?} is no integer; only integers can be added up or compared in a measure",
                    word.value
                )),
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => inside(expr).map(Expression::Negate),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => arithmetic(expr, table),
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => {
            Ok(Expression::Add(inside(left)?, inside(right)?))
        }
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            Ok(Expression::Subtract(inside(left)?, inside(right)?))
        }
        Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } => {
            Ok(Expression::Multiply(inside(left)?, inside(right)?))
        }
        Expr::BinaryOp { op: BinaryOperator::Divide | BinaryOperator::Modulo, .. } => Err(
            "division is not supported: its rounding would depend on the grain; divide the published sums"
                .to_owned(),
        ),
        other => Err(format!(
            "{:?} is not supported; an expression is made of integer columns, integers, + - * and parentheses",
            other.to_string()
        )),
    }
}
