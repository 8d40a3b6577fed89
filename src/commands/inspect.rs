//! `driftless inspect`: looks at messages of a topic or a file and proposes how to read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::message_line::MessageLine;
use super::output::{print_json, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::config::{Config, load_topics};
use crate::io::kafka::KafkaLog;
use crate::ports::{Log, LogItem};
use crate::pure::event::Decoded;
use crate::pure::formats::{Header, Record};
use crate::pure::inspect::{Inspector, Proposal, Sample};

/// Look at the first messages of a topic or a file, and propose a configuration that reads them.
///
/// The proposal is tried on the same messages, and what they leave open is said. It needs no configuration: the
/// brokers may come from DRIFTLESS_KAFKA or --set kafka.brokers=… A file has one message a line: the value alone, or
/// {"key": …, "value": …} with key and value as text. Exit 1 where the messages cannot be read, or not all of them.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless inspect shop.public.orders --set kafka.brokers=127.0.0.1:9092
         driftless inspect messages.jsonl --records 100 --format json")]
pub struct Arguments {
    /// A topic, or a file with one message a line.
    #[arg(value_name = "TOPIC|FILE")]
    what: String,
    /// Messages to look at, at most; of a topic the same number from the start of each partition.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    records: u64,
    /// File: the topic whose messages are looked at, where lines name several [default: the one with most rows].
    #[arg(long)]
    topic: Option<String>,
    /// Topic: how long to wait for messages, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
}

/// A message that is kept, to be looked at and then read.
struct Kept {
    partition: i32,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Header>,
}

/// What became of the messages under the proposal.
#[derive(Default)]
struct Tried {
    changes: u64,
    control: u64,
    /// By reason: how many, and the first one's detail.
    dead_letters: BTreeMap<&'static str, (u64, String)>,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    // 1. Messages.
    let path = Path::new(&arguments.what);
    let (topic, partitions, kept) = match path.is_file() {
        true => of_file(path, arguments)?,
        false => of_topic(shared, arguments)?,
    };
    // 2. What they look like.
    let mut inspector = seen(&kept);
    inspector.note_partitions(partitions);
    let proposal = match inspector.propose(&topic) {
        Ok(proposal) => proposal,
        Err(why) => return Ok(nothing_proposed(shared, &topic, kept.len(), &why)),
    };
    // 3. Whether that reads them.
    let tried = try_out(&proposal, &kept)?;
    show(shared, &topic, kept.len(), &proposal, &tried);
    Ok(if tried.dead_letters.is_empty() { Verdict::Fine } else { Verdict::No })
}

fn seen(kept: &[Kept]) -> Inspector {
    let mut inspector = Inspector::default();
    for Kept { partition, key, value, headers } in kept {
        let (key, value) = (key.as_deref(), value.as_deref());
        inspector.add(&Sample { partition: *partition, key, value, headers });
    }
    inspector
}

type Messages = (String, usize, Vec<Kept>);

fn of_file(path: &Path, arguments: &Arguments) -> Result<Messages, CommandError> {
    let fail = |error| CommandError::File(path.display().to_string(), error);
    let text = std::fs::read(path).map_err(fail)?;
    let mut by_topic: BTreeMap<Option<String>, Vec<Kept>> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let (topic, kept) = match MessageLine::parse(line) {
            Ok(None) => continue,
            Ok(Some(MessageLine { topic, partition, key, value, headers })) => {
                let (key, value) = (key.map(String::into_bytes), value.map(String::into_bytes));
                (topic, Kept { partition: partition.unwrap_or(0), key, value, headers })
            }
            Err(_) => {
                let value = Some(line.to_vec());
                (None, Kept { partition: 0, key: None, value, headers: Vec::new() })
            }
        };
        let kept_of_topic = by_topic.entry(topic).or_default();
        if (kept_of_topic.len() as u64) < arguments.records {
            kept_of_topic.push(kept);
        }
    }
    let chosen =
        match &arguments.topic {
            Some(topic) => by_topic.remove_entry(&Some(topic.clone())).ok_or_else(|| {
                let names: Vec<&str> = by_topic.keys().flatten().map(String::as_str).collect();
                CommandError::usage(
                    format!("no line of {} is of topic {topic}", path.display()),
                    format!("name one of: {}", names.join(", ")),
                )
            })?,
            // The one that has most to say.
            None => by_topic.into_iter().max_by_key(|(_, kept)| (seen(kept).rows(), kept.len())).ok_or_else(
                || CommandError::usage(format!("{} is empty", path.display()), "name a file with messages"),
            )?,
        };
    let stem = || path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let partitions = chosen.1.iter().map(|kept| kept.partition + 1).max().unwrap_or(1);
    Ok((chosen.0.unwrap_or_else(stem), partitions.max(1) as usize, chosen.1))
}

