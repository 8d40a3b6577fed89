//! From the log to decoded items: where to start, what is new, and the loop that polls and decodes.
//! Knows positions and formats; never the base's rows.

mod bounded;

pub use bounded::BoundedLog;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use crate::pipeline::reread::Reread;
use crate::ports::{Log, LogItem, PortError, PortResult, RecordRef};
use crate::pure::base::{Counts, PartitionState};
use crate::pure::catalog::{Catalog, Start};
use crate::pure::event::{Decoded, Image, Rejection, RowChange};
use crate::pure::formats::{Header, Record};
use crate::pure::seq::{Seq, TopicPartition};

/// One consumed offset, decoded.
#[derive(Clone, Debug)]
pub struct Item {
    /// Index of the partition in the order in which partitions became known.
    pub slot: usize,
    pub offset: i64,
    /// CRC-32 of key and value, for the anchor of a partition.
    pub checksum: u32,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Change {
        seq: Seq,
        image: Image,
        message: Message,
    },
    /// Several changes of one message, which are counted as one.
    Changes {
        changes: Vec<RowChange>,
        message: Message,
    },
    Truncate {
        seq: Seq,
        message: Message,
    },
    Heartbeat(Seq),
    Control,
    Rejected {
        rejection: Box<Rejection>,
        message: Message,
    },
    /// Nothing more is there now; `offset` is the next one, behind transaction markers.
    End,
}

/// The original bytes, kept until the commit: what becomes a dead letter keeps them for good.
#[derive(Clone, Debug)]
pub struct Message {
    pub key: Option<Box<[u8]>>,
    pub value: Option<Box<[u8]>>,
    /// Kept where the topic's format reads them.
    pub headers: Vec<Header>,
}

impl Message {
    fn of(record: &Record<'_>, with_headers: bool) -> Self {
        let headers = if with_headers { record.headers } else { &[] };
        Message {
            key: record.key.map(Into::into),
            value: record.value.map(Into::into),
            headers: headers.to_vec(),
        }
    }
}

/// What the reader hands on, in the log's order.
#[derive(Clone, Debug)]
pub enum Batch {
    Items(Vec<Item>),
    /// Partitions that were added to the log; their slots follow those known so far.
    Discovered(Vec<PartitionState>),
}

/// How much is read at once, and how often new partitions are looked for.
#[derive(Clone, Copy, Debug)]
pub struct ReadSettings {
    pub batch_records_max: usize,
    pub partition_refresh: Duration,
    /// Changes above this sequence are left out, as a replay to a sequence asks for.
    pub through: Option<Seq>,
}

/// Where each partition starts: known ones go on, new ones begin. The first that cannot is an error that
/// names it (P11).
///
/// `floors` says which tables had a first load: it stands for what their log no longer holds.
pub fn plan_start(
    log: &mut dyn Log,
    catalog: &Catalog,
    known: &[PartitionState],
    floors: &[Option<Seq>],
) -> PortResult<Vec<PartitionState>> {
    let present = log.partitions()?;
    let mut planned = Vec::with_capacity(present.len());
    for state in known {
        if catalog.topic(&state.at.topic).is_none() {
            return Err(PortError::permanent(format!(
                "topic {} fed table {} of this base and is no longer configured",
                state.at.topic, catalog.tables[state.table].shape.name
            ))
            .with_hint(
                "configure the topic again; leaving one out is a new generation with a new base.path",
            ));
        }
        if !present.contains(&state.at) {
            return Err(PortError::permanent(format!(
                "partition {} is stored in the base at offset {}, but the topic has no such partition",
                state.at, state.next_offset
            ))
            .with_hint(GAP_HINT));
        }
        let bounds = log.bounds(&state.at)?;
        if state.next_offset < bounds.low || state.next_offset > bounds.high {
            return Err(PortError::permanent(format!(
                "partition {}: the base goes on at offset {}, but the log holds {} to {}: events are lost or the topic was cut or re-created",
                state.at, state.next_offset, bounds.low, bounds.high
            ))
            .with_hint(GAP_HINT));
        }
        planned.push(state.clone());
    }
    for at in present {
        if !known.iter().any(|state| state.at == at) {
            planned.push(new_partition(log, catalog, at, floors)?);
        }
    }
    Ok(planned)
}

const GAP_HINT: &str = "nothing has been skipped; build a new generation from what the log holds (driftless replay; where it no longer begins at 0 that needs start = \"log-start\" on the topic) and activate it, or load a new base.path with driftless seed";

