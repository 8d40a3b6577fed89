//! `driftless contract`: the verdict is the exit code, and the hash is the published one.

use serde_json::Value;

use crate::place;

const HASH: &str = "9a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747";

#[test]
fn the_shipped_contract_is_fine_and_has_its_published_hash() {
    let installation = place::installation();
    let run = |action: &str, format: &str| {
        installation.run(&["contract", action, "agg_daily_product.json", "--format", format]).expect(0)
    };
    run("check", "text").says(&["agg_daily_product.json: fine", "fact_sales"]);
    assert_eq!(run("check", "json").json()["ok"], true);
    assert_eq!(run("hash", "text").out.trim(), HASH);
    assert_eq!(run("hash", "json").json()["contract_hash"], HASH);
    run("show", "text").says(&[HASH, "order_count", "never added", "(order_date, product_id)"]);
    let shown = run("show", "json").json();
    assert_eq!(shown["grain"], serde_json::json!(["order_date", "product_id"]));
    assert_eq!(shown["freshness_slo_seconds"], 900);
    assert!(!installation.path("base.db").exists(), "looking at a contract makes no base");
}

#[test]
fn a_wrong_contract_is_a_no_that_names_the_place() {
    let installation = place::installation();
    for (from, to, place) in [
        ("sum(quantity)", "sum(quantities)", "metric_contract.measures.units"),
        ("sum(quantity)", "total(quantity)", "metric_contract.measures.units"),
        ("status = paid", "status paid", "metric_contract.filters"),
        ("\"product_id\"]", "\"product\"]", "metric_contract.aggregate_grain"),
        ("\"fact_sales\",", "\"fact_nothing\",", "fact_nothing"),
        ("\"refresh\"", "\"refreshment\"", "refresh"),
        ("\"USD cents\"", "\"USD cents", "line"),
    ] {
        let text = driftless::example::CONTRACT.replacen(from, to, 1);
        assert_ne!(text, driftless::example::CONTRACT);
        installation.write("draft.json", text);
        installation.run(&["contract", "check", "draft.json"]).expect(1).says(&["draft.json", place]);
        let answer: Value =
            installation.run(&["contract", "check", "draft.json", "--format", "json"]).expect(1).json();
        assert_eq!(answer["ok"], false);
        assert!(answer["error"].as_str().unwrap().contains(place), "{answer}");
    }
    installation.run(&["contract", "check", "nothing.json"]).expect(2).says(&["nothing.json"]);
}

#[test]
fn a_configured_contract_that_went_wrong_can_be_checked_as_well() {
    let installation = place::installation();
    let text = driftless::example::CONTRACT.replace("sum(quantity)", "sum(quantities)");
    installation.write("agg_daily_product.json", text);
    installation
        .run(&["contract", "check", "agg_daily_product.json"])
        .expect(1)
        .says(&["agg_daily_product.json", "metric_contract.measures.units"]);
}
