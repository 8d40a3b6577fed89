//! Random rows, policies, views and questions: whatever Redis answers is what the base answers, and both are what a
//! fold over the rows gives that knows nothing of either; what the base denies, Redis denies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use driftless::config::{Config, ContractText, Overrides, catalog_of};
use driftless::pipeline::route::{Answer, Ports, answer};
use driftless::ports::Clock;
use driftless::pure::base::{Action, ReconcileRun, ReconcileVerdict};
use driftless::pure::query::Ask;
use driftless::pure::route::Route;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::house::{SETTINGS, Told, told};
use crate::support::world::World;

const CONFIGURATION: &str = r#"
contracts = []
[[table]]
name = "trips"
primary_key = ["id"]
[table.columns]
id = "integer"
day = "date?"
zone = "text?"
n = "integer"
state = "text"
fare = "integer?"
tip = "integer"
[[topic]]
name = "sales.changes"
table = "trips"
format = "native"
watermark = "dense"
"#;

const DAYS: [&str; 3] = ["2026-01-01", "2026-01-02", "2026-02-01"];
const ZONES: [&str; 6] = ["a", "a:b", "", "A", "é%", "b"];
const NUMBERS: [i64; 4] = [-12, 0, 2, 10];
const STATES: [&str; 3] = ["done", "done", "open"];
const GRAINS: [&[&str]; 5] = [&["day", "zone"], &["zone", "day", "n"], &["n"], &["zone"], &["day", "n"]];
const MEASURES: [(&str, &str); 8] = [
    ("rows", "count(*)"),
    ("fares", "sum(fare)"),
    ("paid", "count(fare)"),
    ("zones", "count(distinct zone)"),
    ("least", "min(fare)"),
    ("most", "max(fare)"),
    ("income", "sum(fare * 3 + tip)"),
    ("tips", "sum(tip)"),
];
const OPERATORS: [&str; 11] =
    ["=", "=", "!=", "<", "<=", ">", ">=", "in", "between", "is null", "is not null"];
const COLUMNS: [&str; 6] = ["day", "zone", "n", "fare", "tip", "state"];

type Row = BTreeMap<&'static str, Value>;

/// A test of one column, in both languages.
#[derive(Clone, Debug)]
struct Term {
    column: &'static str,
    operator: &'static str,
    values: Vec<Value>,
}

impl Term {
    fn text(&self) -> String {
        let literal = |value: &Value| match value {
            Value::String(text) => format!("'{text}'"),
            other => other.to_string(),
        };
        let column = self.column;
        match self.operator {
            "is null" | "is not null" => format!("{column} {}", self.operator),
            "in" => {
                format!("{column} in ({})", self.values.iter().map(literal).collect::<Vec<_>>().join(", "))
            }
            "between" => {
                format!("{column} between {} and {}", literal(&self.values[0]), literal(&self.values[1]))
            }
            operator => format!("{column} {operator} {}", literal(&self.values[0])),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        let value = &row[self.column];
        match self.operator {
            "is null" => return value.is_null(),
            "is not null" => return !value.is_null(),
            _ if value.is_null() => return false,
            "in" => return self.values.contains(value),
            "between" => return !below(value, &self.values[0]) && !below(&self.values[1], value),
            _ => {}
        }
        let other = &self.values[0];
        match self.operator {
            "=" => value == other,
            "!=" => value != other,
            "<" => below(value, other),
            "<=" => !below(other, value),
            ">" => below(other, value),
            _ => !below(value, other),
        }
    }
}

fn below(left: &Value, right: &Value) -> bool {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left < right,
        _ => left.as_str().expect("text").as_bytes() < right.as_str().expect("text").as_bytes(),
    }
}

fn value_of(column: &'static str) -> BoxedStrategy<Value> {
    match column {
        "day" => prop::sample::select(&DAYS[..]).prop_map(Value::from).boxed(),
        "zone" => prop::sample::select(&ZONES[..]).prop_map(Value::from).boxed(),
        "n" => prop::sample::select(&NUMBERS[..]).prop_map(Value::from).boxed(),
        "state" => prop::sample::select(&STATES[..]).prop_map(Value::from).boxed(),
        _ => (-3_i64..3).prop_map(Value::from).boxed(),
    }
}

