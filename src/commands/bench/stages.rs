//! Each stage alone, on the workload of the end-to-end run: nothing else of driftless runs meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::memory_log::MemoryLog;
use super::world::World;
use crate::example::Workload;
use crate::io::redis::remove_view;
use crate::io::sqlite::Checkpointer;
use crate::pipeline::ingest::Ingest;
use crate::pipeline::read::{Reader, What, plan_start};
use crate::ports::{BaseReader, BaseWriter, Log, LogItem, PortError, PortResult, ViewStore};
use crate::pure::base::PartitionState;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::{ChangeEntry, Cursor, GroupWrite, Publish, PublishReply};
use crate::pure::seq::{Commit, Seq};
use crate::pure::{base::Head, meta};

/// What a stage counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Events,
    Groups,
}

#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub unit: Unit,
    pub count: u64,
    pub seconds: f64,
}

pub struct Stage {
    pub name: &'static str,
    run: fn(&World, &Workload) -> PortResult<Measured>,
}

impl Stage {
    pub fn measure(&self, world: &World, workload: &Workload) -> PortResult<Measured> {
        (self.run)(world, workload)
    }
}

/// In the order of the data. The later ones use the base that `apply` has left.
pub const ALL: [Stage; 5] = [
    Stage { name: "consume", run: consume },
    Stage { name: "consume and decode", run: decode },
    Stage { name: "apply and commit", run: apply },
    Stage { name: "recompute", run: recompute },
    Stage { name: "publish", run: publish },
];

const POLL_WAIT: Duration = Duration::from_millis(100);
/// The stage that leaves a base for those after it.
const APPLIED: &str = "stages";
/// A stage that repeats its work goes on at least this long.
const REPEAT: Duration = Duration::from_secs(2);

fn plan(world: &World, log: &mut dyn Log) -> PortResult<Vec<PartitionState>> {
    plan_start(log, &world.context.catalog, &[], &[None])
}

fn behind(ends: &[i64], next: &[i64]) -> bool {
    ends.iter().zip(next).any(|(end, next)| next < end)
}

fn ends(log: &mut dyn Log, planned: &[PartitionState]) -> PortResult<Vec<i64>> {
    planned.iter().map(|state| Ok(log.bounds(&state.at)?.high)).collect()
}

/// The log's client alone: records are counted and dropped.
fn consume(world: &World, _workload: &Workload) -> PortResult<Measured> {
    let mut log = world.context.open_log()?;
    let planned = plan(world, &mut log)?;
    let ends = ends(&mut log, &planned)?;
    let from: Vec<_> = planned.iter().map(|state| (state.at.clone(), state.next_offset)).collect();
    let mut next = vec![0; planned.len()];
    let (mut count, started) = (0, Instant::now());
    log.assign(&from)?;
    while behind(&ends, &next) {
        log.poll(world.context.settings().maintain.read_records_max, POLL_WAIT, &mut |item| {
            if let LogItem::Record(record) = item {
                next[record.slot] = record.offset + 1;
                count += 1;
            }
        })?;
    }
    Ok(Measured { unit: Unit::Events, count, seconds: started.elapsed().as_secs_f64() })
}

/// The reader's own loop body: poll and decode.
fn decode(world: &World, _workload: &Workload) -> PortResult<Measured> {
    let mut log = world.context.open_log()?;
    let planned = plan(world, &mut log)?;
    let ends = ends(&mut log, &planned)?;
    let mut next = vec![0; planned.len()];
    let (mut count, started) = (0, Instant::now());
    let settings = world.context.maintain_settings(true).read;
    let mut reader = Reader::start(&mut log, world.context.catalog.clone(), &planned, vec![None], settings)?;
    while behind(&ends, &next) {
        for item in reader.poll(POLL_WAIT)? {
            if !matches!(item.what, What::End) {
                next[item.slot] = item.offset + 1;
                count += 1;
            }
        }
    }
    Ok(Measured { unit: Unit::Events, count, seconds: started.elapsed().as_secs_f64() })
}

/// The writer's own loop body on batches from memory, into a new base; the clock stands still while they are made.
fn apply(world: &World, workload: &Workload) -> PortResult<Measured> {
    let context = world.aside(APPLIED);
    let settings = context.maintain_settings(true);
    let partitions = world.context.open_log()?.partitions()?.len() as i32;
    let mut log = MemoryLog::new(world, partitions, workload.events());
    let planned = plan(world, &mut log)?;
    let mut base = context.open_writer()?;
    let mut checkpointer = Checkpointer::open(&context.base_settings())?;
    let mut reader = Reader::start(&mut log, context.catalog.clone(), &planned, vec![None], settings.read)?;
    let ended = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        // As in a maintainer: the WAL is written back beside the writer.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if let Err(error) = checkpointer.run() {
                    tracing::debug!(%error, "checkpoint");
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let applied = apply_all(&mut base, &context, &planned, &mut reader, settings.commit_records_max);
        ended.store(true, Ordering::Relaxed);
        applied
    });
    let (count, spent) = measured?;
    Ok(Measured { unit: Unit::Events, count, seconds: spent.as_secs_f64() })
}

