//! Tests of the checks at their limits; whole questions against whole states are in `tests/routing.rs`.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::pure::base::{ReconcileVerdict, Reconciled, ViewState};
use crate::pure::publish::timestamp_text;
use crate::pure::query::Ask;
use crate::pure::schema::{Column, ColumnType};

const NOW: i64 = 1_790_000_000_000;

fn table() -> Table {
    let column = |name: &str, column_type| Column { name: name.into(), column_type, nullable: false };
    let columns = vec![
        column("id", ColumnType::Integer),
        column("day", ColumnType::Date),
        column("zone", ColumnType::Text),
        column("fare", ColumnType::Integer),
    ];
    Table { name: "trips".into(), columns, key: vec![0] }
}

fn view(policy: serde_json::Value) -> View {
    let document = json!({
        "object": "v", "base": "trips",
        "metric_contract": {
            "filters": [], "measures": {"trips": "count(*)", "zones": "count(distinct zone)"},
            "aggregate_grain": ["day", "zone"],
        },
        "refresh": {"freshness_slo_seconds": 60}, "policy": policy,
    });
    View::compile(&document.to_string(), "t.json", &[table()]).unwrap()
}

fn meta(view: &View, changes: &[(&str, &str)]) -> BTreeMap<String, String> {
    let confirmed = timestamp_text(Some(NOW - 60_000));
    let fields = [
        ("schema", "1"),
        ("version", "7"),
        ("mixed", "0"),
        ("generation", "1"),
        ("status", "fresh"),
        ("dead_letters", "0"),
        ("contract_hash", &view.contract_hash),
        ("definition_hash", &view.definition_hash),
        ("confirmed_at", &confirmed),
    ];
    fields.iter().chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn failing(checks: &[Check]) -> Vec<&'static str> {
    checks.iter().filter(|check| check.finding == Finding::Fails).map(|check| check.code.name()).collect()
}

fn state_of(
    changes: &[(&str, &str)],
    state: &ViewState,
    asked: &str,
    limit: Option<u64>,
) -> Vec<&'static str> {
    let view = view(json!(null));
    let ask = Ask {
        measures: vec!["trips".into()],
        conditions: asked.into(),
        max_staleness_seconds: limit,
        ..Ask::default()
    };
    let query = ask.check(&view, &table()).unwrap();
    let meta = meta(&view, changes);
    let facts = Facts {
        meta: Ok(&meta),
        state,
        open_letters: 0,
        generation: "1",
        now_ms: NOW,
        reconcile: ReconcilePolicy::WithinSeconds(100),
    };
    failing(&state_checks(&query, &view, &facts))
}

fn reconciled(seconds_ago: i64, verdict: ReconcileVerdict) -> ViewState {
    let at_ms = NOW - seconds_ago * 1000;
    ViewState { reconciled: Some(Reconciled { at_ms, version: 5, verdict }), ..ViewState::default() }
}

#[test]
fn each_limit_is_inclusive() {
    let clean = reconciled(100, ReconcileVerdict::InSync);
    let with = |changes: &[(&str, &str)]| state_of(changes, &clean, "", None);
    assert_eq!(with(&[]), [""; 0]);
    let confirmed = |ms: i64| with(&[("confirmed_at", &timestamp_text(Some(NOW - ms)))]);
    assert_eq!(confirmed(60_001), ["STALE"]);
    assert_eq!(confirmed(-60_000), [""; 0]);
    assert_eq!(confirmed(-60_001), ["STALE"], "a clock ahead proves nothing");
    assert_eq!(with(&[("confirmed_at", "")]), ["STALE"]);
    assert_eq!(state_of(&[], &clean, "", Some(59)), ["STALE"]);
    assert_eq!(state_of(&[("status", "stale")], &clean, "", Some(3_600)), [""; 0], "an older answer is fine");
}

#[test]
fn the_later_word_of_base_and_meta_says_when_a_view_was_reconciled() {
    let of = |state: &ViewState, seconds_ago: i64, result: &str| {
        let at = timestamp_text(Some(NOW - seconds_ago * 1000));
        state_of(&[("reconciled_at", &at), ("reconcile_result", result)], state, "", None)
    };
    let never = ViewState::default();
    assert_eq!(of(&never, 100, "in_sync"), [""; 0]);
    assert_eq!(of(&never, 101, "in_sync"), ["NOT_RECONCILED"]);
    assert_eq!(of(&never, 1, "drift"), ["NOT_RECONCILED"]);
    assert_eq!(of(&reconciled(10, ReconcileVerdict::Repaired), 500, "drift"), [""; 0]);
    assert_eq!(of(&reconciled(10, ReconcileVerdict::Drift), 20, "in_sync"), ["NOT_RECONCILED"]);
    assert_eq!(state_of(&[], &never, "", None), ["NOT_RECONCILED"]);
}

