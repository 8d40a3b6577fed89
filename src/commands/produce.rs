//! `driftless produce`: puts events of a file on a topic, keyed by primary key.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value, json};

use super::context::Context;
use super::message_line::MessageLine;
use super::output::{human, print_json, progress, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::io::kafka::{KafkaAdmin, KafkaProducer, ProducerSettings};
use crate::pure::schema::Table;

/// Put events on a topic, one JSON document a line, keyed by the table's primary key.
///
/// Events of one row stay in one partition. A line that is no JSON, or lacks the key, is sent without a key:
/// what it is worth is for the maintainer to say.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless produce events.jsonl --partitions 4
         driftless generate --events 100000 | driftless produce - --rate 1000")]
pub struct Arguments {
    /// The file, or - for standard input.
    file: PathBuf,
    /// The topic; may be left out where only one is configured.
    #[arg(long)]
    topic: Option<String>,
    /// Create the topic with this many partitions if it does not exist.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Events a second at most [default: as fast as possible].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Each line is {"partition": N, "event": …}: send the event to that partition; a "raw" string goes as it is.
    #[arg(long, conflicts_with = "messages")]
    deliveries: bool,
    /// Each line is a whole message, {"key": …, "value": …, "partition": N, "headers": [["name", "value"]]}: key and
    /// value are text or null and go as they are. For formats other than the native one.
    #[arg(long)]
    messages: bool,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let topic = topic(&context, arguments.topic.as_deref())?;
    let entry = &context.catalog.topics[topic];
    let table = &context.catalog.tables[entry.table].shape;
    if let Some(partitions) = arguments.partitions {
        let admin = KafkaAdmin::open(&context.kafka_settings())?;
        match admin.partition_count(&entry.name)? {
            None => admin.create_topic(&entry.name, partitions, 1, &[])?,
            Some(count) if count as i32 == partitions => {}
            Some(count) => {
                return Err(CommandError::usage(
                    format!("topic {} has {count} partitions already", entry.name),
                    "leave --partitions out, or name another topic",
                ));
            }
        }
    }
    let producer = KafkaProducer::open(&context.kafka_settings(), &ProducerSettings::default())?;
    let started = Instant::now();
    let (mut input, length) = open(&arguments.file)?;
    let bar = progress(length, "bytes");
    let mut line = Vec::new();
    let mut sent = 0u64;
    loop {
        line.clear();
        let read = input
            .read_until(b'\n', &mut line)
            .map_err(|error| CommandError::File(arguments.file.display().to_string(), error))?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if text.is_empty() {
            continue;
        }
        if arguments.messages {
            let message = MessageLine::parse(text).map_err(|what| whole_message(sent + 1, &what))?;
            let Some(message) = message else { continue };
            let (key, value) = (message.key.as_deref(), message.value.as_deref());
            let (key, value) = (key.map(str::as_bytes), value.map(str::as_bytes));
            producer.send_with_headers(&entry.name, message.partition, key, value, &message.headers)?;
        } else if arguments.deliveries {
            let (partition, key, value) = delivery(table, text, sent + 1)?;
            producer.send(&entry.name, partition, key.as_deref(), value.as_deref())?;
        } else {
            producer.send(&entry.name, None, message_key(table, text).as_deref(), Some(text))?;
        }
        sent += 1;
        if sent.is_multiple_of(64) {
            bar.inc(0);
        }
        bar.inc(read as u64);
        if let Some(rate) = arguments.rate {
            pace(started, sent, rate);
        }
    }
    producer.flush(Duration::from_secs(60))?;
    bar.finish_and_clear();
    let (seconds, failed) = (started.elapsed().as_secs_f64(), producer.failed());
    match shared.format {
        Format::Json => print_json(&json!({
            "topic": &*entry.name, "sent": sent, "delivered": producer.delivered(), "failed": failed,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        })),
        Format::Text => tell!(
            "{} events on {} in {seconds:.1} s ({} a second)",
            human(producer.delivered()),
            entry.name,
            human((sent as f64 / seconds.max(1e-9)) as u64)
        ),
    }
    Ok(if failed == 0 { Verdict::Fine } else { Verdict::No })
}

/// The topic named, or the only one.
pub fn topic(context: &Context, name: Option<&str>) -> Result<usize, CommandError> {
    let topics = &context.catalog.topics;
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    match name {
        None if topics.len() == 1 => Ok(0),
        None => Err(CommandError::usage(
            "several topics are configured",
            format!("name one with --topic: {}", names.join(", ")),
        )),
        Some(name) => names.iter().position(|known| *known == name).ok_or_else(|| {
            CommandError::usage(
                format!("topic {name} is not configured"),
                format!("name one of: {}", names.join(", ")),
            )
        }),
    }
}

fn open(file: &PathBuf) -> Result<(BufReader<Box<dyn Read>>, u64), CommandError> {
    if file.as_os_str() == "-" {
        return Ok((BufReader::new(Box::new(std::io::stdin())), 0));
    }
    let fail = |error| CommandError::File(file.display().to_string(), error);
    let input = File::open(file).map_err(fail)?;
    let length = input.metadata().map_err(fail)?.len();
    Ok((BufReader::with_capacity(1 << 20, Box::new(input)), length))
}

/// The message key of an event: a JSON object of the primary key, in its order.
pub fn message_key(table: &Table, event: &[u8]) -> Option<Vec<u8>> {
    let event: Map<String, Value> = serde_json::from_slice(event).ok()?;
    let mut key = Map::new();
    for &column in &table.key {
        let name = &*table.columns[column].name;
        let part = event.get(name).or_else(|| event.get("row")?.get(name))?;
        key.insert(name.to_owned(), part.clone());
    }
    serde_json::to_vec(&key).ok()
}

fn whole_message(number: u64, what: &str) -> CommandError {
    CommandError::usage(
        format!("line {number}: {what}"),
        r#"with --messages a line is {"key": "…" or null, "value": "…" or null}, with partition and headers where wanted"#,
    )
}

type Message = (Option<i32>, Option<Vec<u8>>, Option<Vec<u8>>);

/// A line that says where its message goes.
fn delivery(table: &Table, line: &[u8], number: u64) -> Result<Message, CommandError> {
    let usage = |what: String| {
        CommandError::usage(
            format!("line {number}: {what}"),
            r#"with --deliveries a line is {"partition": N, "event": {…}} or {"partition": N, "raw": "…"}"#,
        )
    };
    let mut line: Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| usage(error.to_string()))?;
    let partition = line.get("partition").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    if let Some(raw) = line.get("raw") {
        let raw = raw.as_str().ok_or_else(|| usage("raw is no text".into()))?;
        return Ok((partition, None, Some(raw.as_bytes().to_vec())));
    }
    let event = line.remove("event").ok_or_else(|| usage("there is no event".into()))?;
    let text = event.to_string().into_bytes();
    Ok((partition, message_key(table, &text), Some(text)))
}

/// Waits until it is this event's turn.
pub fn pace(started: Instant, sent: u64, rate: u64) {
    let due = Duration::from_secs_f64(sent as f64 / rate as f64);
    let ahead = due.saturating_sub(started.elapsed());
    if ahead > Duration::from_millis(1) {
        std::thread::sleep(ahead);
    }
}
