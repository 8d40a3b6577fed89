//! `driftless explain`: why a number is what it is.

use clap::Args;
use serde_json::{Value as Json, json};

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::io::redis::{PublishEntry, first_publish_from};
use crate::io::sqlite::{Cause, GroupChange, GroupFacts, RowMove};
use crate::ports::{Lineage, Meta, PortError, StoredFields, ViewStore};
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;
use crate::pure::meta::watermark_text;
use crate::pure::publish::{Cursor, timestamp_text};
use crate::pure::query::parse_value;
use crate::pure::schema::Table;

const SCHEMA: &str = "driftless.explain/1";

/// Show a group's value in Redis and in the base, the rows behind it, and the last changes that touched it.
///
/// Reads the base file itself, so a contract's policy does not bind it: who may read that file may see this. Exit 0
/// where both values agree or the difference is waiting to be published, 1 where they differ and nothing explains it,
/// 2 where they cannot be compared.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless explain agg_daily_product 2026-09-22 P100
         driftless explain agg_daily_product --key '2026-09-22:%~' --rows 50 --format json")]
pub struct Arguments {
    /// The view.
    view: String,
    /// The values of the grain, in its order.
    #[arg(conflicts_with = "key", allow_negative_numbers = true)]
    values: Vec<String>,
    /// The encoded group key instead, as in Redis: the way to name a group with a null.
    #[arg(long)]
    key: Option<String>,
    /// Rows that are shown at most.
    #[arg(long, default_value_t = 20)]
    rows: usize,
    /// Changes that are shown at most.
    #[arg(long, default_value_t = 10)]
    changes: usize,
}

/// How the value in Redis stands to the base's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Equal,
    /// The group was marked after the version that Redis shows.
    Pending,
    Differs,
    Unknown(&'static str),
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Standing::Equal => "equal",
            Standing::Pending => "pending",
            Standing::Differs => "differs",
            Standing::Unknown(_) => "unknown",
        }
    }
}

/// All that was found out.
struct Explained {
    key: GroupKey,
    shown: Result<(Meta, StoredFields), PortError>,
    facts: GroupFacts,
    publish: Option<PublishEntry>,
    standing: Standing,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let view = context.view(Some(&arguments.view))?;
    let entry = &context.catalog.views[view];
    let shape = &context.catalog.tables[entry.table].shape;
    let key = group_key(&entry.view, arguments)?;
    // Redis first: whatever the base has then and Redis has not is marked later.
    let mut reader = context.open_reader()?;
    let shown = context.open_store()?.read_rows(&entry.view.object, std::slice::from_ref(&key));
    let shown = shown.map(|(meta, rows)| (meta, rows.into_iter().next().unwrap_or_default()));
    let cursor = shown.as_ref().map(|(meta, _)| Cursor::from_meta(meta)).unwrap_or_default();
    let facts = reader.explain(view, shape, &key, &cursor, arguments.rows, arguments.changes)?;
    let publish = match (&shown, facts.changed_at) {
        (Ok(_), Some(commit)) => {
            first_publish_from(&context.redis_settings(), &entry.view.object, commit.0).unwrap_or_default()
        }
        _ => None,
    };
    let standing = standing(&entry.view, &shown, &cursor, &facts);
    let explained = Explained { key, shown, facts, publish, standing };
    match shared.format {
        Format::Json => print_json(&as_json(&entry.view, shape, entry.table, &explained)),
        Format::Text => print_text(&entry.view, shape, entry.table, &explained),
    }
    match (explained.standing, explained.shown) {
        (Standing::Equal | Standing::Pending, _) => Ok(Verdict::Fine),
        (Standing::Differs, _) => Ok(Verdict::No),
        (Standing::Unknown(_), Err(error)) => Err(error.into()),
        (Standing::Unknown(why), Ok(_)) => {
            Err(CommandError::usage(why, "see driftless status; nothing can be said of this value"))
        }
    }
}

