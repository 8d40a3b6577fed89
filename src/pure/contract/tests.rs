//! Tests of compiling contracts: the shipped view, the guide, what is understood, what the hashes cover.

mod refusals;

use serde_json::{Value as Json, json};

use super::*;
use crate::pure::schema::Column;

const SHIPPED: &str = include_str!("../../../contracts/agg_daily_product.json");
const GUIDE: &str = include_str!("../../../docs/CONTRACTS.md");

fn table(name: &str, columns: &[(&str, ColumnType, bool)], key: &[usize]) -> Table {
    let columns = columns.iter().map(|(name, column_type, nullable)| Column {
        name: (*name).into(),
        column_type: *column_type,
        nullable: *nullable,
    });
    Table { name: name.into(), columns: columns.collect(), key: key.to_vec() }
}

fn sales() -> Table {
    use ColumnType::{Date, Integer, Text};
    let columns = [
        ("order_id", Text, false),
        ("line_no", Integer, false),
        ("order_date", Date, false),
        ("product_id", Text, false),
        ("customer_id", Text, true),
        ("channel", Text, true),
        ("quantity", Integer, false),
        ("amount_cents", Integer, false),
        ("cost_cents", Integer, false),
        ("status", Text, false),
    ];
    table("fact_sales", &columns, &[0, 1])
}

fn trips() -> Table {
    use ColumnType::{Date, Integer, Text};
    let columns = [
        ("trip", Integer, false),
        ("day", Date, false),
        ("zone", Text, true),
        ("fare", Integer, true),
        ("tip", Integer, true),
        ("state", Text, false),
        ("odd\"name; --", Integer, false),
    ];
    table("trips", &columns, &[0])
}

fn trips_document() -> Json {
    json!({
        "object": "trips_by_zone",
        "base": "trips",
        "metric_contract": {
            "filters": ["state = done"],
            "measures": { "trips": "count(*)", "fares": "sum(fare + tip * 2)" },
            "aggregate_grain": ["day", "zone"],
        },
        "refresh": { "freshness_slo_seconds": 60 },
    })
}

fn compile(document: &Json) -> Result<View, ContractError> {
    View::compile(&document.to_string(), "contracts/t.json", &[sales(), trips()])
}

/// The document with the value at a JSON pointer replaced or added.
fn with(pointer: &str, value: Json) -> Json {
    let mut document = trips_document();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Json::Object(fields) => {
            fields.insert(name.to_owned(), value);
        }
        _ => panic!("{parent} is no object"),
    }
    document
}

fn with_measure(text: &str) -> Json {
    with("/metric_contract/measures/trips", text.into())
}

fn with_filter(text: &str) -> Json {
    with("/metric_contract/filters", json!([text]))
}

fn aggregate(text: &str) -> Result<Aggregate, ContractError> {
    compile(&with_measure(text)).map(|view| view.measures[0].aggregate.clone())
}

fn filters(text: &str) -> Result<Vec<Filter>, ContractError> {
    compile(&with_filter(text)).map(|view| view.filters)
}

fn filter(column: usize, operator: Operator, literal: impl Into<Value>) -> Filter {
    Filter { column, comparison: Comparison::With(operator, literal.into()) }
}

#[test]
fn the_shipped_view_has_the_agreed_contract_hash() {
    let view = View::compile(SHIPPED, "contracts/agg_daily_product.json", &[sales()]).unwrap();
    assert_eq!(view.contract_hash, "9a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747");
    assert_eq!(
        view.columns(),
        ["line_count", "order_count", "units", "gmv_cents", "cost_cents", "profit_cents"]
    );
    let additive: Vec<bool> = view.measures.iter().map(|measure| measure.additive).collect();
    assert_eq!(additive, [true, false, true, true, true, true]);
    assert_eq!(view.filters, [filter(9, Operator::Equal, "paid")]);
    assert_eq!(view.grain_types(), [ColumnType::Date, ColumnType::Text]);
    assert_eq!(view.freshness_slo_seconds, 900);
    assert_eq!(view.measures[1].aggregate, Aggregate::CountDistinct(0));
    let column = |position| Box::new(Expression::Column(position));
    let profit = Expression::Subtract(column(7), column(8));
    assert_eq!(view.measures[5].aggregate, Aggregate::Sum(profit));
}

#[test]
fn the_guide_compiles_as_written() {
    let blocks: Vec<&str> = GUIDE
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| block.contains("\"object\""))
        .collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let compiled = View::compile(block, "docs/CONTRACTS.md", &[sales(), trips()]);
        assert!(compiled.is_ok(), "{}", compiled.unwrap_err());
    }
}

#[test]
fn row_values_decide_group_and_admission() {
    let view = compile(&with("/policy", json!({ "row_filter": "zone is not null and fare >= -5" }))).unwrap();
    let row = |zone: Value, fare: Value, state: &str| {
        [1.into(), "2026-01-02".into(), zone, fare, Value::Null, state.into(), 0.into()]
    };
    let admitted = row("a:b".into(), (-5).into(), "done");
    assert!(view.admits(&admitted));
    assert_eq!(view.group_key(&admitted).as_str(), "2026-01-02:a%3Ab");
    assert!(!view.admits(&row(Value::Null, 1.into(), "done")));
    assert!(!view.admits(&row("a".into(), Value::Null, "done")));
    assert!(!view.admits(&row("a".into(), (-6).into(), "done")));
    assert!(!view.admits(&row("a".into(), 1.into(), "Done")));
    assert_eq!(view.group_key(&row(Value::Null, 1.into(), "")).as_str(), "2026-01-02:%~");
}

