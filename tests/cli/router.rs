//! The router's commands as people type them: query, view, shadow, explain, and what contracts say of columns and
//! changes. A maintainer is not needed: the base is seeded, and Redis is published to by the pipeline itself.

use std::sync::Arc;

use driftless::config::{Config, Overrides, load_catalog};
use driftless::io::clock::SystemClock;
use driftless::io::redis::{PrivateRedis, RedisStore};
use driftless::io::sqlite::{BaseSettings, SqliteReader};
use driftless::pipeline::ingest::Probe;
use driftless::pipeline::publish::{PublishSettings, Publisher, Step};
use driftless::ports::{BaseReader, Clock};
use serde_json::{Value, json};

use crate::installation::Installation;
use crate::{place, redis_server};

const HASH: &str = "9a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747";

/// The seeded rows, published and confirmed for now; no reconcile pass is asked for.
struct Published {
    installation: Installation,
    redis: PrivateRedis,
    settings: [String; 2],
}

impl Published {
    fn new() -> Self {
        let installation = place::installation();
        installation.write("rows.csv", format!("{}\n{}", place::HEADER, place::ROWS));
        // Where reading would go on makes a start possible, without which nothing is published.
        let seed = ["seed", "--table", "fact_sales", "--from", "rows.csv", "--through-seq", "20"];
        installation.run(&[&seed[..], &["--positions", "sales.changes:0=0"]].concat()).expect(0);
        let redis = redis_server::start_with(&[]);
        let settings = [format!("redis.url={}", redis.url()), "route.reconciled_within_seconds=0".to_owned()];
        let published = Published { installation, redis, settings };
        published.publish();
        published
    }

    fn publish(&self) {
        let file = self.installation.path("driftless.toml");
        let config = Config::load(Some(&file), &Overrides::default()).expect("the configuration");
        let catalog = Arc::new(load_catalog(&config).expect("the contract"));
        let settings = BaseSettings {
            path: self.installation.path("base.db"),
            generation: "1".to_owned(),
            synchronous_full: false,
            cache_kib: 1_024,
            history_changes_max: 1_000,
            wal_checkpoint_bytes: 64 << 20,
        };
        let mut base = SqliteReader::open(&settings, &catalog).expect("the base");
        let mut store = RedisStore::new(&self.redis.settings()).expect("settings");
        let clock = Arc::new(SystemClock::default());
        let publish = PublishSettings { groups_per_script_max: 1_000, beat_ms: 1, takeover_ms: 5_000 };
        let mut publisher = Publisher::new(catalog, 0, clock.clone(), publish, 1);
        let head = base.snapshot().and_then(|mut snapshot| snapshot.head()).expect("a head");
        let ends =
            head.positions.iter().map(|position| (position.at.clone(), position.next_offset)).collect();
        publisher.note_probe(Probe { asked_ms: clock.wall_ms(), greatest: Vec::new(), ends });
        for _ in 0..10 {
            publisher.beat_now();
            if let Step::Beat = publisher.step(&mut base, &mut store).expect("a publish") {
                return;
            }
        }
        panic!("the publisher does not come to rest");
    }

    fn run(&self, arguments: &[&str]) -> crate::installation::Answer {
        let [redis, reconciled] = &self.settings;
        self.installation.run(&[arguments, &["--set", redis, "--set", reconciled]].concat())
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        self.run(&[arguments, &["--format", "json"]].concat()).expect(code).json()
    }
}

const BY_PRODUCT: [&str; 6] =
    ["query", "--measures", "gmv_cents,units", "--group-by", "product_id", "--where"];

