//! Any order, duplication, split and restart that a mode's writer and the log may bring about ends in the fold
//! of the events, and is true at every publish on the way (P2 to P5, P10).

use std::collections::BTreeMap;

use driftless::pipeline::read::{Item, What};
use driftless::pure::base::Counts;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::cases;
use crate::history::{Change, Delivery, PARTITIONS, changes, number};
use crate::support::oracle::{Effect, Oracle};
use crate::support::world::{Running, Sizes, World, partition};

/// What happens on the way.
#[derive(Clone, Debug)]
enum Act {
    /// So many more events reach the log.
    Append(usize),
    /// One batch is read and applied in pieces of this size.
    Apply(usize),
    Publish,
    /// Ends of the log are asked for.
    Probe,
    /// A partition is delivered again from some offset on.
    Redeliver(i32, Index),
    /// The process ends without a word, and another one starts.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (1..6_usize).prop_map(Act::Append),
        6 => (1..5_usize).prop_map(Act::Apply),
        4 => Just(Act::Publish),
        2 => Just(Act::Probe),
        1 => (0..PARTITIONS, any::<Index>()).prop_map(|(number, from)| Act::Redeliver(number, from)),
        1 => Just(Act::Restart),
    ];
    proptest::collection::vec(act, 0..16)
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let history = prop_oneof![Just(0), Just(3), Just(1_000_000)];
    (1..9_usize, prop_oneof![Just(2), Just(1_000)], history).prop_map(
        |(batch_records_max, groups_per_script_max, history_changes_max)| Sizes {
            batch_records_max,
            groups_per_script_max,
            history_changes_max,
        },
    )
}

/// How far the watermark has to be: a function of what each partition has shown.
type Watermark = fn(&Course<'_>) -> Option<u64>;

/// A history on its way through the world, with the oracle beside it.
struct Course<'a> {
    world: &'a World,
    /// What is still to be appended.
    coming: std::vec::IntoIter<Delivery>,
    /// Every event that there is, delivered or not.
    all: Vec<Value>,
    /// What each partition holds, by offset.
    records: BTreeMap<i32, Vec<Value>>,
    /// How much of it the base has consumed.
    consumed: BTreeMap<i32, usize>,
    oracle: Oracle,
    counts: Counts,
    /// The groups as they were last published, with the version.
    shown: BTreeMap<String, BTreeMap<String, String>>,
    by_offset: bool,
    watermark: Watermark,
}

impl<'a> Course<'a> {
    fn new(world: &'a World, deliveries: Vec<Delivery>, by_offset: bool, watermark: Watermark) -> Self {
        Course {
            world,
            all: deliveries.iter().map(|delivery| delivery.event.clone()).collect(),
            coming: deliveries.into_iter(),
            records: (0..PARTITIONS).map(|number| (number, Vec::new())).collect(),
            consumed: (0..PARTITIONS).map(|number| (number, 0)).collect(),
            oracle: Oracle::default(),
            counts: Counts::default(),
            shown: BTreeMap::new(),
            by_offset,
            watermark,
        }
    }

    fn append(&mut self, count: usize) {
        for Delivery { partition, event } in self.coming.by_ref().take(count) {
            self.world.append(partition, &event);
            self.records.entry(partition).or_default().push(event);
        }
    }

    /// What of a partition has been consumed.
    fn seen(&self, number: i32) -> &[Value] {
        &self.records[&number][..self.consumed[&number]]
    }

    fn apply(&mut self, running: &mut Running<'_>, items: &[Item]) {
        running.ingest.apply(items).expect("the base takes the batch");
        let partitions: Vec<i32> =
            running.ingest.partitions().iter().map(|state| state.at.partition).collect();
        for item in items.iter().filter(|item| !matches!(item.what, What::End)) {
            let number = partitions[item.slot];
            let consumed = self.consumed.get_mut(&number).expect("a partition");
            if (item.offset as usize) < *consumed {
                continue;
            }
            assert_eq!(item.offset as usize, *consumed, "no offset is left out");
            *consumed += 1;
            let event = &self.records[&number][item.offset as usize];
            let effect = match self.by_offset {
                true => self.oracle.deliver_at(item.offset as u64, event),
                false => self.oracle.deliver(event),
            };
            match effect {
                Effect::Applied => self.counts.applied += 1,
                Effect::Duplicate => self.counts.duplicate += 1,
                Effect::Stale => self.counts.stale += 1,
                Effect::Conflict => panic!("no event contradicts another here"),
            }
        }
        let found = Counts { below_watermark: 0, ..running.counts() };
        assert_eq!(found, self.counts, "P10");
    }

