//! The example's story through the real pipeline, one step at a time: nine lines, a tenth that makes the view
//! stale, the refresh of one group, and everything once more. What it means is `example::evidence`'s to say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::checksum::{Group, read_groups};
use super::context::Context;
use crate::example::{self, Delivery, evidence};
use crate::io::kafka::{KafkaLog, KafkaProducer, ProducerSettings};
use crate::io::redis::RedisStore;
use crate::io::sqlite::{FactQuery, SqliteReader, SqliteWriter};
use crate::pipeline::ingest::Ingest;
use crate::pipeline::maintain::probe;
use crate::pipeline::publish::{Publisher, Step};
use crate::pipeline::read::{Item, Reader, What, plan_start};
use crate::ports::{BaseReader, BaseWriter, Log, Meta, PortError, PortResult, ViewStore};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::value::Value;

/// How long records that were acknowledged may take to arrive.
const READ_PATIENCE: Duration = Duration::from_secs(30);

/// The example has one table and one view.
pub const TABLE: usize = 0;
pub const VIEW: usize = 0;

/// Every port of the story, opened.
pub struct World {
    writer: SqliteWriter,
    base: SqliteReader,
    facts: FactQuery,
    log: KafkaLog,
    ends: KafkaLog,
    producer: KafkaProducer,
    store: RedisStore,
}

impl World {
    pub fn open(context: &Context) -> PortResult<World> {
        let producer = ProducerSettings { linger_ms: 0, ..ProducerSettings::default() };
        Ok(World {
            writer: context.open_writer()?,
            base: context.open_reader()?,
            facts: FactQuery::open(&context.base_settings())?,
            log: context.open_log()?,
            ends: context.open_log()?,
            producer: KafkaProducer::open(&context.kafka_settings(), &producer)?,
            store: context.open_store()?,
        })
    }
}

/// One stage of the story, as it was found when it was over.
pub struct Stage {
    /// As `expected.json` calls it.
    pub name: &'static str,
    pub after_event: &'static str,
    pub title: &'static str,
    pub committed: Committed,
    pub published: Option<Published>,
    pub seen: Observation,
}

/// What became of the events that a stage sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Committed {
    pub consumed: u64,
    pub applied: u64,
    pub duplicate: u64,
}

/// What one publish did.
#[derive(Clone, Debug)]
pub struct Published {
    /// The groups that were dirty before, all of them recomputed.
    pub keys: Vec<GroupKey>,
    /// The view was absent: every group was built.
    pub full: bool,
}

/// Base and Redis at one time.
pub struct Observation {
    pub commit: Commit,
    pub base_watermark: Option<Seq>,
    pub rows: Vec<Vec<Value>>,
    /// Dirty groups that Redis does not show yet, and what the base has for them.
    pub pending: Vec<(GroupKey, Option<GroupValue>)>,
    pub meta: Meta,
    pub groups: Vec<Group>,
}

impl Observation {
    /// The commit that Redis shows.
    pub fn version(&self) -> Commit {
        version(&self.meta)
    }

    pub fn watermark(&self) -> Option<Seq> {
        self.meta.get("watermark")?.parse().ok()
    }

    /// `stale` where the base holds changes that Redis does not show, else what Redis says of itself.
    pub fn status(&self) -> &str {
        if self.version() < self.commit && !self.pending.is_empty() {
            return "stale";
        }
        self.meta.get("status").map_or("absent", String::as_str)
    }
}

fn version(meta: &Meta) -> Commit {
    Commit(meta.get("version").and_then(|version| version.parse().ok()).unwrap_or(0))
}

/// Tells the whole story; `each` sees a stage as soon as it is over.
pub fn tell(context: &Context, stop: &AtomicBool, each: &mut dyn FnMut(&Stage)) -> PortResult<Vec<Stage>> {
    let mut world = World::open(context)?;
    let mut story = Story::start(context, &mut world, stop)?;
    let events = example::canonical_events();
    let (nine, tenth) = events.split_at(events.len().saturating_sub(1));
    let mut stages = Vec::new();
    let mut over = |stage: Stage| {
        each(&stage);
        stages.push(stage);
    };
    // 1. The base is filled, and the view is built from it.
    let committed = story.commit(nine)?;
    let published = Some(story.publish()?);
    over(Stage {
        name: "canonical",
        after_event: "EV206",
        title: "Nine paid order lines: the view is built",
        committed,
        published,
        seen: story.observe()?,
    });
    // 2. The base moves on alone.
    let committed = story.commit(tenth)?;
    over(Stage {
        name: "stale",
        after_event: "EV207",
        title: "A tenth line is committed, not yet published: the view is stale",
        committed,
        published: None,
        seen: story.observe()?,
    });
    // 3. The groups that the change touched.
    let published = Some(story.publish()?);
    over(Stage {
        name: "refreshed",
        after_event: "EV207",
        title: "The dirty group is recomputed: the view is fresh again",
        committed: Committed::default(),
        published,
        seen: story.observe()?,
    });
    // 4. Everything is delivered once more.
    let committed = story.commit(&events)?;
    let published = Some(story.publish()?);
    over(Stage {
        name: "rerun",
        after_event: "EV207",
        title: "All ten events are delivered again: nothing changes",
        committed,
        published,
        seen: story.observe()?,
    });
    Ok(stages)
}

