//! A stream of order lines with everything a real change log does to them, the same bytes for the same settings.
//!
//! ```text
//!  settings ── Shop: what happened at the source ── Deliveries: late, twice, or as it came
//!                 one change a source_seq              some places later, and once more
//! ```
//!
//! The two draw from random sequences of their own: how events are delivered never alters what they say.
//! Nothing here knows a clock, Kafka, or the base; memory is bounded by settings, not by the stream's length.

mod shop;
mod text;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::civil::{Date, date};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::Delivery;
use crate::pure::seq::Seq;
use shop::Shop;
use text::Calendar;

/// What the stream is made of. Start from [`Workload::default`] and change what matters.
///
/// A share is a fraction between 0 and 1. A correction for which no line is found, as at the very start, gives
/// way to a new line.
///
/// Equal settings give equal bytes: the generator is PCG64, versions are pinned by the lock file, and no order of
/// a hash map or clock takes part. (Zipf draws use the platform's power function; one that rounds its last bit
/// otherwise changes about one draw in 10^15. An exponent of 0 avoids even that.)
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Chooses the stream. Any number; default 1.
    pub seed: u64,
    /// Distinct source events, duplicates not counted. Default 100,000.
    pub events: u64,
    /// `source_seq` of the first event; those after it follow without a hole. Default 1.
    pub first_seq: u64,
    /// Number of the first order, written `O<number>`. A second stream into the same table needs a number past
    /// the first one's orders. Default 100,000.
    pub first_order: u64,
    /// The day the stream begins, a year from 1000 to 9000. Default 2026-09-18.
    pub start_date: Date,
    /// Calendar days over which the stream's events are spread evenly, 1 to 36,500. Default 30.
    pub days: u32,
    /// Distinct products, `P100` the most wanted, 1 to 10,000,000. Default 1,000.
    pub products: u32,
    /// Distinct customers, all alike, 1 to 100,000,000. Default 10,000.
    pub customers: u32,
    /// How much more the first products are wanted than the last (Zipf's exponent), 0 to 10: 0 is all alike, 1 is
    /// a usual shop. Default 1.
    pub zipf_exponent: f64,
    /// Lines of an order, drawn from 1 to this, 1 to 1,000. Default 3.
    pub lines_per_order_max: u32,
    /// Share of events that change quantity or amount of a line where it is. Default 0.08.
    pub update_share: f64,
    /// Share of events that move a line to another product, or to a day up to a week earlier. Default 0.03.
    pub move_share: f64,
    /// Share of events that turn a paid line into a refunded one. Default 0.03.
    pub refund_share: f64,
    /// Share of events that delete a line. Default 0.02.
    pub delete_share: f64,
    /// Share of deleted lines that come back 100 or more events later, as an insert of the same key; at most 1,000
    /// wait for that at a time. Default 0.1.
    pub reinsert_share: f64,
    /// Share of new orders dated before the day they arrive on. Default 0.02.
    pub late_share: f64,
    /// The most days that such an order is late, 0 to 3,650. Default 30.
    pub late_days_max: u32,
    /// Share of events that are delivered a second time. Default 0.01.
    pub duplicate_share: f64,
    /// Share of events that are delivered after events that follow them. Default 0.02.
    pub disorder_share: f64,
    /// The most places (source events) by which a delivery or its duplicate comes late, 0 to 1,000,000. The pending
    /// ones are held in memory, about 700 bytes each. Default 50.
    pub disorder_places_max: u32,
    /// Lines remembered for later correction, about 50 bytes each, 1 to 10,000,000. Default 100,000.
    pub correctable_lines_max: u32,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            seed: 1,
            events: 100_000,
            first_seq: 1,
            first_order: 100_000,
            start_date: date(2026, 9, 18),
            days: 30,
            products: 1_000,
            customers: 10_000,
            zipf_exponent: 1.0,
            lines_per_order_max: 3,
            update_share: 0.08,
            move_share: 0.03,
            refund_share: 0.03,
            delete_share: 0.02,
            reinsert_share: 0.1,
            late_share: 0.02,
            late_days_max: 30,
            duplicate_share: 0.01,
            disorder_share: 0.02,
            disorder_places_max: 50,
            correctable_lines_max: 100_000,
        }
    }
}

impl Workload {
    /// The corrections' greatest joint share: some events must bring the lines that others correct.
    pub const CORRECTION_SHARE_MAX: f64 = 0.9;

    /// Whether the settings make a stream. The message names the setting, its limit and what to do.
    pub fn validate(&self) -> Result<(), String> {
        for (name, value, min, max) in [
            ("days", self.days, 1, 36_500),
            ("products", self.products, 1, 10_000_000),
            ("customers", self.customers, 1, 100_000_000),
            ("lines_per_order_max", self.lines_per_order_max, 1, 1_000),
            ("late_days_max", self.late_days_max, 0, 3_650),
            ("disorder_places_max", self.disorder_places_max, 0, 1_000_000),
            ("correctable_lines_max", self.correctable_lines_max, 1, 10_000_000),
        ] {
            if !(min..=max).contains(&value) {
                return Err(format!("{name} is {value}: choose a number from {min} to {max}"));
            }
        }
        for (name, first) in [("first_seq", self.first_seq), ("first_order", self.first_order)] {
            if first.checked_add(self.events).is_none_or(|end| end > Seq::POSITION_MAX) {
                let max = Seq::POSITION_MAX;
                return Err(format!(
                    "{name} {first} plus events {} passes {max}: lower one of them",
                    self.events
                ));
            }
        }
        if !(1000..=9000).contains(&self.start_date.year()) {
            return Err(format!("start_date is {}: choose a year from 1000 to 9000", self.start_date));
        }
        if !(0.0..=10.0).contains(&self.zipf_exponent) {
            return Err(format!(
                "zipf_exponent is {}: choose a number from 0 (all products alike) to 10",
                self.zipf_exponent
            ));
        }
        self.validate_shares()
    }