    fn publish(&mut self, running: &mut Running<'_>) {
        let now = self.oracle.published();
        // P3: whatever differs from what was shown is marked.
        if let Some(version) = running.publisher.version() {
            let dirty = running.dirty_since(version);
            let keys = self.shown.keys().chain(now.keys());
            for key in keys.filter(|key| self.shown.get(*key) != now.get(*key)) {
                assert!(dirty.contains(key), "P3: {key} changed since {version} and is not marked");
            }
        }
        running.publish_all();
        self.shown = now;
        self.assert_shown(running);
    }

    fn assert_shown(&self, running: &mut Running<'_>) {
        let world = self.world;
        assert_eq!(world.published(), self.oracle.published(), "P4, P6");
        assert_eq!(world.index(), self.oracle.published().into_keys().collect::<Vec<_>>());
        // P5: nothing at or below the watermark is missing, and it is as far as it can be.
        let watermark = (self.watermark)(self);
        let text = watermark.map(|watermark| watermark.to_string()).unwrap_or_default();
        assert_eq!(world.meta()["watermark"], text, "P5");
        let sequence = |event: &Value| event["source_seq"].as_u64().expect("a sequence");
        for event in self.all.iter().filter(|event| Some(sequence(event)) <= watermark) {
            let seen = (0..PARTITIONS).any(|number| self.seen(number).contains(event));
            assert!(seen, "P5: the watermark {text} passes {event}");
        }
        assert_eq!(running.head().open_letters, [0]);
    }

    fn act(&mut self, running: &mut Running<'_>, act: &Act) {
        match act {
            Act::Append(count) => self.append(*count),
            Act::Apply(size) => {
                let items = running.poll();
                items.chunks(*size).for_each(|piece| self.apply(running, piece));
            }
            Act::Publish => self.publish(running),
            Act::Probe => running.probe(),
            Act::Redeliver(number, from) => {
                let length = self.records[number].len();
                if length > 0 {
                    self.world.log.redeliver(&partition(*number), from.index(length) as i64);
                }
            }
            Act::Restart => {}
        }
    }

    /// Everything that is still to come, and the end.
    fn finish(&mut self, running: &mut Running<'_>) {
        self.append(usize::MAX);
        loop {
            let items = running.poll();
            if items.is_empty() {
                break;
            }
            self.apply(running, &items);
        }
        running.probe();
        self.publish(running);
    }
}

/// Runs it all, and returns the watermark that is shown in the end.
fn run(mode: &[&str], sizes: Sizes, acts: &[Act], deliveries: Vec<Delivery>, watermark: Watermark) -> String {
    let mut world = World::new(mode, PARTITIONS);
    world.sizes = sizes;
    let by_offset = mode.contains(&"watermark=offsets");
    let mut course = Course::new(&world, deliveries, by_offset, watermark);
    let mut lives = acts.split(|act| matches!(act, Act::Restart)).peekable();
    while let Some(life) = lives.next() {
        world.run(|running| {
            life.iter().for_each(|act| course.act(running, act));
            if lives.peek().is_none() {
                course.finish(running);
            }
        });
    }
    let rows: Vec<Vec<Value>> = course.oracle.base_rows();
    assert_eq!(world.base_rows("first"), rows, "P2");
    assert_eq!(world.graves("first"), course.oracle.graves(), "P2");
    // A last restart changes nothing.
    let before = world.published();
    world.run(|running| {
        assert_eq!(running.ingest_all().consumed, 0);
        assert_eq!(running.publish_all(), 0, "a rerun publishes no group");
        assert_eq!(running.watermark(), watermark(&course));
    });
    assert_eq!(world.published(), before);
    world.meta()["watermark"].clone()
}

/// Some events once more, each at a place of its own.
fn with_duplicates(mut deliveries: Vec<Delivery>, again: &[(Index, Index, i32)]) -> Vec<Delivery> {
    for (which, place, partition) in again.iter().filter(|_| !deliveries.is_empty()).collect::<Vec<_>>() {
        let event = deliveries[which.index(deliveries.len())].event.clone();
        deliveries.insert(place.index(deliveries.len() + 1), Delivery { partition: *partition, event });
    }
    deliveries
}

fn again() -> impl Strategy<Value = Vec<(Index, Index, i32)>> {
    proptest::collection::vec((any::<Index>(), any::<Index>(), 0..PARTITIONS), 0..6)
}

fn picks() -> impl Strategy<Value = Vec<Index>> {
    proptest::collection::vec(any::<Index>(), 1..30)
}

const DENSE_FIRST: u64 = 1_001;

fn dense_watermark(course: &Course<'_>) -> Option<u64> {
    let seen: std::collections::BTreeSet<u64> = (0..PARTITIONS)
        .flat_map(|number| course.seen(number))
        .map(|event| event["source_seq"].as_u64().expect("a sequence"))
        .collect();
    (DENSE_FIRST..).take_while(|sequence| seen.contains(sequence)).last().or(Some(DENSE_FIRST - 1))
}