struct Story<'a> {
    context: &'a Context,
    stop: &'a AtomicBool,
    ingest: Ingest<'a>,
    reader: Reader<'a>,
    ends: &'a mut KafkaLog,
    producer: &'a KafkaProducer,
    publisher: Publisher,
    base: &'a mut SqliteReader,
    facts: &'a FactQuery,
    store: &'a mut RedisStore,
}

impl<'a> Story<'a> {
    fn start(context: &'a Context, world: &'a mut World, stop: &'a AtomicBool) -> PortResult<Self> {
        let World { writer, base, facts, log, ends, producer, store } = world;
        let settings = context.maintain_settings(false);
        let (catalog, clock) = (context.catalog.clone(), context.clock.clone());
        let known = writer.partitions()?;
        let planned = plan_start(log, &catalog, &known, &[None])?;
        let reader = Reader::start(log, catalog.clone(), &planned, vec![None], settings.read)?;
        let ingest = Ingest::open(writer, catalog.clone(), clock.clone(), &planned)?;
        let publisher = Publisher::new(catalog, VIEW, clock, settings.publish, settings.random);
        Ok(Story { context, stop, ingest, reader, ends, producer, publisher, base, facts, store })
    }

    /// Sends events and commits them, and the watermark that follows; publishes nothing.
    fn commit(&mut self, events: &[Delivery]) -> PortResult<Committed> {
        let topic = self.context.catalog.topics[0].name.clone();
        for event in events {
            send(self.producer, &topic, event)?;
        }
        let before = self.duplicates();
        let items = self.read_to_the_end()?;
        let done = self.ingest.apply(&items)?;
        let greatest = self.ingest.greatest();
        let probe = probe(self.ends, &self.context.clock, greatest)?;
        self.publisher.note_probe(probe.clone());
        self.ingest.note_probe(probe);
        self.ingest.apply(&[])?;
        Ok(Committed {
            consumed: done.consumed,
            applied: done.applied,
            duplicate: self.duplicates() - before,
        })
    }

    fn read_to_the_end(&mut self) -> PortResult<Vec<Item>> {
        let since = Instant::now();
        let mut missing: Vec<i64> = Vec::new();
        for (at, next) in self.positions() {
            missing.push(self.ends.bounds(&at)?.high - next);
        }
        let mut items: Vec<Item> = Vec::new();
        while missing.iter().any(|missing| *missing > 0) {
            check(self.stop)?;
            if since.elapsed() > READ_PATIENCE {
                return Err(PortError::transient(format!(
                    "Kafka has acknowledged records that do not arrive within {} s",
                    READ_PATIENCE.as_secs()
                )));
            }
            for item in self.reader.poll(Duration::from_millis(50))? {
                if !matches!(item.what, What::End) {
                    missing[item.slot] -= 1;
                }
                items.push(item);
            }
        }
        Ok(items)
    }

    /// Publishes until Redis shows all that is committed.
    fn publish(&mut self) -> PortResult<Published> {
        check(self.stop)?;
        let meta = self.store.read_meta(self.publisher.object())?;
        let keys = self.base.snapshot()?.dirty_since(VIEW, version(&meta))?;
        publish_all(&mut self.publisher, self.base, self.store)?;
        Ok(Published { keys, full: meta.is_empty() })
    }

    fn observe(&mut self) -> PortResult<Observation> {
        let (meta, groups) = read_groups(self.context, VIEW, self.store)?.ok_or_else(|| {
            PortError::permanent("somebody else publishes the view of this story")
                .with_hint("end the other process that uses its key prefix")
        })?;
        let rows = self.facts.rows(&evidence::rows_sql(), &[])?;
        let mut snapshot = self.base.snapshot()?;
        let head = snapshot.head()?;
        let pending = snapshot
            .dirty_since(VIEW, version(&meta))?
            .into_iter()
            .map(|key| Ok((key.clone(), snapshot.recompute(VIEW, &key)?)))
            .collect::<PortResult<_>>()?;
        let base_watermark = head.tables[TABLE].watermark;
        Ok(Observation { commit: head.commit, base_watermark, rows, pending, meta, groups })
    }

    fn positions(&self) -> Vec<(TopicPartition, i64)> {
        self.ingest.partitions().iter().map(|state| (state.at.clone(), state.next_offset)).collect()
    }

    fn duplicates(&self) -> u64 {
        self.ingest.partitions().iter().map(|state| state.counts.duplicate).sum()
    }
}

/// Sends one event and waits until it is acknowledged: the writer's promise of mode `append_ordered`.
pub fn send(producer: &KafkaProducer, topic: &str, event: &Delivery) -> PortResult<()> {
    producer.send(topic, None, Some(event.key.as_bytes()), Some(event.json.as_bytes()))?;
    producer.flush(Duration::from_secs(30))
}

/// Steps until there is nothing left to publish.
pub fn publish_all(
    publisher: &mut Publisher,
    base: &mut dyn BaseReader,
    store: &mut dyn ViewStore,
) -> PortResult<()> {
    let mut refused = 0;
    loop {
        match publisher.step(base, store)? {
            Step::Published { .. } => {}
            Step::Idle | Step::Beat => return Ok(()),
            Step::Refused(reply) if refused == 5 => {
                return Err(PortError::permanent(format!("Redis refuses the publish: {reply:?}")));
            }
            Step::Refused(_) => refused += 1,
            Step::Standby => {
                return Err(PortError::permanent("another maintainer publishes under this key prefix"));
            }
        }
    }
}

/// An error once somebody has asked for the end.
pub fn check(stop: &AtomicBool) -> PortResult<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(PortError::permanent("ended before it was done, as asked"));
    }
    Ok(())
}
