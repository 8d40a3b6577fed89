//! The publisher's thread: steps over all views, woken by commits. A store that is away stops publishing, never
//! reading and committing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Board, LAST_PUBLISH, MaintainSettings, ONCE_PATIENCE, ViewNumbers};
use crate::pipeline::publish::{Publisher, Step};
use crate::ports::{BaseReader, Clock, PortError, PortResult, ViewStore};
use crate::pure::catalog::Catalog;
use crate::pure::publish::PublishReply;

/// Publishes that take at least this long are followed by a rest of the same length.
const REST_FROM: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_millis(250);
/// While more is waiting in the log than one commit takes, the rest is this many times as long: what is published
/// then is soon replaced, and the time is better spent on catching up.
const REST_FACTOR_BEHIND: u32 = 4;

/// A view's publisher and when it may be tried again.
struct Worker {
    publisher: Publisher,
    failures: u32,
    not_before: Instant,
    /// Everything committed is shown.
    done: bool,
    /// The request whose groups are to be compared, and since when.
    errand: Option<(i64, Instant)>,
}

/// How long the publisher looks for a moment at which groups can be compared.
const ERRAND_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(
    base: &mut dyn BaseReader,
    store: &mut dyn ViewStore,
    catalog: &Arc<Catalog>,
    settings: &MaintainSettings,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let mut workers: Vec<Worker> = (0..catalog.views.len())
        .map(|view| Worker {
            publisher: Publisher::new(
                catalog.clone(),
                view,
                clock.clone(),
                settings.publish,
                settings.random.wrapping_add(view as u64),
            )
            .with_succession(settings.succession.clone()),
            failures: 0,
            not_before: Instant::now(),
            done: false,
            errand: None,
        })
        .collect();
    board.update(|numbers| {
        numbers.views = workers
            .iter()
            .map(|worker| ViewNumbers {
                object: worker.publisher.object().to_owned(),
                ..ViewNumbers::default()
            })
            .collect();
    });
    let mut seen = 0;
    let mut ending: Option<Instant> = None;
    let mut last_word = false;
    loop {
        let finished = board.is_finished();
        if let Some(probe) = board.take_probe_for_publisher() {
            for worker in &mut workers {
                worker.publisher.note_probe(probe.clone());
            }
        }
        take_errand(&mut workers, board);
        // 1. Each view that may be tried.
        for (view, worker) in workers.iter_mut().enumerate() {
            if Instant::now() >= worker.not_before {
                step(worker, view, base, store, settings, board)?;
            }
        }
        // 2. The end: once everything is shown, or there is no more time.
        if finished {
            let since = *ending.get_or_insert_with(Instant::now);
            let told_to_end = stop.load(Ordering::Relaxed);
            let patience = if settings.once && !told_to_end { ONCE_PATIENCE } else { LAST_PUBLISH };
            if workers.iter().all(|worker| worker.done) {
                if last_word {
                    return Ok(());
                }
                // Everything is shown; once more, how fresh that is.
                last_word = true;
                for worker in &mut workers {
                    worker.publisher.beat_now();
                    worker.done = false;
                }
            }
            if since.elapsed() > patience {
                return give_up(settings, board);
            }
        }
        // 3. Until something is new, or a view may be tried again.
        let now = Instant::now();
        let busy = workers.iter().any(|worker| !worker.done && worker.not_before <= now);
        if !busy {
            let longest = if finished { 20 } else { settings.publish.beat_ms.min(100) };
            let due =
                workers.iter().filter(|worker| !worker.done).map(|worker| worker.not_before - now).min();
            let longest = Duration::from_millis(longest);
            seen = board.wait(seen, due.map_or(longest, |due| due.min(longest)));
        }
    }
}

/// Takes groups that a request wants compared to their view's publisher.
fn take_errand(workers: &mut [Worker], board: &Board) {
    let Some(errand) = board.take_errand() else { return };
    match workers.iter_mut().find(|worker| worker.publisher.object() == errand.view) {
        Some(worker) => {
            worker.publisher.settle_next(errand.groups);
            worker.errand = Some((errand.request, Instant::now()));
        }
        None => {
            board.answer_errand(errand.request, Err(format!("view {} is not published here", errand.view)))
        }
    }
}

