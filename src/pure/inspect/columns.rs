//! What the values of a column look like, over a sample, and the type and encoding that would hold them all.

use std::collections::BTreeMap;

use crate::pure::event::Reason;
use crate::pure::formats::json::{Json, Kind, Object};
use crate::pure::formats::time::{self, Zone};
use crate::pure::formats::{connect, decimal};
use crate::pure::schema::is_date;

/// The columns of a table, in the order in which they were seen.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    seen: BTreeMap<String, Column>,
    rows: u64,
}

/// What has been seen of one column.
#[derive(Clone, Debug, Default)]
struct Column {
    present: u64,
    nulls: u64,
    integers: u64,
    fractions: u64,
    bools: u64,
    texts: u64,
    structs: u64,
    others: u64,
    /// Texts that are days, times in ISO form, such times with a zone, and decimal numbers.
    days: u64,
    times: u64,
    instants: u64,
    decimals: u64,
    integer_texts: u64,
    /// Texts that are base64 of few bytes, and those of them that show it by padding.
    base64s: u64,
    padded: u64,
    /// The greatest number of decimal places.
    places: u32,
    least: i64,
    most: i64,
    /// What the message's schema says: name of the type, scale.
    told: Option<(String, Option<u32>)>,
    optional: bool,
}

/// How a column would be declared and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub name: String,
    pub column_type: &'static str,
    pub nullable: bool,
    /// The inside of its entry under `columns`; empty where none is needed.
    pub reading: String,
    /// Rows that do not have it.
    pub missing: u64,
    /// What the sample leaves open.
    pub unsure: Option<String>,
}

impl Columns {
    pub(super) fn add(&mut self, row: &Object<'_>, schema: Option<&Object<'_>>) {
        self.rows += 1;
        for (name, value) in row.entries() {
            // What an unwrapping transform adds is no column.
            if name.starts_with("__") {
                continue;
            }
            if !self.seen.contains_key(name) {
                self.names.push(name.to_owned());
            }
            let column = self.seen.entry(name.to_owned()).or_default();
            column.add(value);
            if let Some(told) = schema.and_then(|schema| connect::named(schema, name).ok().flatten()) {
                column.note_schema(&told);
            }
        }
    }

    /// `texts_only`: the format writes every value as text.
    pub(super) fn guesses(&self, texts_only: bool) -> Vec<Guess> {
        self.names
            .iter()
            .map(|name| {
                let column = &self.seen[name];
                let mut guess = column.guess(name, texts_only);
                guess.nullable = column.nulls > 0 || column.optional;
                guess.missing = self.rows - column.present;
                guess
            })
            .collect()
    }
}

impl Column {
    fn add(&mut self, value: Json<'_>) {
        self.present += 1;
        match value.kind() {
            Ok(Kind::Null) => self.nulls += 1,
            Ok(Kind::Bool(_)) => self.bools += 1,
            Ok(Kind::Number(text)) => match decimal::of_text(text, 0) {
                Ok(number) => {
                    let first = self.integers == 0;
                    self.least = if first { number } else { self.least.min(number) };
                    self.most = if first { number } else { self.most.max(number) };
                    self.integers += 1;
                }
                Err(_) => {
                    self.fractions += 1;
                    self.note_places(text);
                }
            },
            Ok(Kind::Text(text)) => self.add_text(&text),
            Ok(Kind::Object) if is_variable_scale(value) => self.structs += 1,
            _ => self.others += 1,
        }
    }

    fn add_text(&mut self, text: &str) {
        self.texts += 1;
        let is_time = !is_date(text) && time::of_text(text, &Zone::utc()).is_ok();
        let zoned = text.ends_with('Z') || text.bytes().skip(11).any(|byte| matches!(byte, b'+' | b'-'));
        self.days += u64::from(is_date(text));
        self.times += u64::from(is_time);
        self.instants += u64::from(is_time && zoned);
        if decimal::of_text(text, 0).is_ok() {
            self.integer_texts += 1;
        }
        // Whatever is no number is of the wrong type; the rest has places, or is too large.
        if !matches!(decimal::of_text(text, 0), Err((Reason::WrongType, _))) {
            self.decimals += 1;
            self.note_places(text);
        }
        if decimal::base64(text).is_some_and(|bytes| !bytes.is_empty() && bytes.len() <= 16) {
            self.base64s += 1;
            self.padded += u64::from(text.ends_with('='));
        }
    }

    fn note_places(&mut self, text: &str) {
        let needed = (0..=18).find(|scale| decimal::of_text(text, *scale).is_ok()).unwrap_or(0);
        let written = text.split_once('.').map_or(0, |(_, fraction)| fraction.len().min(18) as u32);
        self.places = self.places.max(needed).max(written);
    }

    fn note_schema(&mut self, told: &Object<'_>) {
        let name = told.text("name").ok().flatten().unwrap_or_default().into_owned();
        let scale =
            told.some("parameters").ok().flatten().and_then(|parameters| {
                parameters.object("parameters").ok()?.text("scale").ok()??.parse().ok()
            });
        self.optional |= matches!(told.some("optional"), Ok(Some(json)) if json.raw() == "true");
        if !name.is_empty() {
            self.told = Some((name, scale));
        }
    }

