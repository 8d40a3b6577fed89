//! The source of the example: orders come in, and lines that came earlier are corrected.
//!
//! Knows what happened, in the order it happened. Must not know how it is written down or delivered.

use std::collections::VecDeque;

use rand::RngExt;
use rand::distr::Distribution;
use rand_distr::Zipf;
use rand_pcg::Pcg64;

use super::text::Calendar;
use super::{RandomStream, Workload, random};

/// One order line as the source has it. Ids are numbers here; days count in the [`Calendar`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub order: u64,
    pub line_no: u32,
    pub day: u32,
    pub product: u32,
    pub customer: u32,
    pub channel: Channel,
    pub quantity: u32,
    pub amount_cents: u32,
    pub cost_cents: u32,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Channel {
    Web,
    Mobile,
    Sales,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Status {
    Paid,
    Refunded,
}

/// One change of one line, at a second counted from the start of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub seq: u64,
    pub second: u64,
    pub step: Step,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Insert { new: Line },
    Update { old: Line, new: Line },
    Delete { old: Line },
}

#[derive(Debug)]
pub(super) struct Shop {
    settings: Workload,
    calendar: Calendar,
    random: Pcg64,
    /// `None` where all products are wanted alike.
    popularity: Option<Zipf<f64>>,
    /// Events so far.
    place: u64,
    next_order: u64,
    order: OpenOrder,
    /// Lines that live and may still be corrected.
    remembered: Vec<Line>,
    /// Deleted lines that will come back, each with the place from which on it may.
    returning: VecDeque<(u64, Line)>,
}

/// The order whose lines are coming in.
#[derive(Clone, Copy, Debug)]
struct OpenOrder {
    number: u64,
    day: u32,
    customer: u32,
    channel: Channel,
    lines: u32,
    lines_left: u32,
}

const QUANTITY_MAX: u32 = 5;
const DISCOUNT_PERCENT_MAX: u32 = 30;
const DAYS_MOVED_MAX: u32 = 7;
/// Looks for a line that a correction fits; after them a new line comes in instead.
const LOOKS_MAX: usize = 8;
const RETURNING_MAX: usize = 1_000;
const RETURNS_AFTER_PLACES: u64 = 100;

/// What one piece of a product is sold for and costs. The cost is 50 to 69 percent of the price.
fn unit_cents(product: u32) -> (u32, u32) {
    let mixed = (product + 1).wrapping_mul(2_654_435_761) >> 12;
    let price = 500 + mixed % 400 * 50;
    (price, price / 100 * (50 + mixed % 20))
}

impl Shop {
    /// Of valid settings.
    pub(super) fn new(settings: Workload, calendar: Calendar) -> Self {
        let popularity = match settings.zipf_exponent {
            0.0 => None,
            exponent => Zipf::new(f64::from(settings.products), exponent).ok(),
        };
        Shop {
            random: random(settings.seed, RandomStream::Source),
            popularity,
            place: 0,
            next_order: settings.first_order,
            order: OpenOrder {
                number: 0,
                day: 0,
                customer: 0,
                channel: Channel::Web,
                lines: 0,
                lines_left: 0,
            },
            remembered: Vec::new(),
            returning: VecDeque::new(),
            settings,
            calendar,
        }
    }

    fn step(&mut self, today: u32) -> Step {
        let settings = &self.settings;
        let mut left = self.random.random::<f64>();
        let mut falls_in = |share: f64| {
            let falls = left < share;
            left -= share;
            falls && share > 0.0
        };
        let correction = if falls_in(settings.update_share) {
            self.update()
        } else if falls_in(settings.move_share) {
            self.relocate()
        } else if falls_in(settings.refund_share) {
            self.refund()
        } else if falls_in(settings.delete_share) {
            self.delete()
        } else {
            None
        };
        correction.unwrap_or_else(|| {
            let new = self.returning_line(today).unwrap_or_else(|| self.next_line(today));
            self.remember(new);
            Step::Insert { new }
        })
    }

    fn update(&mut self) -> Option<Step> {
        let at = self.pick(|_| true)?;
        let mut new = self.remembered[at];
        let (price, cost) = unit_cents(new.product);
        if self.random.random::<bool>() {
            let further = self.random.random_range(1..QUANTITY_MAX);
            new.quantity = (new.quantity - 1 + further) % QUANTITY_MAX + 1;
            new.amount_cents = price * new.quantity;
            new.cost_cents = cost * new.quantity;
        } else {
            let percent_paid = 100 - self.random.random_range(1..=DISCOUNT_PERCENT_MAX);
            new.amount_cents = price * new.quantity / 100 * percent_paid;
        }
        Some(self.replace(at, new))
    }

