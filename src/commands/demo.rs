//! `driftless demo`: the story of one view from its first nine rows on, and then a shop that goes on selling.

mod live;
mod show;

pub use show::keys_json;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::json;

use super::output::{print_json, say};
use super::playground::{Own, Playground, shipped};
use super::{CommandResult, Format, Shared, Verdict, context, run, story};
use crate::telemetry;

/// Show what driftless does: a view is built, goes stale, is refreshed by one group, and stays right when
/// everything is delivered twice. Then a shop goes on selling, for you to watch Redis move.
///
/// Needs nothing but a redis-server program: Kafka runs inside the process, Redis as a private server on a free
/// port, the base in a temporary folder, and all of it is gone at the end. Where DRIFTLESS_KAFKA or
/// DRIFTLESS_REDIS name servers of yours, those are used, under a topic and a key prefix of the demo's own.
/// DRIFTLESS_REDIS_SERVER names the redis-server program.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless demo
         driftless demo --once --format json
         DRIFTLESS_REDIS=redis://127.0.0.1:6379 driftless demo --rate 50")]
pub struct Arguments {
    /// End after the story.
    #[arg(long)]
    once: bool,
    /// Events a second after the story, up to 1,000.
    #[arg(long, default_value_t = 5, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    rate: u64,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    telemetry::start(shared.log, true);
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = run::stop_on_signal(stop.clone())?;
    let overrides = context::overrides(shared)?;
    // An empty variable names nothing.
    let named = |path: &str| {
        overrides.entries.iter().rfind(|entry| entry.path == path).is_some_and(|entry| !entry.text.is_empty())
    };
    let own = Own { kafka: named("kafka.brokers"), redis: named("redis.url") };
    let playground = Playground::open("demo", &shipped(&overrides)?, own)?;
    let (context, text) = (&playground.context, shared.format == Format::Text);
    if text {
        say(&format!("driftless demo: Kafka -> SQLite base -> Redis\n{}", playground.servers_text()));
    }
    // 1. The story.
    let view = &context.catalog.views[story::VIEW].view;
    let mut number = 0;
    let told = story::tell(context, &stop, &mut |stage| {
        number += 1;
        if text {
            say(&format!("\n{}", show::stage_text(view, number, stage)));
        }
    });
    let stages = match told {
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(Verdict::Fine),
        told => told?,
    };
    if !text {
        let steps: Vec<_> =
            stages.iter().zip(1..).map(|(stage, number)| show::stage_json(view, number, stage)).collect();
        print_json(&json!({"servers": playground.servers_json(), "steps": steps}));
    }
    if arguments.once {
        if text {
            say("\nWithout --once a shop goes on selling now, for you to watch Redis move.");
        }
        return Ok(Verdict::Fine);
    }
    // 2. The shop.
    live::run(&playground, arguments.rate, shared.format, &stop)?;
    Ok(Verdict::Fine)
}
