//! Walks through the table of cases: each state is made once for each policy, and every question is put to the router
//! and to both routes by name.

use std::collections::BTreeMap;

use driftless::ports::{BaseReader, Clock};
use driftless::pure::base::{Action, ReconcileVerdict};
use driftless::pure::query::Ask;
use driftless::pure::route::Route;
use serde_json::{Value, json};

use crate::house::{House, Line, Told, ask, contract, told};
use crate::support::OBJECT;
use crate::table::{CASES, Case, Policy, State, With};

const LINES: [Line; 13] = [
    Line("O1", 1, "2026-09-21", "P100", "web", 1, 1_000, "paid"),
    Line("O1", 2, "2026-09-21", "P200", "web", 2, 300, "paid"),
    Line("O1", 3, "2026-09-21", "P100", "web", 1, 70, "paid"),
    Line("O2", 1, "2026-09-22", "P100", "web", 3, 8_000, "paid"),
    Line("O2", 2, "2026-09-22", "P200", "web", 1, 2_500, "paid"),
    Line("O2", 3, "2026-09-22", "P200", "store", 1, 1_000, "paid"),
    Line("O3", 1, "2026-09-22", "P100", "store", 1, 5_000, "paid"),
    Line("O3", 2, "2026-09-22", "P300", "store", 9, 90, "paid"),
    Line("O4", 1, "2026-09-23", "P100", "web", 1, 10, "paid"),
    Line("O4", 2, "2026-09-23", "P300", "store", 1, -40, "paid"),
    Line("O4", 3, "2026-09-23", "a:b é", "web", 1, 5, "paid"),
    Line("O5", 1, "2026-09-23", "", "web", 1, 6, "paid"),
    Line("O5", 2, "2026-09-22", "P100", "web", 1, 777, "refunded"),
];

/// Their sums leave 64 bits in one group, and come back in the day's.
const HUGE: [Line; 3] = [
    Line("O9", 1, "2026-12-01", "P900", "web", 1, i64::MAX, "paid"),
    Line("O9", 2, "2026-12-01", "P900", "web", 1, 10, "paid"),
    Line("O9", 3, "2026-12-01", "P901", "web", 1, -1_000, "paid"),
];

fn contract_of(policy: Policy) -> String {
    match policy {
        Policy::Open => contract(&[]),
        Policy::Roles => contract(&[("/policy/roles", json!(["sales"]))]),
        Policy::RowFilter => contract(&[("/policy/row_filter", json!("channel = 'web'"))]),
        Policy::TwoLines => contract(&[("/policy/minimum_group_lines", json!(2))]),
    }
}

/// Which rows the policy leaves to be seen, in SQL.
fn seen(policy: Policy) -> &'static str {
    match policy {
        Policy::Open | Policy::Roles => "1",
        Policy::RowFilter => "channel = 'web'",
        Policy::TwoLines => {
            "(order_date, product_id) IN (SELECT order_date, product_id FROM fact_sales WHERE status = 'paid'
               GROUP BY order_date, product_id HAVING count(*) >= 2)"
        }
    }
}

fn house(state: State, policy: Policy) -> House {
    let lines = LINES.iter().chain(HUGE.iter().filter(|_| state == State::Overflow));
    let events: Vec<Value> = lines.zip(1..).map(|(line, seq)| line.event(seq)).collect();
    let house = House::new(&contract_of(policy), &events);
    house.read_all();
    if state != State::NeverReconciled {
        house.reconciled(ReconcileVerdict::InSync);
    }
    if state == State::ReconciledLongAgo {
        house.world.clock.advance(93_601_000);
    }
    if state == State::DeadLetter {
        house.world.log.append(&crate::support::world::partition(0), None, Some(b"no event"));
    }
    house.publish();
    bring_about(&house, state);
    house
}

