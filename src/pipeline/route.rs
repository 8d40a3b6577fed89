//! Answers a question from Redis where the view may answer it, otherwise from the base with exactly the same numbers,
//! and says which and why. Knows no transport: commands call it, and whatever serves questions over a network can.
//!
//! ```text
//! what the base says of the view ──▶ rows and meta of Redis, of one instant ──▶ checks ──▶ Redis
//!                                                                                    └──▶ rows of the base, one snapshot
//! ```

mod shown;
mod worked;

use crate::ports::{BaseReader, Clock, Meta, PortError, PortResult, UseBook, ViewStore};
use crate::pure::base::Head;
use crate::pure::catalog::{Catalog, CatalogView};
use crate::pure::meta::{parse_positions, watermark_text};
use crate::pure::publish::{timestamp_ms, timestamp_text};
use crate::pure::query::{Query, Rows};
use crate::pure::route::{
    Bars, Check, Decision, Facts, Finding, ReconcilePolicy, Route, shape_checks, state_checks,
};
use crate::pure::usage::{Use, kept_role};

pub use shown::{Shown, read_shown};
pub use worked::{work_out, work_out_in};

/// Limits of the router.
#[derive(Clone, Copy, Debug)]
pub struct RouteSettings {
    pub reconcile: ReconcilePolicy,
    /// Rows of an answer at most.
    pub groups_max: usize,
    /// How long the base may work on one answer.
    pub base_ms_max: u64,
}

/// What the router needs of the world.
pub struct Ports<'a> {
    pub base: &'a mut dyn BaseReader,
    pub store: &'a mut dyn ViewStore,
    pub clock: &'a dyn Clock,
}

/// What an answer stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basis {
    pub version: u64,
    /// Empty where the view has no scalar watermark.
    pub watermark: String,
    /// Everything that the log held at this time is in the answer; empty where nobody can tell.
    pub as_of: String,
    pub generation: String,
    pub contract_hash: String,
}

/// An answer, or the refusal of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answered; `None` where nobody may, or not the one that was asked for.
    pub route: Option<Route>,
    /// The one that was asked for, if any.
    pub forced: Option<Route>,
    pub decision: Decision,
    pub basis: Basis,
    pub rows: Rows,
    /// What a reader should know besides.
    pub warnings: Vec<String>,
}

impl Answer {
    /// What is counted of it.
    pub fn used(&self, view: &CatalogView, query: &Query, now_ms: i64) -> Use {
        let measures = query.measures.iter().map(|measure| view.view.measures[*measure].column.clone());
        Use {
            day: timestamp_text(Some(now_ms)).chars().take(10).collect(),
            view: view.view.object.clone(),
            role: kept_role(query.role.as_deref()),
            route: self.route,
            reasons: self.decision.reasons(),
            measures: measures.collect(),
        }
    }
}

/// Answers a question about a view, and counts it where there is a book.
pub fn answer(
    ports: &mut Ports<'_>,
    catalog: &Catalog,
    view: usize,
    query: &Query,
    forced: Option<Route>,
    settings: &RouteSettings,
    book: Option<&mut dyn UseBook>,
) -> PortResult<Answer> {
    let entry = &catalog.views[view];
    let answer = decide_and_answer(ports, catalog, view, query, forced, settings)?;
    if let Some(book) = book
        && let Err(error) = book.count(&answer.used(entry, query, ports.clock.wall_ms()))
    {
        tracing::debug!(%error, "a question was not counted");
    }
    Ok(answer)
}

fn decide_and_answer(
    ports: &mut Ports<'_>,
    catalog: &Catalog,
    view: usize,
    query: &Query,
    forced: Option<Route>,
    settings: &RouteSettings,
) -> PortResult<Answer> {
    let entry = &catalog.views[view];
    let table = &catalog.tables[entry.table].shape;
    // 1. What question and view alone decide. Who may not ask is told nothing of the view's state.
    let mut decision = Decision { checks: shape_checks(query, &entry.view, table) };
    if !decision.allows(Route::Base) {
        decision.checks.retain(|check| check.bars == Bars::Both && check.finding == Finding::Fails);
        return Ok(refused(forced, decision));
    }
    // 2. What the base says of the view: an operator's word counts at once, before Redis has heard of it.
    let head = ports.base.snapshot()?.head()?;
    // 3. What Redis shows. Its rows only where they can be an answer.
    let rows_asked = decision.allows(Route::Redis) && forced != Some(Route::Base);
    let shown = read_shown(ports.store, &entry.view, query, rows_asked, settings.groups_max)?;
    // 4. All checks, on the very meta that came with the rows.
    decision.checks.extend(state_checks(
        query,
        &entry.view,
        &facts_of(ports, &head, view, entry, &shown, settings),
    ));
    decision.checks.extend(shown.trouble.clone());
    // 5. The answer.
    let route = match forced {
        Some(route) => Some(route).filter(|route| decision.allows(*route)),
        None if decision.allows(Route::Redis) => Some(Route::Redis),
        None => Some(Route::Base),
    };
    let meta = shown.meta.as_ref().ok();
    let (basis, rows) = match route {
        None => return Ok(refused(forced, decision)),
        Some(Route::Redis) => (basis_of_meta(meta), shown.rows),
        Some(Route::Base) => {
            let (head, rows) = work_out(ports.base, ports.clock, catalog, view, query, settings)?;
            (basis_of_head(&head, entry, meta), rows)
        }
    };
    let warnings = warnings(entry, query, route, &decision, &basis, ports.clock.wall_ms());
    Ok(Answer { route, forced, decision, basis, rows, warnings })
}

