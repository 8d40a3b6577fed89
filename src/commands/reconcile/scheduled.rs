//! Reconcile passes inside `driftless run`, on a thread and on connections of their own. A pass that fails is told,
//! and never ends the maintainer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::context::Context;
use super::super::request::Desk;
use crate::pipeline::reconcile::{self, Ports, ReconcileSettings};
use crate::ports::{BaseReader, PortResult, Requests, ViewStore};
use crate::pure::base::ReconcileVerdict;
use crate::pure::drift::Scope;

/// Between looks at the clock.
const NAP: Duration = Duration::from_millis(200);
/// After a pass that failed.
const AFTER_TROUBLE_MS: i64 = 60_000;
/// Differences that the report on record names.
const LISTED: usize = 100;

/// Runs passes as the schedule says, until either flag is set.
pub fn run(context: &Context, stop: &AtomicBool, ended: &AtomicBool) {
    let Some(schedule) = context.settings().reconcile.schedule() else { return };
    tracing::info!(%schedule, "reconcile passes");
    let over = || stop.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed);
    let started_ms = context.clock.wall_ms();
    let mut not_before: Vec<Option<i64>> = vec![None; context.catalog.views.len()];
    while !over() {
        std::thread::sleep(NAP);
        for (view, not_before) in not_before.iter_mut().enumerate() {
            let now_ms = context.clock.wall_ms();
            if over() || not_before.is_some_and(|at| now_ms < at) {
                continue;
            }
            let due = match last_pass(context, view) {
                Ok(last) => schedule.next(last, started_ms),
                Err(error) => {
                    tracing::warn!(%error, "reconcile: the passes on record cannot be read");
                    *not_before = Some(now_ms + AFTER_TROUBLE_MS);
                    continue;
                }
            };
            if now_ms < due {
                *not_before = Some(due);
                continue;
            }
            match pass(context, view, ended) {
                Ok(true) => *not_before = None,
                Ok(false) => *not_before = Some(now_ms + AFTER_TROUBLE_MS.min(1_000)),
                Err(error) => {
                    tracing::warn!(%error, "reconcile: a pass failed; it is tried again");
                    *not_before = Some(now_ms + AFTER_TROUBLE_MS);
                }
            }
        }
    }
}

fn last_pass(context: &Context, view: usize) -> PortResult<Option<i64>> {
    let object = &context.catalog.views[view].view.object;
    let last = context.open_reader()?.reconciles(Some(object), 1)?.pop();
    Ok(last.map(|pass| pass.run.ended_ms))
}

/// One pass, put on record. False where there is nothing to prove yet.
fn pass(context: &Context, view: usize, ended: &AtomicBool) -> PortResult<bool> {
    let object = &context.catalog.views[view].view.object;
    let section = &context.settings().reconcile;
    let (mut reader, mut store) = (context.open_reader()?, context.open_store()?);
    // A view that was never compared and is not shown has not been published yet.
    let never = reader.snapshot()?.head()?.views[view].reconciled.is_none();
    if never && store.read_meta(object)?.is_empty() {
        return Ok(false);
    }
    let settings = ReconcileSettings {
        scope: Scope::default(),
        share: section.share,
        beat_ms: context.settings().maintain.beat_ms,
        repair: section.repair,
        why: "scheduled reconcile pass".to_owned(),
        listed: LISTED,
    };
    let mut desk = Desk::beside(context, "driftless run", ended)?;
    let ports = Ports {
        base: &mut reader,
        requests: &mut desk as &mut dyn Requests,
        clock: context.clock.clone(),
        wait: &mut std::thread::sleep,
        stop: ended,
        progress: &|_, _| {},
        found: &mut |difference| {
            tracing::error!(view = object, kind = difference.kind.name(), key = difference.key, "drift");
            Ok(())
        },
    };
    let report = reconcile::run(ports, &mut store, &context.catalog, view, &settings)?;
    if ended.load(Ordering::Relaxed) {
        return Ok(true);
    }
    reconcile::record(&mut desk, &report, LISTED)?;
    let (verdict, compared) = (report.verdict(), report.tally.compared);
    match verdict {
        ReconcileVerdict::InSync => tracing::info!(view = object, compared, "reconcile: in sync"),
        verdict => tracing::warn!(
            view = object,
            verdict = verdict.name(),
            compared,
            differences = report.tally.differences(),
            "reconcile: see `driftless reconcile history --format json`"
        ),
    }
    Ok(true)
}
