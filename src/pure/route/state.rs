//! The checks of what Redis shows now and of what the base says of the view: reachable, ours, in use, proven, complete,
//! fresh, whole. Must not know how either was read.

use std::collections::BTreeMap;

use super::{Bars, Check, Code};
use crate::pure::base::{ReconcileVerdict, Reconciled, ViewState};
use crate::pure::contract::View;
use crate::pure::meta::SCHEMA;
use crate::pure::publish::{Status, timestamp_ms, timestamp_text};
use crate::pure::query::Query;
use crate::pure::schema::ColumnType;
use crate::pure::value::Value;

/// How old the last reconciliation of a view may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcilePolicy {
    NotAsked,
    WithinSeconds(u64),
}

/// What is known of a view at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What Redis shows, or why it could not be asked.
    pub meta: Result<&'a BTreeMap<String, String>, &'a str>,
    /// What operators and reconciler have said in the base; the meta follows with the next publish.
    pub state: &'a ViewState,
    pub open_letters: u64,
    /// The base's generation.
    pub generation: &'a str,
    pub now_ms: i64,
    pub reconcile: ReconcilePolicy,
}

impl Facts<'_> {
    fn field(&self, name: &str) -> &str {
        self.meta.ok().and_then(|meta| meta.get(name)).map_or("", String::as_str)
    }

    fn is_shown(&self) -> bool {
        self.meta.is_ok_and(|meta| !meta.is_empty())
    }
}

/// All checks of a view's state, in the order of their codes.
pub fn state_checks(query: &Query, view: &View, facts: &Facts<'_>) -> Vec<Check> {
    let mut checks =
        vec![reachable(facts), disabled(facts), quarantined(facts), incomplete(facts), reconciled(facts)];
    if facts.is_shown() {
        checks.extend([
            shown_contract(view, facts),
            retained(query, view, facts),
            fresh(query, view, facts),
            mixed(facts),
        ]);
    } else {
        let nothing = |code| Check::unknown(code, "nothing is shown");
        checks
            .extend([Code::ContractMismatch, Code::RetentionExpired, Code::Stale, Code::Mixed].map(nothing));
    }
    checks
}

fn redis(code: Code, holds: bool, evidence: impl Into<String>) -> Check {
    Check::of(code, Bars::Redis, holds, evidence)
}

fn reachable(facts: &Facts<'_>) -> Check {
    match facts.meta {
        Err(error) => redis(Code::Unreachable, false, error),
        Ok(meta) if meta.is_empty() => redis(Code::Unreachable, false, "the view is not in Redis"),
        Ok(_) => redis(Code::Unreachable, true, format!("Redis shows version {}", facts.field("version"))),
    }
}

fn disabled(facts: &Facts<'_>) -> Check {
    let evidence = match &facts.state.disabled {
        Some(word) => {
            format!("disabled by {} at {}: {}", word.who, timestamp_text(Some(word.at_ms)), word.why)
        }
        None if facts.field("status") == Status::Disabled.name() => "Redis shows it as disabled".to_owned(),
        None => return redis(Code::Disabled, true, "in use"),
    };
    redis(Code::Disabled, false, evidence)
}

fn quarantined(facts: &Facts<'_>) -> Check {
    let evidence = match &facts.state.quarantined {
        Some(word) => format!("since {}: {}", timestamp_text(Some(word.at_ms)), word.why),
        None if facts.field("status") == Status::Quarantined.name() => {
            "Redis shows it as quarantined".to_owned()
        }
        None => return redis(Code::Quarantined, true, "no drift stands unrepaired"),
    };
    redis(Code::Quarantined, false, evidence)
}

fn incomplete(facts: &Facts<'_>) -> Check {
    let shown = facts.field("dead_letters");
    let status = facts.field("status") == Status::Incomplete.name();
    let holds = facts.open_letters == 0 && !status && matches!(shown, "" | "0");
    let evidence = match (holds, facts.open_letters) {
        (true, _) => "no dead letter is open".to_owned(),
        (false, 0) => format!("Redis shows {shown} open dead letters"),
        (false, open) => format!("{open} dead letters are open"),
    };
    redis(Code::Incomplete, holds, evidence)
}

