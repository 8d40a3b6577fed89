//! `driftless bench`: each stage alone, all of them together, and produce-to-visible latency, in one run.
//!
//! ```text
//! fill a topic ──▶ run --once: topic to Redis ──▶ each stage alone ──▶ maintainer beside a producer at given rates
//! ```

mod latency;
mod memory_log;
mod reconcile;
mod report;
mod stages;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use super::output::{human, progress};
use super::run::{maintain, stop_on_signal};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::example::Workload;
use crate::io::kafka::{KafkaProducer, ProducerSettings};
use crate::io::machine;
use crate::pipeline::maintain::Board;
use crate::ports::{PortError, PortResult, ViewStore};
use report::{EndToEnd, Report};
use world::{Servers, World};

/// Measure throughput and latency, from topic to Redis, on a generated workload.
///
/// Uses the servers of --config, --set, DRIFTLESS_KAFKA and DRIFTLESS_REDIS, with a topic, a key prefix and a base
/// of its own that are removed at the end. Without them it starts a mock Kafka in this process and a private Redis:
/// good to see that everything works, but such figures do not count. Caches are warm: the topic has just been written.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: scripts/bench --events 1000000    (with a real Kafka and Redis that it starts)
         DRIFTLESS_KAFKA=127.0.0.1:9092 DRIFTLESS_REDIS=redis://127.0.0.1:6379/0 driftless bench --rates 1000"
)]
pub struct Arguments {
    /// Distinct events of the throughput part.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    events: u64,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=1_000))]
    partitions: i32,
    /// Distinct products.
    #[arg(long, default_value_t = 1_000)]
    products: u32,
    /// Days over which the orders' dates go, as they come.
    #[arg(long, default_value_t = 30)]
    days: u32,
    /// Share of new orders whose date is any day of the last --days instead.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    random_dates: f64,
    /// Chooses the workload.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Events a second of the latency part, one after the other.
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', default_value = "1000",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rates: Vec<u64>,
    /// How long each rate goes on, after a second that is not counted.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    latency_seconds: u64,
    /// Leave the latency part out.
    #[arg(long)]
    skip_latency: bool,
    /// Leave the stages alone out.
    #[arg(long)]
    skip_stages: bool,
    /// Measure a reconcile pass over the configured base and Redis instead, as they are, against one pipelined read of
    /// all rows and one GROUP BY over the base. Changes nothing.
    #[arg(long)]
    reconcile: bool,
    /// Folder for the base, on the disk that is to be measured [default: a temporary folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// What a mock partition holds for certain: it forgets what is older than 5 MiB.
const MOCK_EVENTS_PER_PARTITION: u64 = 5_000;

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    if arguments.reconcile {
        return reconcile::run(&super::context::Context::load(shared)?, shared.format);
    }
    super::generate::check(&workload(arguments, arguments.events))?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(stop.clone())?;
    let servers = Servers::start(shared, arguments.folder.as_deref(), arguments.partitions)?;
    let world = &servers.world;
    let events = match world.is_mock {
        true => arguments.events.min(MOCK_EVENTS_PER_PARTITION * arguments.partitions as u64),
        false => arguments.events,
    };
    let workload = workload(arguments, events);
    let mut report = Report::begin(world, &workload, arguments.events != events);
    measure(world, arguments, &workload, &stop, &mut report)?;
    match shared.format {
        Format::Json => report.print_json()?,
        Format::Text => report.print_text(),
    }
    Ok(Verdict::Fine)
}

fn workload(arguments: &Arguments, events: u64) -> Workload {
    Workload {
        seed: arguments.seed,
        events,
        days: arguments.days,
        products: arguments.products,
        late_share: arguments.random_dates,
        late_days_max: arguments.days.min(3_650),
        ..Workload::default()
    }
}

