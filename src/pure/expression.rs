//! Integer arithmetic over the columns of a row, exact in 128 bits. Knows positions in a row; must not know
//! names, SQL, or what a row is for.

use crate::pure::value::Value;

/// What a measure computes of each row before it is aggregated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// The value at this position of the row.
    Column(usize),
    Literal(i64),
    Add(Box<Expression>, Box<Expression>),
    Subtract(Box<Expression>, Box<Expression>),
    Multiply(Box<Expression>, Box<Expression>),
    Negate(Box<Expression>),
}

/// The value of an [`Expression`] for one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluated {
    /// Some column in it is null.
    Null,
    Integer(i128),
    /// No column is null, but a step left 128 bits, or a column holds text where a compiled contract
    /// and a STRICT table allow only integers.
    Overflow,
}

impl Expression {
    /// Evaluates over `row`. A position outside the row counts as null.
    pub fn evaluate(&self, row: &[Value]) -> Evaluated {
        match self {
            Expression::Column(position) => match row.get(*position) {
                Some(Value::Integer(number)) => Evaluated::Integer(i128::from(*number)),
                Some(Value::Text(_)) => Evaluated::Overflow,
                Some(Value::Null) | None => Evaluated::Null,
            },
            Expression::Literal(number) => Evaluated::Integer(i128::from(*number)),
            Expression::Add(left, right) => combine(left, right, row, i128::checked_add),
            Expression::Subtract(left, right) => combine(left, right, row, i128::checked_sub),
            Expression::Multiply(left, right) => combine(left, right, row, i128::checked_mul),
            Expression::Negate(inner) => match inner.evaluate(row) {
                Evaluated::Integer(number) => checked(number.checked_neg()),
                other => other,
            },
        }
    }

    /// The same expression with each column position replaced, for a row that has other columns.
    pub fn with_columns(&self, position: &mut impl FnMut(usize) -> usize) -> Expression {
        let mut inside = |inner: &Expression| Box::new(inner.with_columns(position));
        match self {
            Expression::Add(left, right) => Expression::Add(inside(left), inside(right)),
            Expression::Subtract(left, right) => Expression::Subtract(inside(left), inside(right)),
            Expression::Multiply(left, right) => Expression::Multiply(inside(left), inside(right)),
            Expression::Negate(inner) => Expression::Negate(inside(inner)),
            Expression::Literal(number) => Expression::Literal(*number),
            Expression::Column(column) => Expression::Column(position(*column)),
        }
    }

    /// Calls `visit` with each column position, in reading order, repeated ones too.
    pub fn for_each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Expression::Column(column) => visit(*column),
            Expression::Literal(_) => {}
            Expression::Add(left, right)
            | Expression::Subtract(left, right)
            | Expression::Multiply(left, right) => {
                left.for_each_column(visit);
                right.for_each_column(visit);
            }
            Expression::Negate(inner) => inner.for_each_column(visit),
        }
    }
}

fn combine(
    left: &Expression,
    right: &Expression,
    row: &[Value],
    operation: fn(i128, i128) -> Option<i128>,
) -> Evaluated {
    match (left.evaluate(row), right.evaluate(row)) {
        (Evaluated::Null, _) | (_, Evaluated::Null) => Evaluated::Null,
        (Evaluated::Integer(left), Evaluated::Integer(right)) => checked(operation(left, right)),
        _ => Evaluated::Overflow,
    }
}

fn checked(number: Option<i128>) -> Evaluated {
    number.map_or(Evaluated::Overflow, Evaluated::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(position: usize) -> Box<Expression> {
        Box::new(Expression::Column(position))
    }

    #[test]
    fn arithmetic_is_exact_beyond_64_bits_and_null_wins_over_overflow() {
        let row = [i64::MIN.into(), i64::MIN.into(), i64::MIN.into(), Value::Null];
        let product = Expression::Multiply(column(0), column(1));
        assert_eq!(product.evaluate(&row), Evaluated::Integer(1 << 126));
        assert_eq!(Expression::Negate(column(0)).evaluate(&row), Evaluated::Integer(1 << 63));
        let cube = Expression::Multiply(Box::new(product), column(2));
        assert_eq!(cube.evaluate(&row), Evaluated::Overflow);
        let with_null = Expression::Subtract(Box::new(cube), column(3));
        assert_eq!(with_null.evaluate(&row), Evaluated::Null);
        assert_eq!(Expression::Column(9).evaluate(&row), Evaluated::Null);
    }

    #[test]
    fn columns_are_moved_onto_another_row() {
        let expression = Expression::Add(
            column(4),
            Box::new(Expression::Negate(Box::new(Expression::Multiply(
                column(2),
                Box::new(Expression::Literal(10)),
            )))),
        );
        let mut seen = Vec::new();
        expression.for_each_column(&mut |column| seen.push(column));
        assert_eq!(seen, [4, 2]);
        let moved = expression.with_columns(&mut |column| if column == 4 { 0 } else { 1 });
        assert_eq!(moved.evaluate(&[7.into(), 3.into()]), Evaluated::Integer(-23));
    }
}
