//! From what was seen to a configuration, as text to be taken over, and a list of what is unsure.

use std::collections::BTreeSet;

use super::columns::Guess;
use super::{Inspector, Recognised, TableSeen};

/// How a topic could be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub format: Recognised,
    /// The table of the source that it is about; empty where messages name none.
    pub source_table: String,
    /// The `[[table]]` and `[[topic]]` sections.
    pub toml: String,
    /// What the sample leaves open, for people.
    pub unsure: Vec<String>,
}

/// The settings of the topic that follow from its messages.
struct TopicPlan {
    watermark: &'static str,
    shared: bool,
    deletes: Option<&'static str>,
}

impl Inspector {
    /// The proposal for a topic of this name; why there is none, where the messages cannot be read.
    pub fn propose(&self, topic: &str) -> Result<Proposal, String> {
        let mut unsure = Vec::new();
        let format = self.format(&mut unsure)?;
        let (source_table, seen) = self.table(&mut unsure)?;
        let mut guesses = seen.columns.guesses(format == Recognised::Canal);
        guesses.retain(|guess| {
            if guess.missing > 0 {
                let (missing, rows) = (guess.missing, seen.rows);
                unsure.push(format!(
                    "column {} is missing in {missing} of {rows} rows, and left out",
                    guess.name
                ));
            }
            guess.missing == 0
        });
        let key = self.key(seen, &guesses, &mut unsure);
        if format == Recognised::Native {
            for guess in guesses.iter_mut().filter(|guess| key.contains(&guess.name)) {
                if let Some(header) = seen.headers.get(&guess.name) {
                    guess.reading = format!("header = {}", quoted(header));
                    unsure.push(format!(
                        "column {}: read from header {header}, where the event does not tell it",
                        guess.name
                    ));
                }
            }
        }
        let plan = self.plan(format, &mut unsure)?;
        for guess in &guesses {
            if let Some(why) = &guess.unsure {
                unsure.push(format!("column {}: {why}", guess.name));
            }
        }
        let nullable = guesses.iter().filter(|guess| guess.nullable).count();
        if !self.with_schema && nullable < guesses.len() {
            unsure.push(format!(
                "columns without ? were never null in {} rows; a later null would be a dead letter",
                seen.rows
            ));
        }
        let toml = toml(topic, format, source_table, &guesses, &key, &plan);
        Ok(Proposal { format, source_table: source_table.to_owned(), toml, unsure })
    }

    fn format(&self, unsure: &mut Vec<String>) -> Result<Recognised, String> {
        let changes = self.formats.iter().filter(|(format, _)| **format != Recognised::Beside);
        let Some((&format, &count)) = changes.clone().max_by_key(|(_, count)| **count) else {
            return Err("no message of the sample is a change: look at more records".to_owned());
        };
        for (other, number) in changes.filter(|(other, _)| **other != format) {
            unsure.push(format!("{number} of {} messages look like: {}", self.messages, other.name()));
        }
        match format {
            Recognised::Registry => Err(format!(
                "{count} of {} messages are Avro of a schema registry, which this command cannot look into; see docs/FORMATS.md",
                self.messages
            )),
            Recognised::Unknown => Err(format!("{count} of {} messages are no JSON objects", self.messages)),
            format => Ok(format),
        }
    }

    /// The table with the most rows.
    fn table(&self, unsure: &mut Vec<String>) -> Result<(&str, &TableSeen), String> {
        let most = self.tables.iter().max_by_key(|(_, seen)| seen.rows);
        let (name, seen) = most.ok_or("no message of the sample holds a row: look at more records")?;
        let others: Vec<String> = self
            .tables
            .iter()
            .filter(|(other, _)| *other != name)
            .map(|(other, seen)| format!("{other} ({} rows)", seen.rows))
            .collect();
        if !others.is_empty() {
            unsure.push(format!(
                "the topic carries other tables, whose records will be counted as control: {}",
                others.join(", ")
            ));
        }
        Ok((name, seen))
    }

    fn key(&self, seen: &TableSeen, guesses: &[Guess], unsure: &mut Vec<String>) -> Vec<String> {
        let known =
            |names: &[String]| names.iter().all(|name| guesses.iter().any(|guess| guess.name == *name));
        let most = seen.keys.iter().filter(|(names, _)| known(names)).max_by_key(|(_, count)| **count);
        let told_by_header = |names: &[String]| {
            let mut names = names.to_vec();
            names.extend(
                seen.headers.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
            );
            names
        };
        if let Some((names, _)) = most.filter(|(names, _)| !names.is_empty()) {
            let names = told_by_header(names);
            let others = seen.keys.keys().any(|other| !other.iter().all(|name| names.contains(name)));
            if others {
                unsure.push("primary key: messages have keys of different columns".to_owned());
            }
            // In the order of the rows.
            let ordered = guesses.iter().map(|guess| &guess.name).filter(|name| names.contains(name));
            return ordered.cloned().collect();
        }
        let why = match () {
            () if seen.bare_keys > 0 => "message keys are one bare value: which column is it?",
            () if self.keyless > 0 => {
                "messages have no key: which columns tell one row from another? Deletes and order need them"
            }
            () => "message keys name no columns of the rows: which columns tell one row from another?",
        };
        unsure.push(format!("primary key: {why}"));
        guesses.first().map(|guess| guess.name.clone()).into_iter().collect()
    }