#[test]
fn what_retention_has_taken_is_not_asked_of_redis() {
    let clean = reconciled(0, ReconcileVerdict::InSync);
    let asked = |conditions: &str| state_of(&[("retained_from", "2026-01-02")], &clean, conditions, None);
    for within in
        ["day >= 2026-01-02", "day = 2026-01-03", "day in (2026-01-02, 2026-01-09)", "day > 2026-01-02"]
    {
        assert_eq!(asked(within), [""; 0], "{within}");
    }
    for beyond in
        ["", "day >= 2026-01-01", "day <= 2026-01-05", "zone = 'a'", "day in (2026-01-01, 2026-01-09)"]
    {
        assert_eq!(asked(beyond), ["RETENTION_EXPIRED"], "{beyond}");
    }
}

#[test]
fn redis_must_show_this_view_and_this_generation() {
    let clean = reconciled(0, ReconcileVerdict::InSync);
    let with = |field: &str, value: &str| state_of(&[(field, value)], &clean, "", None);
    for field in ["schema", "contract_hash", "definition_hash"] {
        assert_eq!(with(field, "other"), ["CONTRACT_MISMATCH"]);
    }
    assert_eq!(with("generation", "2"), ["MIXED"]);
    assert_eq!(with("mixed", "1"), ["MIXED"]);
    assert_eq!(with("mixed", ""), ["MIXED"]);
    assert_eq!(with("dead_letters", "3"), ["INCOMPLETE"]);
    for status in ["disabled", "quarantined", "incomplete"] {
        assert_eq!(with("status", status), [status.to_uppercase()]);
    }
}

/// Codes that bar Redis, and whether the base may answer.
fn shape_of(policy: serde_json::Value, ask: Ask) -> (Vec<&'static str>, bool) {
    let view = view(policy);
    let query = ask.check(&view, &table()).unwrap();
    let decision = Decision { checks: shape_checks(&query, &view, &table()) };
    (decision.reasons().iter().map(|code| code.name()).collect(), decision.allows(Route::Base))
}

#[test]
fn withheld_groups_are_not_found_out_by_dividing_or_by_adding() {
    let policy = || json!({"minimum_group_lines": 3});
    let ask = |conditions: &str, group_by: &[&str]| Ask {
        measures: vec!["trips".into()],
        conditions: conditions.into(),
        group_by: group_by.iter().map(|name| (*name).into()).collect(),
        ..Ask::default()
    };
    assert_eq!(shape_of(policy(), ask("", &["day", "zone"])), (vec!["ELIGIBLE"], true));
    assert_eq!(shape_of(policy(), ask("", &["day"])), (vec!["POLICY_DENIED"], true));
    let denied = (vec!["POLICY_DENIED", "FILTER_NOT_COVERED"], false);
    assert_eq!(shape_of(policy(), ask("fare = 5", &["day", "zone"])), denied);
    let (reasons, base) = shape_of(policy(), ask("", &["day", "zone", "fare"]));
    assert_eq!((reasons[0], base), ("POLICY_DENIED", false));
    assert_eq!(shape_of(json!(null), ask("fare = 5", &["day", "zone"])), (vec!["FILTER_NOT_COVERED"], true));
}

#[test]
fn a_role_that_is_not_listed_is_denied_everywhere_and_told_nothing() {
    let ask = |role: Option<&str>| Ask {
        measures: vec!["trips".into()],
        role: role.map(str::to_owned),
        ..Ask::default()
    };
    let sales = || json!({"roles": ["sales", "audit"]});
    assert_eq!(shape_of(sales(), ask(Some("sales"))), (vec!["ELIGIBLE"], true));
    for role in [None, Some("Sales"), Some(""), Some("*"), Some("sales,audit")] {
        assert_eq!(shape_of(sales(), ask(role)), (vec!["POLICY_DENIED"], false), "{role:?}");
    }
    assert_eq!(shape_of(json!({"roles": []}), ask(Some("sales"))), (vec!["POLICY_DENIED"], false));
    assert_eq!(shape_of(json!({"roles": ["*"]}), ask(None)), (vec!["ELIGIBLE"], true));
    let view = view(sales());
    let query = ask(Some("x")).check(&view, &table()).unwrap();
    assert!(shape_checks(&query, &view, &table()).iter().all(|check| !check.evidence.contains("audit")));
}