fn group_key(view: &View, arguments: &Arguments) -> Result<GroupKey, CommandError> {
    let names: Vec<&str> = view.grain.iter().map(|dimension| dimension.name.as_str()).collect();
    let remedy = format!("give the values of {}, or --key ENCODED", names.join(", "));
    let wrong = |what: String| CommandError::usage(what, remedy.clone());
    if let Some(text) = &arguments.key {
        let key = GroupKey::from_encoded(text.as_str());
        return match key.decode(&view.grain_types()) {
            Some(_) => Ok(key),
            None => Err(wrong(format!("--key: {text:?} is no group key of {}", view.object))),
        };
    }
    if arguments.values.len() != view.grain.len() {
        return Err(wrong(format!("{} values were given", arguments.values.len())));
    }
    let values: Vec<_> = view
        .grain
        .iter()
        .zip(&arguments.values)
        .map(|(dimension, text)| parse_value(text, &dimension.name, dimension.column_type))
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    Ok(GroupKey::encode(&values))
}

fn standing(
    view: &View,
    shown: &Result<(Meta, StoredFields), PortError>,
    cursor: &Cursor,
    facts: &GroupFacts,
) -> Standing {
    let Ok((meta, fields)) = shown else {
        return Standing::Unknown("Redis could not be asked");
    };
    if meta.is_empty() {
        return Standing::Unknown("the view is not in Redis");
    }
    let expected = facts.value.as_ref().map(|value| value.fields(&view.columns())).unwrap_or_default();
    if expected == *fields {
        return Standing::Equal;
    }
    if facts.lineage != Lineage::Marked {
        return Standing::Unknown("Redis shows a state that this base does not know");
    }
    if !cursor.token.is_empty() || facts.changed_at.is_some_and(|commit| commit.0 > cursor.version) {
        return Standing::Pending;
    }
    Standing::Differs
}

fn as_json(view: &View, shape: &Table, table: usize, explained: &Explained) -> Json {
    let Explained { key, shown, facts, publish, standing } = explained;
    let redis = match shown {
        Err(error) => json!({"error": error.what}),
        Ok((meta, fields)) => json!({
            "value": (!fields.is_empty()).then_some(fields),
            "version": meta.get("version"), "watermark": meta.get("watermark"), "status": meta.get("status"),
            "refreshed_at": meta.get("refreshed_at"), "confirmed_at": meta.get("confirmed_at"),
        }),
    };
    let value = facts.value.as_ref().map(|value| value.fields(&view.columns()));
    let rows: Vec<Json> = facts
        .rows
        .iter()
        .map(|(seq, row)| {
            let columns = shape.columns.iter().zip(row);
            let row: serde_json::Map<String, Json> =
                columns.map(|(column, value)| (column.name.to_string(), value.to_json())).collect();
            json!({"seq": seq.to_string(), "row": row})
        })
        .collect();
    json!({
        "schema": SCHEMA, "view": view.object, "key": key.as_str(), "standing": standing.name(),
        "contract_hash": view.contract_hash,
        "redis": redis,
        "base": {
            "value": value, "version": facts.head.commit.0, "watermark": watermark_text(&facts.head, table),
            "changed_at_commit": facts.changed_at.map(|commit| commit.0), "generation": facts.head.generation,
        },
        "published": publish.as_ref().map(|publish| json!({
            "version": publish.version, "watermark": publish.watermark,
            "at": timestamp_text(Some(publish.at_ms)), "groups": publish.groups,
        })),
        "rows_total": facts.rows_total, "rows": rows,
        "changes": facts.changes.iter().map(change_json).collect::<Vec<_>>(),
    })
}

fn change_json(change: &GroupChange) -> Json {
    let mut entry =
        json!({"commit": change.commit.0, "committed_at": change.at_ms.map(|at| timestamp_text(Some(at)))});
    match &change.cause {
        Cause::Repair => entry["repair"] = true.into(),
        Cause::Event { at, offset, seq, row } => {
            entry["event"] = json!({
                "topic": &*at.topic, "partition": at.partition, "offset": offset, "seq": seq.to_string(),
            });
            let (what, other) = match row {
                RowMove::Here => ("row_is_here", None),
                RowMove::CameFrom(other) => ("row_came_from", Some(other)),
                RowMove::WentTo(other) => ("row_went_to", Some(other)),
                RowMove::Between(other) => ("row_moved_between", Some(other)),
                RowMove::Unknown => ("row_is_elsewhere", None),
            };
            entry["what"] = what.into();
            entry["other_group"] = json!(other.map(GroupKey::as_str));
        }
    }
    entry
}