/// The least of the partitions' greatest; `None` while one of them has shown nothing.
fn sparse_watermark(course: &Course<'_>) -> Option<u64> {
    let greatest = |number| course.seen(number).iter().map(|event| event["source_seq"].as_u64()).max();
    (0..PARTITIONS).map(|number| greatest(number).flatten()).min().flatten()
}

proptest! {
    #![proptest_config(cases(2_500))]
    #[test]
    fn p2_p3_p4_p5_p10_dense_any_order_on_any_partition_ends_in_the_fold(
        changes in changes(0..24), picks in picks(), again in again(), acts in acts(), sizes in sizes(),
    ) {
        let events = number(&changes, DENSE_FIRST, true);
        let mut deliveries: Vec<Delivery> = events
            .into_iter()
            .zip(&changes)
            .map(|(event, change)| Delivery { partition: change.partition, event })
            .collect();
        let mut shuffled = Vec::new();
        let mut picks = picks.iter().cycle();
        while let Some(pick) = picks.next().filter(|_| !deliveries.is_empty()) {
            shuffled.push(deliveries.swap_remove(pick.index(deliveries.len())));
        }
        let deliveries = with_duplicates(shuffled, &again);
        run(&["watermark=dense", "first_seq=1001"], sizes, &acts, deliveries, dense_watermark);
    }
}

/// Each partition's own order, merged at random; duplicates follow their events in the same partition.
fn sparse_deliveries(changes: &[Change], picks: &[Index], again: &[(Index, Index, i32)]) -> Vec<Delivery> {
    let mut queues: Vec<Vec<Delivery>> = vec![Vec::new(); PARTITIONS as usize];
    for (event, change) in number(changes, 1, false).into_iter().zip(changes) {
        queues[change.partition as usize].push(Delivery { partition: change.partition, event });
    }
    for (which, place, number) in again {
        let queue = &mut queues[*number as usize];
        if !queue.is_empty() {
            let which = which.index(queue.len());
            let place = which + 1 + place.index(queue.len() - which);
            queue.insert(place, queue[which].clone());
        }
    }
    let mut merged = Vec::new();
    let mut queues: Vec<_> = queues.into_iter().map(std::collections::VecDeque::from).collect();
    let mut picks = picks.iter().cycle();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let open: Vec<usize> = (0..queues.len()).filter(|&at| !queues[at].is_empty()).collect();
        let pick = picks.next().map_or(0, |pick| pick.index(open.len()));
        merged.extend(queues[open[pick]].pop_front());
    }
    merged
}

proptest! {
    #![proptest_config(cases(2_500))]
    #[test]
    fn p2_p3_p4_p5_p10_sparse_partitions_at_any_pace_end_in_the_fold(
        changes in changes(0..24), picks in picks(), again in again(), acts in acts(), sizes in sizes(),
    ) {
        let deliveries = sparse_deliveries(&changes, &picks, &again);
        run(&["watermark=sparse"], sizes, &acts, deliveries, sparse_watermark);
    }
}

/// Whatever is shown: how far it is depends on when the ends were asked for. That it is true is checked all the
/// same.
fn shown_watermark(course: &Course<'_>) -> Option<u64> {
    course.world.meta()["watermark"].parse().ok()
}

proptest! {
    #![proptest_config(cases(2_000))]
    #[test]
    fn p2_p3_p4_p5_p10_append_ordered_any_partition_may_get_the_next_event(
        changes in changes(0..24), again in again(), acts in acts(), sizes in sizes(),
    ) {
        let mut deliveries: Vec<Delivery> = number(&changes, 1, false)
            .into_iter()
            .zip(&changes)
            .map(|(event, change)| Delivery { partition: change.partition, event })
            .collect();
        let last = deliveries.last().map(|delivery| delivery.event["source_seq"].to_string());
        // The writer sends an event again after it has sent it first.
        for (which, place, partition) in &again {
            if !deliveries.is_empty() {
                let which = which.index(deliveries.len());
                let place = which + 1 + place.index(deliveries.len() - which);
                deliveries.insert(place, Delivery { partition: *partition, ..deliveries[which].clone() });
            }
        }
        let watermark = run(&["watermark=append_ordered"], sizes, &acts, deliveries, shown_watermark);
        prop_assert_eq!(watermark, last.unwrap_or_default());
    }
}

fn no_watermark(_: &Course<'_>) -> Option<u64> {
    None
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn p2_p3_p4_p10_offsets_order_the_events_of_a_key_and_there_is_no_watermark(
        changes in changes(0..24), acts in acts(), sizes in sizes(),
    ) {
        // The log carries sequences that mean nothing: all are the same.
        let deliveries = changes
            .iter()
            .map(|change| Delivery { partition: change.partition_of_key(), event: change.event(7) })
            .collect();
        run(&["watermark=offsets"], sizes, &acts, deliveries, no_watermark);
    }
}