    fn guess(&self, name: &str, texts_only: bool) -> Guess {
        let guess = |column_type, reading: String, unsure: Option<&str>| Guess {
            name: name.to_owned(),
            column_type,
            nullable: false,
            missing: 0,
            reading,
            unsure: unsure.map(str::to_owned),
        };
        if let Some(told) = self.told_by_schema() {
            return guess(told.0, told.1, told.2);
        }
        let values = self.present - self.nulls;
        let all = |count: u64| count == values && values > 0;
        let numbers = self.integers + self.fractions;
        match () {
            () if values == 0 => guess("text", String::new(), Some("only null was seen")),
            () if all(self.bools) => guess("integer", "as = \"bool\"".to_owned(), None),
            () if all(self.integers) => self.guess_integer(name),
            () if all(numbers) => {
                guess("integer", self.decimal(), Some("a decimal number: is the scale right for every row?"))
            }
            () if all(self.structs) => guess(
                "integer",
                self.decimal(),
                Some("a decimal number that brings its own scale: how many places should the column keep?"),
            ),
            () if all(self.days) => guess("date", String::new(), None),
            () if all(self.instants) => guess(
                "date",
                "as = \"iso\"".to_owned(),
                Some("instants: the column keeps their day in time_zone"),
            ),
            () if all(self.days + self.times) => {
                guess("date", "as = \"iso\"".to_owned(), Some("times: the column keeps their day"))
            }
            () if texts_only && all(self.integer_texts) => guess("integer", String::new(), None),
            () if all(self.decimals) && self.places > 0 => guess(
                "integer",
                self.decimal(),
                Some("text that is always a decimal number: is it one, and is the scale right?"),
            ),
            () if all(self.texts) => guess("text", String::new(), self.unsure_text()),
            () => guess("text", "as = \"text\"".to_owned(), Some("values of different kinds were seen")),
        }
    }

    fn told_by_schema(&self) -> Option<(&'static str, String, Option<&'static str>)> {
        let (name, scale) = self.told.as_ref()?;
        Some(match name.as_str() {
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" | "io.debezium.time.IsoDate" => {
                ("date", String::new(), None)
            }
            "io.debezium.time.Timestamp"
            | "io.debezium.time.MicroTimestamp"
            | "io.debezium.time.NanoTimestamp"
            | "org.apache.kafka.connect.data.Timestamp"
            | "io.debezium.time.IsoTimestamp" => {
                ("date", String::new(), Some("a time: the column keeps its day"))
            }
            "io.debezium.time.ZonedTimestamp" => {
                ("date", String::new(), Some("an instant: the column keeps its day in time_zone"))
            }
            "org.apache.kafka.connect.data.Decimal" => {
                let scale = scale.unwrap_or(0).min(18);
                ("integer", format!("as = \"decimal\", scale = {scale}"), None)
            }
            "io.debezium.data.VariableScaleDecimal" => (
                "integer",
                "as = \"decimal\", scale = 2".to_owned(),
                Some("a decimal number that brings its own scale: how many places should the column keep?"),
            ),
            _ => return None,
        })
    }

    fn decimal(&self) -> String {
        format!("as = \"decimal\", scale = {}", self.places.max(u32::from(self.structs > 0) * 2))
    }

    /// Whole numbers may be numbers, days or ticks; the name and the range say which is likely.
    fn guess_integer(&self, name: &str) -> Guess {
        let lower = name.to_ascii_lowercase();
        let named = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
        let within = |least: i64, most: i64| self.least >= least && self.most <= most;
        let like_date = named(&["date", "day", "birth"]);
        let like_time = like_date
            || named(&["time", "_at", "_ts", "stamp", "created", "updated", "modified"])
            || lower == "ts";
        let reading = match () {
            () if like_date && within(3_000, 40_000) => "days",
            () if like_time && within(300_000_000, 4_000_000_000) => "seconds",
            () if like_time && within(300_000_000_000, 4_000_000_000_000) => "local_millis",
            () if like_time && within(300_000_000_000_000, 4_000_000_000_000_000) => "local_micros",
            () if like_time && within(300_000_000_000_000_000, 4_000_000_000_000_000_000) => "local_nanos",
            () => "",
        };
        let (column_type, reading, unsure) = match reading {
            "" => ("integer", String::new(), None),
            reading => (
                "date",
                format!("as = \"{reading}\""),
                Some(format!(
                    "numbers from {} to {}: by its name and range a time; a plain integer otherwise",
                    self.least, self.most
                )),
            ),
        };
        Guess { name: name.to_owned(), column_type, nullable: false, missing: 0, reading, unsure }
    }

    fn unsure_text(&self) -> Option<&'static str> {
        match () {
            () if self.integer_texts == self.texts => {
                Some("text that is always a whole number: as = \"decimal\" would make it an integer")
            }
            () if self.base64s == self.texts && self.padded > 0 => Some(
                "text that is always base64 of few bytes: a decimal number (decimal.handling.mode=precise)? Then it is an integer with as = \"decimal_bytes\", bytes_scale and scale",
            ),
            () => None,
        }
    }
}

fn is_variable_scale(value: Json<'_>) -> bool {
    value.object("").is_ok_and(|parts| parts.has("scale") && parts.has("value"))
}