fn apply_all(
    base: &mut dyn BaseWriter,
    context: &super::super::context::Context,
    planned: &[PartitionState],
    reader: &mut Reader<'_>,
    records_max: usize,
) -> PortResult<(u64, Duration)> {
    let mut ingest = Ingest::open(base, context.catalog.clone(), context.clock.clone(), planned)?;
    let (mut count, mut spent) = (0, Duration::ZERO);
    loop {
        let mut items = Vec::new();
        while items.len() < records_max {
            let more = reader.poll(POLL_WAIT)?;
            if more.is_empty() {
                break;
            }
            items.extend(more);
        }
        if items.is_empty() {
            return Ok((count, spent));
        }
        let started = Instant::now();
        count += ingest.apply(&items)?.consumed;
        spent += started.elapsed();
    }
}

/// The publisher's reading: every group of the applied base, from its rows.
fn recompute(world: &World, _workload: &Workload) -> PortResult<Measured> {
    let mut reader = world.aside(APPLIED).open_reader()?;
    let keys = reader.snapshot()?.dirty_since(0, Commit(0))?;
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < REPEAT {
        count += recomputed(&mut reader, &keys)?.len() as u64;
    }
    Ok(Measured { unit: Unit::Groups, count, seconds: started.elapsed().as_secs_f64() })
}

fn recomputed(reader: &mut dyn BaseReader, keys: &[GroupKey]) -> PortResult<Vec<GroupWrite>> {
    let mut snapshot = reader.snapshot()?;
    keys.iter().map(|key| Ok(GroupWrite { key: key.clone(), value: snapshot.recompute(0, key)? })).collect()
}

/// The store's client and the server: scripts of the greatest size, over rows that exist.
fn publish(world: &World, _workload: &Workload) -> PortResult<Measured> {
    let context = world.aside(APPLIED);
    let columns = context.catalog.views[0].view.columns();
    let mut reader = context.open_reader()?;
    let keys = reader.snapshot()?.dirty_since(0, Commit(0))?;
    let head = reader.snapshot()?.head()?;
    let groups = recomputed(&mut reader, &keys)?;
    let mut publishes = scripts(&context, &head, &groups);
    let mut store = context.open_store()?;
    let mut cursor = Cursor::default();
    let mut send = |publish: &mut Publish| -> PortResult<()> {
        publish.expected = cursor.clone();
        publish.check_count = !cursor.is_absent();
        cursor = Cursor { version: cursor.version + 1, nonce: head.nonce.clone(), ..Cursor::default() };
        set_version(publish, cursor.version);
        match store.publish(world.object(), &columns, publish)? {
            PublishReply::Accepted { .. } => Ok(()),
            refused => Err(PortError::permanent(format!("the publish was refused: {refused:?}"))),
        }
    };
    // Rows are there before the clock starts, as they are for most groups of a running maintainer.
    publishes.iter_mut().try_for_each(&mut send)?;
    let (mut count, started) = (0, Instant::now());
    while started.elapsed() < REPEAT {
        for publish in &mut publishes {
            send(publish)?;
            count += publish.groups.len() as u64;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    remove_view(&context.redis_settings(), world.object())?;
    Ok(Measured { unit: Unit::Groups, count, seconds })
}

fn scripts(context: &super::super::context::Context, head: &Head, groups: &[GroupWrite]) -> Vec<Publish> {
    let watermark = head.tables[0].watermark.map(|watermark: Seq| watermark.to_string()).unwrap_or_default();
    groups
        .chunks(context.settings().maintain.groups_per_script_max)
        .map(|groups| Publish {
            expected: Cursor::default(),
            check_count: true,
            groups: groups.to_vec(),
            meta: meta::finished(&context.catalog, 0, head, &meta::Ages::default()),
            change: Some(ChangeEntry {
                version: head.commit.0,
                watermark: watermark.clone(),
                groups: groups.len() as u64,
                keys: Vec::new(),
            }),
        })
        .collect()
}

fn set_version(publish: &mut Publish, version: u64) {
    for (field, value) in &mut publish.meta {
        if *field == "version" {
            *value = version.to_string();
        }
    }
}