#[test]
fn a_question_is_answered_with_route_reasons_and_what_it_stands_for() {
    let place = Published::new();
    let asked = [&BY_PRODUCT[..], &["order_date >= 2026-10-01 and order_date <= 2026-10-02"]].concat();
    let answer = place.json(&asked, 0);
    assert_eq!(answer["schema"], "driftless.query/1");
    assert_eq!((&answer["route"], &answer["reasons"]), (&json!("redis"), &json!(["ELIGIBLE"])));
    assert_eq!((&answer["watermark"], &answer["contract_hash"]), (&json!("20"), &json!(HASH)));
    assert_eq!((&answer["generation"], answer["checks"].is_null()), (&json!("1"), true));
    assert!(answer["as_of"].is_string() && answer["version"].as_u64() > Some(0), "{answer}");
    let rows = json!([
        {"group": {"product_id": "P1"}, "measures": {"gmv_cents": 50, "units": 2}},
        {"group": {"product_id": "P2"}, "measures": {"gmv_cents": 200, "units": 2}},
    ]);
    assert_eq!(answer["rows"], rows);
    let base = place.json(&[&asked[..], &["--route", "base"]].concat(), 0);
    assert_eq!((&base["route"], &base["rows"]), (&json!("base"), &rows));
    place.run(&asked).expect(0).says(&["P1", "50", "from redis (ELIGIBLE)", "watermark 20", &HASH[..12]]);
    let explained = place.json(&[&asked[..], &["--explain"]].concat(), 0);
    assert_eq!(explained["checks"].as_array().map(Vec::len), Some(14), "{explained}");
    // What only the base can tell, and what nobody tells.
    let orders = ["query", "--measures", "order_count", "--where", "order_date = 2026-10-01"];
    place.run(&orders).expect(0).says(&["from base (NOT_ADDITIVE)", "cannot be added up over product_id"]);
    let refused = place.json(&[&orders[..], &["--route", "redis"]].concat(), 1);
    assert_eq!((&refused["route"], &refused["rows"]), (&Value::Null, &json!([])));
    place
        .run(&[&orders[..], &["--route", "redis"]].concat())
        .expect(1)
        .says(&["refused by redis: NOT_ADDITIVE"]);
    place
        .run(&[&orders[..], &["--contract", &"0".repeat(64)]].concat())
        .expect(1)
        .says(&["refused: CONTRACT_MISMATCH", HASH]);
    place.run(&[&orders[..], &["--contract", HASH, "--max-staleness", "1h"]].concat()).expect(0);
}

#[test]
fn a_view_that_was_never_reconciled_does_not_answer_unless_that_is_set() {
    let place = Published::new();
    let redis = &place.settings[0];
    let asked = ["query", "--measures", "units", "--set", redis.as_str()];
    place.installation.run(&asked).expect(0).says(&["from base (NOT_RECONCILED)", "never reconciled"]);
    place.run(&asked[..3]).expect(0).says(&["from redis (ELIGIBLE)"]);
}

#[test]
fn mistakes_in_a_question_name_the_place_and_what_there_is() {
    let place = place::seeded();
    let asked = |arguments: &[&str], says: &[&str]| {
        place.run(&[&["query"], arguments].concat()).expect(2).says(says);
    };
    asked(
        &["--measures", "unit"],
        &["measures: \"unit\" is no measure", "line_count, order_count", "remedy:"],
    );
    asked(&["--measures", "units", "--where", "day = 1"], &["where: \"day\" is no column of fact_sales"]);
    asked(&["--measures", "units", "--group-by", "day"], &["group_by: \"day\" is no column"]);
    asked(&["--measures", "units", "--max-staleness", "soon"], &["--max-staleness", "15m"]);
    asked(&["--measures", "units", "--contract", "9a7b"], &["contract: \"9a7b\" is no contract hash"]);
    asked(&["--measures", "units", "--view", "nothing"], &["there is no view nothing"]);
    asked(&[], &["--measures"]);
    asked(
        &["--measures", "units", "--set", "route.groups_max=0"],
        &["route.groups_max", "from 1 to 1000000"],
    );
}

