//! Tests of what is refused: every kind of error with its place, hostile and deep texts.

use proptest::prelude::*;
use serde_json::json;

use super::super::syntax;
use super::*;

#[test]
fn refusals_name_the_place_and_the_remedy() {
    let measure = "metric_contract.measures.trips: ";
    for (text, message) in [
        ("avg(fare)", "avg(...) is not supported; use sum and count"),
        ("median(fare)", "median(...) is not supported; supported are count(*)"),
        ("fare", "is no aggregate"),
        ("sum(*)", "sum(...) does not take *"),
        ("sum(distinct fare)", "sum(...) of distinct values is not supported"),
        ("count(distinct fare + 1)", "takes one column"),
        ("count(distinct fare, tip)", "takes one argument"),
        ("sum(fare) filter (where tip > 0)", "with filter"),
        ("sum(fare) over ()", "with filter, over"),
        ("sum(fare) + 1", "is no aggregate"),
        ("sum(zone)", "column \"zone\" is no integer"),
        ("min(day)", "column \"day\" is no integer"),
        ("sum(fares)", "\"fares\" is no column of trips; its columns are trip, day"),
        ("sum(fare / 2)", "division is not supported"),
        ("sum(fare * 1.5)", "1.5 is no integer of 64 bits"),
        ("sum(9223372036854775808)", "no integer of 64 bits"),
        ("sum(trips.fare)", "is not supported; an expression is made of"),
        ("sum(fare) -- all", "has a comment"),
        ("sum(fare); drop table trips", "unexpected \";\""),
        ("sum(fare", "cannot be read"),
        ("", "cannot be read"),
        ("sum(fa\0re)", "the character NUL"),
        ("sum((select 1))", "is not supported"),
    ] {
        let error = aggregate(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("contracts/t.json: {measure}")), "{error}");
        assert!(error.contains(message), "{text}: {error}");
    }
    let place = "metric_contract.filters.0: ";
    for (text, message) in [
        ("fare = cheap", "column \"fare\" is an integer, and \"cheap\" is none"),
        ("state = 5", "column \"state\" is no integer; write text as '5'"),
        ("day = '2026-02-29'", "is no day written as YYYY-MM-DD"),
        ("day = '2026-1-2'", "is no day"),
        ("day > 2026-01-02", "put text in single quotes"),
        ("state = zone", "two columns cannot be compared"),
        ("state = \"done\"", "\"done\" is no column"),
        ("state = null", "write `state is null`"),
        ("status = done", "\"status\" is no column of trips"),
        ("state = done or fare = 1", "is not supported; a filter is made of"),
        ("not state = done", "is not supported"),
        ("state in ('done')", "is not supported"),
        ("state like 'd%'", "is not supported"),
        ("5 < fare", "a filter has the column on its left"),
        ("fare + 1 = 2", "a filter has the column on its left"),
        ("state = on hold", "text of several words"),
        ("state = was late", "unexpected \"late\""),
        ("state = done -- or not", "has a comment"),
        ("state = done; drop table trips", "unexpected \";\""),
        ("state = 'a\0b'", "the character NUL"),
        ("state = x'00'", "put text in single quotes"),
        ("state = ?1", "put text in single quotes"),
        ("state", "is not supported; a filter"),
    ] {
        let error = filters(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("contracts/t.json: {place}")), "{error}");
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn documents_that_say_too_much_or_too_little_are_refused() {
    for (pointer, value, message) in [
        ("/owners", json!("x"), "owners: unknown field; known here are object, base"),
        ("/policy", json!({ "rows": 1 }), "policy.rows: unknown field; known here are row_filter"),
        ("/refresh", json!({ "slo": 1 }), "refresh.slo: unknown field; known here are mode"),
        ("/refresh", json!({ "mode": "full" }), "refresh.mode: \"full\" is not supported"),
        ("/refresh", json!({}), "refresh.freshness_slo_seconds: this field is required"),
        ("/refresh", json!({ "freshness_slo_seconds": 0 }), "seconds: a whole number from 1"),
        ("/metric_contract/having", json!("x"), "metric_contract.having: unknown field"),
        ("/metric_contract/filters", json!(null), "filters: this field is required; [] stands"),
        ("/metric_contract/filters", json!("a"), "filters: a list is expected here, not text"),
        ("/metric_contract/filters", json!([1]), "filters.0: text is expected here, not a number"),
        ("/metric_contract/measures", json!({}), "measures: at least one measure is needed"),
        ("/metric_contract/measures", json!([]), "measures: an object is expected here, not a list"),
        ("/metric_contract/aggregate_grain", json!([]), "aggregate_grain: at least one column"),
        ("/metric_contract/aggregate_grain", json!(["day", "day"]), "grain.1: \"day\" is given twice"),
        ("/metric_contract/aggregate_grain", json!(["week"]), "grain.0: \"week\" is no column of trips"),
        ("/metric_contract/aggregate_grain", json!([{ "m": "x" }]), "grain.0: text is expected"),
        ("/base", json!("rides"), "base: \"rides\" is no configured table; configured: fact_sales, trips"),
        ("/object", json!("a b"), "object: \"a b\" is no name of a view"),
        ("/object", json!("a}{"), "object: \"a}{\" is no name of a view"),
        ("/object", json!(""), "object: \"\" is no name"),
        ("/columns", json!({ "tripz": "x" }), "columns.tripz: unknown field; known here are trips, fares"),
        ("/columns", json!({ "trips": "fares" }), "\"fares\" is already the name"),
        ("/columns", json!({ "trips": "day" }), "columns.trips: \"day\" is already the name of a grain"),
        ("/columns", json!({ "trips": "_error" }), "columns.trips: \"_error\" cannot be published"),
        ("/columns", json!({ "trips": "" }), "columns.trips: \"\" cannot be published"),
        ("/metric_contract/measures/_x", json!("count(*)"), "measures._x: \"_x\" cannot be published"),
        ("/metric_contract/measures/day", json!("count(*)"), "measures.day: \"day\" is already"),
        ("/late", json!("drop"), "late: \"drop\" is not supported by this version"),
        ("/retention", json!({ "days": 3 }), "retention: not supported by this version"),
        ("/policy", json!({ "row_filter": "a = 1" }), "policy.row_filter: \"a\" is no column"),
        ("/policy", json!({ "minimum_group_lines": -1 }), "policy.minimum_group_lines: a whole"),
        ("/policy", json!({ "roles": "*" }), "policy.roles: a list is expected"),
        ("/consumers", json!([{ "owner": "x" }]), "consumers.0.name: this field is required"),
        ("/lineage", json!([7]), "lineage.0: text is expected here"),
    ] {
        let error = compile(&with(pointer, value)).unwrap_err().to_string();
        assert!(error.starts_with("contracts/t.json: "), "{error}");
        assert!(error.contains(message), "{pointer}: {error}");
    }
    for (text, message) in [
        ("[]", "t.json: an object is expected here, not a list"),
        ("{", "t.json: EOF"),
        (r#"{"policy":{"roles":[],"roles":["*"]}}"#, "policy.roles: this key is given twice"),
        (r#"{"refresh":{"freshness_slo_seconds":1.5}}"#, "seconds: 1.5 is no integer"),
    ] {
        let error = View::compile(text, "t.json", &[]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_deepest_texts_that_are_read_do_not_exhaust_the_stack() {
    let depth_max = syntax::TEXT_BYTES_MAX;
    let chain = format!("sum({})", vec!["1"; depth_max / 2 - 3].join("+"));
    assert!(aggregate(&chain).is_ok());
    for text in [
        format!("sum({})", "-".repeat(depth_max - 10)),
        format!("sum({}1", "(".repeat(depth_max - 10)),
        format!("sum({}1)", "- ".repeat(depth_max / 2 - 10)),
        "sum(1)".repeat(depth_max),
        "x(".repeat(depth_max / 2),
        "case ".repeat(depth_max / 5),
    ] {
        assert!(aggregate(&text).is_err());
        assert!(filters(&text).is_err());
    }
    let chain = vec!["fare=1"; depth_max / 11 - 1].join(" and ");
    assert!(filters(&chain).is_ok());
}

proptest! {
    #[test]
    fn no_text_panics_and_none_reaches_sql_unquoted(
        text in prop_oneof![any::<String>(), "[a-z0-9=<>!'\"`();*+/\\-. \\[\\]?@:$#]{0,30}"]
    ) {
        for document in [with_measure(&text), with_filter(&text), with_filter(&format!("state = {text}"))] {
            let _ = compile(&document);
        }
        // A quoted text that compiles is that text, whatever is in it.
        let quoted = format!("state = '{}'", text.replace('\'', "''"));
        if let Ok(compiled) = filters(&quoted) {
            prop_assert_eq!(compiled, [filter(5, Operator::Equal, text.as_str())]);
        } else {
            prop_assert!(text.contains('\0') || text.len() > syntax::TEXT_BYTES_MAX - 20);
        }
        let _ = View::compile(&text, "t", &[trips()]);
    }
}
