//! What the folders promise, read from the sources: who may know whom, what must not occur where, and how
//! long a file may be. The checker itself is tested on planted violations.

#[path = "architecture/checker.rs"]
mod checker;
#[path = "architecture/planted.rs"]
mod planted;
#[path = "architecture/scan.rs"]
mod scan;

use std::path::Path;

use checker::{SourceFile, Violation};

/// Every `.rs` file under these folders, with its path from the project's root.
fn sources(folders: &[&str]) -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    folders.iter().for_each(|folder| collect(&root.join(folder), root, &mut files));
    assert!(files.len() > 10, "the sources were found");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, root: &Path, files: &mut Vec<SourceFile>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect(&entry, root, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let path = entry.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            files.push(SourceFile::new(path, &std::fs::read_to_string(&entry).expect("UTF-8")));
        }
    }
}

fn assert_none(rule: &str, violations: Vec<Violation>) {
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{rule}:\n  {}", list.join("\n  "));
}

#[test]
fn modules_import_only_along_the_allowed_arrows() {
    assert_none("arrows", checker::arrows(&sources(&["src"])));
}

#[test]
fn pure_code_has_no_clock_no_io_and_no_async() {
    assert_none("pure", checker::impure(&sources(&["src"])));
}

#[test]
fn no_file_is_longer_than_500_lines() {
    assert_none("length", checker::too_long(&sources(&["src", "tests"])));
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    assert_none("head", checker::without_head(&sources(&["src", "tests"])));
}

#[test]
fn the_engine_knows_no_table_of_the_example() {
    assert_none("example", checker::example_names(&sources(&["src"])));
}

#[test]
fn no_input_makes_the_program_panic() {
    assert_none("panics", checker::panics(&sources(&["src"])));
}

/// What stands between backticks in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Complaints about a page of promises: a promise without a row, or a test that does not exist.
fn unkept(page: &str, code: &str) -> Vec<String> {
    let row = |promise: u32| page.lines().find(|line| line.starts_with(&format!("| P{promise} ")));
    let mut complaints: Vec<String> = (1..=12)
        .filter(|promise| row(*promise).is_none())
        .map(|promise| format!("P{promise} has no row"))
        .collect();
    let rows = (1..=12).filter_map(row);
    let names = rows.flat_map(quoted).filter(|name| {
        let number = name.strip_prefix('p').and_then(|rest| rest.split('_').next()).unwrap_or_default();
        name.contains('_') && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let missing = names.filter(|name| !code.contains(&format!("fn {}", name.trim_end_matches('…'))));
    complaints.extend(missing.map(|name| format!("there is no test {name}")));
    complaints
}

#[test]
fn every_promise_has_a_row_and_the_tests_that_it_names() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ARCHITECTURE.md");
    let page = std::fs::read_to_string(file).expect("the page of promises");
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        collect_text(&root.join(folder), &mut files);
    }
    let code = files.join("\n");
    assert_eq!(unkept(&page, &code), Vec::<String>::new());
    let planted = page.replace("| P3 ", "| Q3 ").replace("`p4_the_chapter", "`p4_no_chapter");
    assert_eq!(unkept(&planted, &code).len(), 2, "the check can fail");
}

fn collect_text(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect_text(&entry, texts);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(&entry).expect("UTF-8"));
        }
    }
}
