//! Lays environment and arguments over the file's text, and says where a mistake came from.

use super::{ConfigError, Settings};

/// Settings from outside the file, in rising precedence: where each came from, its path, its text.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub entries: Vec<Override>,
}

#[derive(Clone, Debug)]
pub struct Override {
    /// The variable or argument, for messages.
    pub place: String,
    /// `section.key`, list items by number: `topic.0.watermark`.
    pub path: String,
    pub text: String,
}

/// Short names for the settings that every installation sets.
const SHORT: [(&str, &str); 5] = [
    ("DRIFTLESS_KAFKA", "kafka.brokers"),
    ("DRIFTLESS_REDIS", "redis.url"),
    ("DRIFTLESS_REDIS_USERNAME", "redis.username"),
    ("DRIFTLESS_BASE", "base.path"),
    ("DRIFTLESS_GENERATION", "base.generation"),
];

/// Overrides from environment variables: the short names, and `DRIFTLESS__SECTION__KEY`.
pub fn environment(variables: impl Iterator<Item = (String, String)>) -> Overrides {
    let mut entries: Vec<Override> = variables
        .filter_map(|(name, text)| {
            let short = SHORT.iter().find(|(short, _)| *short == name).map(|(_, path)| (*path).to_owned());
            let long = name.strip_prefix("DRIFTLESS__").map(|rest| rest.to_lowercase().replace("__", "."));
            Some(Override { path: short.or(long)?, place: format!("environment {name}"), text })
        })
        .collect();
    entries.sort_by(|a, b| a.place.cmp(&b.place));
    Overrides { entries }
}

impl Overrides {
    /// Adds `path=value` of a `--set` argument.
    pub fn set(&mut self, argument: &str) -> Result<(), ConfigError> {
        let (path, text) = argument.split_once('=').ok_or_else(|| {
            ConfigError::new(
                format!("--set {argument}"),
                "there is no =",
                "write --set section.key=value, e.g. --set kafka.brokers=127.0.0.1:9092",
            )
        })?;
        self.put(format!("--set {path}"), path, text);
        Ok(())
    }

    /// Where the value of a setting comes from: the last override of it, otherwise the file.
    pub(super) fn place_of(&self, path: &str, file: &str) -> String {
        let last = self.entries.iter().rev().find(|entry| entry.path == path);
        last.map_or_else(|| format!("{file}: {path}"), |entry| entry.place.clone())
    }

    pub fn put(&mut self, place: impl Into<String>, path: &str, text: impl Into<String>) {
        self.entries.push(Override { place: place.into(), path: path.trim().to_owned(), text: text.into() });
    }
}

pub(super) fn merge(text: &str, file: &str, overrides: &Overrides) -> Result<Settings, ConfigError> {
    // The file alone first: its mistakes are told with line and column.
    let settings: Settings = toml::from_str(text).map_err(|error| of_file(text, file, &error))?;
    if overrides.entries.is_empty() {
        return Ok(settings);
    }
    let mut tree: toml::Value = toml::from_str(text).map_err(|error| of_file(text, file, &error))?;
    let mut merged = settings;
    for entry in &overrides.entries {
        lay_over(&mut tree, entry)?;
        merged = tree.clone().try_into().map_err(|error: toml::de::Error| {
            ConfigError::new(
                &entry.place,
                error.message().trim_end(),
                "correct the value; see docs/OPERATIONS.md for every setting",
            )
        })?;
    }
    Ok(merged)
}

/// Says where in the file, and never quotes it: the line may hold a password.
fn of_file(text: &str, file: &str, error: &toml::de::Error) -> ConfigError {
    let place = match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            format!("{file}: line {line}, column {column}")
        }
        None => file.to_owned(),
    };
    ConfigError::new(place, error.message().trim_end(), "see docs/OPERATIONS.md for every setting")
}

fn lay_over(tree: &mut toml::Value, entry: &Override) -> Result<(), ConfigError> {
    let fail =
        |message: String| ConfigError::new(&entry.place, message, "see docs/OPERATIONS.md for every setting");
    let mut node = tree;
    for part in entry.path.split('.') {
        node = match node {
            toml::Value::Table(table) => {
                table.entry(part.to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new()))
            }
            toml::Value::Array(list) => {
                let count = list.len();
                let index: usize = part
                    .parse()
                    .map_err(|_| fail(format!("{}: {part} is no number of an item", entry.path)))?;
                list.get_mut(index)
                    .ok_or_else(|| fail(format!("{}: there are {count} items, counted from 0", entry.path)))?
            }
            _ => return Err(fail(format!("{}: there is nothing below {part}", entry.path))),
        };
    }
    // A value that reads as TOML is taken as such, anything else is text.
    let parsed = toml::from_str::<toml::Table>(&format!("value = {}", entry.text));
    *node = match parsed.ok().and_then(|mut table| table.remove("value")) {
        Some(value) if !matches!(value, toml::Value::Datetime(_)) => value,
        _ => toml::Value::String(entry.text.clone()),
    };
    Ok(())
}