#[test]
fn measures_are_understood() {
    let column = |position| Box::new(Expression::Column(position));
    assert_eq!(aggregate("COUNT( * )").unwrap(), Aggregate::CountRows);
    assert_eq!(aggregate("count(zone)").unwrap(), Aggregate::Count(*column(2)));
    assert_eq!(aggregate("count(distinct zone)").unwrap(), Aggregate::CountDistinct(2));
    assert_eq!(
        aggregate("min(-(fare - 2) * tip)").unwrap(),
        Aggregate::Min(Expression::Multiply(
            Box::new(Expression::Negate(Box::new(Expression::Subtract(
                column(3),
                Box::new(Expression::Literal(2))
            )))),
            column(4)
        ))
    );
    assert_eq!(
        aggregate("max(-9223372036854775808)").unwrap(),
        Aggregate::Max(Expression::Literal(i64::MIN))
    );
    assert_eq!(aggregate("sum(\"odd\"\"name; --\")").unwrap(), Aggregate::Sum(*column(6)));
}

#[test]
fn filters_are_understood() {
    assert_eq!(
        filters("(state != 'it''s; -- /* no */') AND fare >= -3 and tip is not null and zone is null")
            .unwrap(),
        [
            filter(5, Operator::NotEqual, "it's; -- /* no */"),
            filter(3, Operator::GreaterOrEqual, -3),
            Filter { column: 4, comparison: Comparison::IsNotNull },
            Filter { column: 2, comparison: Comparison::IsNull },
        ]
    );
    assert_eq!(
        filters("day < '2026-02-28' and state <> ''").unwrap(),
        [filter(1, Operator::Less, "2026-02-28"), filter(5, Operator::NotEqual, "")]
    );
    assert_eq!(filters("state == done").unwrap(), [filter(5, Operator::Equal, "done")]);
}

#[test]
fn the_contract_hash_is_of_the_meaning_and_the_definition_hash_of_all_that_is_published() {
    let plain = compile(&trips_document()).unwrap();
    let changed = |pointer: &str, value: Json| {
        let view = compile(&with(pointer, value)).unwrap();
        (view.contract_hash != plain.contract_hash, view.definition_hash != plain.definition_hash)
    };
    assert_eq!(changed("/metric_contract/filters", json!([])), (true, true));
    assert_eq!(changed("/metric_contract/currency", json!("cents")), (true, true));
    assert_eq!(changed("/columns", json!({ "trips": "n" })), (false, true));
    assert_eq!(changed("/policy", json!({ "row_filter": "fare > 0" })), (false, true));
    assert_eq!(changed("/policy", json!({ "minimum_group_lines": 3 })), (false, true));
    assert_eq!(changed("/policy", json!({ "roles": ["sales"] })), (false, false));
    assert_eq!(changed("/owner", json!("me")), (false, false));
    assert_eq!(changed("/deprecated", json!({ "fares": { "since": "2026-11-01" } })), (false, false));
    assert_eq!(changed("/refresh", json!({ "freshness_slo_seconds": 1 })), (false, false));
    assert_eq!(changed("/columns", json!({ "trips": "trips" })), (false, false));

    let text = trips_document().to_string();
    let mut other = trips();
    other.columns[3].nullable = false;
    let retyped = View::compile(&text, "t", &[other.clone()]).unwrap();
    assert_ne!(retyped.definition_hash, plain.definition_hash);
    other.columns[3].nullable = true;
    other.columns[6].column_type = ColumnType::Text;
    let unused_retyped = View::compile(&text, "t", &[other]).unwrap();
    assert_eq!(unused_retyped.definition_hash, plain.definition_hash);
}

#[test]
fn a_measure_on_its_way_out_names_a_day_and_another_measure() {
    let of = |word: Json| compile(&with("/deprecated", json!({ "fares": word })));
    let view = of(json!({ "since": "2026-11-01", "use": "trips", "why": "moved" })).unwrap();
    let word = Deprecation { since: "2026-11-01".into(), instead: Some(0), why: Some("moved".into()) };
    assert_eq!(view.deprecated, BTreeMap::from([(1, word)]));
    assert!(compile(&trips_document()).unwrap().deprecated.is_empty());
    for (word, place) in [
        (json!({}), "deprecated.fares.since: this field is required"),
        (json!({ "since": "soon" }), "deprecated.fares.since: \"soon\" is no day"),
        (
            json!({ "since": "2026-11-01", "use": "fares" }),
            "deprecated.fares.use: \"fares\" is no other measure",
        ),
        (json!({ "since": "2026-11-01", "instead": "trips" }), "deprecated.fares.instead: unknown field"),
    ] {
        let error = of(word).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
    let unknown = compile(&with("/deprecated", json!({ "fare": { "since": "2026-11-01" } }))).unwrap_err();
    assert!(
        unknown.to_string().contains("deprecated.fare: unknown field; known here are trips, fares"),
        "{unknown}"
    );
}