    fn validate_shares(&self) -> Result<(), String> {
        for (name, share) in [
            ("update_share", self.update_share),
            ("move_share", self.move_share),
            ("refund_share", self.refund_share),
            ("delete_share", self.delete_share),
            ("reinsert_share", self.reinsert_share),
            ("late_share", self.late_share),
            ("duplicate_share", self.duplicate_share),
            ("disorder_share", self.disorder_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{name} is {share}: choose a fraction from 0 to 1, such as 0.05"));
            }
        }
        let corrections = self.update_share + self.move_share + self.refund_share + self.delete_share;
        // A sum of decimal fractions may miss the limit by its last bits.
        if corrections > Self::CORRECTION_SHARE_MAX + 1e-9 {
            return Err(format!(
                "update_share, move_share, refund_share and delete_share add up to {corrections:.3}: lower them to \
                 {} or less together, the rest brings new lines",
                Self::CORRECTION_SHARE_MAX
            ));
        }
        if self.late_share > 0.0 && self.late_days_max == 0 {
            return Err(
                "late_days_max is 0 while late_share is not: choose 1 or more days, or late_share 0".into()
            );
        }
        if self.disorder_share > 0.0 && self.disorder_places_max == 0 {
            return Err("disorder_places_max is 0 while disorder_share is not: choose 1 or more places, or \
                        disorder_share 0"
                .into());
        }
        Ok(())
    }

    /// The stream, in the order of delivery. Settings that [`Workload::validate`] refuses give an empty one.
    pub fn events(&self) -> Deliveries {
        let mut workload = self.clone();
        if self.validate().is_err() {
            workload = Workload { events: 0, ..Workload::default() };
        }
        let calendar = Calendar::of(&workload);
        Deliveries {
            random: random(workload.seed, RandomStream::Delivery),
            shop: Shop::new(workload.clone(), calendar.clone()),
            settings: workload,
            calendar,
            place: 0,
            held: BinaryHeap::new(),
        }
    }
}

/// The random sequences of one seed; a draw from one leaves the others where they are.
#[derive(Clone, Copy)]
enum RandomStream {
    Source = 1,
    Delivery = 2,
}

fn random(seed: u64, stream: RandomStream) -> Pcg64 {
    let mut random = Pcg64::new(u128::from(seed), stream as u128);
    // The first outputs of neighbouring seeds resemble each other.
    for _ in 0..8 {
        random.random::<u64>();
    }
    random
}

/// The messages of a [`Workload`], one after the other.
#[derive(Debug)]
pub struct Deliveries {
    settings: Workload,
    calendar: Calendar,
    shop: Shop,
    random: Pcg64,
    /// Source events taken from the shop so far.
    place: u64,
    /// What is to be delivered later than it happened, the next one first.
    held: BinaryHeap<Reverse<Held>>,
}

/// A delivery that waits until the source event `due` has gone out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: u64,
    seq: u64,
    is_duplicate: bool,
    message: (String, String),
}

impl Deliveries {
    fn hold(&mut self, places_late: u64, is_duplicate: bool, delivery: Delivery) {
        let Delivery { key, json, seq } = delivery;
        let due = self.place + places_late;
        self.held.push(Reverse(Held { due, seq, is_duplicate, message: (key, json) }));
    }

    fn release(&mut self) -> Option<Delivery> {
        let Reverse(held) = self.held.pop()?;
        let (key, json) = held.message;
        Some(Delivery { key, json, seq: held.seq })
    }

    fn places_late(&mut self, min: u32) -> u64 {
        u64::from(self.random.random_range(min..=self.settings.disorder_places_max.max(min)))
    }
}

impl Iterator for Deliveries {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        loop {
            // 1. What is due by now goes first.
            if self.held.peek().is_some_and(|Reverse(held)| held.due <= self.place) {
                return self.release();
            }
            // 2. The source's next event; at its end, what is still held.
            let Some(change) = self.shop.next() else {
                return self.release();
            };
            self.place += 1;
            let delivery = text::delivery(&change, &self.calendar);
            // 3. Once more, now or later. 4. Later, or as it came.
            if self.random.random::<f64>() < self.settings.duplicate_share {
                let places_late = self.places_late(0);
                self.hold(places_late, true, delivery.clone());
            }
            if self.random.random::<f64>() < self.settings.disorder_share {
                let places_late = self.places_late(1);
                self.hold(places_late, false, delivery);
            } else {
                return Some(delivery);
            }
        }
    }
}

#[cfg(test)]
mod tests;