/// The later word of base and meta counts: a standby's base knows nothing of the passes of another.
fn reconciled(facts: &Facts<'_>) -> Check {
    let ReconcilePolicy::WithinSeconds(limit) = facts.reconcile else {
        return redis(Code::NotReconciled, true, "not asked for (route.reconciled_within_seconds = 0)");
    };
    let in_base =
        facts.state.reconciled.as_ref().map(|Reconciled { at_ms, verdict, .. }| (*at_ms, verdict.name()));
    let in_meta =
        timestamp_ms(facts.field("reconciled_at")).map(|at_ms| (at_ms, facts.field("reconcile_result")));
    let later = in_meta.into_iter().chain(in_base).max_by_key(|(at_ms, _)| *at_ms);
    let Some((at_ms, verdict)) = later else {
        return redis(Code::NotReconciled, false, "never reconciled");
    };
    let clean = [ReconcileVerdict::InSync, ReconcileVerdict::Repaired].map(ReconcileVerdict::name);
    let holds = clean.contains(&verdict) && within(facts.now_ms, at_ms, limit);
    let at = timestamp_text(Some(at_ms));
    redis(Code::NotReconciled, holds, format!("last reconciled at {at}: {verdict} (at most {limit} s ago)"))
}

fn shown_contract(view: &View, facts: &Facts<'_>) -> Check {
    let ours = [
        ("schema", SCHEMA),
        ("contract_hash", &view.contract_hash),
        ("definition_hash", &view.definition_hash),
    ];
    let other = ours.iter().find(|(field, ours)| facts.field(field) != *ours);
    let evidence = match other {
        None => "Redis shows this contract and definition".to_owned(),
        Some((field, ours)) => format!("Redis shows {field} {:?}, the view has {ours}", facts.field(field)),
    };
    redis(Code::ContractMismatch, other.is_none(), evidence)
}

/// Groups before `retained_from` have left Redis; it is a value of the view's first dimension that is a day.
fn retained(query: &Query, view: &View, facts: &Facts<'_>) -> Check {
    let from = facts.field("retained_from");
    if from.is_empty() {
        return redis(Code::RetentionExpired, true, "groups are kept for ever");
    }
    let day = view.grain.iter().find(|dimension| dimension.column_type == ColumnType::Date);
    let least = day.and_then(|day| query.least(day.column));
    let holds = least.is_some_and(|least| *least >= Value::text(from));
    let asked = least.map_or_else(|| "from the beginning".to_owned(), |least| format!("from {least}"));
    redis(Code::RetentionExpired, holds, format!("asked for {asked}; Redis keeps groups from {from} on"))
}

fn fresh(query: &Query, view: &View, facts: &Facts<'_>) -> Check {
    let (limit, whose) = match query.max_staleness_seconds {
        Some(asked) => (asked, "asked for"),
        None => (view.freshness_slo_seconds, "the contract's objective"),
    };
    let (holds, evidence) = match timestamp_ms(facts.field("confirmed_at")) {
        None => (false, "never confirmed against the log's ends".to_owned()),
        Some(at_ms) => {
            let age = facts.now_ms.saturating_sub(at_ms) as f64 / 1000.0;
            let evidence = format!("confirmed {age:.1} s ago (at most {limit} s, {whose})");
            (within(facts.now_ms, at_ms, limit), evidence)
        }
    };
    redis(Code::Stale, holds, evidence)
}

fn mixed(facts: &Facts<'_>) -> Check {
    let generation = facts.field("generation");
    if generation != facts.generation {
        let evidence = format!("Redis shows generation {generation}, the base is {}", facts.generation);
        return redis(Code::Mixed, false, evidence);
    }
    let holds = facts.field("mixed") == "0";
    let evidence = if holds { "one state" } else { "a publish in parts is under way" };
    redis(Code::Mixed, holds, evidence)
}

/// A time in the future is as far away as one in the past: clocks disagree then, and nothing is proven.
fn within(now_ms: i64, at_ms: i64, limit_seconds: u64) -> bool {
    now_ms.saturating_sub(at_ms).unsigned_abs() <= limit_seconds.saturating_mul(1000)
}
