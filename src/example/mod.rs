//! The shipped example: order lines of a shop, as a table, a contract, ten events and a stream of any length.
//!
//! The only place of the library that names the example's columns. It must not know how events travel or
//! where rows are kept, and reads no clock: everything here is a function of its arguments.

pub mod evidence;
pub mod workload;

use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::Date;

use crate::pure::event::{Decoded, Image};
use crate::pure::formats::native::{NativeDecoder, Order};
use crate::pure::schema::{Column, ColumnType, Table};
use crate::pure::value::Value;

pub use workload::{Deliveries, Workload};

/// The contract of the example's view, `agg_daily_product`.
pub const CONTRACT: &str = include_str!("../../contracts/agg_daily_product.json");

/// The object that the contract declares.
pub const VIEW: &str = "agg_daily_product";

/// What the view's groups are, as an analyst would ask the base for them.
pub const GROUP_BY: &str =
    "SELECT order_date, product_id, count(*), count(DISTINCT order_id), sum(quantity), sum(amount_cents),
   sum(cost_cents), sum(amount_cents - cost_cents)
 FROM fact_sales WHERE status = 'paid' GROUP BY order_date, product_id";

/// The shipped configuration: the example's table and topic. The path of its contract file leads nowhere here;
/// [`CONTRACT`] is what it holds.
pub const CONFIGURATION: &str = include_str!("../../config/driftless.toml");

const CANONICAL_EVENTS: &str = include_str!("events.jsonl");

/// Events up to this one make the nine canonical rows; the one after them is the example's late arrival.
const CANONICAL_ROWS_THROUGH_SEQ: u64 = 206;

/// Copies of the nine canonical rows in the benchmark's data set.
const BENCHMARK_COPIES: u32 = 24_000;

/// Days over which the copies are spread.
const BENCHMARK_DAYS: u32 = 180;

/// One message as the writer of the log hands it to Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The message key: the primary key as a JSON object, `{"order_id":"O1010","line_no":1}`.
    pub key: String,
    /// The message value: one native change-log event on one line, without a line feed.
    pub json: String,
    /// The event's `source_seq`. A duplicate carries that of its original.
    pub seq: u64,
}

/// The base table: one row an order line, keyed by order and line. No column may be null.
pub fn table() -> Table {
    let columns = [
        ("order_id", ColumnType::Text),
        ("line_no", ColumnType::Integer),
        ("order_date", ColumnType::Date),
        ("product_id", ColumnType::Text),
        ("customer_id", ColumnType::Text),
        ("channel", ColumnType::Text),
        ("quantity", ColumnType::Integer),
        ("amount_cents", ColumnType::Integer),
        ("cost_cents", ColumnType::Integer),
        ("status", ColumnType::Text),
    ];
    let columns = columns
        .into_iter()
        .map(|(name, column_type)| Column { name: name.into(), column_type, nullable: false })
        .collect();
    Table { name: "fact_sales".into(), columns, key: vec![ORDER_ID, LINE_NO] }
}

/// Places in [`table`]'s columns.
const ORDER_ID: usize = 0;
const LINE_NO: usize = 1;
const ORDER_DATE: usize = 2;

/// The ten events `EV121` to `EV207` in the order of their sequence, which has holes.
pub fn canonical_events() -> Vec<Delivery> {
    let table = Arc::new(table());
    let decoder = NativeDecoder::new(table.clone(), Order::SourceSeq);
    CANONICAL_EVENTS
        .lines()
        .filter_map(|line| {
            let (seq, row) = decode_row(&decoder, line)?;
            let (order_id, line_no) = (&row[ORDER_ID], &row[LINE_NO]);
            let key = format!(r#"{{"order_id":"{order_id}","line_no":{line_no}}}"#);
            Some(Delivery { key, json: line.to_owned(), seq })
        })
        .collect()
}

/// The benchmark's data set: 216,000 rows in the columns of [`table`], 24,000 copies of the nine canonical
/// rows. Copy `n` has order ids that end in `-B<n>` (five digits) and dates `n mod 180` days later.
pub fn benchmark_rows() -> impl Iterator<Item = Box<[Value]>> {
    let decoder = NativeDecoder::new(Arc::new(table()), Order::SourceSeq);
    let mut rows: Vec<Box<[Value]>> = CANONICAL_EVENTS
        .lines()
        .filter_map(|line| decode_row(&decoder, line))
        .filter(|(seq, _)| *seq <= CANONICAL_ROWS_THROUGH_SEQ)
        .map(|(_, row)| row)
        .collect();
    rows.sort();
    (0..BENCHMARK_COPIES)
        .flat_map(move |copy| rows.iter().map(|row| benchmark_row(row, copy)).collect::<Vec<_>>())
}

fn benchmark_row(canonical: &[Value], copy: u32) -> Box<[Value]> {
    let mut row: Box<[Value]> = canonical.into();
    row[ORDER_ID] = Value::text(format!("{}-B{copy:05}", canonical[ORDER_ID]));
    if let Value::Text(date) = &canonical[ORDER_DATE]
        && let Ok(date) = date.parse::<Date>()
    {
        let moved = date.saturating_add(i64::from(copy % BENCHMARK_DAYS).days());
        row[ORDER_DATE] = Value::text(moved.to_string());
    }
    row
}

/// The sequence and the row of an insert or update in the native format.
fn decode_row(decoder: &NativeDecoder, line: &str) -> Option<(u64, Box<[Value]>)> {
    match decoder.decode(0, None, Some(line.as_bytes())) {
        Ok(Decoded::Change { seq, image: Image::Row(row) }) => Some((seq.position, row)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
