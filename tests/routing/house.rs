//! A published view on a real base and a real Redis, questions to the router, and the answer of SQLite's own SQL to
//! the same question. Must not know what is asserted.

use std::collections::BTreeMap;

use driftless::config::{Config, ContractText, Overrides, catalog_of};
use driftless::io::redis::{PrivateRedis, RedisStore};
use driftless::io::sqlite::SqliteReader;
use driftless::pipeline::publish::Step;
use driftless::pipeline::route::{Answer, Ports, RouteSettings, answer};
use driftless::ports::{Clock, PortResult};
use driftless::pure::base::{Action, ReconcileRun, ReconcileVerdict};
use driftless::pure::publish::GroupValue;
use driftless::pure::query::Ask;
use driftless::pure::route::{ReconcilePolicy, Route};
use driftless::pure::value::Value as Cell;
use serde_json::{Value, json};

use crate::redis_server;
use crate::support::OBJECT;
use crate::support::world::{Running, World};

/// Rows of an answer: what it is grouped by, and the numbers, as text; an overflow has one `overflow` for numbers.
pub type Told = BTreeMap<Vec<String>, Vec<String>>;

pub const SETTINGS: RouteSettings = RouteSettings {
    reconcile: ReconcilePolicy::WithinSeconds(93_600),
    groups_max: 10_000,
    base_ms_max: 30_000,
};

/// The shipped contract with a part replaced.
pub fn contract(changes: &[(&str, Value)]) -> String {
    let mut document: Value =
        serde_json::from_str(driftless::example::CONTRACT).expect("the shipped contract");
    for (pointer, value) in changes {
        *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
    }
    document.to_string()
}

/// A line of an order.
pub struct Line(
    pub &'static str,
    pub i64,
    pub &'static str,
    pub &'static str,
    pub &'static str,
    pub i64,
    pub i64,
    pub &'static str,
);

impl Line {
    pub fn event(&self, seq: u64) -> Value {
        let Line(order, line, date, product, channel, quantity, amount, status) = self;
        json!({
            "event_id": format!("EV{seq}"), "source_seq": seq, "op": "I", "order_id": order, "line_no": line,
            "row": {
                "order_id": order, "line_no": line, "order_date": date, "product_id": product,
                "customer_id": "C1", "channel": channel, "quantity": quantity, "amount_cents": amount,
                "cost_cents": amount / 2, "status": status,
            },
        })
    }
}

pub struct House {
    pub world: World,
    pub server: PrivateRedis,
}

impl House {
    /// A view of this contract over these events, nothing published yet.
    pub fn new(contract: &str, events: &[Value]) -> Self {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/driftless.toml");
        let config = Config::load(Some(&file), &Overrides::default()).expect("the shipped configuration");
        let text = ContractText { text: contract.to_owned(), place: "t.json".to_owned() };
        let catalog = catalog_of(&config, &[text]).expect("a contract");
        let world = World::with_catalog(std::sync::Arc::new(catalog), 1);
        let house = House { world, server: redis_server::start_with(&[]) };
        house.append(events);
        house
    }

    pub fn append(&self, events: &[Value]) {
        for event in events {
            self.world.append(0, event);
        }
    }

    pub fn store(&self) -> RedisStore {
        RedisStore::new(&self.server.settings()).expect("settings of a store")
    }

    /// Reads everything, and says that the ends of the log were reached; publishes nothing.
    pub fn read_all(&self) {
        self.world.run(|running| running.ingest_all());
    }

    /// Reads everything and publishes it, confirmed for now.
    pub fn publish(&self) {
        self.world.run(|running| {
            running.ingest_all();
            running.probe();
            publish_all(running, &mut self.store());
        });
    }

    /// Carries out a request in the base; Redis is told nothing.
    pub fn request(&self, action: &Action) {
        self.world.run(|running| {
            running.ingest_all();
            let (done, answer) = running.request(action);
            assert!(done, "{answer}");
        });
    }

    /// A reconcile pass of this verdict is on record in the base.
    pub fn reconciled(&self, verdict: ReconcileVerdict) {
        let now_ms = self.world.clock.wall_ms();
        let run = ReconcileRun {
            started_ms: now_ms,
            ended_ms: now_ms,
            version: 1,
            watermark: String::new(),
            verdict,
            whole: true,
            report: json!({}),
        };
        self.request(&Action::RecordReconcile { view: OBJECT.to_owned(), run });
    }

    /// Everything read, published, confirmed and reconciled just now.
    pub fn ready(contract: &str, events: &[Value]) -> Self {
        let house = House::new(contract, events);
        house.read_all();
        house.reconciled(ReconcileVerdict::InSync);
        house.publish();
        house
    }

