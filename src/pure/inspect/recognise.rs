//! Which format a message looks like, and where its rows are. Looks at one message.

use super::Seen;
use crate::pure::event::Mistake;
use crate::pure::formats::connect::{self, Unwrapped};
use crate::pure::formats::json::{Json, Object};
use crate::pure::formats::position;

/// What a message looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recognised {
    Native,
    Debezium,
    DebeziumUnwrapped,
    Upsert,
    Maxwell,
    Canal,
    /// A heartbeat, a transaction record, a schema change.
    Beside,
    /// Bytes with the mark of a schema registry.
    Registry,
    /// No JSON, or no object.
    Unknown,
}

impl Recognised {
    pub fn name(self) -> &'static str {
        match self {
            Recognised::Native => "native",
            Recognised::Debezium => "debezium",
            Recognised::DebeziumUnwrapped => "debezium_unwrapped",
            Recognised::Upsert => "upsert",
            Recognised::Maxwell => "maxwell",
            Recognised::Canal => "canal",
            Recognised::Beside => "no change",
            Recognised::Registry => "Avro of a schema registry",
            Recognised::Unknown => "no JSON object",
        }
    }
}

fn nothing<'a>(format: Recognised) -> Seen<'a> {
    Seen {
        format,
        table: String::new(),
        rows: Vec::new(),
        schema: None,
        key_names: None,
        sequences: Vec::new(),
        says_deleted: false,
        has_position: false,
    }
}

pub(super) fn recognise(value: &[u8]) -> Seen<'_> {
    if value.first() == Some(&0) && value.len() > 5 {
        return nothing(Recognised::Registry);
    }
    look(value).unwrap_or_else(|_| nothing(Recognised::Unknown))
}

fn look(value: &[u8]) -> Result<Seen<'_>, Mistake> {
    let Unwrapped { payload, schema } = connect::unwrap(Json::parse(value)?)?;
    if payload.is_array() {
        return native(
            &payload.items("the message")?.iter().filter_map(|item| item.object("").ok()).collect::<Vec<_>>(),
        );
    }
    if payload.is_null() {
        return Ok(nothing(Recognised::Beside));
    }
    let event = payload.object("the message")?;
    let schema = schema.map(|schema| schema.object("schema")).transpose()?;
    if event.has("op") && event.has("source") {
        return debezium(&event, schema);
    }
    if event.has("source_seq") || event.has("heartbeat") {
        return native(&[event]);
    }
    if event.has("isDdl") || event.has("pkNames") {
        return canal(&event);
    }
    if event.has("type") && event.has("database") {
        return maxwell(&event);
    }
    let only = |known: &[&str]| event.names().all(|name| known.contains(&name));
    if only(&["ts_ms", "ts_us", "ts_ns"])
        || event.has("ddl")
        || (event.has("status") && event.has("id") && event.has("event_count"))
    {
        return Ok(nothing(Recognised::Beside));
    }
    flat(event, schema)
}

fn native<'a>(events: &[Object<'a>]) -> Result<Seen<'a>, Mistake> {
    let mut seen = nothing(Recognised::Native);
    for event in events {
        seen.sequences.extend(event.number("source_seq")?);
        if let Some(row) = event.some("row")? {
            let row = row.object("row")?;
            // The envelope's own names that are the row's too are its key.
            let names = row.names().filter(|name| event.has(name)).map(str::to_owned);
            seen.key_names = Some(names.collect()).filter(|names: &Vec<String>| !names.is_empty());
            seen.rows.push(row);
        }
    }
    if seen.rows.is_empty() && seen.sequences.is_empty() {
        seen.format = Recognised::Beside;
    }
    Ok(seen)
}

fn debezium<'a>(event: &Object<'a>, schema: Option<Object<'a>>) -> Result<Seen<'a>, Mistake> {
    let mut seen = nothing(Recognised::Debezium);
    if let Some(source) = event.some("source")? {
        let source = source.object("source")?;
        seen.table = path(&source, &["schema", "table"])?;
        if !source.has("schema") {
            seen.table = path(&source, &["db", "table"])?;
        }
        seen.has_position = position::of_source(&source, "").is_ok();
    }
    if let Some(after) = event.some("after")? {
        seen.rows.push(after.object("after")?);
    }
    if event.text("op")?.as_deref() == Some("m") {
        return Ok(nothing(Recognised::Beside));
    }
    seen.schema = match schema {
        Some(schema) => connect::named(&schema, "after")?,
        None => None,
    };
    Ok(seen)
}

fn flat<'a>(row: Object<'a>, schema: Option<Object<'a>>) -> Result<Seen<'a>, Mistake> {
    let unwrapped = ["__op", "__deleted", "__table"].iter().any(|name| row.has(name));
    let mut seen = nothing(if unwrapped { Recognised::DebeziumUnwrapped } else { Recognised::Upsert });
    if unwrapped {
        seen.table = row.text("__table")?.unwrap_or_default().into_owned();
        seen.says_deleted = row.has("__deleted");
        seen.has_position =
            ["__source_", "__"].iter().any(|prefix| position::of_source(&row, prefix).is_ok());
    }
    let deleted = matches!(row.some("__deleted")?.map(Json::raw), Some("true" | "\"true\""));
    if !deleted {
        seen.rows.push(row);
    }
    seen.schema = schema;
    Ok(seen)
}

fn maxwell<'a>(event: &Object<'a>) -> Result<Seen<'a>, Mistake> {
    let mut seen = nothing(Recognised::Maxwell);
    let kind = event.text("type")?.unwrap_or_default();
    if !matches!(&*kind, "insert" | "update" | "delete" | "bootstrap-insert") {
        return Ok(nothing(Recognised::Beside));
    }
    seen.table = path(event, &["database", "table"])?;
    seen.has_position = event.has("position");
    if let Some(data) = event.some("data")? {
        seen.rows.push(data.object("data")?);
    }
    Ok(seen)
}

fn canal<'a>(event: &Object<'a>) -> Result<Seen<'a>, Mistake> {
    let mut seen = nothing(Recognised::Canal);
    if matches!(event.some("isDdl")?, Some(json) if json.raw() == "true") {
        return Ok(nothing(Recognised::Beside));
    }
    seen.table = path(event, &["database", "table"])?;
    if let Some(data) = event.some("data")? {
        for row in data.items("data")? {
            seen.rows.push(row.object("data")?);
        }
    }
    if let Some(names) = event.some("pkNames")? {
        let names = names.items("pkNames")?.into_iter().map(|name| name.as_text("pkNames"));
        let names: Vec<_> = names.collect::<Result<_, _>>()?;
        seen.key_names = Some(names.into_iter().flatten().map(Into::into).collect());
    }
    Ok(seen)
}

fn path(object: &Object<'_>, names: &[&str]) -> Result<String, Mistake> {
    let mut path = Vec::new();
    for name in names {
        path.extend(object.text(name)?.map(|text| text.into_owned()));
    }
    Ok(path.join("."))
}

/// The names that a message key has; nothing where it is a bare value.
pub(super) fn key_names(key: &[u8]) -> Option<Vec<String>> {
    let Unwrapped { payload, .. } = Json::parse(key).and_then(connect::unwrap).ok()?;
    let object = payload.object("the key").ok()?;
    // Maxwell's keys name database and table, and each column as `pk.column`.
    let of_maxwell: Vec<String> =
        object.names().filter_map(|name| name.strip_prefix("pk.")).map(str::to_owned).collect();
    if !of_maxwell.is_empty() {
        return Some(of_maxwell);
    }
    Some(object.names().map(str::to_owned).collect())
}