fn bring_about(house: &House, state: State) {
    let enable = |enabled| house.request(&Action::EnableView { view: OBJECT.to_owned(), enabled });
    let meta =
        |field: &str, value: &str| house.redis(&["HSET", "driftless:{agg_daily_product}", field, value]);
    let row = "driftless:{agg_daily_product}:row:2026-09-21:P100";
    match state {
        State::Ready | State::NeverReconciled | State::ReconciledLongAgo => {}
        State::DeadLetter | State::Overflow => {}
        State::Stale => house.world.clock.advance(901_000),
        State::QuarantinedInBase => house.reconciled(ReconcileVerdict::Drift),
        State::QuarantinedInRedis => {
            house.reconciled(ReconcileVerdict::Drift);
            house.publish();
        }
        State::DisabledInBase => enable(false),
        State::DisabledInRedis => {
            enable(false);
            house.publish();
        }
        State::EnabledInBase => {
            enable(false);
            house.publish();
            enable(true);
        }
        State::PublishInParts => meta("mixed", "1"),
        State::OtherGeneration => meta("generation", "2"),
        State::OtherContract => meta("contract_hash", "another"),
        State::OtherDefinition => meta("definition_hash", "another"),
        State::Retained => meta("retained_from", "2026-09-22"),
        State::Unreachable => {
            let killed = std::process::Command::new("sh")
                .args(["-c", &format!("kill -9 {}", house.server.process_id())])
                .status();
            assert!(killed.expect("a shell").success());
        }
        State::Absent => house.redis(&["FLUSHALL"]),
        State::DamagedRow => house.redis(&["HSET", row, "units", "many"]),
        State::RowGone => house.redis(&["DEL", row]),
        State::EntryGone => house.redis(&["ZREM", "driftless:{agg_daily_product}:index", "2026-09-21:P100"]),
    }
}

/// The question of a case, and the route that it insists on.
fn question(case: &Case) -> (Ask, Option<Route>) {
    let mut asked = ask(case.measures, case.conditions, case.group_by);
    let mut forced = None;
    match case.with {
        With::Nothing => {}
        With::Role(role) => asked.role = Some(role.to_owned()),
        With::MaxStaleness(seconds) => asked.max_staleness_seconds = Some(seconds),
        With::Contract(hash) => asked.contract = Some(hash.to_owned()),
        With::Redis => forced = Some(Route::Redis),
        With::Base => forced = Some(Route::Base),
    }
    (asked, forced)
}

fn walk(house: &House, case: &Case) -> Result<(), String> {
    let (asked, forced) = question(case);
    let answer = house.answer(&asked, forced);
    let route = answer.route.map_or("nobody", Route::name);
    let reasons: Vec<&str> = answer.decision.reasons().iter().map(|code| code.name()).collect();
    if (route, &reasons[..]) != (case.route, case.reasons) {
        return Err(format!("{route} for {reasons:?}; {:#?}", answer.decision.checks));
    }
    let expected = house.by_sql(case.group_by, case.measures, case.conditions, seen(case.policy));
    let same = |who: &str, rows: &Told, expected: &Told| match rows == expected {
        true => Ok(()),
        false => Err(format!("{who} gives {rows:?}, SQL {expected:?}")),
    };
    match answer.route {
        None if !answer.rows.is_empty() => return Err("a refusal with rows".to_owned()),
        None => {}
        Some(_) => {
            same(route, &told(&answer), &expected)?;
            let head = house.reader().snapshot().and_then(|mut snapshot| snapshot.head()).expect("a head");
            let basis = &answer.basis;
            if basis.version > head.commit.0 || basis.version == 0 || basis.contract_hash.len() != 64 {
                return Err(format!("{basis:?}"));
            }
        }
    }
    // Whoever may be asked by name gives the same, and whoever may not gives nothing.
    for by_name in [Route::Redis, Route::Base] {
        let answer = house.answer(&asked, Some(by_name));
        match answer.route {
            Some(route) if route == by_name => same(by_name.name(), &told(&answer), &expected)?,
            Some(_) => return Err("another route than the one asked for".to_owned()),
            None if by_name == Route::Base && case.route == "base" => {
                return Err("the base refuses by name".to_owned());
            }
            None => {}
        }
    }
    Ok(())
}

