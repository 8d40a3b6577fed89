//! Opens the ports of one generation and has it maintained, or merely follow the log.

use std::sync::atomic::AtomicBool;

use crate::commands::context::Context;
use crate::io::redis::RedisStore;
use crate::io::sqlite::{Checkpointer, SqliteReader};
use crate::pipeline::maintain::{self, Board, MaintainSettings, Ports, Publishing};
use crate::pipeline::read::BoundedLog;
use crate::ports::{BaseWriter, Log, PortResult};
use crate::pure::seq::TopicPartition;

/// Reads, commits and publishes until `stop` is set.
pub fn maintain(
    context: &Context,
    settings: &MaintainSettings,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let mut base = context.open_writer()?;
    let reader = context.open_reader()?;
    let mut store = context.open_store()?;
    match store.probe() {
        Ok(facts) => {
            tracing::info!(redis = store.address(), version = facts.version, "publishing to Redis");
            for warning in facts.warnings {
                tracing::warn!("{warning}");
            }
        }
        Err(error) if error.is_transient() => {
            tracing::warn!(%error, "Redis is away; reading and committing go on, publishing waits");
        }
        Err(error) => return Err(error),
    }
    // A generation that ended at a point stands where it is, published or not.
    let still = context.held().is_some_and(|held| held.stands_still);
    let ends = if still { Some(positions(&mut base)?) } else { None };
    work(context, settings, base, Some((reader, store)), ends, stop, board)
}

/// Reads and commits until `stop` is set, and publishes nothing. `ends` bounds what is read.
pub fn follow(
    context: &Context,
    settings: &MaintainSettings,
    ends: Option<Vec<(TopicPartition, i64)>>,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let base = context.open_writer()?;
    work(context, settings, base, None, ends, stop, board)
}

fn work(
    context: &Context,
    settings: &MaintainSettings,
    mut base: impl BaseWriter,
    mut publishing: Option<(SqliteReader, RedisStore)>,
    ends_at: Option<Vec<(TopicPartition, i64)>>,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let mut log = context.open_log_of_maintainer()?;
    let mut ends = context.open_log_of_maintainer()?;
    let mut checkpointer = Checkpointer::open(&context.base_settings())?;
    let mut checkpoint = || {
        if let Err(error) = checkpointer.run() {
            tracing::debug!(%error, "checkpoint");
        }
    };
    let mut bounded;
    let log: &mut dyn Log = match ends_at {
        Some(ends_at) => {
            bounded = BoundedLog::new(&mut log, ends_at);
            &mut bounded
        }
        None => &mut log,
    };
    let ports = Ports {
        log,
        ends: &mut ends,
        base: &mut base,
        publishing: publishing.as_mut().map(|(reader, store)| Publishing { reader, store }),
        clock: context.clock.clone(),
        checkpoint: &mut checkpoint,
    };
    maintain::run(ports, &context.catalog, settings, stop, board)?;
    // A reader's snapshot would keep the WAL from being cut.
    drop(publishing);
    if let Err(error) = checkpointer.finish() {
        tracing::debug!(%error, "the last checkpoint is left to the next start");
    }
    Ok(())
}

fn positions(base: &mut dyn BaseWriter) -> PortResult<Vec<(TopicPartition, i64)>> {
    Ok(base.partitions()?.into_iter().map(|state| (state.at, state.next_offset)).collect())
}