/// Answers the request at hand, once its groups have been compared or there was no moment to do so.
fn answer_errand(worker: &mut Worker, board: &Board) {
    let Some((request, since)) = worker.errand else { return };
    let answer = match worker.publisher.take_settled() {
        Some(answer) => Ok(answer),
        None if since.elapsed() > ERRAND_PATIENCE => {
            worker.publisher.settle_next(Vec::new());
            Err("the publisher found no moment to compare them: it publishes in parts, or not at all"
                .to_owned())
        }
        None => return,
    };
    worker.errand = None;
    board.answer_errand(request, answer);
}

/// After a publish that took long, as under a backlog or with large groups, so that commits gather and their
/// groups are recomputed once (P12). A short one, whose cost is small, is followed at once.
fn rest(took: Duration, behind: bool) -> Duration {
    let factor = if behind { REST_FACTOR_BEHIND } else { 1 };
    if took < REST_FROM { Duration::ZERO } else { took.min(REST_MAX) * factor }
}

fn step(
    worker: &mut Worker,
    view: usize,
    base: &mut dyn BaseReader,
    store: &mut dyn ViewStore,
    settings: &MaintainSettings,
    board: &Board,
) -> PortResult<()> {
    let started = Instant::now();
    let result = worker.publisher.step(base, store);
    let mut waits = String::new();
    let mut groups = 0;
    worker.done = false;
    match result {
        Ok(Step::Idle | Step::Beat) => {
            worker.failures = 0;
            worker.done = true;
        }
        Ok(Step::Published { groups: published, version, parts }) => {
            tracing::debug!(view = worker.publisher.object(), groups = published, %version, parts, "published");
            worker.failures = 0;
            groups = published;
            if !board.is_finished() {
                let behind = board.lag().is_some_and(|lag| lag > settings.commit_records_max as u64);
                worker.not_before = Instant::now() + rest(started.elapsed(), behind);
            }
        }
        Ok(Step::Standby) => {
            waits = "standby: another maintainer publishes the view, or this one is behind it".to_owned();
            delay(worker, 100);
        }
        Ok(Step::Refused(PublishReply::WrongType { key, found })) => {
            waits = format!("the key {key} is a {found}, which driftless did not write; delete it");
            tracing::error!(
                view = worker.publisher.object(),
                key,
                found,
                "a key of the view was overwritten; delete it"
            );
            back_off(worker, settings);
        }
        Ok(Step::Refused(_)) => back_off(worker, settings),
        Err(error) if error.is_transient() => {
            back_off(worker, settings);
            tracing::warn!(view = worker.publisher.object(), attempt = worker.failures, %error, "publishing waits; reading goes on");
            waits = error.to_string();
        }
        Err(error) => return Err(error),
    }
    answer_errand(worker, board);
    board.update(|numbers| {
        if let Some(shown) = numbers.views.get_mut(view) {
            shown.waits = waits;
            shown.groups_published += groups;
            shown.publishes += u64::from(groups > 0);
            shown.version = worker.publisher.version().map_or(shown.version, |version| version.0);
        }
    });
    Ok(())
}

fn back_off(worker: &mut Worker, settings: &MaintainSettings) {
    worker.failures += 1;
    delay(worker, settings.backoff.delay_ms(worker.failures, settings.random));
}

fn delay(worker: &mut Worker, wait_ms: u64) {
    worker.not_before = Instant::now() + Duration::from_millis(wait_ms);
}

/// What was committed is safe; `once` promised that it would be published as well.
fn give_up(settings: &MaintainSettings, board: &Board) -> PortResult<()> {
    let waits: Vec<String> = board
        .numbers()
        .views
        .iter()
        .filter(|view| !view.waits.is_empty())
        .map(|view| format!("{}: {}", view.object, view.waits))
        .collect();
    let what = format!("everything is committed, but not published: {}", waits.join("; "));
    if settings.once {
        return Err(PortError::permanent(what).with_hint("mend what is said above and run it again"));
    }
    tracing::warn!("{what}; the next start publishes it");
    Ok(())
}
