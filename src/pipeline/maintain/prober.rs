//! Asks for the ends of the log: first the sequence that is applied and the time are noted, then the ends are
//! asked for, never the other way round. Whatever has been read up to such an end is confirmed for that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Board;
use crate::pipeline::ingest::Probe;
use crate::ports::{Clock, Log, PortResult};
use crate::pure::seq::{Seq, TopicPartition};

pub(super) fn run(
    ends: &mut dyn Log,
    clock: &Arc<dyn Clock>,
    interval: Duration,
    advises: bool,
    board: &Board,
    ended: &AtomicBool,
) -> PortResult<()> {
    let mut told: Vec<(TopicPartition, i64)> = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let numbers = board.numbers();
        if !numbers.positions.is_empty() {
            match probe(ends, clock, numbers.greatest) {
                Ok(probe) => {
                    let lag = lag(&probe, &board.numbers().positions);
                    board.update(|numbers| numbers.lag = Some(lag));
                    board.put_probe(probe);
                }
                Err(error) => {
                    board.update(|numbers| numbers.lag = None);
                    tracing::debug!(%error, "log: its ends cannot be asked for");
                }
            }
            if advises && told != numbers.positions {
                ends.advise(&numbers.positions);
                told = numbers.positions;
            }
        }
        // Short naps, so that the end of the maintainer is not waited for.
        let mut rest = interval;
        while !rest.is_zero() && !ended.load(Ordering::Relaxed) {
            let nap = rest.min(Duration::from_millis(50));
            std::thread::sleep(nap);
            rest -= nap;
        }
    }
    if advises {
        ends.advise(&board.numbers().positions);
    }
    Ok(())
}

/// One question, in the order that makes its answer usable. It is about all partitions that the log has now: one
/// that nobody reads yet has an end as well.
pub(crate) fn probe(
    ends: &mut dyn Log,
    clock: &Arc<dyn Clock>,
    greatest: Vec<Option<Seq>>,
) -> PortResult<Probe> {
    let asked_ms = clock.wall_ms();
    let ends = ends
        .partitions()?
        .into_iter()
        .map(|at| {
            let end = ends.bounds(&at)?.high;
            Ok((at, end))
        })
        .collect::<PortResult<_>>()?;
    Ok(Probe { asked_ms, greatest, ends })
}

fn lag(probe: &Probe, positions: &[(TopicPartition, i64)]) -> u64 {
    let behind = |(at, end): &(TopicPartition, i64)| {
        let next = positions.iter().find(|(known, _)| known == at).map_or(*end, |(_, next)| *next);
        end.saturating_sub(next).max(0) as u64
    };
    probe.ends.iter().map(behind).sum()
}
