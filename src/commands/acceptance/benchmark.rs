//! The example's 216,000 rows in a base of their own and their view in Redis: one question asked of both, the
//! answers compared, the times told.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

use crate::commands::checksum::read_groups;
use crate::commands::context::Context;
use crate::commands::story::{self, TABLE, VIEW};
use crate::example::{self, evidence};
use crate::io::sqlite::FactQuery;
use crate::pipeline::publish::Publisher;
use crate::pipeline::seed::{self, Seed};
use crate::ports::{PortError, PortResult, RowSource, SeedRow, ViewStore};
use crate::pure::seq::{Seq, TopicPartition};
use crate::pure::value::Value;

/// The rows stand for the first nine events.
const THROUGH: Seq = Seq::at(206);
const FIRST_DAY: &str = "2027-01-01";
const LAST_DAY: &str = "2027-01-31";
const WARM_UPS: usize = 2;
const MEASURED: usize = 7;

const QUESTION: &str = "SELECT product_id, sum(amount_cents) FROM fact_sales
    WHERE status = 'paid' AND order_date BETWEEN ?1 AND ?2 GROUP BY product_id ORDER BY product_id";

/// The fields that the fixture's own checksum of the groups covers.
const CHECKSUM: [&str; 4] = ["line_count", "units", "gmv_cents", "cost_cents"];

pub fn run(context: &Context, stop: &AtomicBool, progress: &ProgressBar) -> PortResult<Json> {
    // 1. Rows into the base, groups into Redis.
    progress.set_message("loading 216,000 rows into a base of their own");
    let loading = Instant::now();
    let mut writer = context.open_writer()?;
    // Nothing is published before a start is possible: the load says where reading would go on.
    let first = TopicPartition { topic: context.catalog.topics[0].name.clone(), partition: 0 };
    let seed = Seed { table: TABLE, through: THROUGH, positions: vec![(first, 0)] };
    let mut rows = BenchmarkRows { stop };
    seed::load(&mut writer, &context.catalog, &seed, &mut rows, context.clock.wall_ms())?;
    let loaded_ms = milliseconds(loading);
    progress.set_message("publishing their groups to Redis");
    let publishing = Instant::now();
    let (mut base, mut store) = (context.open_reader()?, context.open_store()?);
    let settings = context.maintain_settings(false);
    let clock = context.clock.clone();
    let mut publisher =
        Publisher::new(context.catalog.clone(), VIEW, clock, settings.publish, settings.random);
    story::publish_all(&mut publisher, &mut base, &mut store)?;
    let published_ms = milliseconds(publishing);
    // 2. What is there.
    let facts = FactQuery::open(&context.base_settings())?;
    let view = &context.catalog.views[VIEW].view;
    let (_, groups) = read_groups(context, VIEW, &mut store)?
        .ok_or_else(|| PortError::permanent("somebody else publishes under this key prefix"))?;
    let range = facts.rows("SELECT count(*), min(order_date), max(order_date) FROM fact_sales", &[])?;
    let range =
        range.first().map(|row| row.iter().map(Value::to_json).collect::<Vec<_>>()).unwrap_or_default();
    let [rows, from, to] = <[Json; 3]>::try_from(range).unwrap_or_default();
    // 3. The question, to both.
    progress.set_message("asking for January 2027: the base, then Redis");
    let object = &view.object;
    let (of_base, base_times) = measure(stop, &mut || ask_base(&facts))?;
    let (of_view, view_times) = measure(stop, &mut || ask_view(&mut store, object))?;
    let total = |column: &str| evidence::total(view, &groups, column);
    Ok(json!({
        "fact_rows": rows,
        "aggregate_rows": groups.len(),
        "date_range": [from, to],
        "totals": {
            "units": total("units"), "gmv_cents": total("gmv_cents"), "cost_cents": total("cost_cents"),
        },
        "aggregate_rows_sha256": evidence::aggregate_sha256(view, &groups, &CHECKSUM),
        "result_columns": ["product_id", "sum_gmv_cents"],
        "result_january_2027": to_json(&of_base),
        "result_january_2027_from_view": to_json(&of_view),
        "base_and_view_equal": of_base == of_view,
        "timings_ms": {"base": base_times, "view": view_times},
        "load_ms": loaded_ms,
        "publish_ms": published_ms,
        "disclosure": disclosure(&facts, context)?,
    }))
}

