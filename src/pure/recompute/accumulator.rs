//! Turns the rows of one group into its value, exactly and whatever their order. Must not know where rows
//! come from, nor which group it is.

use std::collections::HashSet;

use super::Recompute;
use super::wide_sum::WideSum;
use crate::pure::contract::Aggregate;
use crate::pure::expression::{Evaluated, Expression};
use crate::pure::publish::GroupValue;
use crate::pure::value::Value;

/// Adds up the rows of one group after another; memory grows with the distinct values of one group only.
pub struct Accumulator<'a> {
    aggregates: &'a [Aggregate],
    /// Fewer rows are no group.
    rows_min: u64,
    rows: u64,
    states: Vec<State>,
    /// An expression left 128 bits in some row.
    overflow: bool,
}

/// Seeded at random for each set, and several times faster on short texts than the standard hasher.
type Distinct = HashSet<Value, foldhash::fast::RandomState>;

/// What one measure has seen of the group.
enum State {
    Rows,
    Count(i64),
    Distinct(Distinct),
    Sum { total: WideSum, any: bool },
    Extreme(Option<i128>),
}

impl State {
    fn of(aggregate: &Aggregate) -> Self {
        match aggregate {
            Aggregate::CountRows => State::Rows,
            Aggregate::Count(_) => State::Count(0),
            Aggregate::CountDistinct(_) => State::Distinct(Distinct::default()),
            Aggregate::Sum(_) => State::Sum { total: WideSum::default(), any: false },
            Aggregate::Min(_) | Aggregate::Max(_) => State::Extreme(None),
        }
    }

    /// The final value: the outer `None` is one outside 64 bits, the inner one SQL null.
    fn value(&self, rows: u64) -> Option<Option<i64>> {
        let number = match self {
            State::Rows => i64::try_from(rows).ok()?,
            State::Count(count) => *count,
            State::Distinct(values) => i64::try_from(values.len()).ok()?,
            State::Sum { any: false, .. } | State::Extreme(None) => return Some(None),
            State::Sum { total, any: true } => total.to_i64()?,
            State::Extreme(Some(number)) => i64::try_from(*number).ok()?,
        };
        Some(Some(number))
    }

    /// Back to an empty group; keeps what is allocated.
    fn reset(&mut self) {
        match self {
            State::Rows => {}
            State::Count(count) => *count = 0,
            State::Distinct(values) => values.clear(),
            State::Sum { total, any } => {
                *total = WideSum::default();
                *any = false;
            }
            State::Extreme(extreme) => *extreme = None,
        }
    }
}

impl<'a> Accumulator<'a> {
    pub fn new(plan: &'a Recompute) -> Self {
        Accumulator { rows_min: plan.minimum_group_lines, ..Self::over(&plan.aggregates) }
    }

    /// Of aggregates alone, with columns as positions in the rows that are added.
    pub fn over(aggregates: &'a [Aggregate]) -> Self {
        Accumulator {
            aggregates,
            rows_min: 1,
            rows: 0,
            states: aggregates.iter().map(State::of).collect(),
            overflow: false,
        }
    }

    /// Adds one row, given as its [`Recompute::inputs`] in that order.
    pub fn add(&mut self, inputs: &[Value]) {
        self.rows += 1;
        for (aggregate, state) in self.aggregates.iter().zip(&mut self.states) {
            match (aggregate, state) {
                (Aggregate::CountDistinct(column), State::Distinct(values)) => {
                    distinct(inputs.get(*column), values);
                }
                (Aggregate::Count(expression), State::Count(count)) => {
                    *count += i64::from(expression.evaluate(inputs) != Evaluated::Null);
                }
                (Aggregate::Sum(expression), State::Sum { total, any }) => {
                    if let Some(number) = number(expression, inputs, &mut self.overflow) {
                        total.add(number);
                        *any = true;
                    }
                }
                (Aggregate::Min(expression), State::Extreme(least)) => {
                    if let Some(number) = number(expression, inputs, &mut self.overflow) {
                        *least = Some(least.map_or(number, |least| least.min(number)));
                    }
                }
                (Aggregate::Max(expression), State::Extreme(greatest)) => {
                    if let Some(number) = number(expression, inputs, &mut self.overflow) {
                        *greatest = Some(greatest.map_or(number, |greatest| greatest.max(number)));
                    }
                }
                // Counting rows needs no state of its own; other pairs are not made by `State::of`.
                _ => {}
            }
        }
    }

    /// The value of the group added so far, and an empty accumulator for the next one. `None` where the group
    /// has no rows, or fewer than the policy publishes.
    pub fn finish(&mut self) -> Option<GroupValue> {
        let published = self.rows >= self.rows_min;
        let value = published.then(|| self.value());
        self.rows = 0;
        self.overflow = false;
        self.states.iter_mut().for_each(State::reset);
        value
    }

    fn value(&self) -> GroupValue {
        let numbers = self.states.iter().map(|state| state.value(self.rows)).collect();
        match numbers {
            Some(numbers) if !self.overflow => GroupValue::Measures(numbers),
            _ => GroupValue::Overflow,
        }
    }
}

fn distinct(value: Option<&Value>, values: &mut Distinct) {
    match value {
        None | Some(Value::Null) => {}
        // Most rows repeat nothing or everything; only a new value is worth a copy.
        Some(value) => {
            if !values.contains(value) {
                values.insert(value.clone());
            }
        }
    }
}

fn number(expression: &Expression, inputs: &[Value], overflow: &mut bool) -> Option<i128> {
    match expression.evaluate(inputs) {
        Evaluated::Null => None,
        Evaluated::Integer(number) => Some(number),
        Evaluated::Overflow => {
            *overflow = true;
            None
        }
    }
}
