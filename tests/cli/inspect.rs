//! `inspect` on files: what it proposes for each format, that the proposal is a configuration, and what it says where
//! it cannot know.

use std::path::Path;

use crate::place;

fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    folder.join(name).join("messages.jsonl").to_str().unwrap().to_owned()
}

/// The proposal for a file, as JSON.
#[track_caller]
fn proposal(arguments: &[&str], code: i32) -> serde_json::Value {
    let installation = place::installation();
    let mut all = vec!["inspect", "--format", "json"];
    all.extend(arguments);
    installation.run(&all).expect(code).json()
}

#[test]
fn every_format_is_recognised_and_the_proposal_reads_every_message_of_the_sample() {
    for (name, format, settings) in [
        ("native", "native", &["watermark = \"dense\"", "line_no = { header = \"line-no\" }"][..]),
        ("debezium", "debezium", &["source_table = \"public.order_lines\"", "shared_seq = true"]),
        ("debezium_plain", "debezium", &["order_date = { as = \"days\" }"]),
        ("debezium_mysql", "debezium", &["source_table = \"shop.order_lines\""]),
        ("debezium_sqlserver", "debezium", &["source_table = \"dbo.order_lines\""]),
        ("debezium_unwrapped", "debezium_unwrapped", &["deletes = \"rewrite\"", "watermark = \"sparse\""]),
        ("upsert", "upsert", &["watermark = \"offsets\"", "amount = { as = \"decimal\", scale = 2 }"]),
        ("maxwell", "maxwell", &["source_table = \"shop.order_lines\"", "watermark = \"sparse\""]),
        ("canal", "canal", &["watermark = \"offsets\"", "line_no = \"integer\""]),
    ] {
        let answer = proposal(&[&recorded(name)], 0);
        assert_eq!(answer["format"], format, "{name}");
        assert_eq!(answer["tried"]["dead_letters"], 0, "{name}");
        let toml = answer["toml"].as_str().unwrap();
        assert!(toml.contains("primary_key = [\"order_id\", \"line_no\"]"), "{name}:\n{toml}");
        for setting in settings {
            assert!(toml.contains(setting), "{name}: {setting} is not in\n{toml}");
        }
    }
}

#[test]
fn the_proposal_is_a_configuration_that_a_contract_compiles_against() {
    let answer = proposal(&[&recorded("debezium")], 0);
    let installation = place::installation();
    let toml = answer["toml"].as_str().unwrap();
    installation.write("proposed.toml", format!("contracts = [\"orders.json\"]\n{toml}"));
    installation.write(
        "orders.json",
        r#"{"object": "orders", "base": "order_lines", "metric_contract": {"grain": "one line", "filters": [],
            "measures": {"lines": "count(*)", "amount": "sum(amount)"}, "aggregate_grain": ["order_date"]},
            "refresh": {"mode": "incremental-partition-recompute", "freshness_slo_seconds": 900}, "owner": "tests"}"#,
    );
    installation
        .run(&["contract", "check", "orders.json", "--config", "proposed.toml"])
        .expect(0)
        .says(&["fine"]);
}

#[test]
fn what_the_sample_leaves_open_is_named() {
    for (arguments, says) in [
        (&[recorded("debezium_plain")][..], "order_date: numbers from 20717 to 20722"),
        (&[recorded("debezium_unwrapped")], "amount: text that is always base64"),
        (
            &[recorded("debezium_plain"), "--topic".into(), "shop.public.odds".into()],
            "big is missing in 2 of 18 rows",
        ),
        (&[recorded("maxwell")], "other tables, whose records will be counted as control: shop.customers"),
        (&[recorded("native")], "only the writer of the log can promise it"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let unsure = proposal(&arguments, 0)["unsure"].to_string();
        assert!(unsure.contains(says), "{says} is not in {unsure}");
    }
}

#[test]
fn files_that_hold_no_rows_are_answered_with_no() {
    let installation = place::installation();
    for (text, says) in [
        ("not json at all\nnor this\n", "no JSON objects"),
        ("{\"ts_ms\":1}\n", "no message of the sample is a change"),
        ("{\"key\":null,\"value\":null}\n", "no message of the sample is a change"),
        ("\u{0}\u{0}\u{0}\u{0}\u{1}abc\n", "schema registry"),
    ] {
        installation.write("sample.jsonl", text);
        installation.run(&["inspect", "sample.jsonl"]).expect(1).says(&[says]);
    }
    // Values alone, without keys: a proposal, and the missing key is said.
    installation.write("sample.jsonl", "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":null}\n");
    installation.run(&["inspect", "sample.jsonl"]).expect(1).says(&[
        "missing_key",
        "name = \"text?\"",
        "primary key:",
    ]);
    installation.write("empty.jsonl", "");
    installation.run(&["inspect", "empty.jsonl"]).expect(2).says(&["is empty"]);
}
