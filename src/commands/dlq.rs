//! `driftless dlq`: dead letters, what they hold up, and the ways out.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict, request};
use crate::io::sqlite::SqliteReader;
use crate::pure::base::{Action, Letter};
use crate::pure::publish::timestamp_text;

/// List, show, waive or retry events that could not be applied.
///
/// An open dead letter holds the watermark. Retry it after a fix of configuration or release; waive it when the
/// event does not matter.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless dlq list
         driftless dlq waive 3 --why 'test message of the producer team'")]
pub struct Arguments {
    #[command(subcommand)]
    action: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// One line a dead letter; exit 1 where any is open.
    #[command(after_help = "Example: driftless dlq list --all --format json")]
    List {
        /// Resolved ones too.
        #[arg(long)]
        all: bool,
        /// At most this many.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// All of one, with its original bytes.
    #[command(after_help = "Example: driftless dlq show 3")]
    Show { letter: i64 },
    /// Give an event up, or a hole of a dense sequence: the watermark goes on, and it stays on record.
    #[command(after_help = "Example: driftless dlq waive 3 --why 'test message'
         driftless dlq waive 3 --seq 1004 --why 'cut off by the producer, seq from its log'
         driftless dlq waive --table fact_sales --seq 1017 --why 'never issued'")]
    Waive {
        /// Number of the dead letter; left out for a hole.
        letter: Option<i64>,
        /// The table whose sequence has the hole.
        #[arg(long, conflicts_with = "letter")]
        table: Option<String>,
        /// The event's sequence where its message does not tell; for a hole a number or FROM-TO.
        #[arg(long, value_name = "N|FROM-TO")]
        seq: Option<String>,
        /// Stays on record.
        #[arg(long)]
        why: String,
        /// Stays on record [default: the user's name].
        #[arg(long)]
        who: Option<String>,
    },
    /// Decode and apply again; exit 1 where any stays open.
    #[command(after_help = "Example: driftless dlq retry --why 'the new release reads it'
         driftless dlq retry 3 --why 'fixed in the release of today'")]
    Retry {
        /// Number of the dead letter [default: all open ones].
        letter: Option<i64>,
        #[arg(long, default_value = "retry")]
        why: String,
        #[arg(long)]
        who: Option<String>,
    },
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    match &arguments.action {
        DlqCommand::List { all, limit } => list(&context.open_reader()?, *all, *limit, shared.format),
        DlqCommand::Show { letter } => show(&context.open_reader()?, *letter, shared.format),
        DlqCommand::Waive { letter, table, seq, why, who } => {
            let action = waiver(*letter, table.as_deref(), seq.as_deref())?;
            request::ask(&context, &action, who.as_deref(), why, shared.format)
        }
        DlqCommand::Retry { letter, why, who } => {
            let action = Action::RetryLetters { letter: *letter };
            let verdict = request::ask(&context, &action, who.as_deref(), why, shared.format)?;
            let open = context.open_reader()?.letters(*letter, true, 1)?;
            Ok(if open.is_empty() { verdict } else { Verdict::No })
        }
    }
}

fn waiver(letter: Option<i64>, table: Option<&str>, seq: Option<&str>) -> Result<Action, CommandError> {
    let wrong = |what: &str| {
        CommandError::usage(
            what,
            "driftless dlq waive ID [--seq N], or driftless dlq waive --table T --seq N|FROM-TO",
        )
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong("--seq: that is no sequence number"));
    match (letter, table, seq) {
        (Some(letter), None, seq) => Ok(Action::WaiveLetter { letter, seq: seq.map(number).transpose()? }),
        (None, Some(table), Some(seq)) => {
            let (from, to) = seq.split_once('-').unwrap_or((seq, seq));
            let (from, to) = (number(from)?, number(to)?);
            if from > to || to > i64::MAX as u64 {
                return Err(wrong("--seq: the run ends before it begins, or lies beyond 2^63"));
            }
            Ok(Action::WaiveSeq { table: table.to_owned(), from, to })
        }
        _ => Err(wrong("name a dead letter, or a table and a sequence")),
    }
}

fn list(reader: &SqliteReader, all: bool, limit: usize, format: Format) -> CommandResult {
    let letters = reader.letters(None, !all, limit)?;
    if format == Format::Json {
        print_json(&Value::from(letters.iter().map(as_json).collect::<Vec<_>>()));
    } else if letters.is_empty() {
        tell!("no dead letters");
    } else {
        let mut rows = table(&["id", "state", "place", "seq", "reason", "detail", "since"]);
        for letter in &letters {
            rows.add_row([
                letter.id.to_string(),
                letter.state.name().to_owned(),
                format!("{} offset {}", letter.at, letter.offset),
                letter.seq.map_or_else(|| "unknown".to_owned(), |seq| seq.to_string()),
                letter.reason.clone(),
                letter.detail.clone(),
                timestamp_text(Some(letter.created_ms)),
            ]);
        }
        tell!("{rows}");
    }
    // Asked for itself: the list may end before the first open one.
    let open = !reader.letters(None, true, 1)?.is_empty();
    Ok(if open { Verdict::No } else { Verdict::Fine })
}

fn show(reader: &SqliteReader, id: i64, format: Format) -> CommandResult {
    let Some(letter) = reader.letters(Some(id), false, 1)?.pop() else {
        tell!("there is no dead letter {id}");
        return Ok(Verdict::No);
    };
    let document = as_json(&letter);
    match format {
        Format::Json => print_json(&document),
        Format::Text => {
            let mut rows = table(&["", ""]);
            for (name, value) in document.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                rows.add_row([name.as_str(), text.as_str()]);
            }
            tell!("{rows}");
        }
    }
    Ok(Verdict::Fine)
}

/// Bytes that are no UTF-8 are told in hexadecimal.
fn as_json(letter: &Letter) -> Value {
    let bytes = |bytes: &Option<Vec<u8>>| match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({"hex": crate::pure::canonical::hex(bytes)}),
        },
    };
    json!({
        "id": letter.id,
        "state": letter.state,
        "topic": &*letter.at.topic,
        "partition": letter.at.partition,
        "offset": letter.offset,
        "seq": letter.seq.map(|seq| seq.to_string()),
        "reason": letter.reason,
        "detail": letter.detail,
        "created_at": timestamp_text(Some(letter.created_ms)),
        "who": letter.who,
        "why": letter.why,
        "key": bytes(&letter.key),
        "value": bytes(&letter.value),
        "headers": letter.headers.iter().map(|header| {
            let value = header.value.as_deref().map(<[u8]>::to_vec);
            json!([&*header.name, bytes(&value)])
        }).collect::<Vec<_>>(),
    })
}
