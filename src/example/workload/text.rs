//! Writes the example's changes as native events. Knows the format's names; must not know why a change came.
//!
//! Written by hand: all texts are plain ASCII without quotes, and a benchmark must not wait for its input.

use std::sync::Arc;

use jiff::ToSpan;

use super::Workload;
use super::shop::{Change, Channel, Line, Status, Step};
use crate::example::Delivery;

const SECONDS_A_DAY: u64 = 86_400;

/// The days a stream can name, as text. Day 0 is the earliest that a late order can have.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    dates: Arc<[Box<str>]>,
    first_day: u32,
    days: u32,
}

impl Calendar {
    pub(super) fn of(workload: &Workload) -> Self {
        let earliest = workload.start_date.saturating_sub(i64::from(workload.late_days_max).days());
        let dates = (0..workload.late_days_max + workload.days)
            .map(|day| earliest.saturating_add(i64::from(day).days()).to_string().into())
            .collect();
        Calendar { dates, first_day: workload.late_days_max, days: workload.days }
    }

    /// When the event at `place` of `events` happens, in seconds from the start of the stream.
    pub(super) fn second_of(&self, place: u64, events: u64) -> u64 {
        let seconds = u128::from(self.days) * u128::from(SECONDS_A_DAY);
        (u128::from(place) * seconds / u128::from(events.max(1))) as u64
    }

    pub(super) fn day_of(&self, second: u64) -> u32 {
        self.first_day + (second / SECONDS_A_DAY) as u32
    }

    fn date(&self, day: u32) -> &str {
        self.dates.get(day as usize).map_or("", |date| date)
    }
}

pub(super) fn delivery(change: &Change, calendar: &Calendar) -> Delivery {
    let (operation, old, new) = match &change.step {
        Step::Insert { new } => ("I", None, Some(new)),
        Step::Update { old, new } => ("U", Some(old), Some(new)),
        Step::Delete { old } => ("D", Some(old), None),
    };
    let (Step::Insert { new: line } | Step::Update { new: line, .. } | Step::Delete { old: line }) =
        change.step;

    let mut key = Text::with_capacity(48);
    key.add("{").key(&line).add("}");

    let mut json = Text::with_capacity(512);
    json.add(r#"{"event_id":"EV"#).number(change.seq);
    json.add(r#"","source_seq":"#).number(change.seq);
    json.add(r#","op":""#).add(operation).add(r#"","#).key(&line);
    json.add(r#","old_order_date":"#).date(old, calendar);
    json.add(r#","old_product_id":"#).product(old);
    json.add(r#","new_order_date":"#).date(new, calendar);
    json.add(r#","new_product_id":"#).product(new);
    json.add(r#","applied_at":""#).time(change.second, calendar);
    json.add(r#"","row":"#).row(new, calendar).add("}");
    Delivery { key: key.0, json: json.0, seq: change.seq }
}

/// JSON in the making.
struct Text(String);

impl Text {
    fn with_capacity(bytes: usize) -> Self {
        Text(String::with_capacity(bytes))
    }

    fn add(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        let mut left = number.into();
        let mut digits = [0u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.add(str::from_utf8(&digits[start..]).unwrap_or_default())
    }

    fn two_digits(&mut self, number: u64) -> &mut Self {
        if number < 10 {
            self.add("0");
        }
        self.number(number)
    }

    fn key(&mut self, line: &Line) -> &mut Self {
        self.add(r#""order_id":"O"#).number(line.order).add(r#"","line_no":"#).number(line.line_no)
    }

    fn date(&mut self, line: Option<&Line>, calendar: &Calendar) -> &mut Self {
        match line {
            None => self.add("null"),
            Some(line) => self.add("\"").add(calendar.date(line.day)).add("\""),
        }
    }

    fn product(&mut self, line: Option<&Line>) -> &mut Self {
        match line {
            None => self.add("null"),
            Some(line) => self.add("\"P").number(100 + line.product).add("\""),
        }
    }

    fn time(&mut self, second: u64, calendar: &Calendar) -> &mut Self {
        let of_day = second % SECONDS_A_DAY;
        self.add(calendar.date(calendar.day_of(second)));
        self.add("T").two_digits(of_day / 3_600);
        self.add(":").two_digits(of_day / 60 % 60);
        self.add(":").two_digits(of_day % 60).add("Z")
    }

    fn row(&mut self, line: Option<&Line>, calendar: &Calendar) -> &mut Self {
        let Some(line) = line else {
            return self.add("null");
        };
        self.add("{").key(line);
        self.add(r#","order_date":"#).date(Some(line), calendar);
        self.add(r#","product_id":"#).product(Some(line));
        self.add(r#","customer_id":"C"#).number(line.customer + 1);
        self.add(r#"","channel":""#).add(match line.channel {
            Channel::Web => "web",
            Channel::Mobile => "mobile",
            Channel::Sales => "sales",
        });
        self.add(r#"","quantity":"#).number(line.quantity);
        self.add(r#","amount_cents":"#).number(line.amount_cents);
        self.add(r#","cost_cents":"#).number(line.cost_cents);
        self.add(r#","status":""#).add(match line.status {
            Status::Paid => "paid",
            Status::Refunded => "refunded",
        });
        self.add(r#""}"#)
    }
}