fn of_topic(shared: &Shared, arguments: &Arguments) -> Result<Messages, CommandError> {
    let context = Context::of_servers(shared)?;
    let mut settings = context.kafka_settings();
    settings.headers = true;
    let mut log = KafkaLog::open(&settings, std::slice::from_ref(&arguments.what))?;
    let partitions = log.partitions()?;
    let mut from = Vec::new();
    let mut ends = Vec::new();
    for at in &partitions {
        let bounds = log.bounds(at)?;
        from.push((at.clone(), bounds.low));
        ends.push(bounds.low >= bounds.high);
    }
    log.assign(&from)?;
    let each = arguments.records.div_ceil(partitions.len().max(1) as u64);
    let (mut kept, mut counts) = (Vec::new(), vec![0u64; partitions.len()]);
    let deadline = Instant::now() + Duration::from_secs(arguments.wait);
    while Instant::now() < deadline && !ends.iter().all(|ended| *ended) {
        log.poll(1_000, Duration::from_millis(200), &mut |item| match item {
            LogItem::End { slot, .. } => ends[slot] = true,
            LogItem::Record(record) if counts[record.slot] < each => {
                counts[record.slot] += 1;
                ends[record.slot] |= counts[record.slot] == each;
                kept.push(Kept {
                    partition: partitions[record.slot].partition,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                    headers: record.headers.to_vec(),
                });
            }
            LogItem::Record(_) => {}
        })?;
    }
    if kept.is_empty() {
        return Err(CommandError::usage(
            format!("topic {} gave no message within {} s", arguments.what, arguments.wait),
            "wait for messages, or name a file that exists",
        ));
    }
    Ok((arguments.what.clone(), partitions.len(), kept))
}

/// Reads the messages with the proposal, as a maintainer would.
fn try_out(proposal: &Proposal, kept: &[Kept]) -> Result<Tried, CommandError> {
    let file = PathBuf::from("the proposal");
    let text = format!("contracts = []\n{}", proposal.toml);
    let config = Config::parse(&text, file, PathBuf::new(), &crate::config::Overrides::default())?;
    let catalog = load_topics(&config)?;
    let decoder = &catalog.topics[0].decoder;
    let mut tried = Tried::default();
    for (offset, message) in kept.iter().enumerate() {
        let (key, value) = (message.key.as_deref(), message.value.as_deref());
        match decoder.decode(&Record { offset: offset as i64, key, value, headers: &message.headers }) {
            Ok(Decoded::Change { .. } | Decoded::Changes(_) | Decoded::Truncate(_)) => tried.changes += 1,
            Ok(Decoded::Heartbeat(_) | Decoded::Control) => tried.control += 1,
            Err(rejection) => {
                let place = tried.dead_letters.entry(rejection.reason.code());
                place.or_insert((0, rejection.detail)).0 += 1;
            }
        }
    }
    Ok(tried)
}

fn nothing_proposed(shared: &Shared, topic: &str, messages: usize, why: &str) -> Verdict {
    match shared.format {
        Format::Json => {
            print_json(&json!({"topic": topic, "messages": messages, "proposal": null, "why": why}))
        }
        Format::Text => tell!("{topic}: {messages} messages, and no proposal: {why}"),
    }
    Verdict::No
}

fn show(shared: &Shared, topic: &str, messages: usize, proposal: &Proposal, tried: &Tried) {
    let letters: u64 = tried.dead_letters.values().map(|(count, _)| count).sum();
    if shared.format == Format::Json {
        let reasons: Vec<_> = tried
            .dead_letters
            .iter()
            .map(|(reason, (count, detail))| json!({"reason": reason, "messages": count, "first": detail}))
            .collect();
        print_json(&json!({
            "topic": topic, "messages": messages, "format": proposal.format.name(),
            "source_table": proposal.source_table, "toml": proposal.toml, "unsure": proposal.unsure,
            "tried": {"changes": tried.changes, "control": tried.control, "dead_letters": letters, "reasons": reasons},
        }));
        return;
    }
    tell!("# {topic}: {messages} messages of format {}. Read with this:", proposal.format.name());
    tell!("# {} changes, {} control, {letters} dead letters.", tried.changes, tried.control);
    for (reason, (count, detail)) in &tried.dead_letters {
        tell!("#   {count} times {reason}: {detail}");
    }
    for line in &proposal.unsure {
        tell!("# unsure: {line}");
    }
    tell!("\n{}", proposal.toml.trim_end());
}
