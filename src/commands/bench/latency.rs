//! Produce-to-visible latency: a producer at a given rate beside a running maintainer, and a reader that is woken
//! by each publish and looks which offsets are in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::super::run::maintain;
use super::report::Latency;
use super::world::World;
use crate::example::{Deliveries, Workload};
use crate::io::kafka::{KafkaProducer, ProducerSettings};
use crate::io::redis::ChangeFeed;
use crate::pipeline::maintain::Board;
use crate::ports::{Log, PortError, PortResult, ViewStore};
use crate::pure::meta::parse_positions;

/// Not counted, at each rate.
const WARM_UP: Duration = Duration::from_secs(1);
/// Longest wait for events to become visible after the last one was produced.
const PATIENCE: Duration = Duration::from_secs(30);
const FEED_WAIT: Duration = Duration::from_millis(50);

/// Events under way: by partition, offset and the time at which each was due.
struct Flight {
    waiting: Mutex<Vec<VecDeque<(i64, Instant)>>>,
    counted_from: Mutex<Instant>,
    seen: Mutex<Histogram<u64>>,
}

impl Flight {
    fn new(partitions: usize) -> PortResult<Self> {
        Ok(Flight {
            waiting: Mutex::new(vec![VecDeque::new(); partitions]),
            counted_from: Mutex::new(Instant::now()),
            seen: Mutex::new(histogram()?),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<VecDeque<(i64, Instant)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a view with these positions shows, at the time it was read.
    fn land(&self, next: &[i64], now: Instant) {
        let counted_from = *self.counted_from.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut waiting, mut seen) = (self.waiting(), self.seen());
        for (queue, next) in waiting.iter_mut().zip(next) {
            while let Some(&(_, due)) = queue.front().filter(|(offset, _)| offset < next) {
                queue.pop_front();
                if due >= counted_from {
                    seen.saturating_record(now.saturating_duration_since(due).as_micros() as u64);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting().iter().all(VecDeque::is_empty)
    }

    /// Counts from a time on, with nothing seen yet.
    fn begin(&self, from: Instant) {
        *self.counted_from.lock().unwrap_or_else(PoisonError::into_inner) = from;
        self.seen().reset();
    }
}

/// Up to a minute, in microseconds, to three digits.
fn histogram() -> PortResult<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3)
        .map_err(|error| PortError::permanent(format!("the histogram cannot be made: {error}")))
}

/// One rate after the other, on the base and view that the end-to-end run has left.
pub fn measure(
    world: &World,
    filled: &Workload,
    rates: &[u64],
    seconds: u64,
    stop: &Arc<AtomicBool>,
) -> PortResult<Vec<Latency>> {
    let mut log = world.context.open_log()?;
    let partitions = log.partitions()?;
    let next: Vec<i64> = partitions.iter().map(|at| Ok(log.bounds(at)?.high)).collect::<PortResult<_>>()?;
    let flight = Flight::new(partitions.len())?;
    let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    let board = Board::default();
    let (ended, watching) = (AtomicBool::new(false), AtomicBool::new(true));
    std::thread::scope(|scope| {
        let maintaining = scope.spawn(|| {
            let result = maintain(&world.context, &world.context.maintain_settings(false), &ended, &board);
            watching.store(false, Ordering::Relaxed);
            result
        });
        let watcher = scope.spawn(|| watch(world, &names, &flight, &watching));
        let events: u64 = rates.iter().map(|rate| rate * (seconds + WARM_UP.as_secs() + 1)).sum();
        let per_day = filled.events.div_ceil(filled.days.into());
        let continued = Workload {
            events,
            first_seq: filled.first_seq + filled.events,
            first_order: filled.first_order + filled.events,
            // The days go on at the pace of the part before: groups get as many rows.
            start_date: filled.start_date.saturating_add(jiff::Span::new().days(i64::from(filled.days))),
            days: events.div_ceil(per_day).clamp(1, 36_500) as u32,
            ..filled.clone()
        };
        let mut producing = Producing {
            world,
            flight: &flight,
            board: &board,
            producer: KafkaProducer::open(
                &world.context.kafka_settings(),
                &ProducerSettings { linger_ms: 0, ..ProducerSettings::default() },
            )?,
            deliveries: continued.events(),
            next,
            stop,
            watching: &watching,
        };
        let measured: PortResult<Vec<Latency>> =
            rates.iter().map(|&rate| producing.at_rate(rate, Duration::from_secs(seconds))).collect();
        ended.store(true, Ordering::Relaxed);
        let maintained = join(maintaining.join());
        let watched = join(watcher.join());
        maintained?;
        watched?;
        measured
    })
}

fn join(result: std::thread::Result<PortResult<()>>) -> PortResult<()> {
    result
        .unwrap_or_else(|_| Err(PortError::permanent("a thread of the benchmark ended by a broken promise")))
}

/// Wakes up with each publish, and takes from flight what the view then shows.
fn watch(world: &World, names: &[String], flight: &Flight, watching: &AtomicBool) -> PortResult<()> {
    let mut feed = ChangeFeed::open(&world.context.redis_settings(), world.object())?;
    let mut store = world.context.open_store()?;
    while watching.load(Ordering::Relaxed) {
        feed.wait(FEED_WAIT)?;
        let meta = store.read_meta(world.object())?;
        let now = Instant::now();
        let shown = parse_positions(meta.get("settled").map_or("", String::as_str));
        let next: Vec<i64> = names.iter().map(|name| shown.get(name).copied().unwrap_or(0)).collect();
        flight.land(&next, now);
    }
    Ok(())
}

struct Producing<'a> {
    world: &'a World,
    flight: &'a Flight,
    board: &'a Board,
    producer: KafkaProducer,
    deliveries: Deliveries,
    /// By partition: the offset that the next record gets. Nobody else writes to the topic.
    next: Vec<i64>,
    stop: &'a AtomicBool,
    watching: &'a AtomicBool,
}

impl Producing<'_> {
    fn at_rate(&mut self, rate: u64, length: Duration) -> PortResult<Latency> {
        let started = Instant::now();
        self.flight.begin(started + WARM_UP);
        let publishes_before = self.publishes();
        // 1. Each event at its time; one that goes out late counts from when it was due.
        let mut sent = 0u64;
        loop {
            let after = Duration::from_secs_f64(sent as f64 / rate as f64);
            if after >= WARM_UP + length || !self.goes_on() {
                break;
            }
            let due = started + after;
            let ahead = due.saturating_duration_since(Instant::now());
            if !ahead.is_zero() {
                std::thread::sleep(ahead);
            }
            self.send(due)?;
            sent += 1;
        }
        let produced = started.elapsed();
        // 2. Until the last one is visible.
        self.producer.flush(PATIENCE)?;
        while !self.flight.is_empty() && self.goes_on() {
            if started.elapsed() > produced + PATIENCE {
                return Err(PortError::permanent(format!(
                    "at {rate} events a second some were not visible within {} seconds of the last one",
                    PATIENCE.as_secs()
                ))
                .with_hint("lower --rates: the maintainer falls behind at this one"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self.result(rate, sent as f64 / produced.as_secs_f64(), publishes_before, started.elapsed()))
    }

    fn goes_on(&self) -> bool {
        self.watching.load(Ordering::Relaxed) && !self.stop.load(Ordering::Relaxed)
    }

    fn send(&mut self, due: Instant) -> PortResult<()> {
        let Some(delivery) = self.deliveries.next() else {
            return Ok(());
        };
        let partition = self.world.partition_of(delivery.key.as_bytes());
        let next = &mut self.next[partition as usize];
        self.flight.waiting()[partition as usize].push_back((*next, due));
        *next += 1;
        let (key, value) = (delivery.key.as_bytes(), delivery.json.as_bytes());
        self.producer.send(&self.world.topic, Some(partition), Some(key), Some(value))
    }

    fn publishes(&self) -> u64 {
        self.board.numbers().views.first().map_or(0, |view| view.publishes)
    }

    fn result(&self, rate: u64, reached: f64, publishes_before: u64, elapsed: Duration) -> Latency {
        let seen = self.flight.seen();
        let ms = |quantile: f64| seen.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            rate,
            reached_per_second: reached,
            events: seen.len(),
            publishes_per_second: (self.publishes() - publishes_before) as f64 / elapsed.as_secs_f64(),
            p50_ms: ms(0.5),
            p90_ms: ms(0.9),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            max_ms: seen.max() as f64 / 1000.0,
        }
    }
}