    pub fn reader(&self) -> SqliteReader {
        SqliteReader::open(&self.world.base_settings("first"), &self.world.catalog).expect("the base")
    }

    /// A command to the server, as somebody else would give it.
    pub fn redis(&self, command: &[&str]) {
        let client = redis::Client::open(self.server.url()).expect("a URL");
        let mut connection = client.get_connection().expect("a connection");
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]);
        cmd.query::<redis::Value>(&mut connection).expect("the command");
    }

    pub fn answer(&self, ask: &Ask, forced: Option<Route>) -> Answer {
        self.try_answer(ask, forced).expect("an answer or a refusal")
    }

    pub fn try_answer(&self, ask: &Ask, forced: Option<Route>) -> PortResult<Answer> {
        self.answer_within(ask, forced, &SETTINGS)
    }

    pub fn answer_within(
        &self,
        ask: &Ask,
        forced: Option<Route>,
        settings: &RouteSettings,
    ) -> PortResult<Answer> {
        let catalog = &self.world.catalog;
        let query = ask.check(&catalog.views[0].view, &catalog.tables[0].shape).expect("a question");
        let (mut base, mut store) = (self.reader(), self.store());
        let mut ports = Ports { base: &mut base, store: &mut store, clock: &*self.world.clock };
        answer(&mut ports, catalog, 0, &query, forced, settings, None)
    }

    /// What SQLite's own SQL says, over the rows that `extra` lets in.
    pub fn by_sql(&self, group_by: &[&str], measures: &[&str], conditions: &str, extra: &str) -> Told {
        let connection = rusqlite::Connection::open(self.world.base_path("first")).expect("the base");
        let mut selected: Vec<String> = group_by.iter().map(|name| (*name).to_owned()).collect();
        selected.extend(measures.iter().map(|name| aggregate(name).to_owned()));
        selected.push("count(*)".to_owned());
        let conditions = if conditions.is_empty() { "1" } else { conditions };
        let mut sql = format!(
            "SELECT {} FROM fact_sales WHERE status = 'paid' AND {extra} AND ({conditions})",
            selected.join(", ")
        );
        if !group_by.is_empty() {
            sql.push_str(&format!(" GROUP BY {}", group_by.join(", ")));
        }
        let mut statement = connection.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let mut rows = statement.query([]).expect("rows");
        let mut told = Told::new();
        while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
            let text = |at: usize| match row.get_ref(at).expect("a column") {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                rusqlite::types::ValueRef::Null => "null".to_owned(),
                other => panic!("{other:?}"),
            };
            let all: Vec<String> = (0..selected.len()).map(text).collect();
            // A total over no rows is no row.
            if all.last().is_some_and(|count| count != "0") {
                told.insert(all[..group_by.len()].to_vec(), all[group_by.len()..all.len() - 1].to_vec());
            }
        }
        told
    }
}

/// The example's measures in SQLite's own words.
fn aggregate(measure: &str) -> &'static str {
    match measure {
        "line_count" => "count(*)",
        "order_count" => "count(DISTINCT order_id)",
        "units" => "sum(quantity)",
        "gmv_cents" => "sum(amount_cents)",
        "cost_cents" => "sum(cost_cents)",
        "profit_cents" => "sum(amount_cents - cost_cents)",
        other => panic!("{other}"),
    }
}

/// The rows of an answer as text.
pub fn told(answer: &Answer) -> Told {
    let number = |number: &Option<i64>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let value = |value: &GroupValue| match value {
        GroupValue::Overflow => vec!["overflow".to_owned()],
        GroupValue::Measures(numbers) => numbers.iter().map(number).collect(),
    };
    let key = |key: &[Cell]| key.iter().map(Cell::to_string).collect();
    answer.rows.iter().map(|(group, numbers)| (key(group), value(numbers))).collect()
}

/// Publishes to a store of the caller until nothing is left, and says last how fresh it is.
pub fn publish_all(running: &mut Running<'_>, store: &mut RedisStore) {
    running.publisher.beat_now();
    for _ in 0..100 {
        match running.publisher.step(&mut running.base, store).expect("a publish") {
            Step::Idle | Step::Beat => return,
            Step::Standby => panic!("nobody else publishes here"),
            Step::Published { .. } | Step::Refused(_) => running.publisher.beat_now(),
        }
    }
    panic!("the publisher does not come to rest");
}

/// A question in few words.
pub fn ask(measures: &[&str], conditions: &str, group_by: &[&str]) -> Ask {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Ask {
        measures: owned(measures),
        conditions: conditions.to_owned(),
        group_by: owned(group_by),
        ..Ask::default()
    }
}
