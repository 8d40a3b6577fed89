//! `driftless contract diff`: what a changed contract means to those who read the view.

use serde_json::{Value as Json, json};

use crate::commands::output::{print_json, table, tell};
use crate::commands::{CommandResult, Format, Verdict};
use crate::pure::contract::{Consumer, View};
use crate::pure::impact::{ContractDiff, of_change};

const SCHEMA: &str = "driftless.contract-diff/1";

/// Prints the differences; the answer is no where Redis has to hold something else.
pub fn run(old: &View, new: &View, format: Format) -> CommandResult {
    let diff = of_change(old, new);
    match format {
        Format::Json => print_json(&as_json(old, new, &diff)),
        Format::Text => print_text(old, new, &diff),
    }
    Ok(if diff.meaning || diff.definition { Verdict::No } else { Verdict::Fine })
}

fn as_json(old: &View, new: &View, diff: &ContractDiff) -> Json {
    let side = |view: &View| {
        json!({
            "view": view.object, "contract_hash": view.contract_hash, "definition_hash": view.definition_hash,
        })
    };
    let consumer = |consumer: &Consumer| json!({"name": consumer.name, "owner": consumer.owner});
    let differences: Vec<Json> = diff
        .differences
        .iter()
        .map(|found| json!({"place": found.place, "old": found.old, "new": found.new}))
        .collect();
    json!({
        "schema": SCHEMA, "old": side(old), "new": side(new),
        "meaning_changes": diff.meaning, "definition_changes": diff.definition,
        "differences": differences, "fields_appear": diff.appear, "fields_vanish": diff.vanish,
        "consumers": diff.consumers.iter().map(consumer).collect::<Vec<_>>(),
    })
}

fn print_text(old: &View, new: &View, diff: &ContractDiff) {
    tell!("old  {}  contract {}  definition {}", old.object, old.contract_hash, old.definition_hash);
    tell!("new  {}  contract {}  definition {}", new.object, new.contract_hash, new.definition_hash);
    if diff.differences.is_empty() {
        tell!("both say the same");
        return;
    }
    let mut rows = table(&["place", "old", "new"]);
    for found in &diff.differences {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        rows.add_row([found.place.clone(), text(&found.old), text(&found.new)]);
    }
    tell!("{rows}");
    if !diff.appear.is_empty() {
        tell!("fields that appear: {}", diff.appear.join(", "));
    }
    if !diff.vanish.is_empty() {
        tell!("fields that vanish: {}", diff.vanish.join(", "));
    }
    match (diff.meaning, diff.definition) {
        (true, _) => tell!(
            "the numbers mean something else: a new generation is needed, and whoever pins the old contract hash gets \
             CONTRACT_MISMATCH"
        ),
        (false, true) => {
            tell!("the numbers mean the same, Redis holds something else: a new generation is needed")
        }
        (false, false) => tell!("the numbers mean the same, and Redis holds the same"),
    }
    for consumer in &diff.consumers {
        let owner = consumer.owner.as_deref().unwrap_or("nobody named");
        tell!("consumer of the old contract: {} (owner: {owner})", consumer.name);
    }
}
