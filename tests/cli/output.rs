//! Answers as JSON, and the exit codes of commands that ask.

use crate::place;

#[test]
fn every_answer_parses_as_json_and_its_exit_code_is_the_verdict() {
    let installation = place::seeded();
    let json = |arguments: &[&str], code: i32| {
        installation.run(&[arguments, &["--format", "json"]].concat()).expect(code).json()
    };
    // Nothing is published, and neither server answers: the view is not fresh.
    let status = json(&["status"], 1);
    assert_eq!(status["views"][0]["fresh"], false);
    assert_eq!(status["tables"][0]["watermark"], "20");
    assert!(status["redis"]["error"].is_string(), "{status}");
    assert_eq!(json(&["status", "--offline"], 1)["lag_error"], "not asked");
    let checksum = json(&["checksum", "--from", "base"], 0);
    assert_eq!(checksum["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(json(&["dlq", "list"], 0), serde_json::json!([]));
    let waived =
        json(&["dlq", "waive", "--table", "fact_sales", "--seq", "21-22", "--why", "never issued"], 0);
    assert_eq!(waived["answer"]["watermark"], "22", "{waived}");
    assert_eq!(json(&["dlq", "waive", "7", "--why", "x"], 1)["done"], false);
    assert_eq!(json(&["dlq", "retry", "7"], 1)["done"], false);
    assert_eq!(json(&["dlq", "retry"], 0)["answer"]["retried"], 0);
    json(&["contract", "check", "agg_daily_product.json"], 0);
    json(&["contract", "hash", "agg_daily_product.json"], 0);
    json(&["contract", "show", "agg_daily_product.json"], 0);
}

#[test]
fn a_redis_that_does_not_answer_is_trouble_for_a_checksum_and_a_no_for_status() {
    let installation = place::seeded();
    installation.run(&["checksum", "--from", "redis"]).expect(2).says(&["error:", "127.0.0.1"]);
    installation.run(&["status"]).expect(1).says(&["base.db", "connect failed"]);
}

#[test]
fn a_view_that_nobody_published_is_told() {
    let installation = place::seeded();
    let redis = crate::redis_server::start_with(&[]);
    let url = format!("redis.url={}", redis.url());
    installation
        .run(&["checksum", "--from", "redis", "--set", &url])
        .expect(2)
        .says(&["not in Redis", "remedy:"]);
    installation.run(&["status", "--set", &url]).expect(1).says(&["not published"]);
}

#[test]
fn a_run_ends_within_ten_seconds_of_a_signal_though_no_server_answers() {
    let installation = place::seeded();
    for (arguments, signal) in [(&["run"][..], "TERM"), (&["run"], "INT"), (&["run", "--once"], "TERM")] {
        let running = installation.start(installation.command(arguments));
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        running.signal(signal);
        let answer = running.wait(std::time::Duration::from_secs(10));
        // What was to be done once was not done.
        let expected = if arguments == ["run"] { 0 } else { 2 };
        answer.expect(expected).says(&["ending"]);
    }
}
