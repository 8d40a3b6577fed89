//! The page as data: its named programs and its tables. Runs nothing.

use std::collections::BTreeSet;
use std::path::Path;

pub struct Page {
    pub text: String,
    pub programs: Vec<Program>,
}

/// A fenced block after `<!-- test: name -->`.
pub struct Program {
    pub name: String,
    /// What stands behind the fence.
    pub language: String,
    pub text: String,
    /// The `text` block that follows at once; without one, the program only has to succeed.
    pub output: Option<String>,
}

impl Page {
    pub fn read() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/READING.md");
        let text = std::fs::read_to_string(file).unwrap();
        let programs = programs(&text);
        Page { text, programs }
    }

    pub fn program(&self, name: &str) -> &Program {
        let found = self.programs.iter().find(|program| program.name == name);
        found.unwrap_or_else(|| panic!("docs/READING.md has no block <!-- test: {name} -->"))
    }

    /// The cells of the table with this head, without the head.
    pub fn table(&self, head: &str) -> Vec<Vec<String>> {
        let lines = self.text.lines().skip_while(|line| *line != head).skip(2);
        let rows: Vec<Vec<String>> = lines.map_while(cells).collect();
        assert!(!rows.is_empty(), "docs/READING.md has no table with the head {head}");
        rows
    }

    /// All that is quoted in the first column of a table; a name told twice is a mistake.
    pub fn names(&self, head: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for name in self.table(head).iter().flat_map(|row| quoted(&row[0])) {
            assert!(names.insert(name.clone()), "{name} is told twice");
        }
        names
    }
}

/// What stands between backticks.
pub fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

fn programs(text: &str) -> Vec<Program> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.next().and_then(|line| line.strip_prefix("```"));
        let language = fence.unwrap_or_else(|| panic!("no fenced block follows <!-- test: {name} -->"));
        let text = block(&mut lines);
        let output = lines.next_if_eq(&"```text").map(|_| block(&mut lines));
        found.push(Program { name: name.to_owned(), language: language.to_owned(), text, output });
    }
    found
}

/// The lines up to the closing fence.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>) -> String {
    lines.take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect()
}
