//! What every test here stands on: a topic, a Redis and an installation of its own, and ways to look at them
//! from outside. Must not know what is asserted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use driftless::io::kafka::{KafkaAdmin, KafkaProducer, KafkaSettings, ProducerSettings};
use driftless::io::redis::{PrivateRedis, PrivateRedisOptions};
use driftless::pure::seq::TopicPartition;
use serde_json::{Value, json};

use crate::installation::{Answer, Installation, Running, TABLE};
use crate::redis_server;

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const VIEW: &str = "driftless:{agg_daily_product}";

/// One topic, one Redis, one installation.
pub struct World {
    pub brokers: String,
    pub topic: String,
    pub redis: PrivateRedis,
    pub installation: Installation,
}

/// The address of the real Kafka; `None` where there is none, said loudly.
pub fn real_kafka() -> Option<String> {
    let brokers = std::env::var("DRIFTLESS_KAFKA").ok().filter(|brokers| !brokers.is_empty());
    if brokers.is_none() {
        eprintln!("SKIPPED end_to_end: no real Kafka (DRIFTLESS_KAFKA is not set; scripts/services up)");
    }
    brokers
}

impl World {
    /// A world whose topic does not exist yet. `topic_settings` are lines of the `[[topic]]` section.
    pub fn new(case: &str, topic_settings: &str) -> Option<Self> {
        let brokers = real_kafka()?;
        let redis = redis_server::start(PrivateRedisOptions::default());
        let topic = fresh_name(case);
        let text = configuration(&brokers, &redis.url(), &topic, topic_settings);
        Some(World { brokers, topic, redis, installation: Installation::new(&text) })
    }

    pub fn with_topic(case: &str, partitions: i32, topic_settings: &str) -> Option<Self> {
        let world = Self::new(case, topic_settings)?;
        world.create_topic(partitions);
        Some(world)
    }

    /// A world whose topic has this section, but for its name.
    pub fn with_topic_section(case: &str, partitions: i32, section: &str) -> Option<Self> {
        let world = Self::with_topic(case, partitions, "watermark = \"offsets\"")?;
        let text = std::fs::read_to_string(world.installation.path("driftless.toml")).unwrap();
        let (before, _) = text.split_once("[[topic]]").unwrap();
        let lines = section.lines().map(|line| match line.starts_with("name = ") {
            true => format!("name = {:?}\n", world.topic),
            false => format!("{line}\n"),
        });
        let text = format!("{before}[[topic]]\n{}", lines.collect::<String>());
        world.installation.write("driftless.toml", text);
        Some(world)
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        self.installation.run(arguments)
    }

    /// A maintainer that goes on until it is ended.
    pub fn maintain(&self, arguments: &[&str]) -> Running {
        let mut all = vec!["run", "--format", "json"];
        all.extend(arguments);
        self.installation.start(self.installation.command(&all))
    }

    /// `driftless status` as JSON, whatever its verdict.
    pub fn status(&self) -> Value {
        self.run(&["status", "--format", "json"]).json()
    }

    /// sha256 of the view in Redis and recomputed from the base, which must be the same.
    #[track_caller]
    pub fn checksum(&self, columns: &[&str]) -> String {
        let columns = columns.join(",");
        let of = |from: &str| {
            let mut arguments = vec!["checksum", "--from", from, "--format", "json"];
            if !columns.is_empty() {
                arguments.extend(["--columns", &columns]);
            }
            self.run(&arguments).expect(0).json()["sha256"].as_str().unwrap().to_owned()
        };
        let (redis, base) = (of("redis"), of("base"));
        assert_eq!(redis, base, "Redis and base differ");
        redis
    }

    // --- Kafka -----------------------------------------------------------------------------------------------

    fn kafka_settings(&self) -> KafkaSettings {
        KafkaSettings::new(&self.brokers, "driftless-test")
    }

    pub fn admin(&self) -> KafkaAdmin {
        KafkaAdmin::open(&self.kafka_settings()).unwrap()
    }

    pub fn producer(&self) -> KafkaProducer {
        KafkaProducer::open(&self.kafka_settings(), &ProducerSettings::default()).unwrap()
    }

    pub fn create_topic(&self, partitions: i32) {
        self.admin().create_topic(&self.topic, partitions, 1, &[]).unwrap();
    }

