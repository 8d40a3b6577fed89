//! Mistakes in the configuration: one message with place and remedy, exit code 2, before anything is touched.

use crate::installation::{Answer, Installation};
use crate::place::{self, configuration};

/// Every command that reads the configuration.
const COMMANDS: &[&[&str]] = &[
    &["run", "--once"],
    &["status"],
    &["checksum", "--from", "base"],
    &["dlq", "list"],
    &["dlq", "waive", "1", "--why", "x"],
    &["seed", "--table", "fact_sales", "--from", "rows.csv", "--through-seq", "1"],
    &["produce", "rows.jsonl", "--partitions", "1"],
];

/// One message, with a remedy.
#[track_caller]
fn assert_one_message(answer: Answer, says: &[&str]) {
    let answer = answer.expect(2);
    assert_eq!(answer.err.matches("error:").count(), 1, "{}", answer.text());
    assert_eq!(answer.err.matches("remedy:").count(), 1, "{}", answer.text());
    assert_eq!(answer.out, "", "{}", answer.text());
    answer.says(says);
}

/// The configuration is refused by every command, and no file is made.
#[track_caller]
fn assert_refused(installation: &Installation, says: &[&str]) {
    let before = installation.files();
    for command in COMMANDS {
        assert_one_message(installation.run(command), says);
    }
    assert_eq!(installation.files(), before, "nothing was touched");
}

#[track_caller]
fn assert_file_refused(from: &str, to: &str, says: &[&str]) {
    let text = configuration();
    assert!(text.contains(from), "{from} is in the configuration");
    assert_refused(&Installation::new(&text.replacen(from, to, 1)), says);
}

#[test]
fn an_unknown_setting_is_told_with_line_and_column() {
    assert_file_refused("brokers =", "brokrs =", &["driftless.toml", "line 5", "column 1", "brokrs"]);
    assert_file_refused("[redis]", "[rediss]", &["driftless.toml", "rediss"]);
    assert_file_refused("watermark = \"dense\"", "watermark = \"dense\"\nfirst = 1", &["first", "line 32"]);
}

#[test]
fn a_wrong_type_is_told_with_its_line() {
    assert_file_refused("connect_timeout_ms = 300", "connect_timeout_ms = \"soon\"", &["line 8", "soon"]);
    assert_file_refused("path = \"base.db\"", "path = [1]", &["driftless.toml", "line 3"]);
    assert_file_refused("contracts = [", "contracts = = [", &["driftless.toml", "line 1"]);
    assert_file_refused("watermark = \"dense\"", "watermark = \"thick\"", &["thick", "append_ordered"]);
    assert_file_refused("watermark = \"dense\"", "", &["driftless.toml", "watermark"]);
    assert_file_refused("line_no = \"integer\"", "line_no = \"number\"", &["columns.line_no", "\"number\""]);
}

#[test]
fn tables_and_topics_must_fit_together() {
    assert_file_refused("table = \"fact_sales\"", "table = \"fact_salez\"", &["fact_sales"]);
    assert_file_refused(
        "watermark = \"dense\"\n",
        "watermark = \"dense\"\n[[topic]]\nname = \"more\"\ntable = \"nothing\"\nformat = \"native\"\nwatermark = \"dense\"\n",
        &["topic more", "table nothing is not configured"],
    );
    assert_file_refused(
        "watermark = \"dense\"\n",
        "watermark = \"dense\"\n[[topic]]\nname = \"more\"\ntable = \"fact_sales\"\nformat = \"native\"\nwatermark = \"sparse\"\n",
        &["topic more", "sales.changes", "same watermark"],
    );
    assert_file_refused(
        "watermark = \"dense\"\n",
        "watermark = \"dense\"\n[[topic]]\nname = \"sales.changes\"\ntable = \"fact_sales\"\nformat = \"native\"\nwatermark = \"dense\"\n",
        &["topic sales.changes", "twice"],
    );
    assert_file_refused(
        "watermark = \"dense\"",
        "watermark = \"sparse\"\nfirst_seq = 5",
        &["first_seq", "dense"],
    );
    assert_file_refused(
        "primary_key = [\"order_id\"",
        "primary_key = [\"order\"",
        &["primary_key", "no column"],
    );
}

#[test]
fn numbers_outside_their_limits_are_told_with_them() {
    assert_file_refused(
        "connect_timeout_ms = 300",
        "connect_timeout_ms = 0",
        &["driftless.toml: redis.connect_timeout_ms", "from 1 to 600000"],
    );
    assert_file_refused("[kafka]\n", "[kafka]\nqueued_kib = 63\n", &["kafka.queued_kib", "from 64"]);
    assert_file_refused("[kafka]\n", "[kafka]\nqueued_kib = -1\n", &["driftless.toml", "line 5"]);
    assert_file_refused("[base]\n", "[base]\ngeneration = \"\"\n", &["base.generation", "1 to 64"]);
}