fn new_partition(
    log: &mut dyn Log,
    catalog: &Catalog,
    at: TopicPartition,
    floors: &[Option<Seq>],
) -> PortResult<PartitionState> {
    let topic = catalog.topic(&at.topic).ok_or_else(|| {
        PortError::permanent(format!("topic {} is not configured, but the log reported it", at.topic))
    })?;
    let low = log.bounds(&at)?.low;
    let seeded = floors.get(topic.table).copied().flatten().is_some();
    if low != 0 && topic.start == Start::Complete && !seeded {
        return Err(PortError::permanent(format!(
            "partition {at} begins at offset {low}: what came before is not in the base"
        ))
        .with_hint(format!(
            "load the table first (driftless seed --table {} --from FILE --through-seq N), or set start = \"log-start\" on the topic to build on what is left of it",
            catalog.tables[topic.table].shape.name
        )));
    }
    Ok(PartitionState {
        id: 0,
        at,
        table: topic.table,
        first_offset: low,
        next_offset: low,
        frontier: None,
        anchor: None,
        counts: Counts::default(),
    })
}

/// Polls, decodes and hands on, until it is told to stop or nobody takes batches any more.
pub struct Reader<'a> {
    log: &'a mut dyn Log,
    catalog: Arc<Catalog>,
    settings: ReadSettings,
    /// By slot: partition, topic of the catalog, next offset to deliver.
    slots: Vec<Slot>,
    floors: Vec<Option<Seq>>,
    refreshed: Instant,
}

struct Slot {
    at: TopicPartition,
    topic: usize,
    next: i64,
}

impl<'a> Reader<'a> {
    /// Starts reading at the planned positions. A partition with an anchor is read from there, so that the
    /// record is met again and compared.
    pub fn start(
        log: &'a mut dyn Log,
        catalog: Arc<Catalog>,
        planned: &[PartitionState],
        floors: Vec<Option<Seq>>,
        settings: ReadSettings,
    ) -> PortResult<Self> {
        Self::start_again(log, catalog, planned, floors, settings, None)
    }

    /// As [`start`](Reader::start); what is to be read once more is read from where that begins.
    pub fn start_again(
        log: &'a mut dyn Log,
        catalog: Arc<Catalog>,
        planned: &[PartitionState],
        floors: Vec<Option<Seq>>,
        settings: ReadSettings,
        reread: Option<&Reread>,
    ) -> PortResult<Self> {
        let mut reader =
            Reader { log, catalog, settings, slots: Vec::new(), floors, refreshed: Instant::now() };
        for (slot, state) in planned.iter().enumerate() {
            let low = match state.anchor {
                Some(_) => reader.log.bounds(&state.at)?.low,
                None => state.next_offset,
            };
            let from = state.anchor.map_or(state.next_offset, |anchor| anchor.offset).max(low);
            let again = reread.and_then(|reread| reread.start(slot));
            reader.add_slot(state, again.map_or(from, |again| again.min(from)))?;
        }
        reader.assign()?;
        Ok(reader)
    }

    fn add_slot(&mut self, state: &PartitionState, next: i64) -> PortResult<()> {
        let topic = self.catalog.topics.iter().position(|topic| topic.name == state.at.topic);
        let topic = topic
            .ok_or_else(|| PortError::permanent(format!("topic {} is not configured", state.at.topic)))?;
        self.slots.push(Slot { at: state.at.clone(), topic, next });
        Ok(())
    }

    fn assign(&mut self) -> PortResult<()> {
        let from: Vec<_> = self.slots.iter().map(|slot| (slot.at.clone(), slot.next)).collect();
        self.log.assign(&from)
    }

    /// Reads what is there, waiting up to `wait` for the first record.
    pub fn poll(&mut self, wait: Duration) -> PortResult<Vec<Item>> {
        let mut items = Vec::new();
        let (slots, catalog, through) = (&mut self.slots, &self.catalog, self.settings.through);
        let result = self.log.poll(self.settings.batch_records_max, wait, &mut |item| {
            items.push(decode(slots, catalog, through, item));
        });
        // What came before an error is kept: it has been read.
        match result {
            Err(error) if items.is_empty() => Err(error),
            Err(error) => {
                tracing::debug!(%error, "log: an error after records");
                Ok(items)
            }
            Ok(_) => Ok(items),
        }
    }

