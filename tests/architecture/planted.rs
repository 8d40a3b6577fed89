//! The checker on planted violations: each rule finds what it is for, and nothing else.

use crate::checker::{self, SourceFile, Violation};

fn one(path: &str, text: &str) -> Vec<SourceFile> {
    vec![SourceFile::new(path, text)]
}

fn places(found: &[Violation]) -> Vec<usize> {
    found.iter().map(|violation| violation.line).collect()
}

#[test]
fn a_forbidden_arrow_is_found_however_it_is_written() {
    let text = "//! x\nuse crate::io::sqlite;\nuse crate::{pure::seq, ports::Log, commands};\n\
                use super::super::pipeline::read;\nfn f() { crate::config::load() }\nuse crate::pure::seq;\n\
                use crate::{\n    pure::{seq, config::A},\n    pipeline,\n};\n";
    let found = checker::arrows(&one("src/pure/seq.rs", text));
    assert_eq!(places(&found), [2, 3, 3, 4, 5, 9], "{found:?}");
    assert!(checker::arrows(&one("src/commands/run.rs", text)).is_empty(), "commands may know everything");
    let found = checker::arrows(&one("src/ports.rs", "//! x\nuse crate::ports::Log;\nuse crate::io;\n"));
    assert_eq!(places(&found), [2, 3]);
    let found = checker::arrows(&one("src/pipeline/read.rs", "//! x\nuse crate::config::Config;\n"));
    assert_eq!(places(&found), [2]);
    let found = checker::arrows(&one("src/io/redis/mod.rs", "//! x\nuse super::super::pipeline::read;\n"));
    assert_eq!(places(&found), [2]);
}

#[test]
fn an_arrow_in_a_comment_a_text_or_a_test_is_none() {
    let text = "//! crate::io is elsewhere\n/* crate::io */ const A: &str = \"crate::io\";\n\
                #[cfg(test)]\nmod tests {\n    use crate::io::twin;\n}\nuse crate::io;\n";
    assert_eq!(places(&checker::arrows(&one("src/pure/seq.rs", text))), [7]);
}

#[test]
fn impure_code_is_found_in_pure_alone() {
    let text = "//! x\nuse std::time::Instant;\nfn f() { std::fs::read(\"a\"); }\nasync fn g() {}\n\
                let instantly = 1; // Instant\n";
    assert_eq!(places(&checker::impure(&one("src/pure/seq.rs", text))), [2, 3, 4]);
    assert!(checker::impure(&one("src/io/clock.rs", text)).is_empty());
}

#[test]
fn long_files_and_files_without_a_head_are_found() {
    let long = format!("//! x\n{}", "fn f() {}\n".repeat(checker::LINES_MAX));
    assert_eq!(places(&checker::too_long(&one("tests/a.rs", &long))), [checker::LINES_MAX + 1]);
    assert!(checker::too_long(&one("tests/a.rs", "//! x\n")).is_empty());
    for text in ["", "use a;\n", "// a\n", "//!\n//! late\n", "\n//! late\n"] {
        assert_eq!(checker::without_head(&one("src/a.rs", text)).len(), 1, "{text:?}");
    }
    assert!(checker::without_head(&one("src/a.rs", "//! What it is for.\n")).is_empty());
}

#[test]
fn names_of_the_example_are_found_in_code_texts_and_comments() {
    let text = "//! like fact_sales\nconst A: &str = \"order_date\";\nfn my_order_date_of() {}\n\
                #[cfg(test)]\nmod tests {\n    const B: &str = \"amount_cents\";\n}\n";
    assert_eq!(places(&checker::example_names(&one("src/pure/seq.rs", text))), [1, 2]);
    for path in ["src/example/sales.rs", "src/commands/demo.rs", "src/commands/acceptance/steps.rs"] {
        assert!(checker::example_names(&one(path, text)).is_empty(), "{path}");
    }
    let text =
        "//! x\n// order_date\nconst A: &str = \"seed --table fact_sales\";\nfn f() { order_date() }\n";
    assert_eq!(places(&checker::example_names(&one("src/commands/seed.rs", text))), [4], "help may");
    assert!(checker::example_names(&one("src/pure/contract/tests.rs", text)).is_empty());
}

#[test]
fn panics_are_found_outside_tests_and_assertions_are_none() {
    let text = "//! x\nfn f() { a.unwrap(); }\nfn g() { b\n    .expect(\"c\"); }\nfn h() { panic!(\"d\") }\n\
                fn i() { assert!(true, \"panic!\"); e.unwrap_or(1); }\nfn j() { todo!() }\n\
                #[cfg(test)]\nmod tests { fn k() { a.unwrap(); } }\nfn l() { unimplemented!() }\n";
    assert_eq!(places(&checker::panics(&one("src/io/clock.rs", text))), [2, 4, 5, 7, 10]);
}

#[test]
fn quotes_braces_and_lifetimes_do_not_mislead() {
    let text = "//! x\nconst A: char = '\"'; const B: char = '\\''; fn f<'a>(x: &'a str) { x.unwrap() }\n\
                const C: &str = r#\"}\" .unwrap() {\"#; const D: &str = \"\\\" panic!\";\n\
                #[cfg(test)]\nfn g() { let h = \"}\"; a.unwrap(); }\nfn i() { a.unwrap() }\n";
    assert_eq!(places(&checker::panics(&one("src/io/clock.rs", text))), [2, 6]);
}
