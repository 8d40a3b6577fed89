//! What must come out, worked out a second time from JSON alone: the fold of events by the greatest sequence
//! of each key, a GROUP BY over the live rows, and the checksum. Must use nothing of `driftless`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A row's primary key: order and line.
pub type Key = (String, i64);
/// A group's key: date and product.
pub type Group = (String, String);

/// The columns of the facts, as the fixtures order them; the sequence stands last.
pub const BASE_COLUMNS: [&str; 10] = [
    "order_id",
    "line_no",
    "order_date",
    "product_id",
    "customer_id",
    "channel",
    "quantity",
    "amount_cents",
    "cost_cents",
    "status",
];

/// What an event that is delivered does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Applied,
    Duplicate,
    Stale,
    /// The sequence of the stored event with another content.
    Conflict,
}

/// The measures of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    pub line_count: i128,
    pub order_count: i128,
    pub units: i128,
    pub gmv_cents: i128,
    pub cost_cents: i128,
    pub profit_cents: i128,
}

impl Measures {
    /// By published name, in the order of the view.
    pub fn columns(&self) -> [(&'static str, i128); 6] {
        [
            ("line_count", self.line_count),
            ("order_count", self.order_count),
            ("units", self.units),
            ("gmv_cents", self.gmv_cents),
            ("cost_cents", self.cost_cents),
            ("profit_cents", self.profit_cents),
        ]
    }
}

/// The fold of all events so far.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The latest event of each key: sequence, and its row unless it was a delete.
    latest: BTreeMap<Key, (u64, Option<Value>)>,
}

impl Oracle {
    /// The fold of these events, in whatever order.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut oracle = Oracle::default();
        for event in events {
            oracle.deliver(event);
        }
        oracle
    }

    /// Delivers one event; the greatest sequence of its key decides.
    pub fn deliver(&mut self, event: &Value) -> Effect {
        let sequence = event["source_seq"].as_u64().expect("source_seq");
        self.deliver_at(sequence, event)
    }

    /// As [`deliver`](Self::deliver), where something else orders the events.
    pub fn deliver_at(&mut self, sequence: u64, event: &Value) -> Effect {
        let key = (string(event, "order_id"), integer(event, "line_no"));
        let image = (event["op"] != "D").then(|| event["row"].clone());
        match self.latest.get(&key) {
            Some((latest, stored)) if *latest == sequence && same_image(stored, &image) => Effect::Duplicate,
            Some((latest, _)) if *latest == sequence => Effect::Conflict,
            Some((latest, _)) if *latest > sequence => Effect::Stale,
            _ => {
                self.latest.insert(key, (sequence, image));
                Effect::Applied
            }
        }
    }

    /// Live rows in the order of their keys, each with its sequence.
    pub fn base_rows(&self) -> Vec<Vec<Value>> {
        self.live()
            .map(|(sequence, row)| {
                let mut values: Vec<Value> = BASE_COLUMNS.iter().map(|column| row[*column].clone()).collect();
                values.push(sequence.into());
                values
            })
            .collect()
    }

    /// Deleted keys with the sequence of the delete.
    pub fn graves(&self) -> BTreeMap<Key, u64> {
        let graves = self.latest.iter().filter(|(_, (_, row))| row.is_none());
        graves.map(|(key, (sequence, _))| (key.clone(), *sequence)).collect()
    }

    /// The group that a row is in, whether it is paid for or not.
    pub fn group_of(&self, key: &Key) -> Option<Group> {
        let (_, row) = self.latest.get(key)?;
        row.as_ref().map(group)
    }

    /// GROUP BY date and product of the paid rows.
    pub fn groups(&self) -> BTreeMap<Group, Measures> {
        let mut groups: BTreeMap<Group, (Measures, BTreeSet<String>)> = BTreeMap::new();
        for (_, row) in self.live().filter(|(_, row)| row["status"] == "paid") {
            let (measures, orders) = groups.entry(group(row)).or_default();
            let of = |column: &str| i128::from(integer(row, column));
            orders.insert(string(row, "order_id"));
            measures.line_count += 1;
            measures.order_count = orders.len() as i128;
            measures.units += of("quantity");
            measures.gmv_cents += of("amount_cents");
            measures.cost_cents += of("cost_cents");
            measures.profit_cents += of("amount_cents") - of("cost_cents");
        }
        groups.into_iter().map(|(key, (measures, _))| (key, measures)).collect()
    }

    /// What the store has to hold: for each encoded group key the fields of its row.
    pub fn published(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        self.groups().iter().map(|(key, measures)| (encode(key), fields(measures))).collect()
    }

    fn live(&self) -> impl Iterator<Item = (u64, &Value)> {
        self.latest.values().filter_map(|(sequence, row)| Some((*sequence, row.as_ref()?)))
    }
}

fn fields(measures: &Measures) -> BTreeMap<String, String> {
    let columns = measures.columns();
    if columns.iter().any(|(_, value)| i64::try_from(*value).is_err()) {
        return BTreeMap::from([("_error".to_owned(), "overflow".to_owned())]);
    }
    columns.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect()
}

/// Two rows are the same where every column of the table is.
fn same_image(left: &Option<Value>, right: &Option<Value>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => BASE_COLUMNS.iter().all(|column| left[*column] == right[*column]),
        (None, None) => true,
        _ => false,
    }
}

fn group(row: &Value) -> Group {
    (string(row, "order_date"), string(row, "product_id"))
}

fn string(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or_else(|| panic!("{name} of {object}")).to_owned()
}

fn integer(object: &Value, name: &str) -> i64 {
    object[name].as_i64().unwrap_or_else(|| panic!("{name} of {object}"))
}

/// A group key as readers of the store see it.
pub fn encode(key: &Group) -> String {
    let escape = |text: &str| -> String {
        text.chars()
            .map(|c| match c {
                '%' | ':' | '{' | '}' | '*' | '?' | '[' | ']' | '^' | '\\' | '\0'..=' ' | '\u{7f}' => {
                    format!("%{:02X}", c as u32)
                }
                other => other.to_string(),
            })
            .collect()
    };
    format!("{}:{}", escape(&key.0), escape(&key.1))
}

/// sha256 of rows as one JSON array of arrays without blanks, ASCII only.
pub fn checksum(rows: &[Vec<Value>]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|row| format!("[{}]", row.iter().map(scalar).collect::<Vec<_>>().join(",")))
        .collect();
    let digest = Sha256::digest(format!("[{}]", rows.join(",")));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn scalar(value: &Value) -> String {
    let Some(text) = value.as_str() else {
        return value.to_string();
    };
    let mut out = String::from('"');
    for unit in text.encode_utf16() {
        match unit {
            0x22 => out.push_str("\\\""),
            0x5c => out.push_str("\\\\"),
            0x0a => out.push_str("\\n"),
            0x0d => out.push_str("\\r"),
            0x09 => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            0x20..=0x7e => out.push(unit as u8 as char),
            other => out.push_str(&format!("\\u{other:04x}")),
        }
    }
    out.push('"');
    out
}