#[test]
fn the_kill_switch_works_at_once_and_is_on_record() {
    let place = Published::new();
    let asked = ["query", "--measures", "units"];
    place.run(&asked).expect(0).says(&["from redis"]);
    let disable = ["view", "disable", "agg_daily_product", "--why", "under review", "--who", "ann"];
    place.run(&disable).expect(0).says(&["done"]);
    // Redis has not heard of it: nothing was published.
    place.run(&asked).expect(0).says(&["from base (DISABLED)", "disabled by ann", "under review"]);
    place.run(&[&asked[..], &["--route", "redis"]].concat()).expect(1).says(&["DISABLED"]);
    place.run(&["view", "list"]).expect(0).says(&["disabled by ann", &HASH[..12], "Analytics Engineering"]);
    let listed = place.json(&["view", "list"], 0);
    assert_eq!(
        (&listed[0]["disabled"]["why"], &listed[0]["reconciled"]),
        (&json!("under review"), &Value::Null)
    );
    place.publish();
    place.run(&["view", "enable", "agg_daily_product", "--why", "reviewed"]).expect(0);
    place.run(&asked).expect(0).says(&["from base (DISABLED)", "Redis shows it as disabled"]);
    place.publish();
    place.run(&asked).expect(0).says(&["from redis"]);
    place.run(&["view", "disable", "nothing", "--why", "x"]).expect(2).says(&["agg_daily_product"]);
}