#[test]
fn contracts_must_be_there_once_and_be_right() {
    assert_file_refused("agg_daily_product.json", "nothing.json", &["nothing.json", "contracts"]);
    assert_file_refused("agg_daily_product.json", "none-*.json", &["none-*.json", "no file matches"]);
    assert_file_refused("contracts = [\"agg_daily_product.json\"]", "contracts = []", &["contracts"]);
    assert_file_refused(
        "\"agg_daily_product.json\"",
        "\"agg_daily_product.json\", \"agg_*.json\"",
        &["agg_daily_product.json", "another contract declares the object agg_daily_product"],
    );
    let installation = place::installation();
    let contract = driftless::example::CONTRACT.replace("sum(quantity)", "sum(quantities)");
    installation.write("agg_daily_product.json", contract);
    assert_refused(&installation, &["agg_daily_product.json", "measures.units", "quantities"]);
}

#[test]
fn a_missing_configuration_is_told_with_where_it_was_looked_for() {
    let installation = place::installation();
    std::fs::remove_file(installation.path("driftless.toml")).unwrap();
    assert_refused(&installation, &["driftless.toml or config/driftless.toml", "--config"]);
    assert_one_message(installation.run(&["status", "--config", "other.toml"]), &["other.toml", "--config"]);
    let mut command = installation.command(&["status"]);
    command.env("DRIFTLESS_CONFIG", "named.toml");
    assert_one_message(installation.run_command(command), &["named.toml"]);
}

#[test]
fn mistakes_in_arguments_and_variables_name_them() {
    let installation = place::installation();
    let before = installation.files();
    for (argument, says) in [
        ("kafka.brokers", &["--set kafka.brokers", "there is no ="][..]),
        ("kafka.brokrs=a:1", &["--set kafka.brokrs", "brokrs"]),
        ("redis.connect_timeout_ms=soon", &["--set redis.connect_timeout_ms", "soon"]),
        ("topic.7.watermark=sparse", &["--set topic.7.watermark", "there are 1 items"]),
        ("topic.first.watermark=sparse", &["--set topic.first.watermark", "no number"]),
        ("base.path.more=1", &["--set base.path.more"]),
        ("maintain.beat_ms=5", &["--set maintain.beat_ms", "from 10 to 60000"]),
    ] {
        assert_one_message(installation.run(&["run", "--set", argument]), says);
    }
    for (variable, text, says) in [
        (
            "DRIFTLESS__KAFKA__QUEUED_RECORDS",
            "many",
            &["environment DRIFTLESS__KAFKA__QUEUED_RECORDS", "many"][..],
        ),
        (
            "DRIFTLESS__KAFKA__QUEUED_RECORDS",
            "0",
            &["environment DRIFTLESS__KAFKA__QUEUED_RECORDS", "from 1"],
        ),
        ("DRIFTLESS__KAFKA__NOTHING", "1", &["environment DRIFTLESS__KAFKA__NOTHING", "nothing"]),
        ("DRIFTLESS_REDIS_PASSWORD_FILE", "no-such-file", &["DRIFTLESS_REDIS_PASSWORD_FILE", "no-such-file"]),
        ("DRIFTLESS_GENERATION", "", &["environment DRIFTLESS_GENERATION", "1 to 64"]),
    ] {
        let mut command = installation.command(&["run"]);
        command.env(variable, text);
        assert_one_message(installation.run_command(command), says);
    }
    assert_eq!(installation.files(), before);
}

#[test]
fn an_argument_goes_before_the_environment_and_that_before_the_file() {
    let installation = place::installation();
    let looked_for = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = installation.command(&[&["checksum", "--from", "base"], arguments].concat());
        command.envs(variables.iter().copied());
        installation.run_command(command).expect(2)
    };
    let (short, long) = (("DRIFTLESS_BASE", "short.db"), ("DRIFTLESS__BASE__PATH", "long.db"));
    looked_for(&[], &[]).says(&["no base at base.db"]);
    looked_for(&[short], &[]).says(&["no base at short.db"]);
    looked_for(&[long], &[]).says(&["no base at long.db"]);
    looked_for(&[long], &["--set", "base.path=argument.db"]).says(&["no base at argument.db"]);
    looked_for(&[], &["--set", "base.path=a.db", "--set", "base.path=b.db"]).says(&["no base at b.db"]);
    // What a later layer sets right is right.
    installation.write("driftless.toml", configuration().replace("[kafka]\n", "[kafka]\nqueued_kib = 1\n"));
    looked_for(&[], &["--set", "kafka.queued_kib=64"]).says(&["no base at base.db"]);
}