fn move_text(row: &RowMove) -> String {
    match row {
        RowMove::Here => "wrote a row that is in this group".to_owned(),
        RowMove::CameFrom(other) => format!("brought a row here from {other}"),
        RowMove::WentTo(other) => format!("took a row from here to {other}"),
        RowMove::Between(other) => {
            format!("moved a row between here and {other}; it has changed since, or is filtered out")
        }
        RowMove::Unknown => {
            "touched a row that was deleted, has changed since, or is filtered out".to_owned()
        }
    }
}

fn print_text(view: &View, shape: &Table, table_index: usize, explained: &Explained) {
    let Explained { key, shown, facts, publish, standing } = explained;
    tell!("{} {key}: {}", view.object, standing_text(*standing));
    print_values(view, explained);
    match shown {
        Err(error) => tell!("Redis  {}", error.what),
        Ok((meta, _)) => {
            let text = |name: &str| meta.get(name).map_or("-", String::as_str);
            tell!(
                "Redis  version {}, watermark {}, {}, confirmed for {}",
                text("version"),
                text("watermark"),
                text("status"),
                text("confirmed_at")
            );
        }
    }
    tell!(
        "base   commit {}, watermark {}, generation {}; the group changed last in commit {}",
        facts.head.commit,
        watermark_text(&facts.head, table_index),
        facts.head.generation,
        facts.changed_at.map_or_else(|| "-".to_owned(), |commit| commit.to_string())
    );
    if let Some(publish) = publish {
        tell!(
            "that was published with version {} at {} (watermark {}, {} groups)",
            publish.version,
            timestamp_text(Some(publish.at_ms)),
            publish.watermark,
            publish.groups
        );
    }
    tell!("{} rows are in the value; the first {}:", facts.rows_total, facts.rows.len());
    let mut header = vec!["seq"];
    header.extend(shape.columns.iter().map(|column| &*column.name));
    let mut rows = table(&header);
    for (seq, row) in &facts.rows {
        rows.add_row(std::iter::once(seq.to_string()).chain(row.iter().map(ToString::to_string)));
    }
    tell!("{rows}\nthe last {} changes that the history tells:", facts.changes.len());
    let mut rows = table(&["commit", "committed at", "event", "what it did"]);
    for change in &facts.changes {
        let (event, what) = match &change.cause {
            Cause::Repair => ("-".to_owned(), "marked by a repair".to_owned()),
            Cause::Event { at, offset, seq, row } => {
                (format!("seq {seq}, {at} offset {offset}"), move_text(row))
            }
        };
        rows.add_row([change.commit.to_string(), timestamp_text(change.at_ms), event, what]);
    }
    tell!("{rows}");
}

fn standing_text(standing: Standing) -> &'static str {
    match standing {
        Standing::Equal => "Redis and base agree",
        Standing::Pending => "changed after the version that Redis shows; the next publish shows it",
        Standing::Differs => "Redis DIFFERS from the base, and no mark explains it (driftless reconcile)",
        Standing::Unknown(why) => why,
    }
}

fn print_values(view: &View, explained: &Explained) {
    let columns = view.columns();
    let base = explained.facts.value.as_ref().map(|value| value.fields(&columns));
    let redis = explained.shown.as_ref().ok().map(|(_, fields)| fields);
    let mut names = columns;
    // What is no measure is told too: the error that stands for all of them, or what somebody else wrote.
    for name in redis.into_iter().chain(&base).flat_map(|fields| fields.keys()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let mut rows = table(&["field", "Redis", "base"]);
    for name in &names {
        let of = |fields: Option<&StoredFields>| {
            fields.and_then(|fields| fields.get(name)).map_or_else(|| "-".to_owned(), Clone::clone)
        };
        rows.add_row([name.clone(), of(redis), of(base.as_ref())]);
    }
    tell!("{rows}");
}
