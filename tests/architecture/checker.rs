//! The rules, each a function from sources to violations. Reads no files.

use std::fmt;

use crate::scan::{self, Line};

pub const LINES_MAX: usize = 500;

/// The folders and files below `src` that the drawing names.
const MODULES: [&str; 9] =
    ["pure", "ports", "pipeline", "io", "config", "example", "commands", "telemetry", "main"];

/// Who may import whom; the lists are complete.
const ARROWS: [(&str, &[&str]); 7] = [
    ("pure", &["pure"]),
    ("ports", &["pure"]),
    ("pipeline", &["pure", "ports", "pipeline"]),
    ("io", &["pure", "ports", "config", "io"]),
    ("config", &["pure", "config"]),
    ("example", &["pure", "example"]),
    ("telemetry", &["telemetry"]),
];

/// What a function of its arguments cannot need.
const IMPURE: [&str; 16] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "std::io",
    "std::os",
    "SystemTime",
    "Instant",
    "tokio",
    "rusqlite",
    "redis::",
    "rdkafka",
    "async fn",
    "async move",
    "Timestamp::now",
];

/// Names of the example's tables and columns that an engine driven by its contract cannot know.
const EXAMPLE: [&str; 12] = [
    "fact_sales",
    "agg_daily_product",
    "sales.changes",
    "order_id",
    "line_no",
    "order_date",
    "product_id",
    "customer_id",
    "amount_cents",
    "cost_cents",
    "gmv_cents",
    "line_count",
];

/// What ends the process instead of telling somebody.
const PANICS: [&str; 6] = [".unwrap()", ".expect(", "panic!", "todo!", "unimplemented!", "unreachable!"];

/// A source file by its path from the root, such as `src/pure/seq.rs`.
pub struct SourceFile {
    pub path: String,
    pub lines: Vec<Line>,
}

impl SourceFile {
    pub fn new(path: impl Into<String>, text: &str) -> Self {
        SourceFile { path: path.into(), lines: scan::lines(text) }
    }

    /// The module of the drawing that the file belongs to; `None` for `lib.rs` and tests.
    pub fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        let first = below.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        MODULES.iter().find(|module| **module == name).copied()
    }

    /// How many modules deep it lies below the root of the crate: `src/pure/mod.rs` one, `src/pure/seq.rs` two.
    fn depth(&self) -> usize {
        let below = self.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        below.split('/').count()
    }

    /// Whether the whole file is tests: a `tests` module in a file or folder of its own.
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Numbered lines of the program itself.
    fn program(&self) -> impl Iterator<Item = (usize, &Line)> {
        let lines = if self.is_test() { &[][..] } else { &self.lines[..] };
        lines.iter().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.in_test)
    }
}

/// What broke a rule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

fn violation(file: &SourceFile, line: usize, what: impl Into<String>) -> Violation {
    Violation { path: file.path.clone(), line, what: what.into() }
}

/// Imports and paths that the drawing does not allow. `commands`, `main` and `lib.rs` may know everything.
pub fn arrows(files: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        let Some(module) = file.module() else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == module) else { continue };
        // An import may go over several lines, so the program is read as one text.
        let (mut text, mut starts) = (String::new(), Vec::new());
        for (number, line) in file.program() {
            starts.push((text.len(), number));
            text.push_str(&line.code);
            text.push('\n');
        }
        let number_of = |at: usize| starts[starts.partition_point(|(start, _)| *start <= at) - 1].1;
        let mut named = named_after(&text, "crate::");
        named.extend(named_after(&text, &"super::".repeat(file.depth())));
        named.sort_unstable();
        for (at, target) in named {
            if MODULES.contains(&target.as_str()) && !allowed.contains(&target.as_str()) {
                found.push(violation(file, number_of(at), format!("{module} must not know {target}")));
            }
        }
    }
    found
}

/// The names right after each occurrence of `prefix`, those in its braces included, each with its place.
fn named_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|character| character.is_alphanumeric() || matches!(character, '_' | ':')) {
            continue;
        }
        let start = at + prefix.len();
        if !code[start..].starts_with('{') {
            names.push((start, word(&code[start..])));
            continue;
        }
        // The first word after the brace and after each comma that stands in no deeper brace.
        let mut depth = 0;
        for (offset, character) in code[start..].char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(character, '{' | ',') {
                let rest = &code[start + offset + 1..];
                let place = start + offset + 1 + (rest.len() - rest.trim_start().len());
                names.push((place, word(rest.trim_start())));
            }
        }
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}

/// Clocks, I/O and async inside `pure`.
pub fn impure(files: &[SourceFile]) -> Vec<Violation> {
    let pure = files.iter().filter(|file| file.module() == Some("pure"));
    pure.flat_map(|file| occurrences(file, &IMPURE, |line| &line.code)).collect()
}

/// Lines of the program that hold one of these words, by the text that `look` chooses.
fn occurrences(file: &SourceFile, words: &[&str], look: impl Fn(&Line) -> &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in file.program() {
        for word in words {
            if has_word(look(line), word) {
                found.push(violation(file, number, format!("{word} must not occur here")));
            }
        }
    }
    found
}

/// Whether a text holds a word that is not the middle of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    let (first, last) = (word.starts_with(part), word.ends_with(part));
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part);
        let after = text[at + word.len()..].chars().next().is_some_and(part);
        !(first && before || last && after)
    })
}

pub fn too_long(files: &[SourceFile]) -> Vec<Violation> {
    files
        .iter()
        .filter(|file| file.lines.len() > LINES_MAX)
        .map(|file| violation(file, file.lines.len(), format!("{LINES_MAX} lines are the most")))
        .collect()
}

pub fn without_head(files: &[SourceFile]) -> Vec<Violation> {
    files
        .iter()
        .filter(|file| {
            let head = file.lines.first().and_then(|line| line.whole.strip_prefix("//! "));
            head.is_none_or(|text| text.trim().is_empty())
        })
        .map(|file| violation(file, 1, "the first line must be //! and say what the file is for"))
        .collect()
}

/// Names of the example outside its own folder, comments included. Commands may name it in texts: help shows
/// people what to type.
pub fn example_names(files: &[SourceFile]) -> Vec<Violation> {
    let exempt = |file: &&SourceFile| {
        let commands = ["src/commands/demo", "src/commands/acceptance"];
        file.module() == Some("example") || commands.iter().any(|prefix| file.path.starts_with(prefix))
    };
    let look = |file: &SourceFile| -> fn(&Line) -> &str {
        if file.module() == Some("commands") { |line| &line.code } else { |line| &line.whole }
    };
    let engine = files.iter().filter(|file| !exempt(file));
    engine.flat_map(|file| occurrences(file, &EXAMPLE, look(file))).collect()
}

/// Panics outside tests. Assertions of promises are wanted, so they are none.
pub fn panics(files: &[SourceFile]) -> Vec<Violation> {
    files.iter().flat_map(|file| occurrences(file, &PANICS, |line| &line.code)).collect()
}
