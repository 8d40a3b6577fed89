//! After the story: the maintainer runs as `driftless run` does, and a shop takes orders, corrects, refunds and
//! deletes them until somebody ends it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::commands::context::Context;
use crate::commands::output::{human, say};
use crate::commands::playground::Playground;
use crate::commands::{CommandError, Format, produce, run, story};
use crate::example::{Workload, canonical_events};
use crate::io::kafka::{KafkaProducer, ProducerSettings};
use crate::io::redis::{KeySpace, redact_url};
use crate::pipeline::maintain::Board;
use crate::ports::{BaseReader, PortError, PortResult, ViewStore};
use crate::pure::group_key::GroupKey;
use crate::pure::seq::Commit;

/// A day of the shop.
const DAY_SECONDS: u64 = 6;
/// How often a status line is shown.
const EVERY: Duration = Duration::from_secs(2);
/// Changed groups that a line names.
const NAMED_GROUPS: usize = 3;

pub fn run(
    playground: &Playground,
    rate: u64,
    format: Format,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let context = &playground.context;
    if format == Format::Text {
        say(&format!("\n{}", invitation(playground, rate)?));
    }
    // Of the playground only what threads may share.
    let topic = playground.topic();
    let (board, sent) = (Board::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let selling = scope.spawn(|| {
            let sold = sell(context, topic, rate, stop, &sent);
            stop.store(true, Ordering::Relaxed);
            sold
        });
        let showing = scope.spawn(|| show(context, format, stop, &sent));
        let maintained = run::maintain(context, &context.maintain_settings(false), stop, &board);
        stop.store(true, Ordering::Relaxed);
        maintained.and(join(selling)).and(join(showing))
    })?;
    if format == Format::Text {
        let numbers = board.numbers();
        let groups: u64 = numbers.views.iter().map(|view| view.groups_published).sum();
        say(&format!(
            "\nEnded: {} events sold, {} read, {} groups published, nothing left waiting.",
            human(sent.load(Ordering::Relaxed)),
            human(numbers.consumed),
            human(groups)
        ));
    }
    Ok(())
}

fn join(thread: std::thread::ScopedJoinHandle<'_, PortResult<()>>) -> PortResult<()> {
    thread
        .join()
        .unwrap_or_else(|_| Err(PortError::permanent("a thread of the demo ended by a broken promise")))
}

/// What is going on and how to look at it.
fn invitation(playground: &Playground, rate: u64) -> PortResult<String> {
    let context = &playground.context;
    let redis = &context.settings().redis;
    let keys = KeySpace::new(&redis.prefix)?.view(&context.catalog.views[story::VIEW].view.object)?;
    let client = match (playground.own.redis, redis.url.rsplit_once(':')) {
        (false, Some((_, port))) => format!("redis-cli -p {port}"),
        _ if std::env::var_os("DRIFTLESS_REDIS").is_some() => "redis-cli -u \"$DRIFTLESS_REDIS\"".to_owned(),
        _ => format!("redis-cli -u {}", redact_url(&redis.url)),
    };
    let commands = [
        format!("HGETALL '{}'", keys.meta),
        format!("HGETALL '{}'", keys.row("2026-09-22:P100")),
        format!("ZRANGE '{}' 0 -1", keys.index),
        format!("XREVRANGE '{}' + - COUNT 3", keys.changes),
    ];
    let mut text = format!(
        "Now a shop goes on: {rate} events a second (orders, corrections, refunds, deletes, some delivered twice).\n\
         Ctrl-C ends it. Look at Redis from another terminal:\n"
    );
    for command in commands {
        text.push_str(&format!("\n   {client} {command}"));
    }
    Ok(text)
}

/// Sells at the rate asked for, each event acknowledged before the next one is sent.
fn sell(context: &Context, topic: &str, rate: u64, stop: &AtomicBool, sent: &AtomicU64) -> PortResult<()> {
    let settings = ProducerSettings { linger_ms: 0, ..ProducerSettings::default() };
    let producer = KafkaProducer::open(&context.kafka_settings(), &settings)?;
    let last = canonical_events().iter().map(|event| event.seq).max().unwrap_or(0);
    let days = 36_500;
    let shop = Workload {
        seed: rand::random(),
        events: rate * DAY_SECONDS * u64::from(days),
        first_seq: last + 1,
        start_date: jiff::civil::date(2026, 9, 23),
        days,
        products: 8,
        customers: 200,
        update_share: 0.15,
        move_share: 0.05,
        refund_share: 0.08,
        delete_share: 0.05,
        late_days_max: 5,
        // The log promises its order; a duplicate may come at any time.
        disorder_share: 0.0,
        disorder_places_max: 20,
        correctable_lines_max: 200,
        ..Workload::default()
    };
    let started = Instant::now();
    for event in shop.events() {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        story::send(&producer, topic, &event)?;
        let count = sent.fetch_add(1, Ordering::Relaxed) + 1;
        produce::pace(started, count, rate);
    }
    Ok(())
}

/// A line every two seconds: what Redis says of itself, and the groups that changed since the last line.
fn show(context: &Context, format: Format, stop: &AtomicBool, sent: &AtomicU64) -> PortResult<()> {
    let object = &context.catalog.views[story::VIEW].view.object;
    let (mut store, mut base) = (context.open_store()?, context.open_reader()?);
    let mut shown = version(&mut store, object)?.0;
    if format == Format::Text {
        say(&format!("\n   {:>8}  {:>6}  {:>6}  changed since the line before", "events", "W", "groups"));
    }
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        if last.elapsed() < EVERY {
            continue;
        }
        last = Instant::now();
        let (now, meta) = match version(&mut store, object) {
            Ok(found) => found,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "Redis does not answer");
                continue;
            }
            Err(error) => return Err(error),
        };
        let changed = base.snapshot()?.dirty_since(story::VIEW, shown)?;
        shown = now;
        let text = |name: &str| meta.get(name).cloned().unwrap_or_default();
        let events = sent.load(Ordering::Relaxed);
        let line = match format {
            Format::Text => format!(
                "   {:>8}  {:>6}  {:>6}  {}",
                human(events),
                text("watermark"),
                text("groups"),
                named(&changed)
            ),
            Format::Json => json!({
                "events": events, "watermark": text("watermark"), "groups": text("groups"),
                "version": now.0, "status": text("status"), "changed_groups": changed.len(),
                "changed": changed.iter().take(NAMED_GROUPS).map(GroupKey::as_str).collect::<Vec<_>>(),
            })
            .to_string(),
        };
        // Nobody reads on: the shop closes.
        if writeln!(std::io::stdout(), "{line}").is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn version(store: &mut dyn ViewStore, object: &str) -> PortResult<(Commit, crate::ports::Meta)> {
    let meta = store.read_meta(object)?;
    Ok((Commit(meta.get("version").and_then(|version| version.parse().ok()).unwrap_or(0)), meta))
}

fn named(changed: &[GroupKey]) -> String {
    let mut text: Vec<&str> = changed.iter().rev().take(NAMED_GROUPS).map(GroupKey::as_str).collect();
    let more = changed.len() - text.len();
    let more = format!("and {more} more");
    if changed.len() > NAMED_GROUPS {
        text.push(&more);
    }
    text.join("  ")
}
