//! Random histories of a few order lines in a few groups, with keys that nobody would choose, and how the
//! writer of a log of each mode may hand them on.

use proptest::prelude::*;
use serde_json::{Value, json};

pub const PARTITIONS: i32 = 3;

const ORDERS: [&str; 3] = ["O1", "", "ö:%\u{1f600}"];
const DATES: [&str; 2] = ["2026-10-01", "2027-02-28"];
const PRODUCTS: [&str; 12] = [
    "P100",
    "",
    " ",
    "a:b",
    "%~",
    "[*]?",
    "007",
    "7",
    "caf\u{e9}",
    "cafe\u{301}",
    "{x}\\^",
    "\u{7f}\n\u{1f600}",
];
const STATUSES: [&str; 4] = ["paid", "paid", "refunded", "Paid"];

/// One change as it is drawn: which line, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Change {
    order: usize,
    line: i64,
    /// `None` is a delete.
    row: Option<Row>,
    /// Whether the event tells where the line was, and whether it tells the truth.
    before: Before,
    /// The distance to the sequence before, and the partition.
    pub gap: u64,
    pub partition: i32,
}

#[derive(Clone, Debug)]
struct Row {
    date: usize,
    product: usize,
    status: usize,
    quantity: i64,
    amount_cents: i64,
    cost_cents: i64,
}

#[derive(Clone, Copy, Debug)]
enum Before {
    Missing,
    Wrong,
}

fn amounts() -> impl Strategy<Value = i64> {
    prop_oneof![20 => -500..5_000_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just((1 << 53) + 1)]
}

fn rows() -> impl Strategy<Value = Row> {
    // Few products at a time, so that lines meet in groups.
    let products = prop_oneof![3 => 0..2_usize, 1 => 0..PRODUCTS.len()];
    (0..DATES.len(), products, 0..STATUSES.len(), -2..4_i64, amounts(), amounts()).prop_map(
        |(date, product, status, quantity, amount_cents, cost_cents)| Row {
            date,
            product,
            status,
            quantity,
            amount_cents,
            cost_cents,
        },
    )
}

pub fn changes(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Change>> {
    let before = prop_oneof![Just(Before::Missing), Just(Before::Wrong)];
    let row = prop_oneof![4 => rows().prop_map(Some), 1 => Just(None)];
    let change = (0..ORDERS.len(), 1..3_i64, row, before, 1..4_u64, 0..PARTITIONS);
    let change = change.prop_map(|(order, line, row, before, gap, partition)| Change {
        order,
        line,
        row,
        before,
        gap,
        partition,
    });
    proptest::collection::vec(change, count)
}

impl Change {
    /// The partition that all changes of this line would share.
    pub fn partition_of_key(&self) -> i32 {
        (self.order as i32 * 2 + self.line as i32) % PARTITIONS
    }

    pub fn event(&self, sequence: u64) -> Value {
        let (order, line) = (ORDERS[self.order], self.line);
        let old = match self.before {
            Before::Missing => json!(null),
            Before::Wrong => json!("P999"),
        };
        let row = self.row.as_ref().map(|row| {
            json!({
                "order_id": order, "line_no": line, "order_date": DATES[row.date],
                "product_id": PRODUCTS[row.product], "customer_id": "C1", "channel": "web",
                "quantity": row.quantity, "amount_cents": row.amount_cents,
                "cost_cents": row.cost_cents, "status": STATUSES[row.status],
            })
        });
        // I, U and D are all that there is, and I says no more than U does.
        let operation = match (&row, sequence % 2) {
            (None, _) => "D",
            (Some(_), 0) => "I",
            (Some(_), _) => "U",
        };
        json!({
            "event_id": format!("EV{sequence}"), "source_seq": sequence, "op": operation,
            "order_id": order, "line_no": line, "old_product_id": old,
            "row": row.unwrap_or(Value::Null),
        })
    }
}

/// An event on its way: the partition that it is appended to.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub partition: i32,
    pub event: Value,
}

/// Sequences as the mode's writer numbers them: without holes, or rising.
pub fn number(changes: &[Change], first: u64, dense: bool) -> Vec<Value> {
    let mut sequence = first - 1;
    changes
        .iter()
        .map(|change| {
            sequence += if dense { 1 } else { change.gap };
            change.event(sequence)
        })
        .collect()
}

/// A paid order line in a group of its own.
pub fn plain(sequence: u64) -> Value {
    let product = format!("P{sequence}");
    let order = format!("O{sequence}");
    json!({
        "event_id": format!("EV{sequence}"), "source_seq": sequence, "op": "I", "order_id": order, "line_no": 1,
        "row": {
            "order_id": order, "line_no": 1, "order_date": DATES[0], "product_id": product, "customer_id": "C1",
            "channel": "web", "quantity": 1, "amount_cents": 100, "cost_cents": 60, "status": "paid",
        },
    })
}
