//! From a place in the log as people name it to offsets.

use std::collections::BTreeMap;

use crate::commands::CommandError;
use crate::commands::context::Context;
use crate::ports::Log;
use crate::pure::base::Head;
use crate::pure::publish::timestamp_ms;
use crate::pure::seq::{Seq, TopicPartition};

/// A place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Earliest,
    End,
    Offsets(BTreeMap<String, i64>),
    Timestamp(i64),
    Seq(Seq),
}

impl Place {
    pub fn parse(option: &str, text: &str) -> Result<Place, CommandError> {
        let wrong = |what: &str| {
            CommandError::usage(
                format!("{option} {text}: {what}"),
                "write earliest, end, offsets:TOPIC:PARTITION=OFFSET,…, timestamp:2026-09-21T00:00:00Z or seq:N",
            )
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, option) {
            ("earliest", "--from") if rest.is_empty() => Ok(Place::Earliest),
            ("end", "--to") if rest.is_empty() => Ok(Place::End),
            ("offsets", _) => {
                let parts = rest.split(',').map(|part| {
                    let (at, offset) = part.split_once('=').ok_or_else(|| wrong("there is no ="))?;
                    let offset: i64 = offset.parse().map_err(|_| wrong("an offset is no number"))?;
                    if offset < 0 || !at.contains(':') {
                        return Err(wrong("an offset is negative, or a partition is not named"));
                    }
                    Ok((at.to_owned(), offset))
                });
                Ok(Place::Offsets(parts.collect::<Result<_, _>>()?))
            }
            ("timestamp", _) => {
                timestamp_ms(rest).map(Place::Timestamp).ok_or_else(|| wrong("this is no RFC 3339 time"))
            }
            ("seq", _) => rest.parse().map(Place::Seq).map_err(|_| wrong("this is no sequence")),
            _ => Err(wrong("this is no place in the log")),
        }
    }
}

/// One partition of what is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub at: TopicPartition,
    pub from: i64,
    pub to: i64,
}

/// What a replay reads of each partition that the log has now. `live` is the head of the live base.
pub fn stretches(
    context: &Context,
    log: &mut dyn Log,
    live: &Head,
    from: &Place,
    to: &Place,
) -> Result<Vec<Stretch>, CommandError> {
    let present = log.partitions()?;
    for offsets in [from, to].into_iter().filter_map(|place| match place {
        Place::Offsets(offsets) => Some(offsets),
        _ => None,
    }) {
        if let Some(unknown) = offsets.keys().find(|name| !present.iter().any(|at| at.to_string() == **name))
        {
            return Err(CommandError::usage(
                format!("there is no partition {unknown}"),
                "name partitions of the configured topics, e.g. sales.changes:0",
            ));
        }
    }
    let known_from = match from {
        Place::Seq(seq) => Some(from_seq(context, *seq)?),
        _ => None,
    };
    let mut stretches = Vec::new();
    for at in present {
        let bounds = log.bounds(&at)?;
        let position = live.positions.iter().find(|position| position.at == at);
        let next = position.map_or(bounds.low, |position| position.next_offset);
        let name = at.to_string();
        let first = match from {
            Place::Earliest | Place::End => bounds.low,
            Place::Offsets(offsets) => offsets.get(&name).copied().unwrap_or(next),
            Place::Timestamp(at_ms) => log.offset_at(&at, *at_ms)?.unwrap_or(next),
            Place::Seq(_) => known_from.as_ref().and_then(|known| known.get(&name)).copied().unwrap_or(next),
        };
        let last = match to {
            Place::End | Place::Earliest | Place::Seq(_) => bounds.high,
            Place::Offsets(offsets) => offsets.get(&name).copied().unwrap_or(bounds.high),
            Place::Timestamp(at_ms) => log.offset_at(&at, *at_ms)?.unwrap_or(bounds.high),
        };
        if first < bounds.low || last > bounds.high {
            return Err(CommandError::usage(
                format!(
                    "partition {at}: the log holds offsets {} to {}, not {first} to {last}",
                    bounds.low, bounds.high
                ),
                "name offsets that the log holds",
            ));
        }
        // A copy of the live base cannot skip what comes after its own position.
        if !matches!(from, Place::Earliest) && first > next {
            return Err(CommandError::usage(
                format!(
                    "partition {at}: offset {first} is past the base's position {next}: events between them would be skipped"
                ),
                format!("start at {next} or before"),
            ));
        }
        stretches.push(Stretch { at, from: first, to: last });
    }
    Ok(stretches)
}

/// The first offset of each partition whose change has at least this sequence, as the change history tells.
fn from_seq(context: &Context, seq: Seq) -> Result<BTreeMap<String, i64>, CommandError> {
    let reader = context.open_reader()?;
    let Some(found) = reader.offsets_from_seq(seq)? else {
        return Err(CommandError::usage(
            format!("the change history no longer tells where sequence {seq} was"),
            "name offsets or a timestamp instead; base.history_changes_max says how much history is kept",
        ));
    };
    Ok(found)
}