struct BenchmarkRows<'a> {
    stop: &'a AtomicBool,
}

impl RowSource for BenchmarkRows<'_> {
    fn each(&mut self, sink: &mut dyn FnMut(SeedRow) -> PortResult<()>) -> PortResult<()> {
        for (number, row) in example::benchmark_rows().enumerate() {
            if number % 1000 == 0 {
                story::check(self.stop)?;
            }
            sink(SeedRow { row, seq: None, place: format!("benchmark row {number}") })?;
        }
        Ok(())
    }
}

type Answer = Vec<(String, i64)>;

fn ask_base(facts: &FactQuery) -> PortResult<Answer> {
    let rows = facts.rows(QUESTION, &[FIRST_DAY.into(), LAST_DAY.into()])?;
    rows.iter()
        .map(|row| match row.as_slice() {
            [Value::Text(product), Value::Integer(cents)] => Ok((product.to_string(), *cents)),
            other => Err(PortError::permanent(format!("the base answers {other:?}"))),
        })
        .collect()
}

/// The groups of the days asked for, added up by product.
fn ask_view(store: &mut dyn ViewStore, object: &str) -> PortResult<Answer> {
    // A day's keys begin with the day and a colon, and end before the day and the next character.
    let through = format!("{LAST_DAY};");
    let mut after = FIRST_DAY.to_owned();
    let mut totals = std::collections::BTreeMap::<String, i64>::new();
    loop {
        let range = store.read_range(object, Some(&after), Some(&through), 1000)?;
        let last = range.rows.len() < 1000;
        for (key, fields) in range.rows {
            let product = key.split_once(':').map_or("", |(_, product)| product);
            let cents = fields.get("gmv_cents").and_then(|cents| cents.parse::<i64>().ok());
            let cents = cents.ok_or_else(|| PortError::permanent(format!("row {key} has no gmv_cents")))?;
            *totals.entry(product.to_owned()).or_default() += cents;
            after = key;
        }
        if last {
            return Ok(totals.into_iter().collect());
        }
    }
}

/// Two executions to warm up, seven that are measured.
fn measure(stop: &AtomicBool, ask: &mut dyn FnMut() -> PortResult<Answer>) -> PortResult<(Answer, Json)> {
    for _ in 0..WARM_UPS {
        ask()?;
    }
    let mut times = Vec::with_capacity(MEASURED);
    let mut answer = Answer::new();
    for _ in 0..MEASURED {
        story::check(stop)?;
        let started = Instant::now();
        answer = ask()?;
        times.push(milliseconds(started));
    }
    times.sort_by(f64::total_cmp);
    let times = json!({
        "min": times.first(), "median": times.get(MEASURED / 2), "max": times.last(),
        "warm_ups": WARM_UPS, "measured": MEASURED,
    });
    Ok((answer, times))
}

fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1_000_000.0).round() / 1000.0
}

fn to_json(answer: &Answer) -> Json {
    answer.iter().map(|(product, cents)| json!([product, cents])).collect()
}

/// What a reader of the timings has to know.
fn disclosure(facts: &FactQuery, context: &Context) -> PortResult<Json> {
    let plan = facts.rows(&format!("EXPLAIN QUERY PLAN {QUESTION}"), &[FIRST_DAY.into(), LAST_DAY.into()])?;
    let plan: Vec<String> = plan.iter().filter_map(|step| step.last()).map(Value::to_string).collect();
    let cache_mib = context.settings().base.cache_mib;
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    Ok(json!({
        "question": "sum of amount_cents of paid lines by product, order_date from 2027-01-01 to 2027-01-31",
        "base_engine": format!("SQLite {} in this process: {}", facts.engine(), plan.join("; ")),
        "view_engine": "Redis over TCP: one range read of the groups of those days, added up by this process",
        "cache": format!("both warm: SQLite's page cache ({cache_mib} MiB) over the file system's; Redis in memory"),
        "data": "216,000 synthetic rows, 24,000 copies of the nine canonical ones over 180 days, all paid",
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "system": format!("{} {}, {processors} processors", std::env::consts::OS, std::env::consts::ARCH),
        "protocol": "two warm-ups, then seven measured; depends on machine and load, no ratio is promised",
    }))
}