#[test]
fn uses_are_counted_by_role_and_a_deprecated_measure_is_seen_to_be_read() {
    let place = Published::new();
    place.run(&["view", "usage"]).expect(0).says(&["nothing was asked"]);
    let mut contract: Value = serde_json::from_str(driftless::example::CONTRACT).expect("the contract");
    contract["deprecated"] = json!({"cost_cents": {"since": "2026-11-01", "use": "profit_cents"}});
    place.installation.write("agg_daily_product.json", contract.to_string());
    place.run(&["view", "usage", "--deprecated"]).expect(0);
    let asked = ["query", "--measures", "cost_cents,units", "--role", "finance"];
    place
        .run(&asked)
        .expect(0)
        .says(&["warning: cost_cents is deprecated since 2026-11-01; use profit_cents"]);
    place.run(&["query", "--measures", "units", "--set", "route.count_uses=false"]).expect(0);
    let used = place.json(&["view", "usage", "--deprecated"], 1);
    let counts = used["counts"].as_array().expect("counts");
    assert_eq!(counts.len(), 1);
    assert_eq!((&counts[0]["measure"], &counts[0]["role"]), (&json!("cost_cents"), &json!("finance")));
    assert_eq!((&counts[0]["times"], &counts[0]["deprecated"]), (&json!(1), &json!(true)));
    place.run(&["view", "usage", "agg_daily_product"]).expect(0).says(&[
        "questions",
        "ELIGIBLE",
        "measure cost_cents (deprecated)",
        "measure units",
    ]);
    assert_eq!(place.json(&["view", "usage"], 0)["counts"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_corpus_is_answered_by_both_routes_and_compared() {
    let place = Published::new();
    let corpus = "# what the dashboard asks\n
{\"measures\":[\"gmv_cents\",\"units\"],\"group_by\":[\"product_id\"]}
{\"view\":\"agg_daily_product\",\"measures\":[\"order_count\"],\"where\":\"order_date = 2026-10-01\"}\n";
    place.installation.write("corpus.jsonl", corpus);
    let asked = ["shadow", "--queries", "corpus.jsonl"];
    place.run(&asked).expect(0).says(&[
        "same",
        "base_only",
        "NOT_ADDITIVE",
        "2 questions: 1 same, 1 base_only",
        "p95",
    ]);
    let compared = place.json(&asked, 0);
    assert_eq!((&compared["schema"], &compared["questions"]), (&json!("driftless.shadow/1"), &json!(2)));
    assert_eq!((&compared["results"][0]["line"], &compared["results"][0]["rows"]), (&json!(3), &json!(2)));
    assert!(
        compared["redis"]["p95_us"].as_u64() > Some(0) && compared["base"]["questions"] == 2,
        "{compared}"
    );
    let client = redis::Client::open(place.redis.url()).expect("a URL");
    let mut connection = client.get_connection().expect("a connection");
    let row = "driftless:{agg_daily_product}:row:2026-10-01:P2";
    redis::cmd("HSET").arg(row).arg("units").arg("7").query::<()>(&mut connection).expect("damage");
    let differs = place.json(&asked, 1);
    assert_eq!(
        differs["results"][0]["differences"],
        json!([{"group": ["P2"], "redis": [200, 7], "base": [200, 2]}])
    );
    place.run(&asked).expect(1).says(&["line 3: differs", "1 differs, 1 base_only"]);
    redis::cmd("FLUSHALL").query::<()>(&mut connection).expect("a flush");
    place.run(&asked).expect(2).says(&["the view is not in Redis", "1 of 2 questions could not be compared"]);
    for (line, says) in [
        ("{\"measures\":[\"unit\"]}", "corpus.jsonl: line 1: measures: \"unit\""),
        ("{\"measure\":[\"units\"]}", "corpus.jsonl: line 1: unknown field"),
        ("gmv_cents", "corpus.jsonl: line 1"),
        ("# nothing", "no question in it"),
    ] {
        place.installation.write("corpus.jsonl", line);
        place.run(&asked).expect(2).says(&[says, "remedy:"]);
    }
}

#[test]
fn a_number_is_explained_from_both_sides() {
    let place = Published::new();
    let asked = ["explain", "agg_daily_product", "2026-10-01", "P2"];
    place.run(&asked).expect(0).says(&[
        "Redis and base agree",
        "gmv_cents",
        "200",
        "1 rows are in the value",
        "O1",
    ]);
    let explained = place.json(&asked, 0);
    assert_eq!(
        (&explained["schema"], &explained["standing"]),
        (&json!("driftless.explain/1"), &json!("equal"))
    );
    assert_eq!(explained["redis"]["value"], explained["base"]["value"]);
    assert_eq!(explained["rows"][0]["row"]["order_id"], "O1");
    assert_eq!((&explained["rows_total"], &explained["key"]), (&json!(1), &json!("2026-10-01:P2")));
    let absent = ["explain", "agg_daily_product", "--key", "2026-10-09:P2"];
    assert_eq!(place.json(&absent, 0)["base"]["value"], Value::Null);
    let client = redis::Client::open(place.redis.url()).expect("a URL");
    let mut connection = client.get_connection().expect("a connection");
    let row = "driftless:{agg_daily_product}:row:2026-10-01:P2";
    redis::cmd("HSET").arg(row).arg("units").arg("7").query::<()>(&mut connection).expect("damage");
    place.run(&asked).expect(1).says(&["DIFFERS", "driftless reconcile"]);
    redis::cmd("FLUSHALL").query::<()>(&mut connection).expect("a flush");
    place.run(&asked).expect(2).says(&["the view is not in Redis", "200"]);
    place.installation.run(&asked).expect(2).says(&["connect failed", "200"]);
    for (values, says) in [
        (&["2026-10-01"][..], "1 values were given"),
        (&["2026-10-41", "P1"], "order_date: \"2026-10-41\" is no day"),
        (&["--key", "2026-10-01"], "is no group key"),
    ] {
        let answer = place.run(&[&["explain", "agg_daily_product"], values].concat()).expect(2);
        answer.says(&[says, "order_date, product_id"]);
    }
}

#[test]
fn what_a_column_carries_is_told_with_owners() {
    let place = place::installation();
    let impact = |column: &str, code: i32| {
        let answer = place.run(&["contract", "impact", "--column", column, "--format", "json"]).expect(code);
        answer.json()
    };
    let cost = impact("cost_cents", 1);
    assert_eq!(cost["schema"], "driftless.impact/1");
    let view = &cost["views"][0];
    assert_eq!((&view["breaks"], &view["owner"]), (&json!("measures"), &json!("Analytics Engineering")));
    let names: Vec<&Value> =
        view["measures"].as_array().expect("measures").iter().map(|m| &m["column"]).collect();
    assert_eq!(names, ["cost_cents", "profit_cents"]);
    assert_eq!(view["consumers"], json!([{"name": "certified sales dashboard", "owner": "Sales Ops"}]));
    let status = impact("status", 1);
    assert_eq!(
        (&status["views"][0]["breaks"], &status["views"][0]["filters"]),
        (&json!("whole"), &json!(["status = paid"]))
    );
    assert_eq!(status["views"][0]["measures"].as_array().map(Vec::len), Some(6));
    assert_eq!(impact("product_id", 1)["views"][0]["grain"], true);
    assert_eq!(impact("line_no", 1)["primary_key"], true);
    assert_eq!(impact("channel", 0)["breaks"], false);
    place.run(&["contract", "impact", "--column", "channel"]).expect(0).says(&["it can go"]);
    place.run(&["contract", "impact", "--column", "amount_cents"]).expect(1).says(&[
        "gmv_cents = sum(amount_cents)",
        "profit_cents",
        "certified sales dashboard (owner: Sales Ops)",
    ]);
    place.run(&["contract", "impact", "--column", "nothing"]).expect(2).says(&["fact_sales (order_id"]);
    let mut draft: Value = serde_json::from_str(driftless::example::CONTRACT).expect("the contract");
    draft["policy"]["row_filter"] = "channel = web".into();
    draft["deprecated"] = json!({"units": {"since": "2026-11-01", "use": "gmv_cents"}});
    place.write("draft.json", draft.to_string());
    let draft = ["contract", "impact", "--contract", "draft.json", "--column"];
    place
        .run(&[&draft[..], &["channel"]].concat())
        .expect(1)
        .says(&["row filter channel = web", "breaks as a whole"]);
    place
        .run(&[&draft[..], &["amount_cents"]].concat())
        .expect(1)
        .says(&["deprecated units loses its replacement"]);
}

#[test]
fn a_change_of_a_contract_is_told_in_meaning_fields_and_consumers() {
    let place = place::installation();
    let changed = |change: fn(&mut Value), code: i32| {
        let mut contract: Value = serde_json::from_str(driftless::example::CONTRACT).expect("the contract");
        change(&mut contract);
        place.write("new.json", contract.to_string());
        let arguments = ["contract", "diff", "agg_daily_product.json", "new.json"];
        (
            place.run(&[&arguments[..], &["--format", "json"]].concat()).expect(code).json(),
            place.run(&arguments),
        )
    };
    let (same, text) = changed(|_| (), 0);
    assert_eq!((&same["meaning_changes"], &same["differences"]), (&json!(false), &json!([])));
    text.expect(0).says(&["both say the same"]);
    let (meaning, text) = changed(
        |contract| {
            contract["metric_contract"]["measures"]["units"] = "sum(quantity * 2)".into();
            contract["metric_contract"]["measures"]["largest"] = "max(amount_cents)".into();
        },
        1,
    );
    assert_eq!((&meaning["meaning_changes"], &meaning["old"]["contract_hash"]), (&json!(true), &json!(HASH)));
    assert_eq!((&meaning["fields_appear"], &meaning["fields_vanish"]), (&json!(["largest"]), &json!([])));
    assert_eq!(meaning["consumers"][0]["owner"], "Sales Ops");
    text.expect(1).says(&[
        "metric_contract.measures.units",
        "sum(quantity * 2)",
        "CONTRACT_MISMATCH",
        "Sales Ops",
    ]);
    let (renamed, text) = changed(|contract| contract["columns"]["lines"] = "lines".into(), 1);
    assert_eq!((&renamed["meaning_changes"], &renamed["definition_changes"]), (&json!(false), &json!(true)));
    assert_eq!(
        (&renamed["fields_appear"], &renamed["fields_vanish"]),
        (&json!(["lines"]), &json!(["line_count"]))
    );
    text.expect(1).says(&["fields that vanish: line_count", "a new generation is needed"]);
    let (owner, _) = changed(|contract| contract["owner"] = "Somebody".into(), 0);
    assert_eq!(
        owner["differences"],
        json!([{"place": "owner", "old": "Analytics Engineering", "new": "Somebody"}])
    );
    place.write("broken.json", "{}");
    place
        .run(&["contract", "diff", "agg_daily_product.json", "broken.json"])
        .expect(1)
        .says(&["broken.json"]);
}