    fn plan(&self, format: Recognised, unsure: &mut Vec<String>) -> Result<TopicPlan, String> {
        let partitions = self.partitions.len();
        let sourced = |unsure: &mut Vec<String>| {
            if self.positions == 0 {
                unsure.push("watermark: messages carry no position of the source that is known, so offsets order them and there is no watermark".to_owned());
                return ("offsets", false);
            }
            if partitions > 1 {
                unsure.push(format!(
                    "watermark: the sample has {partitions} partitions; in mode sparse one that gets nothing holds the watermark, mode offsets has none"
                ));
            }
            ("sparse", true)
        };
        let mut deletes = None;
        let (watermark, shared) = match format {
            Recognised::Native => (self.native_watermark(unsure), false),
            Recognised::Debezium | Recognised::Maxwell => sourced(unsure),
            Recognised::DebeziumUnwrapped => {
                if self.says_deleted > 0 {
                    deletes = Some("rewrite");
                    sourced(unsure)
                } else {
                    if self.tombstones == 0 {
                        unsure.push("deletes: no row says __deleted and no value is null; if the transform drops deletes, rows that are gone stay in the view: set delete.tombstone.handling.mode=rewrite there".to_owned());
                    }
                    deletes = Some("tombstone");
                    ("offsets", false)
                }
            }
            _ => ("offsets", false),
        };
        if self.keyless > 0 && watermark == "offsets" && format != Recognised::Canal {
            unsure.push(format!(
                "{} messages have no key: offsets order only what stays in one partition",
                self.keyless
            ));
        }
        if format == Recognised::Canal && partitions > 1 {
            unsure.push("all messages of a row must be in one partition".to_owned());
        }
        Ok(TopicPlan { watermark, shared, deletes })
    }

    fn native_watermark(&self, unsure: &mut Vec<String>) -> &'static str {
        let all: BTreeSet<u64> = self.sequences.iter().map(|(_, sequence)| *sequence).collect();
        let (Some(&first), Some(&last)) = (all.first(), all.last()) else {
            unsure.push("watermark: no event carries source_seq, so offsets order them".to_owned());
            return "offsets";
        };
        let unbroken = last - first + 1 == all.len() as u64;
        let rising = self.partitions.keys().all(|partition| {
            let of = |entry: &&(i32, u64)| entry.0 == *partition;
            self.sequences.iter().filter(of).is_sorted_by_key(|(_, sequence)| *sequence)
        });
        let proposed = match () {
            () if unbroken => "dense",
            () if rising => "sparse",
            () => "append_ordered",
        };
        unsure.push(format!(
            "watermark: sequences {first} to {last} {}, and {} within partitions; only the writer of the log can promise it (see README)",
            if unbroken { "have no hole" } else { "have holes" },
            if rising { "rise" } else { "do not rise" },
        ));
        if proposed == "dense" && first > 1 {
            unsure.push(format!(
                "watermark: first_seq is 1 unless it is set; the least sequence seen is {first}"
            ));
        }
        proposed
    }
}

fn toml(
    topic: &str,
    format: Recognised,
    source_table: &str,
    guesses: &[Guess],
    key: &[String],
    plan: &TopicPlan,
) -> String {
    let name = source_table.rsplit('.').next().filter(|name| !name.is_empty());
    let table = identifier(name.unwrap_or_else(|| topic.rsplit('.').next().unwrap_or(topic)));
    let mut lines = vec!["[[table]]".to_owned(), format!("name = {}", quoted(&table))];
    let names: Vec<String> = key.iter().map(|name| quoted(&identifier(name))).collect();
    lines.push(format!("primary_key = [{}]", names.join(", ")));
    lines.extend(["".to_owned(), "[table.columns]".to_owned()]);
    for guess in guesses {
        let nullable = if guess.nullable && !key.contains(&guess.name) { "?" } else { "" };
        lines.push(format!("{} = \"{}{nullable}\"", identifier(&guess.name), guess.column_type));
    }
    lines.extend(["".to_owned(), "[[topic]]".to_owned(), format!("name = {}", quoted(topic))]);
    lines.push(format!("table = {}", quoted(&table)));
    lines.push(format!("format = \"{}\"", format.name()));
    if !source_table.is_empty() {
        lines.push(format!("source_table = {}", quoted(source_table)));
    }
    lines.extend(plan.deletes.map(|deletes| format!("deletes = \"{deletes}\"")));
    lines.push(format!("watermark = \"{}\"", plan.watermark));
    if plan.shared {
        lines.push("shared_seq = true".to_owned());
    }
    let readings = guesses.iter().filter_map(|guess| {
        let own = identifier(&guess.name);
        let from = (own != guess.name).then(|| format!("from = {}", quoted(&guess.name)));
        let parts: Vec<String> =
            from.into_iter().chain((!guess.reading.is_empty()).then(|| guess.reading.clone())).collect();
        (!parts.is_empty()).then(|| format!("{own} = {{ {} }}", parts.join(", ")))
    });
    let readings: Vec<String> = readings.collect();
    if !readings.is_empty() {
        lines.extend(["".to_owned(), "[topic.columns]".to_owned()]);
        lines.extend(readings);
    }
    lines.join("\n") + "\n"
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A name that a table or column may have here.
fn identifier(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(64).collect();
    let plain = plain.trim_start_matches('_');
    if plain.is_empty() { "column".to_owned() } else { plain.to_owned() }
}