    /// Partitions added since the last look; they are read from their start.
    pub fn discover(&mut self) -> PortResult<Vec<PartitionState>> {
        if self.refreshed.elapsed() < self.settings.partition_refresh {
            return Ok(Vec::new());
        }
        self.refreshed = Instant::now();
        let mut added = Vec::new();
        for at in self.log.partitions()? {
            if !self.slots.iter().any(|slot| slot.at == at) {
                let catalog = self.catalog.clone();
                added.push(new_partition(self.log, &catalog, at, &self.floors)?);
            }
        }
        let known = self.slots.len();
        for state in &added {
            self.add_slot(state, state.next_offset)?;
        }
        if !added.is_empty()
            && let Err(error) = self.assign()
        {
            // Nobody has been told of them: they are found again at the next look.
            self.slots.truncate(known);
            return Err(error);
        }
        for state in &added {
            tracing::info!(partition = %state.at, "a partition was added to the topic");
        }
        Ok(added)
    }

    /// Reads until `stop` is set or the receiver is gone. A passing error of the log is waited out.
    pub fn run(&mut self, batches: &SyncSender<Batch>, stop: &AtomicBool) -> PortResult<()> {
        while !stop.load(Ordering::Relaxed) {
            // 1. Partitions that are new.
            match self.discover() {
                Ok(added) if added.is_empty() => {}
                Ok(added) => {
                    if !hand_on(batches, Batch::Discovered(added), stop) {
                        return Ok(());
                    }
                }
                Err(error) if error.is_transient() => tracing::debug!(%error, "log: look for partitions"),
                Err(error) => return Err(error),
            }
            // 2. Records that are there.
            match self.poll(Duration::from_millis(100)) {
                Ok(items) if items.is_empty() => {}
                Ok(items) => {
                    if !hand_on(batches, Batch::Items(items), stop) {
                        return Ok(());
                    }
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "log: reading is held up");
                    std::thread::sleep(Duration::from_millis(200));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits for room; false when nobody wants the batch any more.
fn hand_on(batches: &SyncSender<Batch>, mut batch: Batch, stop: &AtomicBool) -> bool {
    loop {
        match batches.try_send(batch) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(back)) => {
                if stop.load(Ordering::Relaxed) {
                    return false;
                }
                batch = back;
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
}

fn decode(slots: &mut [Slot], catalog: &Catalog, through: Option<Seq>, item: LogItem<'_>) -> Item {
    let record = match item {
        LogItem::End { slot, next_offset } => {
            slots[slot].next = slots[slot].next.max(next_offset);
            return Item { slot, offset: next_offset, checksum: 0, what: What::End };
        }
        LogItem::Record(record) => record,
    };
    let slot = &mut slots[record.slot];
    slot.next = slot.next.max(record.offset + 1);
    let decoder = &catalog.topics[slot.topic].decoder;
    let RecordRef { offset, key, value, headers, .. } = record;
    let read = Record { offset, key, value, headers };
    let message = || Message::of(&read, decoder.reads_headers());
    let what = match decoder.decode(&read).map(|decoded| left_of(decoded, through)) {
        Ok(Decoded::Change { seq, image }) => What::Change { seq, image, message: message() },
        Ok(Decoded::Changes(changes)) => What::Changes { changes, message: message() },
        Ok(Decoded::Truncate(seq)) => What::Truncate { seq, message: message() },
        Ok(Decoded::Heartbeat(seq)) => What::Heartbeat(seq),
        Ok(Decoded::Control) => What::Control,
        Err(rejection) => What::Rejected { rejection: Box::new(rejection), message: message() },
    };
    Item { slot: record.slot, offset: record.offset, checksum: checksum(record.key, record.value), what }
}

/// What of a message lies at or below `through`. What is beyond is left out; but it tells that what comes before it
/// has come.
fn left_of(decoded: Decoded, through: Option<Seq>) -> Decoded {
    let Some(through) = through else { return decoded };
    match decoded {
        Decoded::Change { seq, .. } | Decoded::Truncate(seq) | Decoded::Heartbeat(seq) if seq > through => {
            Decoded::Heartbeat(through)
        }
        Decoded::Changes(mut changes) => {
            changes.retain(|change| change.seq <= through);
            if changes.is_empty() { Decoded::Heartbeat(through) } else { Decoded::Changes(changes) }
        }
        within => within,
    }
}

/// CRC-32 of a record's key and value, a length between them so that they cannot be shifted.
fn checksum(key: Option<&[u8]>, value: Option<&[u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.unwrap_or_default());
    hasher.update(&(value.map_or(u64::MAX, |value| value.len() as u64)).to_le_bytes());
    hasher.update(value.unwrap_or_default());
    hasher.finalize()
}
