//! The maintainer: reader, writer, publisher and prober, each on a thread of its own, joined by bounded queues
//! and one shared board of numbers. Owns no server; a test or a command hands it the ports and the stop flag.
//!
//! ```text
//! reader ──batches──▶ writer ──wake──▶ publisher
//!                       ▲                  ▲
//!                       └──── prober ──────┘   asks for the ends of the log
//! ```

mod board;
mod prober;
mod publisher;
mod writer;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use board::{Board, Numbers, ViewNumbers};
pub(crate) use prober::probe;

use crate::pipeline::publish::{PublishSettings, Succession};
use crate::pipeline::read::ReadSettings;
use crate::ports::{BaseReader, BaseWriter, Clock, Log, PortError, PortResult, ViewStore};
use crate::pure::backoff::Backoff;
use crate::pure::catalog::Catalog;

/// The world that a maintainer works on.
pub struct Ports<'a> {
    pub log: &'a mut dyn Log,
    /// A second client of the same log: asks for ends and tells lag tools how far the base is.
    pub ends: &'a mut dyn Log,
    pub base: &'a mut dyn BaseWriter,
    /// `None` follows the log without publishing, as a generation that is not live does.
    pub publishing: Option<Publishing<'a>>,
    pub clock: Arc<dyn Clock>,
    /// Keeps the base's WAL small; called often, from a thread of its own.
    pub checkpoint: &'a mut (dyn FnMut() + Send),
}

/// What a publisher needs.
pub struct Publishing<'a> {
    pub reader: &'a mut dyn BaseReader,
    pub store: &'a mut dyn ViewStore,
}

#[derive(Clone, Debug)]
pub struct MaintainSettings {
    pub read: ReadSettings,
    pub publish: PublishSettings,
    pub succession: Succession,
    /// Batches that wait between reader and writer.
    pub read_batches_max: usize,
    /// Records of one commit at most.
    pub commit_records_max: usize,
    pub confirm: Duration,
    pub backoff: Backoff,
    /// Read up to the end that the log has at the start, publish, and return.
    pub once: bool,
    /// A limit for replays beside a live generation; `None` is as fast as it goes.
    pub records_per_second_max: Option<NonZeroU64>,
    /// Names publishes in parts and spreads waits.
    pub random: u64,
}

/// How long an ending maintainer goes on trying to publish what it has committed.
const LAST_PUBLISH: Duration = Duration::from_secs(3);
/// How long `once` waits for a store that is away or shows somebody else's live cursor.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);

/// Maintains until `stop` is set, or a trouble that stays. What has been read is committed and published
/// before it returns.
pub fn run(
    ports: Ports<'_>,
    catalog: &Arc<Catalog>,
    settings: &MaintainSettings,
    stop: &AtomicBool,
    board: &Board,
) -> PortResult<()> {
    let Ports { log, ends, base, publishing, clock, checkpoint } = ports;
    let advises = publishing.is_some();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A broken promise ends this thread by a panic: the others must not go on as if nothing had happened.
        let _ending = Ending { board, ended: &ended };
        let clock = &clock;
        let publishing = publishing
            .map(|Publishing { reader, store }| {
                std::thread::Builder::new().name("publisher".into()).spawn_scoped(scope, move || {
                    // However it ends, nothing is published any more.
                    let _finishing = Finishing(board);
                    publisher::run(reader, store, catalog, settings, clock, stop, board)
                })
            })
            .transpose()
            .map_err(thread_trouble)?;
        let probing = std::thread::Builder::new()
            .name("prober".into())
            .spawn_scoped(scope, || prober::run(ends, clock, settings.confirm, advises, board, &ended))
            .map_err(thread_trouble)?;
        let checkpointing = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn_scoped(scope, || {
                while !ended.load(Ordering::Relaxed) {
                    checkpoint();
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
            .map_err(thread_trouble)?;
        let written = writer::run(log, base, catalog, settings, clock, stop, board);
        // Whatever was committed is published, within bounds; then the helpers end.
        board.finish();
        let published = publishing.map_or(Ok(()), |publishing| join(publishing.join()));
        ended.store(true, Ordering::Relaxed);
        board.wake();
        let probed = join(probing.join());
        join(checkpointing.join().map(Ok))?;
        written.and(published).and(probed)
    })
}

/// Ends the helpers when the maintainer's own thread leaves, in order or not.
struct Ending<'a> {
    board: &'a Board,
    ended: &'a AtomicBool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.board.finish();
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Ends reading when the publisher leaves.
struct Finishing<'a>(&'a Board);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

fn thread_trouble(error: std::io::Error) -> PortError {
    PortError::permanent(format!("a thread cannot be started: {error}"))
        .with_hint("raise the limit of processes of this user")
}

fn join(result: std::thread::Result<PortResult<()>>) -> PortResult<()> {
    result.unwrap_or_else(|_| {
        Err(PortError::permanent("a thread ended by a broken promise; its message is above")
            .with_hint("this is a defect of driftless: report it with the log"))
    })
}