fn refused(forced: Option<Route>, decision: Decision) -> Answer {
    let (basis, rows, warnings) = Default::default();
    Answer { route: None, forced, decision, basis, rows, warnings }
}

fn facts_of<'a>(
    ports: &Ports<'_>,
    head: &'a Head,
    view: usize,
    entry: &CatalogView,
    shown: &'a Shown,
    settings: &RouteSettings,
) -> Facts<'a> {
    Facts {
        meta: shown.meta.as_ref().map_err(String::as_str),
        state: &head.views[view],
        open_letters: head.open_letters[entry.table],
        generation: &head.generation,
        now_ms: ports.clock.wall_ms(),
        reconcile: settings.reconcile,
    }
}

fn basis_of_meta(meta: Option<&Meta>) -> Basis {
    let text = |name: &str| meta.and_then(|meta| meta.get(name)).cloned().unwrap_or_default();
    Basis {
        version: text("version").parse().unwrap_or(0),
        watermark: text("watermark"),
        as_of: text("confirmed_at"),
        generation: text("generation"),
        contract_hash: text("contract_hash"),
    }
}

/// The base does not know the ends of the log. What Redis shows was confirmed against them, so a base that has read
/// at least as far is confirmed for that time too.
fn basis_of_head(head: &Head, entry: &CatalogView, meta: Option<&Meta>) -> Basis {
    let field = |name: &str| meta.and_then(|meta| meta.get(name)).map_or("", String::as_str);
    let shown = parse_positions(field("positions"));
    let read_as_far = |(at, offset): (&String, &i64)| {
        head.positions
            .iter()
            .any(|position| position.at.to_string() == *at && position.next_offset >= *offset)
    };
    let confirmed = field("generation") == head.generation && shown.iter().all(read_as_far);
    Basis {
        version: head.commit.0,
        watermark: watermark_text(head, entry.table),
        as_of: if confirmed { field("confirmed_at").to_owned() } else { String::new() },
        generation: head.generation.clone(),
        contract_hash: entry.view.contract_hash.clone(),
    }
}

fn warnings(
    entry: &CatalogView,
    query: &Query,
    route: Option<Route>,
    decision: &Decision,
    basis: &Basis,
    now_ms: i64,
) -> Vec<String> {
    use crate::pure::route::Code::Incomplete;
    let view = &entry.view;
    let mut warnings = Vec::new();
    for measure in &query.measures {
        let Some(word) = view.deprecated.get(measure) else { continue };
        let mut text = format!("{} is deprecated since {}", view.measures[*measure].column, word.since);
        if let Some(instead) = word.instead {
            text.push_str(&format!("; use {}", view.measures[instead].column));
        }
        if let Some(why) = &word.why {
            text.push_str(&format!(" ({why})"));
        }
        warnings.push(text);
    }
    if route == Some(Route::Base) {
        let incomplete = decision.failures().filter(|check: &&Check| check.code == Incomplete);
        warnings.extend(incomplete.map(|check| format!("the answer may lack changes: {}", check.evidence)));
        let limit = query.max_staleness_seconds.unwrap_or(view.freshness_slo_seconds);
        let limit_ms = i64::try_from(limit.saturating_mul(1000)).unwrap_or(i64::MAX);
        let age_ms = timestamp_ms(&basis.as_of).map(|at_ms| now_ms.saturating_sub(at_ms));
        if age_ms.is_none_or(|age_ms| age_ms > limit_ms) {
            let confirmed = if basis.as_of.is_empty() { "never confirmed" } else { &basis.as_of };
            warnings.push(format!("whether this is at most {limit} s old is not known; as of: {confirmed}"));
        }
    }
    warnings
}

/// The error of an answer that is too long.
fn too_many(object: &str, groups_max: usize) -> PortError {
    PortError::permanent(format!("view {object}: the answer has more than {groups_max} rows"))
        .with_hint("narrow the question, group by less, or raise route.groups_max")
}
