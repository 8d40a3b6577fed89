//! The evidence of the story as one JSON document, in the names of `expected.json`.

use serde_json::{Value as Json, json};

use crate::commands::demo::keys_json;
use crate::commands::story::Stage;
use crate::example::evidence::{
    AGGREGATE_CHECKSUM, aggregate_controls, aggregate_row, aggregate_rows, aggregate_sha256, base_controls,
    base_sha256, catalog_entry, cube, grain, total, usd,
};
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;

pub fn of_story(view: &View, stages: &[Stage]) -> Json {
    let last = stages.last();
    let watermark = last.and_then(|stage| stage.seen.watermark()).map(|seq| seq.position);
    json!({
        "semantic_contract_hash": view.contract_hash,
        "freshness_slo_seconds": view.freshness_slo_seconds,
        "catalog_entry": catalog_entry(view, watermark.into()),
        "stages": (0..stages.len()).map(|number| of_stage(view, stages, number)).collect::<Json>(),
        "changed_group": changed_group(view, stages),
        "cube": last.map(|stage| {
            let mut cube = cube(&stage.seen.rows);
            cube["measured_after_event"] = stage.after_event.into();
            cube
        }),
    })
}

fn of_stage(view: &View, stages: &[Stage], number: usize) -> Json {
    let stage = &stages[number];
    let seen = &stage.seen;
    let all_columns = view.columns();
    let all_columns: Vec<&str> = all_columns.iter().map(String::as_str).collect();
    let sha256 = |stage: &Stage| aggregate_sha256(view, &stage.seen.groups, &AGGREGATE_CHECKSUM);
    let mut evidence = json!({
        "stage": stage.name,
        "after_event": stage.after_event,
        "events": {
            "consumed": stage.committed.consumed, "applied": stage.committed.applied,
            "duplicate": stage.committed.duplicate,
        },
        "base_controls": base_controls(&seen.rows),
        "agg_controls": aggregate_controls(view, &seen.groups),
        "agg_rows": aggregate_rows(view, &seen.groups),
        "state": state(view, stages, number),
        "sha256": {"fact_sales": base_sha256(&seen.rows), "agg_daily_product": sha256(stage)},
        "agg_sha256_with_order_count": aggregate_sha256(view, &seen.groups, &all_columns),
    });
    match &stage.published {
        None => {
            let gap = total_base(stage) - total(view, &seen.groups, "gmv_cents");
            let pending: Vec<&GroupKey> = seen.pending.iter().map(|(key, _)| key).collect();
            evidence["staleness_gap_usd"] = usd(gap);
            evidence["staleness_gap_cents"] = gap.into();
            evidence["pending_dirty_keys"] = keys_json(view, &pending);
        }
        Some(published) => {
            let name = if published.full {
                "dirty_keys_if_built_incrementally_from_empty"
            } else {
                "dirty_keys_recomputed"
            };
            evidence[name] = keys_json(view, &published.keys.iter().collect::<Vec<_>>());
        }
    }
    if stage.name == "rerun" {
        let before = number.checked_sub(1).map(|before| &stages[before]);
        evidence["idempotent_rerun_same_hash"] =
            before.is_some_and(|before| sha256(before) == sha256(stage)).into();
    }
    evidence
}

fn total_base(stage: &Stage) -> i64 {
    base_controls(&stage.seen.rows)["gmv_cents"].as_i64().unwrap_or_default()
}

/// What Redis says of the view, and how it was last refreshed.
fn state(view: &View, stages: &[Stage], number: usize) -> Json {
    let seen = &stages[number].seen;
    let refreshed = stages[..=number].iter().rev().find_map(|stage| stage.published.as_ref());
    let mode = match refreshed {
        Some(published) if published.full => "full".into(),
        Some(_) => view.document["refresh"]["mode"].clone(),
        None => Json::Null,
    };
    json!({
        "object_name": seen.meta.get("object"),
        "grain": format!("one paid sales aggregate row per {}", grain(view)),
        "refresh_mode": mode,
        "refreshed_through_seq": seen.watermark().map(|seq| seq.position),
        "refreshed_at": seen.meta.get("refreshed_at"),
        "freshness_slo_seconds": view.freshness_slo_seconds,
        "semantic_contract_hash": seen.meta.get("contract_hash"),
        "status": seen.status(),
        "version": seen.version().0,
        "base_commit": seen.commit.0,
        "base_watermark": seen.base_watermark.map(|seq| seq.position),
    })
}

/// The group that the refresh changed, as Redis showed it before and after.
fn changed_group(view: &View, stages: &[Stage]) -> Json {
    let find = |name: &str| stages.iter().find(|stage| stage.name == name);
    let (Some(before), Some(after)) = (find("stale"), find("refreshed")) else { return Json::Null };
    let Some(key) = after.published.iter().flat_map(|published| &published.keys).next() else {
        return Json::Null;
    };
    let shown = |stage: &Stage| {
        let group = stage.seen.groups.iter().find(|(parts, _)| GroupKey::encode(parts) == *key);
        group.map(|(parts, value)| aggregate_row(view, parts, value))
    };
    json!({"key": keys_json(view, &[key])[0], "before": shown(before), "after": shown(after)})
}
