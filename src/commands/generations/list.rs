//! `driftless generations list`.

use serde_json::{Value, json};

use super::context_of;
use crate::commands::context::Context;
use crate::commands::output::{human, print_json, table, tell};
use crate::commands::{CommandResult, Format, Verdict};
use crate::ports::BaseReader;
use crate::pure::base::Head;
use crate::pure::generation::{Control, Generation, Origin, Stage};
use crate::pure::publish::timestamp_text;

pub fn run(context: &Context, format: Format) -> CommandResult {
    let control = context.control()?;
    let heads: Vec<Result<Head, String>> = control
        .generations
        .iter()
        .map(|entry| head(context, &control, entry).map_err(|error| error.to_string()))
        .collect();
    if format == Format::Json {
        let entries: Vec<Value> = control
            .generations
            .iter()
            .zip(&heads)
            .map(|(entry, head)| entry_json(&control, entry, head))
            .collect();
        print_json(&json!({"live": control.live, "generations": entries, "history": control.history}));
        return Ok(Verdict::Fine);
    }
    let live = control
        .generations
        .iter()
        .zip(&heads)
        .find(|(entry, _)| control.is_live(&entry.name))
        .and_then(|(_, head)| head.as_ref().ok());
    let mut rows = table(&["generation", "is", "from", "watermark", "behind live", "certified", "file"]);
    for (entry, head) in control.generations.iter().zip(&heads) {
        let behind = match (head, live) {
            (Ok(head), Some(live)) => human(offsets_behind(head, live)),
            _ => "-".to_owned(),
        };
        let watermark = match head {
            Ok(head) => watermarks(head),
            Err(error) => error.lines().next().unwrap_or_default().to_owned(),
        };
        let certified = entry.certificate.as_ref().map_or_else(
            || "no".to_owned(),
            |proof| format!("{} by {}", timestamp_text(Some(proof.word.at_ms)), proof.word.who),
        );
        rows.add_row([
            entry.name.clone(),
            role(&control, entry).to_owned(),
            origin(entry),
            watermark,
            behind,
            certified,
            entry.file.clone(),
        ]);
    }
    tell!("{rows}");
    if let Some(last) = control.history.last() {
        tell!(
            "last activation: {} after {} at {} by {}: {}",
            last.to,
            last.from,
            timestamp_text(Some(last.word.at_ms)),
            last.word.who,
            last.word.why
        );
    }
    Ok(Verdict::Fine)
}

fn head(
    context: &Context,
    control: &Control,
    entry: &Generation,
) -> Result<Head, crate::commands::CommandError> {
    let mut reader = context_of(context, control, &entry.name)?.open_reader()?;
    let head = reader.snapshot()?.head()?;
    Ok(head)
}

fn entry_json(control: &Control, entry: &Generation, head: &Result<Head, String>) -> Value {
    let mut value = json!(entry);
    value["is"] = role(control, entry).into();
    match head {
        Ok(head) => {
            value["commit"] = head.commit.0.into();
            value["watermarks"] = head
                .tables
                .iter()
                .map(|table| table.watermark.map(|watermark| watermark.to_string()))
                .collect::<Vec<_>>()
                .into();
            value["positions"] = head
                .positions
                .iter()
                .map(|position| (position.at.to_string(), Value::from(position.next_offset)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        Err(error) => value["error"] = error.as_str().into(),
    }
    value
}

fn role(control: &Control, entry: &Generation) -> &'static str {
    if control.is_live(&entry.name) {
        "live"
    } else if entry.stage == Stage::Building {
        "being built"
    } else if control.way_back().is_some_and(|way_back| way_back.name == entry.name) {
        "way back"
    } else if entry.activated > 0 {
        "was live"
    } else if entry.bound.is_none() {
        "candidate"
    } else {
        "candidate, stands still"
    }
}

fn origin(entry: &Generation) -> String {
    match &entry.origin {
        Origin::First => "the first base".to_owned(),
        Origin::Log => match entry.bound.through_seq {
            Some(seq) => format!("log up to sequence {seq}"),
            None => "log".to_owned(),
        },
        Origin::Copy { of } => format!("copy of {of}, log read again"),
        Origin::Contracts { of, objects } => format!("rows of {of}, new contract of {}", objects.join(", ")),
    }
}

pub(super) fn watermarks(head: &Head) -> String {
    let texts: Vec<String> = head
        .tables
        .iter()
        .map(|table| table.watermark.map_or_else(|| "-".to_owned(), |watermark| watermark.to_string()))
        .collect();
    texts.join(", ")
}

fn offsets_behind(head: &Head, live: &Head) -> u64 {
    let behind = live.positions.iter().map(|position| {
        let next =
            head.positions.iter().find(|ours| ours.at == position.at).map_or(0, |ours| ours.next_offset);
        (position.next_offset - next).max(0).unsigned_abs()
    });
    behind.sum()
}