    /// To another product or another day, whichever there is.
    fn relocate(&mut self) -> Option<Step> {
        let at = self.pick(|_| true)?;
        let mut new = self.remembered[at];
        let days = self.random.random_range(1..=DAYS_MOVED_MAX).min(new.day);
        let to_product = self.random.random::<bool>();
        let has_products = self.settings.products > 1;
        match (has_products, days) {
            (false, 0) => return None,
            (true, days) if to_product || days == 0 => {
                let wanted = self.product();
                new.product = match wanted {
                    same if same == new.product => (same + 1) % self.settings.products,
                    other => other,
                };
                let (price, cost) = unit_cents(new.product);
                new.amount_cents = price * new.quantity;
                new.cost_cents = cost * new.quantity;
            }
            (_, days) => new.day -= days,
        }
        Some(self.replace(at, new))
    }

    fn refund(&mut self) -> Option<Step> {
        let at = self.pick(|line| line.status == Status::Paid)?;
        let new = Line { status: Status::Refunded, ..self.remembered[at] };
        Some(self.replace(at, new))
    }

    fn delete(&mut self) -> Option<Step> {
        let at = self.pick(|_| true)?;
        let old = self.remembered.swap_remove(at);
        if self.random.random::<f64>() < self.settings.reinsert_share && self.returning.len() < RETURNING_MAX
        {
            self.returning.push_back((self.place + RETURNS_AFTER_PLACES, old));
        }
        Some(Step::Delete { old })
    }

    fn replace(&mut self, at: usize, new: Line) -> Step {
        let old = std::mem::replace(&mut self.remembered[at], new);
        Step::Update { old, new }
    }

    fn pick(&mut self, fits: impl Fn(&Line) -> bool) -> Option<usize> {
        let count = self.remembered.len() as u64;
        if count == 0 {
            return None;
        }
        (0..LOOKS_MAX)
            .map(|_| self.random.random_range(0..count) as usize)
            .find(|&at| fits(&self.remembered[at]))
    }

    /// Beyond the limit a new line takes the place of any other, which is then never corrected again.
    fn remember(&mut self, line: Line) {
        let max = self.settings.correctable_lines_max;
        if self.remembered.len() < max as usize {
            self.remembered.push(line);
        } else {
            let at = self.random.random_range(0..max) as usize;
            self.remembered[at] = line;
        }
    }

    /// A line that was deleted, entered again today with another quantity.
    fn returning_line(&mut self, today: u32) -> Option<Line> {
        let &(from, line) = self.returning.front()?;
        if from > self.place {
            return None;
        }
        self.returning.pop_front();
        Some(self.priced(Line { day: today, status: Status::Paid, ..line }))
    }

    fn next_line(&mut self, today: u32) -> Line {
        if self.order.lines_left == 0 {
            self.open_order(today);
        }
        let order = &mut self.order;
        order.lines_left -= 1;
        let OpenOrder { number, day, customer, channel, lines, lines_left } = *order;
        let line = Line {
            order: number,
            line_no: lines - lines_left,
            day,
            product: self.product(),
            customer,
            channel,
            quantity: 0,
            amount_cents: 0,
            cost_cents: 0,
            status: Status::Paid,
        };
        self.priced(line)
    }

    fn open_order(&mut self, today: u32) {
        let settings = &self.settings;
        let is_late = settings.late_days_max > 0 && self.random.random::<f64>() < settings.late_share;
        let days_late = if is_late { self.random.random_range(1..=settings.late_days_max) } else { 0 };
        let lines = self.random.random_range(1..=settings.lines_per_order_max);
        self.order = OpenOrder {
            number: self.next_order,
            day: today.saturating_sub(days_late),
            customer: self.random.random_range(0..settings.customers),
            channel: match self.random.random_range(0..10u32) {
                0..6 => Channel::Web,
                6..9 => Channel::Mobile,
                _ => Channel::Sales,
            },
            lines,
            lines_left: lines,
        };
        self.next_order += 1;
    }

    /// The same line with a quantity drawn anew, at the full price.
    fn priced(&mut self, line: Line) -> Line {
        let quantity = self.random.random_range(1..=QUANTITY_MAX);
        let (price, cost) = unit_cents(line.product);
        Line { quantity, amount_cents: price * quantity, cost_cents: cost * quantity, ..line }
    }

    /// Counted from 0, the most wanted first.
    fn product(&mut self) -> u32 {
        match &self.popularity {
            None => self.random.random_range(0..self.settings.products),
            Some(zipf) => {
                let rank = zipf.sample(&mut self.random) as u32;
                rank.clamp(1, self.settings.products) - 1
            }
        }
    }
}

impl Iterator for Shop {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        if self.place == self.settings.events {
            return None;
        }
        let second = self.calendar.second_of(self.place, self.settings.events);
        let today = self.calendar.day_of(second);
        let step = self.step(today);
        let seq = self.settings.first_seq + self.place;
        self.place += 1;
        Some(Change { seq, second, step })
    }
}