#[test]
fn every_case_of_the_table_takes_its_route_for_its_reasons_with_the_numbers_of_sql() {
    assert!(CASES.len() >= 40, "{} cases", CASES.len());
    let mut houses: BTreeMap<(State, Policy), Vec<&Case>> = BTreeMap::new();
    for case in CASES {
        houses.entry((case.state, case.policy)).or_default().push(case);
    }
    let mut wrong = Vec::new();
    for ((state, policy), cases) in &houses {
        let house = house(*state, *policy);
        for case in cases {
            if let Err(what) = walk(&house, case) {
                wrong.push(format!(
                    "{state:?} {policy:?} {:?} where {:?} by {:?} {:?}: {what}",
                    case.measures, case.conditions, case.group_by, case.with
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[test]
fn order_count_over_several_products_never_comes_from_redis() {
    let house = house(State::Ready, Policy::Open);
    let days = ["", "order_date = '2026-09-22'", "order_date in ('2026-09-21', '2026-09-22')"];
    let products = ["", "product_id in ('P100', 'P200')", "product_id >= 'P100'", "product_id != 'P300'"];
    for day in days {
        for product in products {
            let conditions: Vec<&str> = [day, product].into_iter().filter(|text| !text.is_empty()).collect();
            let asked = ask(&["order_count"], &conditions.join(" and "), &["order_date"]);
            let answer = house.answer(&asked, None);
            assert_eq!(answer.route, Some(Route::Base), "{day} {product}");
            assert_eq!(house.answer(&asked, Some(Route::Redis)).route, None);
            let expected = house.by_sql(&["order_date"], &["order_count"], &asked.conditions, "1");
            assert_eq!(told(&answer), expected);
        }
    }
}

#[test]
fn an_answer_says_what_it_stands_for() {
    let house = house(State::Ready, Policy::Open);
    let asked = ask(&["units"], "", &[]);
    let (redis, base) = (house.answer(&asked, None), house.answer(&asked, Some(Route::Base)));
    let now = driftless::pure::publish::timestamp_text(Some(house.world.clock.wall_ms()));
    for (answer, route) in [(&redis, Route::Redis), (&base, Route::Base)] {
        assert_eq!(answer.route, Some(route));
        assert_eq!((answer.basis.watermark.as_str(), answer.basis.generation.as_str()), ("13", "1"));
        // The base has read all that Redis was confirmed for.
        assert_eq!(answer.basis.as_of, now);
        assert_eq!(answer.warnings, [""; 0]);
    }
    // A change that is committed and not published: each answers for its own state.
    house.append(&[Line("O7", 1, "2026-09-23", "P100", "web", 100, 1, "paid").event(14)]);
    house.read_all();
    let (redis, later) = (house.answer(&asked, None), house.answer(&asked, Some(Route::Base)));
    assert_eq!((redis.route, redis.basis.watermark.as_str()), (Some(Route::Redis), "13"));
    assert_eq!((later.basis.watermark.as_str(), later.basis.version > base.basis.version), ("14", true));
    assert_ne!(told(&redis), told(&later));
    // What nobody can vouch for is said.
    house.world.clock.advance(1_000_000);
    let answer = house.answer(&asked, None);
    assert_eq!(answer.route, Some(Route::Base));
    assert!(answer.warnings[0].contains("at most 900 s old is not known"), "{:?}", answer.warnings);
}

#[test]
fn a_deprecated_measure_is_answered_with_a_warning() {
    let mut document: Value = serde_json::from_str(&contract(&[])).expect("a contract");
    let plain = house(State::Ready, Policy::Open);
    document["deprecated"] =
        json!({"cost_cents": {"since": "2026-11-01", "use": "profit_cents", "why": "moved"}});
    let events: Vec<Value> = LINES.iter().zip(1..).map(|(line, seq)| line.event(seq)).collect();
    let house = House::ready(&document.to_string(), &events);
    let hashes = |house: &House| {
        let view = &house.world.catalog.views[0].view;
        (view.contract_hash.clone(), view.definition_hash.clone())
    };
    assert_eq!(hashes(&house), hashes(&plain), "the numbers stay what they are");
    let answer = house.answer(&ask(&["cost_cents", "units"], "", &[]), None);
    assert_eq!(answer.route, Some(Route::Redis));
    assert_eq!(answer.warnings, ["cost_cents is deprecated since 2026-11-01; use profit_cents (moved)"]);
    assert_eq!(house.answer(&ask(&["units"], "", &[]), None).warnings, [""; 0]);
}
