//! How a stage of the story looks: as text for a terminal, as JSON for programs.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value as Json, json};

use crate::commands::checksum::Group;
use crate::commands::story::Stage;
use crate::example::evidence::{self, dollars};
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;
use crate::pure::value::Value;

/// Headline, both sides, and the groups as Redis shows them.
pub fn stage_text(view: &View, number: u32, stage: &Stage) -> String {
    let seen = &stage.seen;
    let (base, shown) = (base_cents(stage), evidence::total(view, &seen.groups, "gmv_cents"));
    let watermark = |seq: Option<_>| seq.map_or_else(|| "-".to_owned(), |seq| format!("{seq}"));
    let mut lines = vec![format!("{number}. {}", stage.title)];
    let events = stage.committed;
    if events.consumed > 0 {
        lines.push(format!(
            "   events {} read: {} applied, {} duplicates",
            events.consumed, events.applied, events.duplicate
        ));
    }
    lines.push(format!(
        "   base   watermark {}   GMV {:>6} USD",
        watermark(seen.base_watermark),
        dollars(base)
    ));
    lines.push(format!(
        "   Redis  watermark {}   GMV {:>6} USD   {}",
        watermark(seen.watermark()),
        dollars(shown),
        seen.status()
    ));
    if base != shown {
        lines.push(format!("   gap    {} USD", dollars(base - shown)));
    }
    lines.push(format!("   dirty  {}", dirty_text(view, stage)));
    let (base, shown) = sha256(view, stage);
    lines.push(format!("   sha256 base {}…   view {}…", &base[..8], &shown[..8]));
    let table = groups_table(view, stage).to_string();
    lines.extend(table.lines().map(|line| format!("   {}", line.trim_end())));
    lines.join("\n")
}

fn dirty_text(view: &View, stage: &Stage) -> String {
    let groups = |keys: &[&GroupKey]| match keys {
        [key] => format!("1 group: {}", key_text(view, key)),
        keys => format!("{} groups", keys.len()),
    };
    match &stage.published {
        Some(published) => {
            let keys: Vec<&GroupKey> = published.keys.iter().collect();
            let done = if keys.is_empty() { "" } else { ", recomputed from the base and published" };
            format!("{}{done}", groups(&keys))
        }
        None => {
            let keys: Vec<&GroupKey> = stage.seen.pending.iter().map(|(key, _)| key).collect();
            format!("{}, waiting to be recomputed", groups(&keys))
        }
    }
}

fn groups_table(view: &View, stage: &Stage) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["order_date", "product", "lines", "orders", "units", "GMV USD", "profit USD", ""]);
    for column in 2..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (key, group) in &stage.seen.groups {
        let row = evidence::aggregate_row(view, key, group);
        let number = |name: &str| row[name].as_i64().unwrap_or_default();
        table.add_row([
            key.first().map_or_else(String::new, Value::to_string),
            key.get(1).map_or_else(String::new, Value::to_string),
            number("line_count").to_string(),
            number("order_count").to_string(),
            number("units").to_string(),
            dollars(number("gmv_cents")),
            dollars(number("profit_cents")),
            note(view, stage, key),
        ]);
    }
    table
}

/// What there is to say of one group.
fn note(view: &View, stage: &Stage, key: &[Value]) -> String {
    let key = GroupKey::encode(key);
    if let Some((_, value)) = stage.seen.pending.iter().find(|(pending, _)| *pending == key) {
        let groups: Vec<Group> = value.iter().map(|value| (Vec::new(), value.clone())).collect();
        return format!("<- dirty: {} in the base", dollars(evidence::total(view, &groups, "gmv_cents")));
    }
    let published = stage.published.iter().any(|published| !published.full && published.keys.contains(&key));
    if published { "<- recomputed".to_owned() } else { String::new() }
}

fn base_cents(stage: &Stage) -> i64 {
    evidence::base_controls(&stage.seen.rows)["gmv_cents"].as_i64().unwrap_or_default()
}

/// Of the base's rows and of the groups in Redis, by the example's own rules.
fn sha256(view: &View, stage: &Stage) -> (String, String) {
    let seen = &stage.seen;
    let groups = evidence::aggregate_sha256(view, &seen.groups, &evidence::AGGREGATE_CHECKSUM);
    (evidence::base_sha256(&seen.rows), groups)
}

fn key_text(view: &View, key: &GroupKey) -> String {
    key.decode(&view.grain_types()).map_or_else(
        || key.to_string(),
        |parts| parts.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
    )
}

/// The stage for programs, in the names of the acceptance's evidence.
pub fn stage_json(view: &View, number: u32, stage: &Stage) -> Json {
    let seen = &stage.seen;
    let pending: Vec<&GroupKey> = seen.pending.iter().map(|(key, _)| key).collect();
    let recomputed: Vec<&GroupKey> = stage.published.iter().flat_map(|published| &published.keys).collect();
    let gap = base_cents(stage) - evidence::total(view, &seen.groups, "gmv_cents");
    let (base_sha256, view_sha256) = sha256(view, stage);
    json!({
        "step": number,
        "stage": stage.name,
        "title": stage.title,
        "status": seen.status(),
        "events": {
            "consumed": stage.committed.consumed,
            "applied": stage.committed.applied,
            "duplicate": stage.committed.duplicate,
        },
        "base": {
            "commit": seen.commit.0,
            "watermark": seen.base_watermark.map(|seq| seq.position),
            "controls": evidence::base_controls(&seen.rows),
            "sha256": base_sha256,
        },
        "redis": {
            "version": seen.version().0,
            "watermark": seen.watermark().map(|seq| seq.position),
            "controls": evidence::aggregate_controls(view, &seen.groups),
            "sha256": view_sha256,
            "groups": evidence::aggregate_rows(view, &seen.groups),
        },
        "staleness_gap_usd": evidence::usd(gap),
        "pending_dirty_keys": keys_json(view, &pending),
        "dirty_keys_recomputed": keys_json(view, &recomputed),
    })
}

/// Group keys as lists of their grain's values.
pub fn keys_json(view: &View, keys: &[&GroupKey]) -> Json {
    let types = view.grain_types();
    keys.iter()
        .map(|key| match key.decode(&types) {
            Some(parts) => parts.iter().map(Value::to_json).collect::<Json>(),
            None => key.as_str().into(),
        })
        .collect()
}