fn term(columns: &'static [&'static str]) -> impl Strategy<Value = Term> {
    (prop::sample::select(columns), prop::sample::select(&OPERATORS[..])).prop_flat_map(
        |(column, operator)| {
            prop::collection::vec(value_of(column), 2..4).prop_map(move |values| Term {
                column,
                operator,
                values,
            })
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let or_null = |column| prop_oneof![5 => value_of(column), 1 => Just(Value::Null)];
    let fare = prop_oneof![
        20 => (-3_i64..1_000).prop_map(Value::from),
        3 => Just(Value::Null),
        1 => Just(Value::from(i64::MAX)),
        1 => Just(Value::from(i64::MIN)),
    ];
    (or_null("day"), or_null("zone"), value_of("n"), value_of("state"), fare, -3_i64..3).prop_map(
        |(day, zone, n, state, fare, tip)| {
            BTreeMap::from([
                ("day", day),
                ("zone", zone),
                ("n", n),
                ("state", state),
                ("fare", fare),
                ("tip", tip.into()),
            ])
        },
    )
}

/// A view: its grain and its policy.
#[derive(Clone, Debug)]
struct Drawn {
    grain: &'static [&'static str],
    row_filter: Option<Term>,
    lines_min: usize,
    roles: bool,
}

fn view() -> impl Strategy<Value = Drawn> {
    let filter = prop::option::weighted(
        0.3,
        term(&["n", "tip"])
            .prop_filter("as contracts have it", |term| !matches!(term.operator, "in" | "between")),
    );
    (
        prop::sample::select(&GRAINS[..]),
        filter,
        prop_oneof![3 => Just(1_usize), 1 => Just(2), 1 => Just(3)],
        any::<bool>(),
    )
        .prop_map(|(grain, row_filter, lines_min, roles)| Drawn { grain, row_filter, lines_min, roles })
}

/// A question: measures, terms, grouping, role.
type Question = (Vec<(&'static str, &'static str)>, Vec<Term>, Vec<&'static str>, Option<&'static str>);

fn question() -> impl Strategy<Value = Question> {
    let additive: Vec<_> =
        MEASURES.into_iter().filter(|(name, _)| !["zones", "least", "most"].contains(name)).collect();
    let measures = prop_oneof![
        2 => prop::sample::subsequence(additive, 1..4),
        1 => prop::sample::subsequence(&MEASURES[..], 1..4),
    ];
    let terms = prop_oneof![
        3 => prop::collection::vec(term(&["day", "zone", "n"]), 0..4),
        1 => prop::collection::vec(term(&COLUMNS), 0..3),
    ];
    let group_by = prop_oneof![
        4 => prop::sample::subsequence(vec!["day", "zone", "n"], 0..=3),
        1 => prop::sample::subsequence(vec!["day", "zone", "n", "tip"], 0..4),
    ];
    let role = prop_oneof![4 => Just(Some("sales")), 1 => Just(None), 1 => Just(Some("ops"))];
    (measures, terms, group_by.prop_shuffle(), role)
}

/// A view, its rows, and questions of which most keep to its grain.
fn setting() -> impl Strategy<Value = (Drawn, Vec<Row>, Vec<Question>)> {
    let questions = prop::collection::vec((question(), prop::bool::weighted(0.7)), 12);
    (view(), prop::collection::vec(row(), 0..40), questions).prop_map(|(drawn, rows, questions)| {
        let inside = |column: &str| drawn.grain.contains(&column);
        let fit = |((measures, mut terms, mut group_by, role), keeps): (Question, bool)| {
            terms.retain(|term| !keeps || inside(term.column));
            group_by.retain(|column| !keeps || inside(column));
            (measures, terms, group_by, role)
        };
        let questions = questions.into_iter().map(fit).collect();
        (drawn, rows, questions)
    })
}

fn contract(drawn: &Drawn) -> Value {
    let measures: serde_json::Map<String, Value> =
        MEASURES.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
    json!({
        "object": "agg_daily_product", "base": "trips",
        "metric_contract": {
            "filters": ["state = 'done'"], "measures": measures, "aggregate_grain": drawn.grain,
        },
        "refresh": {"freshness_slo_seconds": 60},
        "policy": {
            "row_filter": drawn.row_filter.as_ref().map(Term::text),
            "minimum_group_lines": drawn.lines_min,
            "roles": if drawn.roles { json!(["sales"]) } else { json!(["*"]) },
        },
    })
}

/// What the question comes to, by a fold over the rows that the policy lets be seen; `None` is a denial.
fn fold(drawn: &Drawn, rows: &[Row], question: &Question) -> Option<Told> {
    let (measures, terms, group_by, role) = question;
    let inside = |column: &str| drawn.grain.contains(&column);
    let redundant = |term: &Term| term.column == "state" && term.operator == "=" && term.values[0] == "done";
    let divides = group_by.iter().any(|column| !inside(column))
        || terms.iter().any(|term| !inside(term.column) && !redundant(term) && !is_row_filter(drawn, term));
    if drawn.roles && *role != Some("sales") || drawn.lines_min > 1 && divides {
        return None;
    }
    let of_view = |row: &&Row| {
        row["state"] == "done" && drawn.row_filter.as_ref().is_none_or(|filter| filter.holds(row))
    };
    let grain = |row: &Row| -> Vec<String> { drawn.grain.iter().map(|name| row[name].to_string()).collect() };
    let mut lines: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    rows.iter().filter(of_view).for_each(|row| *lines.entry(grain(row)).or_default() += 1);
    let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(of_view) {
        if lines[&grain(row)] >= drawn.lines_min && terms.iter().all(|term| term.holds(row)) {
            let key = group_by.iter().map(|name| shown(&row[name])).collect();
            groups.entry(key).or_default().push(row);
        }
    }
    Some(groups.into_iter().map(|(key, rows)| (key, numbers(measures, &rows))).collect())
}

/// A condition that is word for word the policy's filter says nothing new.
fn is_row_filter(drawn: &Drawn, term: &Term) -> bool {
    drawn.row_filter.as_ref().is_some_and(|filter| filter.text() == term.text())
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn numbers(measures: &[(&str, &str)], rows: &[&Row]) -> Vec<String> {
    let fares = || rows.iter().filter_map(|row| row["fare"].as_i64().map(i128::from));
    let tip = |row: &Row| i128::from(row["tip"].as_i64().expect("a tip"));
    let sum = |terms: Vec<i128>| (!terms.is_empty()).then(|| terms.iter().sum::<i128>());
    let number = |name: &str| -> Option<i128> {
        match name {
            "rows" => Some(rows.len() as i128),
            "fares" => sum(fares().collect()),
            "paid" => Some(fares().count() as i128),
            "zones" => {
                let zones: BTreeSet<&str> = rows.iter().filter_map(|row| row["zone"].as_str()).collect();
                Some(zones.len() as i128)
            }
            "least" => fares().min(),
            "most" => fares().max(),
            "income" => {
                let paid = rows.iter().filter_map(|row| Some((row["fare"].as_i64()?, tip(row))));
                sum(paid.map(|(fare, tip)| i128::from(fare) * 3 + tip).collect())
            }
            "tips" => sum(rows.iter().map(|row| tip(row)).collect()),
            other => panic!("{other}"),
        }
    };
    let all: Vec<Option<i128>> = measures.iter().map(|(name, _)| number(name)).collect();
    if all.iter().flatten().any(|number| i64::try_from(*number).is_err()) {
        return vec!["overflow".to_owned()];
    }
    all.iter().map(|number| number.map_or_else(|| "null".to_owned(), |number| number.to_string())).collect()
}

fn world(drawn: &Drawn, rows: &[Row]) -> World {
    let config = Config::parse(CONFIGURATION, "t.toml".into(), ".".into(), &Overrides::default());
    let text = ContractText { text: contract(drawn).to_string(), place: "t.json".to_owned() };
    let catalog = catalog_of(&config.expect("a configuration"), &[text]);
    let world = World::with_catalog(Arc::new(catalog.expect("a contract")), 1);
    for (row, seq) in rows.iter().zip(1_i64..) {
        let mut fields = json!(row);
        fields["id"] = seq.into();
        world.append(0, &json!({"event_id": "e", "source_seq": seq, "op": "I", "id": seq, "row": fields}));
    }
    let now_ms = world.clock.wall_ms();
    let run = ReconcileRun {
        started_ms: now_ms,
        ended_ms: now_ms,
        version: 1,
        watermark: String::new(),
        verdict: ReconcileVerdict::InSync,
        whole: true,
        report: json!({}),
    };
    world.run(|running| {
        running.ingest_all();
        let letters = running.letters();
        assert!(letters.is_empty(), "{letters:?}");
        running.request(&Action::RecordReconcile { view: "agg_daily_product".to_owned(), run });
        running.probe();
        running.publish_all();
    });
    world
}

fn answer_by(world: &World, question: &Question, forced: Option<Route>) -> Answer {
    let (measures, terms, group_by, role) = question;
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<&str> = measures.iter().map(|(name, _)| *name).collect();
    let ask = Ask {
        measures: owned(&names),
        conditions: terms.iter().map(Term::text).collect::<Vec<_>>().join(" and "),
        group_by: owned(group_by),
        role: role.map(str::to_owned),
        ..Ask::default()
    };
    let catalog = &world.catalog;
    let query = ask.check(&catalog.views[0].view, &catalog.tables[0].shape).expect("a question");
    let settings = world.base_settings("first");
    let mut base = driftless::io::sqlite::SqliteReader::open(&settings, catalog).expect("the base");
    let mut store = world.store.clone();
    let mut ports = Ports { base: &mut base, store: &mut store, clock: &*world.clock };
    answer(&mut ports, catalog, 0, &query, forced, &SETTINGS, None).expect("an answer or a refusal")
}

fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(64))]
    #[test]
    fn both_routes_give_what_the_rows_give_and_redis_never_what_the_base_denies(
        (drawn, rows, questions) in setting(),
    ) {
        let world = world(&drawn, &rows);
        for question in &questions {
            let expected = fold(&drawn, &rows, question);
            let by = |route| answer_by(&world, question, route);
            let (free, base, redis) = (by(None), by(Some(Route::Base)), by(Some(Route::Redis)));
            prop_assert_eq!(base.route.is_some(), expected.is_some(), "{:?}", base.decision);
            let Some(expected) = expected else {
                prop_assert_eq!((free.route, redis.route), (None, None));
                prop_assert!(free.rows.is_empty() && redis.rows.is_empty() && base.rows.is_empty());
                continue;
            };
            prop_assert_eq!(&told(&base), &expected, "the base: {:?}", question);
            prop_assert_eq!(&told(&free), &expected, "{:?}: {:?}", free.route, question);
            if redis.route.is_some() {
                prop_assert_eq!(&told(&redis), &expected, "Redis: {:?}", question);
                prop_assert_eq!(free.route, Some(Route::Redis));
            } else {
                prop_assert!(redis.rows.is_empty());
            }
        }
    }
}

#[test]
fn the_questions_that_are_drawn_reach_both_routes() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut redis, mut base, mut denied) = (0, 0, 0);
    for _ in 0..20 {
        let (drawn, rows, questions) = setting().new_tree(&mut runner).expect("a setting").current();
        let world = world(&drawn, &rows);
        for question in &questions {
            match answer_by(&world, question, None).route {
                Some(Route::Redis) => redis += 1,
                Some(Route::Base) => base += 1,
                None => denied += 1,
            }
        }
    }
    assert!(redis > 30 && base > 30 && denied > 10, "redis {redis}, base {base}, denied {denied}");
}
