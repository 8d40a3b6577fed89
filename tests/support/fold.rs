//! The oracle: what the example's view must show after a set of events, worked out in a map, without the code
//! under test.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The latest event of each order line.
#[derive(Default)]
pub struct Fold {
    lines: BTreeMap<(String, i64), (u64, Value)>,
}

#[derive(Default)]
struct Group {
    lines: i64,
    orders: BTreeSet<String>,
    units: i64,
    gmv: i64,
    cost: i64,
}

impl Fold {
    /// Order, duplicates and repetition do not matter.
    pub fn add(&mut self, event: &str) {
        let event: Value = serde_json::from_str(event).unwrap();
        let seq = event["source_seq"].as_u64().unwrap();
        let key = (event["order_id"].as_str().unwrap().to_owned(), event["line_no"].as_i64().unwrap());
        let newest = self.lines.get(&key).is_none_or(|(known, _)| *known < seq);
        if newest {
            self.lines.insert(key, (seq, event["row"].clone()));
        }
    }

    /// sha256 over all columns of `agg_daily_product`, as `driftless checksum` prints it. Text must be ASCII.
    pub fn checksum(&self) -> String {
        let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
        for (_, row) in self.lines.values().filter(|(_, row)| row["status"] == "paid") {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            let number = |name: &str| row[name].as_i64().unwrap();
            let group = groups.entry((text("order_date"), text("product_id"))).or_default();
            group.lines += 1;
            group.orders.insert(text("order_id"));
            group.units += number("quantity");
            group.gmv += number("amount_cents");
            group.cost += number("cost_cents");
        }
        let rows: Vec<Value> = groups
            .into_iter()
            .map(|((date, product), group)| {
                let orders = group.orders.len();
                let profit = group.gmv - group.cost;
                serde_json::json!([
                    date,
                    product,
                    group.lines,
                    orders,
                    group.units,
                    group.gmv,
                    group.cost,
                    profit
                ])
            })
            .collect();
        let digest = Sha256::digest(Value::from(rows).to_string().as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