    /// Deletes the topic and waits until it is gone, so that it can be created again.
    pub fn delete_topic(&self) {
        let admin = self.admin();
        admin.delete_topic(&self.topic).unwrap();
        let since = Instant::now();
        while admin.partition_count(&self.topic).unwrap().is_some() {
            assert!(since.elapsed() < PATIENCE, "topic {} is still there", self.topic);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn place(&self, partition: i32) -> TopicPartition {
        TopicPartition { topic: Arc::from(&*self.topic), partition }
    }

    pub fn send<T: AsRef<[u8]>>(&self, partition: i32, values: impl IntoIterator<Item = T>) {
        let producer = self.producer();
        for value in values {
            producer.send(&self.topic, Some(partition), None, Some(value.as_ref())).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    }

    // --- Redis -----------------------------------------------------------------------------------------------

    pub fn redis_connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.redis.url()).unwrap();
        client.get_connection_with_timeout(Duration::from_secs(5)).unwrap()
    }

    pub fn meta(&self) -> BTreeMap<String, String> {
        redis::cmd("HGETALL").arg(VIEW).query(&mut self.redis_connection()).unwrap()
    }

    pub fn watermark(&self) -> String {
        self.meta().remove("watermark").unwrap_or_default()
    }

    /// How many offsets are published, over all partitions; 0 where nothing is.
    pub fn published_offsets(&self) -> i64 {
        let positions = self.meta().remove("positions").unwrap_or_default();
        let positions: BTreeMap<String, i64> = serde_json::from_str(&positions).unwrap_or_default();
        positions.values().sum()
    }

    /// Rows, index and what the meta says of them: what readers see of the data.
    pub fn published(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut connection = self.redis_connection();
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(format!("{VIEW}:row:*")).query(&mut connection).unwrap();
        let mut all: BTreeMap<String, BTreeMap<String, String>> = keys
            .into_iter()
            .map(|key| {
                let fields = redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap();
                (key, fields)
            })
            .collect();
        let index: Vec<String> =
            redis::cmd("ZRANGE").arg(format!("{VIEW}:index")).arg(0).arg(-1).query(&mut connection).unwrap();
        all.insert("index".into(), index.into_iter().map(|key| (key, String::new())).collect());
        let mut meta = self.meta();
        for of_the_moment in ["beat", "status", "refreshed_at", "confirmed_at"] {
            meta.remove(of_the_moment);
        }
        all.insert("meta".into(), meta);
        all
    }

    /// Waits until as many offsets are published.
    #[track_caller]
    pub fn wait_published(&self, maintainer: &mut Running, offsets: i64) {
        wait_for(maintainer, &format!("{offsets} offsets published"), PATIENCE, || {
            (self.published_offsets() >= offsets).then_some(())
        });
    }
}

/// Looks again until there is something, at most `longest`. Fails with the maintainer's log, at once where it has
/// ended.
#[track_caller]
pub fn wait_for<T>(
    maintainer: &mut Running,
    what: &str,
    longest: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(!maintainer.has_ended(), "{what}: the maintainer has ended; its log:\n{}", maintainer.log());
        assert!(since.elapsed() < longest, "{what}: not within {longest:?}; the log:\n{}", maintainer.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn fresh_name(case: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("e2e-{case}-{}-{}-{count}", std::process::id(), at.as_millis())
}

fn configuration(brokers: &str, redis: &str, topic: &str, topic_settings: &str) -> String {
    format!(
        r#"contracts = ["agg_daily_product.json"]
[base]
path = "base.db"
[kafka]
brokers = "{brokers}"
fetch_wait_max_ms = 20
partition_refresh_ms = 200
[redis]
url = "{redis}"
connect_timeout_ms = 500
response_timeout_ms = 1000
[maintain]
beat_ms = 300
takeover_ms = 1500
confirm_ms = 100
backoff_max_ms = 300
{TABLE}
[[topic]]
name = "{topic}"
table = "fact_sales"
format = "native"
{topic_settings}
"#
    )
}

/// One paid line of one piece: order `O<order>`, always on 2026-10-01.
pub fn sale(seq: u64, order: u64, product: &str, amount_cents: i64) -> String {
    let row = json!({
        "order_id": format!("O{order}"), "line_no": 1, "order_date": "2026-10-01", "product_id": product,
        "customer_id": "C1", "channel": "web", "quantity": 1, "amount_cents": amount_cents, "cost_cents": 1,
        "status": "paid",
    });
    json!({"event_id": format!("E{seq}"), "source_seq": seq, "op": "I", "order_id": format!("O{order}"),
        "line_no": 1, "new_order_date": "2026-10-01", "new_product_id": product, "row": row})
    .to_string()
}

/// Sales of P1 for one cent each, an order and a sequence a number.
pub fn sales(numbers: impl IntoIterator<Item = u64>) -> impl Iterator<Item = String> {
    numbers.into_iter().map(|number| sale(number, number, "P1", 1))
}

impl World {
    /// The published total of a product on 2026-10-01; `None` where it has no row.
    pub fn gmv(&self, product: &str) -> Option<i64> {
        let key = format!("{VIEW}:row:2026-10-01:{product}");
        redis::cmd("HGET").arg(key).arg("gmv_cents").query(&mut self.redis_connection()).unwrap()
    }
}
