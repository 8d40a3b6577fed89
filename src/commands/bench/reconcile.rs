//! `driftless bench --reconcile`: a reconcile pass over the configured base and view as they are, measured against the
//! least that any comparison must do: one pipelined read of every row, and one GROUP BY over the base.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::json;

use super::super::context::Context;
use super::super::output::{human, print_json, tell};
use super::super::{CommandError, CommandResult, Format, Verdict};
use crate::example;
use crate::io::machine;
use crate::io::redis::read_pipelined;
use crate::io::sqlite::FactQuery;
use crate::pipeline::reconcile::{self, Ports, ReconcileSettings};
use crate::ports::{PortResult, Requests};
use crate::pure::base::{Action, Answer};
use crate::pure::drift::{Report, Scope};

/// How often each is measured; the least time counts.
const ROUNDS: usize = 3;

/// A benchmark changes nothing and asks nobody.
struct Nobody;

impl Requests for Nobody {
    fn ask(&mut self, _action: &Action, _why: &str) -> PortResult<Answer> {
        Ok(Err("a benchmark asks nobody".to_owned()))
    }
}

pub fn run(context: &Context, format: Format) -> CommandResult {
    let view = context.view(Some(example::VIEW)).map_err(|_| {
        CommandError::usage(
            "bench --reconcile knows the shipped view alone",
            format!("configure the contract of {}, as config/driftless.toml does", example::VIEW),
        )
    })?;
    machine::forget_peak_memory();
    let (mut passes, mut reads, mut queries) = (Vec::new(), Vec::new(), Vec::new());
    let query = FactQuery::open(&context.base_settings())?;
    let (mut rows, mut groups, mut peak, mut report) = (0, 0, 0, None);
    // In turns, so that whatever else the machine does falls on all of them.
    for _ in 0..ROUNDS {
        let began = Instant::now();
        report = Some(pass(context, view)?);
        passes.push(began.elapsed().as_secs_f64());
        // Of the first pass: the others come after a client that holds every row.
        peak = if peak == 0 { machine::peak_memory_bytes() } else { peak };
        let began = Instant::now();
        (rows, _) = read_pipelined(&context.redis_settings(), example::VIEW)?;
        reads.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        groups = query.rows(example::GROUP_BY, &[])?.len() as u64;
        queries.push(began.elapsed().as_secs_f64());
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let (pass, read, query) = (least(&passes), least(&reads), least(&queries));
    let Some(report) = report else { return Ok(Verdict::No) };
    let compared = report.tally.compared;
    let (verdict, ratio) = (report.verdict().name(), pass / (read + query));
    match format {
        Format::Json => print_json(&json!({
            "groups": groups, "rows_in_redis": rows, "compared": compared, "verdict": verdict,
            "reconcile_seconds": pass, "groups_per_second": compared as f64 / pass, "peak_memory_bytes": peak,
            "pipelined_read_seconds": read, "group_by_seconds": query, "ratio": ratio, "all_seconds": passes,
        })),
        Format::Text => tell!(
            "{} groups, {verdict}: reconcile {pass:.2} s ({} groups a second, peak {} MiB); pipelined read {read:.2} s, GROUP BY {query:.2} s; ratio {ratio:.2}",
            human(groups),
            human((compared as f64 / pass) as u64),
            peak / (1024 * 1024)
        ),
    }
    Ok(if compared == groups && verdict == "in_sync" { Verdict::Fine } else { Verdict::No })
}

fn pass(context: &Context, view: usize) -> PortResult<Report> {
    let settings = ReconcileSettings {
        scope: Scope::default(),
        share: 1.0,
        look_wait_max_ms: context.settings().reconcile.look_wait_max_ms,
        beat_ms: context.settings().maintain.beat_ms,
        repair: false,
        why: String::new(),
        listed: 0,
    };
    let (mut reader, mut store) = (context.open_reader()?, context.open_store()?);
    let ports = Ports {
        base: &mut reader,
        requests: &mut Nobody,
        clock: context.clock.clone(),
        wait: &mut std::thread::sleep,
        stop: &AtomicBool::new(false),
        progress: &|_, _| {},
        found: &mut |_| Ok(()),
    };
    reconcile::run(ports, &mut store, &context.catalog, view, &settings)
}
