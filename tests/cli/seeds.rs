//! `driftless seed`: three forms of a file that end in the same groups, and mistakes that leave nothing behind.

use crate::installation::Installation;
use crate::place::{self, HEADER, ROWS};

fn seed(installation: &Installation, from: &str, more: &[&str]) -> crate::installation::Answer {
    let arguments = ["seed", "--table", "fact_sales", "--from", from, "--through-seq", "20"];
    installation.run(&[&arguments[..], more].concat())
}

fn checksum(installation: &Installation) -> String {
    let answer = installation.run(&["checksum", "--from", "base", "--format", "json"]).expect(0).json();
    assert_eq!(answer["watermark"], "20");
    answer["sha256"].as_str().unwrap().to_owned()
}

/// The rows as JSON objects, each with a sequence of its own.
fn jsonl() -> String {
    let names: Vec<&str> = HEADER.split(',').collect();
    ROWS.lines()
        .zip(1..)
        .map(|(row, seq)| {
            let mut object: serde_json::Map<String, serde_json::Value> = names
                .iter()
                .zip(row.split(','))
                .map(|(name, text)| {
                    let integer = ["line_no", "quantity", "amount_cents", "cost_cents"].contains(name);
                    let value = if integer { text.parse::<i64>().unwrap().into() } else { text.into() };
                    ((*name).to_owned(), value)
                })
                .collect();
            object.insert("source_seq".into(), seq.into());
            serde_json::Value::from(object).to_string() + "\n"
        })
        .collect()
}

fn sqlite_file(installation: &Installation) {
    let shop = rusqlite::Connection::open(installation.path("shop.db")).unwrap();
    shop.execute_batch(&format!("CREATE TABLE order_lines ({HEADER})")).unwrap();
    for row in ROWS.lines() {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |index: usize| fields[index].parse::<i64>().unwrap();
        shop.execute(
            "INSERT INTO order_lines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            rusqlite::params![
                fields[0],
                number(1),
                fields[2],
                fields[3],
                fields[4],
                fields[5],
                number(6),
                number(7),
                number(8),
                fields[9]
            ],
        )
        .unwrap();
    }
}

#[test]
fn csv_jsonl_and_sqlite_end_in_the_same_groups() {
    let mut sums = Vec::new();
    for from in ["rows.csv", "rows.jsonl", "sqlite:shop.db#order_lines"] {
        let installation = place::installation();
        installation.write("rows.csv", format!("{HEADER}\n{ROWS}"));
        installation.write("rows.jsonl", jsonl());
        sqlite_file(&installation);
        let answer = seed(&installation, from, &["--format", "json"]).expect(0).json();
        assert_eq!((&answer["rows"], &answer["through_seq"]), (&4.into(), &20.into()));
        sums.push(checksum(&installation));
    }
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0], sums[2]);
    // Worked out by hand: three groups, the refunded line in none.
    let installation = place::seeded();
    let totals = installation.run(&["checksum", "--from", "base", "--format", "json"]).expect(0).json();
    assert_eq!(totals["groups"], 3);
    assert_eq!(totals["controls"]["totals"]["gmv_cents"], "250");
    assert_eq!(totals["controls"]["totals"]["line_count"], "3");
}

#[test]
fn a_second_seed_is_refused_and_changes_nothing() {
    let installation = place::seeded();
    let before = checksum(&installation);
    seed(&installation, "rows.csv", &[]).expect(2).says(&["fact_sales is not new", "remedy:", "base.path"]);
    assert_eq!(checksum(&installation), before);
}

/// The file is refused with these words, nothing is loaded, and the right file can be loaded afterwards.
#[track_caller]
fn assert_refused(name: &str, text: &str, says: &[&str]) {
    let installation = place::installation();
    installation.write(name, text);
    seed(&installation, name, &[]).expect(2).says(&[name, "remedy:"]).says(says);
    installation.write("rows.csv", format!("{HEADER}\n{ROWS}"));
    seed(&installation, "rows.csv", &[]).expect(0).says(&["4 rows"]);
}

#[test]
fn a_wrong_line_is_named_and_nothing_is_loaded() {
    let bad_csv = |from: &str, to: &str| format!("{HEADER}\n{}", ROWS.replacen(from, to, 1));
    assert_refused("a.csv", &bad_csv("O2,1", "O2,one"), &["line 4", "line_no", "one"]);
    assert_refused("a.csv", &bad_csv("2026-10-02", "2026-10-32"), &["line 4", "order_date"]);
    assert_refused("a.csv", &bad_csv("O1,2", "O1,1"), &["line 3", "(O1, 1)", "second time"]);
    assert_refused("a.csv", &bad_csv("web,1,100", "web,,100"), &["line 2", "quantity"]);
    assert_refused("a.csv", &bad_csv(",paid\nO1,2", "\nO1,2"), &["line 2"]);
    assert_refused("a.csv", &format!("{}\n{ROWS}", HEADER.replace("status", "state")), &["header", "status"]);
    let bad_jsonl = |from: &str, to: &str| jsonl().replacen(from, to, 1);
    assert_refused("a.jsonl", &bad_jsonl("\"P2\"", "\"P2"), &["line 2"]);
    assert_refused("a.jsonl", &bad_jsonl("\"quantity\":2", "\"quantity\":2.5"), &["line 2", "quantity"]);
    assert_refused(
        "a.jsonl",
        &bad_jsonl("\"quantity\":2", "\"pieces\":2"),
        &["line 2", "quantity is missing"],
    );
    assert_refused(
        "a.jsonl",
        &bad_jsonl("\"source_seq\":3", "\"source_seq\":21"),
        &["line 3", "21", "--through-seq 20"],
    );
    assert_refused(
        "a.jsonl",
        &bad_jsonl("\"source_seq\":3", "\"source_seq\":\"x\""),
        &["line 3", "source_seq"],
    );
}

#[test]
fn wrong_arguments_of_a_seed_are_told() {
    let installation = place::installation();
    installation.write("rows.csv", format!("{HEADER}\n{ROWS}"));
    sqlite_file(&installation);
    for (from, says) in [
        ("nothing.csv", "nothing.csv"),
        ("rows.txt", "FILE.csv, FILE.jsonl"),
        ("sqlite:shop.db", "sqlite:FILE#table"),
        ("sqlite:nothing.db#order_lines", "nothing.db"),
        ("sqlite:shop.db#nothing", "nothing"),
    ] {
        seed(&installation, from, &[]).expect(2).says(&[says]);
    }
    for (positions, says) in [
        ("sales.changes:0", "there is no ="),
        ("sales.changes=0", "there is no :"),
        ("other:0=1", "does not feed the table"),
        ("sales.changes:x=1", "partition is no number"),
        ("sales.changes:0=x", "offset is no number"),
        ("sales.changes:0=-1", "negative"),
    ] {
        seed(&installation, "rows.csv", &["--positions", positions]).expect(2).says(&[says, "remedy:"]);
    }
    installation
        .run(&["seed", "--table", "nothing", "--from", "rows.csv", "--through-seq", "1"])
        .expect(2)
        .says(&["table nothing", "fact_sales"]);
    // None of them was in the way of the right one.
    seed(&installation, "rows.csv", &["--positions", "sales.changes:0=9"]).expect(0);
    assert!(!installation.path("nothing.db").exists());
}
