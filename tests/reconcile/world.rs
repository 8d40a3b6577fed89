//! A published view of a few days and products, and hands to damage it. Must not know what is asserted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use driftless::io::kafka::{KafkaProducer, MockKafka, ProducerSettings};
use driftless::io::redis::{PrivateRedis, PrivateRedisOptions};
use serde_json::{Value, json};

use crate::fold::Fold;
use crate::installation::{Answer, Installation, Running, TABLE};
use crate::redis_server;

pub const VIEW: &str = "driftless:{agg_daily_product}";
pub const TOPIC: &str = "sales.changes";
const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub kafka: MockKafka,
    pub redis: PrivateRedis,
    pub installation: Installation,
    events: Vec<String>,
}

impl World {
    /// Four days of three products, published by a maintainer that has ended.
    pub fn published() -> Self {
        let kafka = MockKafka::start().unwrap();
        kafka.create_topic(TOPIC, 1).unwrap();
        let redis = redis_server::start(PrivateRedisOptions::default());
        let installation = Installation::new(&configuration(&kafka.brokers(), &redis.url()));
        let mut world = World { kafka, redis, installation, events: Vec::new() };
        for seq in 1..=24 {
            world.send(&sale(seq, seq, &format!("2026-10-0{}", 1 + seq % 4), &format!("P{}", 1 + seq % 3)));
        }
        world.run(&["run", "--once"]).expect(0);
        world
    }

    pub fn send(&mut self, event: &str) {
        let producer =
            KafkaProducer::open(&self.kafka.settings("test"), &ProducerSettings::default()).unwrap();
        producer.send(TOPIC, Some(0), None, Some(event.as_bytes())).unwrap();
        producer.flush(PATIENCE).unwrap();
        self.events.push(event.to_owned());
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        self.installation.run(arguments)
    }

    /// A pass and its report, with the exit code that it has to end with.
    #[track_caller]
    pub fn reconcile(&self, arguments: &[&str], code: i32) -> Value {
        let all = [&["reconcile", "--format", "json"], arguments].concat();
        self.run(&all).expect(code).json()
    }

    pub fn maintain(&self) -> Running {
        self.installation.start(self.installation.command(&["run", "--format", "json"]))
    }

    pub fn redis<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5)).unwrap();
        redis::cmd(command[0]).arg(&command[1..]).query(&mut connection).unwrap()
    }

    pub fn meta(&self) -> BTreeMap<String, String> {
        self.redis(&["HGETALL", VIEW])
    }

    /// Rows and index entries, whatever is under their names.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let mut keys: Vec<String> = self.redis(&["KEYS", &format!("{VIEW}:row:*")]);
        keys.sort();
        let mut all: BTreeMap<String, String> = keys
            .into_iter()
            .map(|key| {
                let fields: BTreeMap<String, String> = self.redis(&["HGETALL", &key]);
                (key, format!("{fields:?}"))
            })
            .collect();
        let index: Vec<String> = self.redis(&["ZRANGE", &format!("{VIEW}:index"), "0", "-1", "WITHSCORES"]);
        all.insert("index".to_owned(), index.join(" "));
        all
    }

    /// Waits for something that a maintainer does.
    #[track_caller]
    pub fn wait_for<T>(
        &self,
        maintainer: &mut Running,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> T {
        let since = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(!maintainer.has_ended(), "{what}: ended\n{}", maintainer.log());
            assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}\n{}", maintainer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// sha256 over the groups that the events give, worked out without driftless.
    pub fn expected_checksum(&self) -> String {
        let mut fold = Fold::default();
        self.events.iter().for_each(|event| fold.add(event));
        fold.checksum()
    }

    #[track_caller]
    pub fn assert_right(&self) {
        let sum = self.run(&["checksum", "--from", "redis", "--format", "json"]).expect(0).json();
        assert_eq!(sum["sha256"], self.expected_checksum(), "{sum:#}");
    }
}

/// One paid line.
pub fn sale(seq: u64, order: u64, date: &str, product: &str) -> String {
    let row = json!({
        "order_id": format!("O{order}"), "line_no": 1, "order_date": date, "product_id": product,
        "customer_id": "C1", "channel": "web", "quantity": 2, "amount_cents": 100 * seq, "cost_cents": 7,
        "status": "paid",
    });
    json!({"event_id": format!("E{seq}"), "source_seq": seq, "op": "I", "order_id": format!("O{order}"),
        "line_no": 1, "new_order_date": date, "new_product_id": product, "row": row})
    .to_string()
}

fn configuration(brokers: &str, redis: &str) -> String {
    format!(
        r#"contracts = ["agg_daily_product.json"]
[base]
path = "base.db"
[kafka]
brokers = "{brokers}"
fetch_wait_max_ms = 5
topic_check_ms = 0
[redis]
url = "{redis}"
connect_timeout_ms = 2000
[maintain]
beat_ms = 300
takeover_ms = 1500
confirm_ms = 100
backoff_max_ms = 300
{TABLE}
[[topic]]
name = "{TOPIC}"
table = "fact_sales"
format = "native"
watermark = "dense"
"#
    )
}
