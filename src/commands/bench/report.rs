//! What a benchmark found, with the set-up it was found on, as a table or as JSON.

use crate::commands::output::tell;
use serde::Serialize;

use super::super::output::{human, print_json, table};
use super::Filled;
use super::stages::{Measured, Unit};
use super::world::World;
use crate::example::Workload;
use crate::io::{kafka, machine, sqlite};
use crate::ports::{PortError, PortResult};

#[derive(Debug, Serialize)]
pub struct Report {
    setup: Setup,
    #[serde(skip)]
    pub filled: Filled,
    pub end_to_end: EndToEnd,
    stages: Vec<StageResult>,
    /// End to end, as a part of the slowest stage alone.
    ratio: Option<f64>,
    pub latency: Vec<Latency>,
}

#[derive(Debug, Serialize)]
struct Setup {
    /// Why the figures do not count, where they do not.
    caveats: Vec<String>,
    cpu: String,
    cores: usize,
    memory_gib: f64,
    load_before: f64,
    build: &'static str,
    driftless: &'static str,
    sqlite: &'static str,
    librdkafka: String,
    redis: String,
    kafka: String,
    base: String,
    settings: String,
    workload: String,
}

#[derive(Debug, Default, Serialize)]
pub struct EndToEnd {
    pub seconds: f64,
    pub events_per_second: f64,
    /// Of this process; servers not included.
    pub cpu_seconds: f64,
    pub commits: u64,
    pub publishes: u64,
    pub groups_published: u64,
    /// Groups that the view has at the end.
    pub groups: u64,
    pub peak_memory_bytes: u64,
    pub base_bytes: u64,
}

#[derive(Debug, Serialize)]
struct StageResult {
    stage: &'static str,
    unit: &'static str,
    count: u64,
    seconds: f64,
    per_second: f64,
    /// Groups are turned into events by the end-to-end run's groups per event.
    events_per_second: f64,
}

