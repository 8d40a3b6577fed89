//! Base files that are refused, and left as they were: of a newer release, of another program, of another
//! definition.

use crate::installation::Installation;
use crate::place;

#[track_caller]
fn assert_refused(installation: &Installation, file: &str, says: &[&str]) {
    let before = std::fs::read(installation.path(file)).unwrap();
    for command in [
        &["run", "--once"][..],
        &["seed", "--table", "fact_sales", "--from", "rows.csv", "--through-seq", "1"],
    ] {
        installation.run(command).expect(2).says(&["remedy:"]).says(says);
        assert!(std::fs::read(installation.path(file)).unwrap() == before, "{command:?} changed {file}");
    }
    // Readers do not crash on it either.
    for command in [&["status"][..], &["checksum", "--from", "base"], &["dlq", "list"], &["dlq", "retry"]] {
        installation.run(command).expect(2).says(&["remedy:"]);
        assert!(std::fs::read(installation.path(file)).unwrap() == before, "{command:?} changed {file}");
    }
}

#[test]
fn a_base_of_a_newer_schema_version_is_refused() {
    let installation = place::seeded();
    let base = rusqlite::Connection::open(installation.path("base.db")).unwrap();
    base.pragma_update(None, "user_version", 99).unwrap();
    base.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(base);
    assert_refused(&installation, "base.db", &["schema version 99", "newer"]);
}

#[test]
fn a_sqlite_file_of_another_program_is_refused_and_not_changed() {
    let installation = place::installation();
    installation.write("rows.csv", place::HEADER);
    let other = rusqlite::Connection::open(installation.path("base.db")).unwrap();
    other.execute_batch("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x')").unwrap();
    drop(other);
    assert_refused(&installation, "base.db", &["not a driftless base", "base.path"]);
}

#[test]
fn a_sqlite_file_of_another_program_with_its_own_version_is_refused_and_not_changed() {
    let installation = place::installation();
    installation.write("rows.csv", place::HEADER);
    let other = rusqlite::Connection::open(installation.path("base.db")).unwrap();
    other.execute_batch("CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1").unwrap();
    drop(other);
    assert_refused(&installation, "base.db", &["not a driftless base", "base.path"]);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_changed() {
    let installation = place::installation();
    installation.write("rows.csv", place::HEADER);
    installation.write("base.db", "all my notes\n".repeat(1000));
    assert_refused(&installation, "base.db", &["base.path"]);
}

#[test]
fn a_changed_contract_changes_no_base_in_place() {
    let installation = place::seeded();
    let changed = driftless::example::CONTRACT.replace("status = paid", "status = refunded");
    installation.write("agg_daily_product.json", changed);
    installation.run(&["run", "--once"]).expect(2).says(&[
        "agg_daily_product",
        "never changed in place",
        "driftless generations build --contract",
    ]);
    // Whoever only looks sees the base as it was built, and with the old contract it is maintained again.
    let before = installation.run(&["checksum", "--from", "base"]).expect(0).out;
    installation.write("agg_daily_product.json", driftless::example::CONTRACT);
    assert_eq!(installation.run(&["checksum", "--from", "base"]).expect(0).out, before);
}

#[test]
fn a_changed_table_or_generation_is_refused() {
    let installation = place::seeded();
    let text = std::fs::read_to_string(installation.path("driftless.toml")).unwrap();
    for (from, to, says) in [
        (
            "channel = \"text\"",
            "channel = \"text?\"",
            &["fact_sales", "configured otherwise", "another base"][..],
        ),
        (
            "primary_key = [\"order_id\", \"line_no\"]",
            "primary_key = [\"order_id\"]",
            &["configured otherwise"],
        ),
        ("watermark = \"dense\"", "watermark = \"sparse\"", &["configured otherwise"]),
        ("[base]\n", "[base]\ngeneration = \"2\"\n", &["generation 1", "base.generation says 2"]),
    ] {
        assert!(text.contains(from));
        installation.write("driftless.toml", text.replace(from, to));
        installation.run(&["run", "--once"]).expect(2).says(&["remedy:"]).says(says);
    }
    installation.write("driftless.toml", text);
    installation.run(&["checksum", "--from", "base"]).expect(0);
}

#[test]
fn commands_that_read_say_what_to_do_where_there_is_no_base() {
    let installation = place::installation();
    let before = installation.files();
    for command in [
        &["status"][..],
        &["checksum", "--from", "base"],
        &["dlq", "list"],
        &["dlq", "show", "1"],
        &["dlq", "retry"],
        &["dlq", "waive", "1", "--why", "x"],
        &["query", "--measures", "units"],
        &["explain", "agg_daily_product", "2026-09-22", "P1"],
        &["view", "list"],
        &["view", "usage"],
        &["view", "disable", "agg_daily_product", "--why", "x"],
    ] {
        installation.run(command).expect(2).says(&["no base at base.db", "driftless run"]);
    }
    assert_eq!(installation.files(), before);
}