fn measure(
    world: &World,
    arguments: &Arguments,
    workload: &Workload,
    stop: &Arc<AtomicBool>,
    report: &mut Report,
) -> Result<(), CommandError> {
    // 1. The topic as the maintainer will find it.
    say("filling the topic");
    report.filled = fill(world, workload, stop)?;
    // 2. From topic to Redis, before anything else has touched the base.
    say("end to end");
    machine::forget_peak_memory();
    report.end_to_end = end_to_end(world, report.filled.messages, stop)?;
    interrupted(stop)?;
    // 3. Each stage alone.
    if !arguments.skip_stages {
        for stage in stages::ALL {
            say(stage.name);
            let measured = stage.measure(world, workload)?;
            report.add_stage(stage.name, measured);
            interrupted(stop)?;
        }
    }
    // 4. The same base and view go on, at each rate.
    if !arguments.skip_latency {
        say("latency");
        report.latency =
            latency::measure(world, workload, &arguments.rates, arguments.latency_seconds, stop)?;
        interrupted(stop)?;
    }
    Ok(())
}

fn say(what: &str) {
    tracing::info!(what, "bench");
}

/// Ctrl-C: what was made is removed on the way out.
fn interrupted(stop: &AtomicBool) -> PortResult<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(PortError::permanent("interrupted; topic, keys and base are removed")),
        false => Ok(()),
    }
}

/// What was put on the topic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    pub messages: u64,
    pub bytes: u64,
    pub seconds: f64,
}

fn fill(world: &World, workload: &Workload, stop: &AtomicBool) -> PortResult<Filled> {
    let producer = KafkaProducer::open(&world.context.kafka_settings(), &ProducerSettings::default())?;
    let bar = progress(workload.events, "events on the topic");
    let started = Instant::now();
    let mut filled = Filled::default();
    for delivery in workload.events() {
        let (key, value) = (delivery.key.as_bytes(), delivery.json.as_bytes());
        producer.send(&world.topic, Some(world.partition_of(key)), Some(key), Some(value))?;
        filled.messages += 1;
        filled.bytes += (key.len() + value.len()) as u64;
        if filled.messages.is_multiple_of(4_096) {
            bar.set_position(filled.messages.min(workload.events));
            interrupted(stop)?;
        }
    }
    producer.flush(std::time::Duration::from_secs(120))?;
    bar.finish_and_clear();
    filled.seconds = started.elapsed().as_secs_f64();
    Ok(filled)
}

/// `driftless run --once` on the filled topic: from opening the ports until Redis shows everything.
fn end_to_end(world: &World, messages: u64, stop: &AtomicBool) -> PortResult<EndToEnd> {
    let board = Board::default();
    let (started, cpu) = (Instant::now(), machine::cpu_seconds());
    maintain(&world.context, &world.context.maintain_settings(true), stop, &board)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = machine::cpu_seconds() - cpu;
    interrupted(stop)?;
    let numbers = board.numbers();
    let meta = world.context.open_store()?.read_meta(world.object())?;
    let shown = meta.get("watermark").cloned().unwrap_or_default();
    let expected = numbers.greatest[0].map(|seq| seq.to_string()).unwrap_or_default();
    if numbers.consumed != messages || shown != expected {
        return Err(PortError::permanent(format!(
            "{} of {messages} messages were consumed and Redis shows watermark {shown}, not {expected}",
            human(numbers.consumed)
        ))
        .with_hint("this is a defect of driftless: report it with the command line"));
    }
    let view = &numbers.views[0];
    Ok(EndToEnd {
        seconds,
        events_per_second: messages as f64 / seconds,
        cpu_seconds,
        commits: numbers.commit.0.max(view.version),
        publishes: view.publishes,
        groups_published: view.groups_published,
        groups: meta.get("groups").and_then(|groups| groups.parse().ok()).unwrap_or(0),
        peak_memory_bytes: machine::peak_memory_bytes(),
        base_bytes: world.base_bytes(),
    })
}
