//! docs/READING.md is true: its programs print what it says they print, with the rights it gives them, and its
//! tables name what is published. Knows the page's form, not how a publish is made.

#[path = "reading/fixture.rs"]
mod fixture;
#[path = "reading/page.rs"]
mod page;
#[path = "reading/programs.rs"]
mod programs;
#[path = "support/redis_server.rs"]
mod redis_server;

use std::collections::BTreeSet;
use std::path::Path;

use driftless::pure::group_key::GroupKey;
use driftless::pure::value::Value;

use page::{Page, quoted};
use programs::Language;

#[test]
fn the_bash_programs_print_what_the_page_says() {
    programs::check(&Page::read(), Language::Bash);
}

#[test]
fn the_python_programs_print_what_the_page_says() {
    programs::check(&Page::read(), Language::Python);
}

#[test]
fn the_javascript_programs_print_what_the_page_says() {
    programs::check(&Page::read(), Language::JavaScript);
}

/// No program is on the page that no test runs.
#[test]
fn every_program_has_a_name() {
    let page = Page::read();
    let named = page.programs.iter().filter(|program| Language::of(program).is_some()).count();
    let fences = |name: &str| page.text.lines().filter(|line| line.trim() == format!("```{name}")).count();
    assert_eq!(named, fences("bash") + fences("python") + fences("javascript"));
    let names: BTreeSet<&str> = page.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names.len(), page.programs.len(), "two programs have one name: {names:?}");
    for other in ["sh", "shell", "js", "mjs", "py"] {
        assert_eq!(fences(other), 0, "call it bash, python or javascript, not {other}");
    }
}

/// Both pages make the same reader; the programs here run as that one.
#[test]
fn operations_give_a_reader_the_same_rights() {
    let operations = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md");
    let operations = std::fs::read_to_string(operations).unwrap();
    assert!(operations.contains(&Page::read().program("acl").text));
}

#[test]
fn the_meta_table_names_every_field_that_is_published_and_no_other() {
    let mut published: BTreeSet<String> =
        fixture::meta(&fixture::catalog()).into_iter().map(|(field, _)| field.to_owned()).collect();
    // The script's own.
    published.extend(["groups", "beat"].map(str::to_owned));
    assert_eq!(Page::read().names("| field | type, unit | meaning |"), published);
}

#[test]
fn the_row_table_names_every_measure_and_whether_it_may_be_added() {
    let mut told = BTreeSet::new();
    for row in Page::read().table("| field of this view | unit | may be added over groups |") {
        told.extend(quoted(&row[0]).map(|field| (field, row[2].clone())));
    }
    let mut published: BTreeSet<(String, String)> = BTreeSet::new();
    for measure in &fixture::catalog().views[0].view.measures {
        let added = if measure.additive { "yes" } else { "**no**" };
        published.insert((measure.column.clone(), added.to_owned()));
    }
    published.insert(("_error".to_owned(), "instead of all other fields".to_owned()));
    assert_eq!(told, published);
}

#[test]
fn the_examples_of_group_keys_are_what_encode_writes() {
    let rows = Page::read().table("| parts (as JSON) | encoded key |");
    assert!(rows.len() >= 5);
    for row in &rows {
        let parts: Vec<serde_json::Value> = serde_json::from_str(row[0].trim_matches('`')).unwrap();
        let parts: Vec<Value> = parts.iter().map(value).collect();
        assert_eq!(GroupKey::encode(&parts).as_str(), row[1].trim_matches('`'), "{}", row[0]);
    }
}

fn value(part: &serde_json::Value) -> Value {
    match part {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::String(text) => Value::text(text.as_str()),
        number => Value::Integer(number.as_i64().unwrap()),
    }
}