#[derive(Debug, Serialize)]
pub struct Latency {
    pub rate: u64,
    pub reached_per_second: f64,
    pub events: u64,
    pub publishes_per_second: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Report {
    pub fn begin(world: &World, workload: &Workload, fewer: bool) -> Self {
        Report {
            setup: Setup::look(world, workload, fewer),
            filled: Filled::default(),
            end_to_end: EndToEnd::default(),
            stages: Vec::new(),
            ratio: None,
            latency: Vec::new(),
        }
    }

    pub fn add_stage(&mut self, stage: &'static str, measured: Measured) {
        let per_second = measured.count as f64 / measured.seconds;
        let (unit, per_event) = match measured.unit {
            Unit::Events => ("events", 1.0),
            Unit::Groups => {
                ("groups", self.end_to_end.groups_published as f64 / self.filled.messages.max(1) as f64)
            }
        };
        let events_per_second = per_second / per_event.max(1e-9);
        let Measured { count, seconds, .. } = measured;
        self.stages.push(StageResult { stage, unit, count, seconds, per_second, events_per_second });
        let slowest = self.stages.iter().map(|stage| stage.events_per_second).fold(f64::INFINITY, f64::min);
        self.ratio = Some(self.end_to_end.events_per_second / slowest);
    }

    pub fn print_json(&self) -> PortResult<()> {
        let report = serde_json::to_value(self)
            .map_err(|error| PortError::permanent(format!("the report cannot be written: {error}")))?;
        print_json(&report);
        Ok(())
    }

    pub fn print_text(&self) {
        self.setup.print();
        let EndToEnd { seconds, events_per_second, cpu_seconds, .. } = self.end_to_end;
        tell!("\nEnd to end, topic to Redis: {} events/s", human(events_per_second as u64));
        tell!(
            "  {} messages in {seconds:.1} s, {:.0} % of one core; {} commits, {} publishes of {} groups, {} groups in the view",
            human(self.filled.messages),
            100.0 * cpu_seconds / seconds,
            human(self.end_to_end.commits),
            human(self.end_to_end.publishes),
            human(self.end_to_end.groups_published),
            human(self.end_to_end.groups),
        );
        tell!(
            "  peak memory {} MiB, base {} MiB; the topic ({} MiB) had been filled at {} messages/s",
            self.end_to_end.peak_memory_bytes >> 20,
            self.end_to_end.base_bytes >> 20,
            self.filled.bytes >> 20,
            human((self.filled.messages as f64 / self.filled.seconds) as u64),
        );
        self.print_stages();
        self.print_latency();
    }

    fn print_stages(&self) {
        let Some(ratio) = self.ratio else { return };
        tell!("\nEach stage alone");
        let mut rows = table(&["stage", "counted", "seconds", "a second", "as events/s"]);
        for stage in &self.stages {
            rows.add_row([
                stage.stage.to_owned(),
                format!("{} {}", human(stage.count), stage.unit),
                format!("{:.2}", stage.seconds),
                human(stage.per_second as u64),
                human(stage.events_per_second as u64),
            ]);
        }
        tell!("{rows}");
        tell!("End to end is {ratio:.2} of the slowest stage alone.");
    }

    fn print_latency(&self) {
        if self.latency.is_empty() {
            return;
        }
        tell!("\nProduce to visible in Redis, in ms");
        let header = ["events/s", "reached", "events", "publishes/s", "p50", "p90", "p99", "p99.9", "max"];
        let mut rows = table(&header);
        for at in &self.latency {
            let ms = |value: f64| format!("{value:.1}");
            rows.add_row([
                human(at.rate),
                human(at.reached_per_second.round() as u64),
                human(at.events),
                format!("{:.0}", at.publishes_per_second),
                ms(at.p50_ms),
                ms(at.p90_ms),
                ms(at.p99_ms),
                ms(at.p999_ms),
                ms(at.max_ms),
            ]);
        }
        tell!("{rows}");
    }
}

impl Setup {
    fn look(world: &World, workload: &Workload, fewer: bool) -> Self {
        let machine = machine::Machine::look();
        let settings = world.context.settings();
        let (maintain, base, kafka) = (&settings.maintain, &settings.base, &settings.kafka);
        let mut caveats = Vec::new();
        if world.is_mock {
            caveats.push("Kafka is a mock: THESE FIGURES DO NOT COUNT".to_owned());
        }
        if fewer {
            caveats
                .push(format!("fewer events than asked for: a mock keeps only {}", human(workload.events)));
        }
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        if build == "debug" {
            caveats.push("this is a debug build: THESE FIGURES DO NOT COUNT".to_owned());
        }
        Setup {
            caveats,
            cpu: machine.cpu,
            cores: machine.cores,
            memory_gib: machine.memory_gib,
            load_before: machine.load,
            build,
            driftless: env!("CARGO_PKG_VERSION"),
            sqlite: sqlite::library_version(),
            librdkafka: kafka::library_version(),
            redis: world.redis_text(),
            kafka: world.kafka_text(),
            base: format!("new, in {}, caches warm", world.folder().display()),
            settings: format!(
                "commit_records_max {}, read_records_max {}, groups_per_script_max {}, cache_mib {}, synchronous {:?}, \
                 wal_checkpoint_mib {}, queued_records {}, fetch_wait_max_ms {}",
                maintain.commit_records_max,
                maintain.read_records_max,
                maintain.groups_per_script_max,
                base.cache_mib,
                base.synchronous,
                base.wal_checkpoint_mib,
                kafka.queued_records,
                kafka.fetch_wait_max_ms,
            ),
            workload: format!(
                "seed {}, {} events, {} products, {} days, {:.0} % of orders on any day of them",
                workload.seed,
                human(workload.events),
                human(workload.products.into()),
                workload.days,
                workload.late_share * 100.0,
            ),
        }
    }

    fn print(&self) {
        for caveat in &self.caveats {
            tell!("NOTE: {caveat}");
        }
        tell!(
            "driftless {} ({} build), SQLite {}, librdkafka {}",
            self.driftless,
            self.build,
            self.sqlite,
            self.librdkafka
        );
        tell!(
            "machine   {}, {} cores, {:.1} GiB, load {:.1} before",
            self.cpu,
            self.cores,
            self.memory_gib,
            self.load_before
        );
        tell!("Kafka     {}", self.kafka);
        tell!("Redis     {}", self.redis);
        tell!("base      {}", self.base);
        tell!("settings  {}", self.settings);
        tell!("workload  {}", self.workload);
    }
}
