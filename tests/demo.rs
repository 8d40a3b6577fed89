//! The demo and the acceptance as a person starts them: the built program, embedded servers, and the figures of
//! the example. A Redis of the user's keeps what is its own.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use driftless::io::redis::{PrivateRedis, PrivateRedisOptions};
use serde_json::{Value, json};

/// The program, without what this machine's environment would configure; only the server to start privately stays.
fn driftless(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driftless"));
    let ours = |name: &str| name.starts_with("DRIFTLESS_") && name != "DRIFTLESS_REDIS_SERVER";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn json_of(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON: {error}; {errors}"))
}

#[test]
fn the_demo_tells_how_one_dirty_group_is_refreshed() {
    let output = driftless(&["demo", "--once", "--format", "json"]).output().expect("it starts");
    let demo = json_of(&output);
    let steps = demo["steps"].as_array().expect("a list of steps");
    let of = |path: &str| -> Vec<&Value> {
        steps.iter().map(|step| step.pointer(path).unwrap_or(&Value::Null)).collect()
    };
    assert_eq!(of("/stage"), ["canonical", "stale", "refreshed", "rerun"]);
    assert_eq!(of("/status"), ["fresh", "stale", "fresh", "fresh"]);
    assert_eq!(of("/base/controls/gmv_usd"), [740, 820, 820, 820]);
    assert_eq!(of("/redis/controls/gmv_usd"), [740, 740, 820, 820]);
    assert_eq!(of("/staleness_gap_usd"), [0, 80, 0, 0]);
    assert_eq!(of("/redis/watermark"), [206, 206, 207, 207]);
    assert_eq!(of("/events/applied"), [9, 1, 0, 0]);
    assert_eq!(of("/events/duplicate"), [0, 0, 0, 10]);
    let group = json!([["2026-09-22", "P100"]]);
    assert_eq!(of("/pending_dirty_keys"), [&json!([]), &group, &json!([]), &json!([])]);
    assert_eq!(of("/dirty_keys_recomputed")[1..], [&json!([]), &group, &json!([])]);
    assert_eq!(of("/redis/sha256")[2], of("/redis/sha256")[3]);
}

#[test]
fn the_acceptance_finds_every_expected_value() {
    let output = driftless(&["acceptance", "--format", "json"]).output().expect("it starts");
    let evidence = json_of(&output);
    let checks = evidence["checks"].as_array().expect("a list of checks");
    assert!(checks.len() > 150, "{}", checks.len());
    assert!(checks.iter().all(|check| check["ok"] == true), "{checks:?}");
    for (path, expected) in [
        (
            "/stages/0/sha256/agg_daily_product",
            "10655f4e0b2a14135b0be45dc316ec1c585b22991a0de2a85e7fc9437a14f888",
        ),
        (
            "/stages/3/sha256/agg_daily_product",
            "5cec628fd6d5ad1dbdad0fd78a6c59c65a35a9132ced099d7e47bc5d3e6c6251",
        ),
        ("/semantic_contract_hash", "9a7b963a31b049bbe64a822b6a2dd9549f43b2732222cfac29cd600c0bf9a747"),
    ] {
        assert_eq!(evidence.pointer(path), Some(&json!(expected)), "{path}");
    }
    let benchmark = &evidence["benchmark"];
    assert_eq!((&benchmark["fact_rows"], &benchmark["aggregate_rows"]), (&json!(216_000), &json!(731)));
    assert_eq!(benchmark["result_january_2027"], benchmark["result_january_2027_from_view"]);
    for side in ["base", "view"] {
        let time = |name: &str| benchmark["timings_ms"][side][name].as_f64().expect("a time");
        assert!(0.0 < time("min") && time("min") <= time("median") && time("median") <= time("max"));
    }
}

#[test]
fn a_redis_of_the_users_keeps_its_keys_and_gets_no_others() {
    let executable = std::env::var_os("DRIFTLESS_REDIS_SERVER").map(Into::into);
    let server = PrivateRedis::start(PrivateRedisOptions { executable, ..PrivateRedisOptions::default() })
        .expect("this test needs a redis-server");
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_connection().expect("it answers");
    let planted = "driftless:{agg_daily_product}";
    redis::cmd("SET").arg(planted).arg("mine").query::<()>(&mut connection).expect("it is set");
    let output = driftless(&["demo", "--once", "--format", "json"])
        .env("DRIFTLESS_REDIS", server.url())
        .output()
        .expect("it starts");
    let demo = json_of(&output);
    assert_eq!(demo["servers"]["redis"]["server"], "configured");
    assert_eq!(demo["steps"][3]["redis"]["watermark"], 207);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert_eq!(keys, [planted]);
}

#[test]
fn the_shop_goes_on_until_it_is_interrupted() {
    let mut child = driftless(&["demo", "--rate", "100", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    // The status lines are single-line documents behind the story's.
    let status = lines.map_while(Result::ok).filter(|line| line.starts_with("{\"events\""));
    let mut moving = status.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let watermark = |line: &Value| line["watermark"].as_str().and_then(|text| text.parse::<u64>().ok());
    let (first, second) = (moving.next().expect("a line"), moving.next().expect("a second line"));
    assert!(Some(207) < watermark(&first) && watermark(&first) < watermark(&second), "{first} {second}");
    assert!(second["changed_groups"].as_u64() > Some(0), "{second}");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    // Its output ends with it.
    moving.for_each(drop);
    assert!(child.wait().expect("it ends").success());
}
