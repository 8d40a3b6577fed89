//! The golden files under `tests/fixtures`, as JSON. Knows their folders and nothing of what they mean.

use serde_json::Value;

fn text(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file with one JSON document.
pub fn document(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The raw lines of a file, without their ends.
pub fn lines(path: &str) -> Vec<String> {
    text(path).lines().map(str::to_owned).collect()
}

/// A file with one JSON document a line.
pub fn documents(path: &str) -> Vec<Value> {
    lines(path)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}")))
        .collect()
}

/// The bytes of a file.
pub fn raw(path: &str) -> String {
    text(path)
}
