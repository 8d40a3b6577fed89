//! Two maintainers of the same log, a store that loses answers, data and time, and late packets: whatever
//! happens, a store that nobody has damaged shows one commit of one base exactly, two never publish against each
//! other, and once the faults end the store shows the base (P6, P7, P8).

use std::collections::BTreeMap;

use driftless::io::twin::view_store::{Fault, TwinSnapshot};
use driftless::pipeline::ingest::Applied;
use driftless::pipeline::publish::Step;
use driftless::pipeline::read::Item;
use driftless::ports::{Clock, PortResult, ViewStore};
use driftless::pure::base::Head;
use driftless::pure::publish::PublishReply;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::cases;
use crate::history::{changes, number};
use crate::support::OBJECT;
use crate::support::oracle::Oracle;
use crate::support::world::{BEAT_MS, Running, Sizes, TAKEOVER_MS, World};

/// What happens next; nodes are maintainers by number.
#[derive(Clone, Debug)]
pub enum Act {
    Append(usize),
    Ingest(usize),
    Step(usize),
    /// A step while the log and the base go on between its calls of the store.
    BusyStep(usize),
    /// Time passes.
    Wait(u64),
    /// After so many more calls one fails.
    Fail(usize, Fault),
    Reachable(bool),
    DeliverLate,
    Flush,
    Remember,
    /// A failover to a stale replica: one of the states remembered.
    Restore(Index),
    Damage(Damage, Index),
}

#[derive(Clone, Copy, Debug)]
pub enum Damage {
    DeleteRow,
    DeleteIndexEntry,
    AddStray,
    AddIndexEntry,
    ReplaceRow,
    ChangeField,
    ChangeAllBut,
}

pub fn acts(nodes: usize) -> impl Strategy<Value = Vec<Act>> {
    let fault = prop_oneof![Just(Fault::BeforeEffect), Just(Fault::AfterEffect), Just(Fault::Late)];
    let damage = prop_oneof![
        Just(Damage::DeleteRow),
        Just(Damage::DeleteIndexEntry),
        Just(Damage::AddStray),
        Just(Damage::AddIndexEntry),
        Just(Damage::ReplaceRow),
        Just(Damage::ChangeField),
        Just(Damage::ChangeAllBut),
    ];
    let act = prop_oneof![
        6 => (1..8_usize).prop_map(Act::Append),
        6 => (0..nodes).prop_map(Act::Ingest),
        8 => (0..nodes).prop_map(Act::Step),
        6 => (0..nodes).prop_map(Act::BusyStep),
        3 => prop_oneof![Just(BEAT_MS), Just(TAKEOVER_MS)].prop_map(Act::Wait),
        5 => (0..7_usize, fault).prop_map(|(skipped, fault)| Act::Fail(skipped, fault)),
        1 => any::<bool>().prop_map(Act::Reachable),
        1 => Just(Act::DeliverLate),
        1 => Just(Act::Flush),
        2 => Just(Act::Remember),
        2 => any::<Index>().prop_map(Act::Restore),
        1 => (damage, any::<Index>()).prop_map(|(damage, at)| Act::Damage(damage, at)),
    ];
    proptest::collection::vec(act, 0..40)
}

/// The rows of a store by encoded key.
type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// A maintainer, whatever it lives on.
pub trait Node {
    fn poll(&mut self) -> Vec<Item>;
    fn apply(&mut self, items: &[Item]) -> Applied;
    fn step(&mut self) -> PortResult<Step>;
    fn step_busy(&mut self, feed_and_note: &mut (dyn FnMut(Option<Applied>) + Send)) -> PortResult<Step>;
    fn head(&mut self) -> Head;
    /// An operator makes this generation the live one, after those named.
    fn activate(&mut self, activation: u64, replaces: &[&str]);
}

impl Node for Running<'_> {
    fn poll(&mut self) -> Vec<Item> {
        Running::poll(self)
    }

    fn apply(&mut self, items: &[Item]) -> Applied {
        self.ingest.apply(items).expect("the base takes the batch")
    }

    fn step(&mut self) -> PortResult<Step> {
        Running::step(self)
    }

    fn step_busy(&mut self, feed_and_note: &mut (dyn FnMut(Option<Applied>) + Send)) -> PortResult<Step> {
        Running::step_busy(self, feed_and_note)
    }

    fn head(&mut self) -> Head {
        Running::head(self)
    }

    fn activate(&mut self, activation: u64, replaces: &[&str]) {
        Running::activate(self, activation, replaces);
    }
}

/// Everything that the checks remember.
pub struct Watch<'a> {
    pub world: &'a World,
    events: Vec<Value>,
    appended: usize,
    /// By node: the fold of what it has ingested.
    pub oracles: Vec<Oracle>,
    consumed: Vec<usize>,
    /// What each commit of each lineage has to show.
    states: BTreeMap<(String, u64), Rows>,
    /// The node of each nonce.
    lineages: BTreeMap<String, usize>,
    remembered: Vec<(TwinSnapshot, bool)>,
    /// Whether somebody wrote into the view; then it is true again only after a sweep.
    damaged: bool,
    /// The node that published last, and its beat.
    owner: Option<usize>,
    beat: String,
    /// How many beats there have been, and since when this one stands.
    beats: u64,
    beat_since_ms: u64,
    /// The beats that each node has met, with their numbers when it first did.
    sightings: BTreeMap<(usize, String), u64>,
    /// Where the nodes are generations: the one that an operator has chosen.
    pub live: Option<usize>,
    pub activations: u64,
    /// Counted, so that a test knows that it tests something.
    pub takeovers: usize,
}

impl<'a> Watch<'a> {
    pub fn new(world: &'a World, events: Vec<Value>, nodes: usize) -> Self {
        Watch {
            world,
            events,
            appended: 0,
            oracles: vec![Oracle::default(); nodes],
            consumed: vec![0; nodes],
            states: BTreeMap::new(),
            lineages: BTreeMap::new(),
            remembered: Vec::new(),
            damaged: false,
            owner: None,
            beat: String::new(),
            beats: 0,
            beat_since_ms: 0,
            sightings: BTreeMap::new(),
            live: None,
            activations: 0,
            takeovers: 0,
        }
    }

    /// Notes what the base's newest commit has to show.
    pub fn note_state(&mut self, node: usize, running: &mut dyn Node) {
        let head = running.head();
        self.lineages.insert(head.nonce.clone(), node);
        self.states.insert((head.nonce, head.commit.0), self.oracles[node].published());
    }

    pub fn append(&mut self, count: usize) {
        let until = self.appended.saturating_add(count).min(self.events.len());
        for event in &self.events[self.appended..until] {
            // One partition keeps the order of the fold simple; the order of partitions is tested elsewhere.
            self.world.append(0, event);
        }
        self.appended = until;
    }

    pub fn ingest(&mut self, node: usize, running: &mut dyn Node) {
        loop {
            let items = running.poll();
            if items.is_empty() {
                return;
            }
            let applied = running.apply(&items);
            self.note_applied(node, applied);
        }
    }

    /// Folds what a node has consumed, and notes what its new commit has to show.
    fn note_applied(&mut self, node: usize, applied: Applied) {
        let from = self.consumed[node];
        let until = from + applied.consumed as usize;
        self.events[from..until].iter().for_each(|event| {
            self.oracles[node].deliver(event);
        });
        self.consumed[node] = until;
        let nonce = self.lineages.iter().find(|(_, owner)| **owner == node).expect("a lineage").0.clone();
        let commit = applied.commit.expect("a commit a batch").0;
        self.states.insert((nonce, commit), self.oracles[node].published());
    }

    /// One step of a node. Whoever changes the store has to be the one that is shown, or find nobody alive.
    pub fn step(&mut self, node: usize, running: &mut dyn Node) {
        self.step_by(node, |_| running.step());
    }

    /// As [`step`](Self::step), with an event, a batch, and packets that were given up between any two calls of
    /// the store.
    fn step_busy(&mut self, node: usize, running: &mut dyn Node) {
        self.step_by(node, |watch| {
            running.step_busy(&mut |applied| match applied {
                None => {
                    watch.append(1);
                    // Not at once, or the packet would only be on time.
                    if watch.world.store.calls().is_multiple_of(4) {
                        watch.deliver_late();
                    }
                }
                Some(applied) => watch.note_applied(node, applied),
            })
        });
    }

    fn step_by(&mut self, node: usize, step: impl FnOnce(&mut Self) -> PortResult<Step>) {
        self.see_beat();
        let before = (self.beat.clone(), self.beats);
        let stands_ms = self.world.clock.monotonic_ms() - self.beat_since_ms;
        let shown = self.world.store.meta(OBJECT).remove("nonce").unwrap_or_default();
        if let Err(error) = step(self) {
            // One that an operator has set aside finds another generation shown, and ends.
            let set_aside = self.live.is_some_and(|live| live != node);
            assert!(error.is_transient() || set_aside, "{error}");
        }
        if !self.see_beat() {
            self.sightings.entry((node, before.0)).or_insert(before.1);
            return;
        }
        // A base that finds its own state shown, with another's unfinished parts, may mend it at once.
        let ours = self.lineages.get(&shown) == Some(&node);
        // A failover may show a beat once more that the standby has met before.
        let again = *self.sightings.entry((node, before.0)).or_insert(before.1) != before.1;
        // The one that was chosen waits for nobody that was set aside.
        let chosen = self.live == Some(node);
        if self.owner.is_some_and(|owner| owner != node) && !ours && !again && !chosen {
            assert!(stands_ms >= TAKEOVER_MS, "P7: took over from a publisher that lives");
            self.takeovers += 1;
        }
        self.owner = Some(node);
    }

    /// Whether the beat is another one than last time.
    fn see_beat(&mut self) -> bool {
        let beat = self.world.store.meta(OBJECT).remove("beat").unwrap_or_default();
        if beat == self.beat {
            return false;
        }
        self.beat = beat;
        self.beats += 1;
        self.beat_since_ms = self.world.clock.monotonic_ms();
        true
    }

    /// Packets that were given up arrive; one that is accepted is nobody's step.
    fn deliver_late(&mut self) {
        let replies = self.world.store.deliver_late();
        if replies.iter().any(|reply| matches!(reply, PublishReply::Accepted { .. })) {
            self.forget_owner();
        }
    }

    /// The store went back or lost everything: whoever finds nothing, or its own, may publish at once.
    pub fn forget_owner(&mut self) {
        self.owner = None;
        self.see_beat();
    }

    fn damage(&mut self, damage: Damage, at: Index) {
        let store = &self.world.store;
        let keys: Vec<String> = self.world.published().into_keys().collect();
        let key = if keys.is_empty() { "nothing:here" } else { &keys[at.index(keys.len())] };
        match damage {
            Damage::DeleteRow => _ = store.delete_row(OBJECT, key),
            Damage::DeleteIndexEntry => _ = store.delete_index_entry(OBJECT, key),
            Damage::AddStray => store.add_stray(OBJECT, "a:stray", "units", "1"),
            Damage::AddIndexEntry => store.add_index_entry(OBJECT, "2026-10-01:nobody"),
            Damage::ReplaceRow => store.replace_row(OBJECT, key),
            Damage::ChangeField => store.set_row_field(OBJECT, key, "units", "1000001"),
            Damage::ChangeAllBut => {
                keys.iter().for_each(|key| store.set_row_field(OBJECT, key, "foreign", "1"));
            }
        }
        self.damaged = true;
    }

    pub fn act(&mut self, act: &Act, nodes: &mut [&mut dyn Node]) {
        let store = &self.world.store;
        match act {
            Act::Append(count) => self.append(*count),
            Act::Ingest(node) => self.ingest(*node, nodes[*node]),
            Act::Step(node) => self.step(*node, nodes[*node]),
            Act::BusyStep(node) => self.step_busy(*node, nodes[*node]),
            Act::Wait(ms) => self.world.clock.advance(*ms),
            Act::Fail(skipped, fault) => store.fail_nth(*skipped, *fault),
            Act::Reachable(reachable) => store.set_reachable(*reachable),
            Act::DeliverLate => self.deliver_late(),
            Act::Flush => {
                store.flush_all();
                self.damaged = false;
                self.forget_owner();
            }
            Act::Remember => self.remembered.push((store.snapshot(), self.damaged)),
            Act::Restore(which) => {
                if !self.remembered.is_empty() {
                    let (snapshot, damaged) = &self.remembered[which.index(self.remembered.len())];
                    store.restore(snapshot);
                    self.damaged = *damaged;
                    self.forget_owner();
                }
            }
            Act::Damage(damage, at) => self.damage(*damage, *at),
        }
        self.assert_one_state();
    }

    /// P6: what is shown is one commit of one base, whole.
    fn assert_one_state(&self) {
        if self.damaged {
            return;
        }
        let meta = self.world.store.meta(OBJECT);
        if meta.is_empty() {
            assert!(self.world.published().is_empty(), "P6: rows without a meta");
            return;
        }
        if meta["mixed"] != "0" {
            return;
        }
        let version = meta["version"].parse().expect("a number");
        let expected = &self.states[&(meta["nonce"].clone(), version)];
        assert_eq!(&self.world.published(), expected, "P6: version {version}");
    }

    /// Faults end; what a sweep would not be told of is made known to it.
    pub fn end_faults(&mut self) {
        let store = &self.world.store;
        store.set_reachable(true);
        store.deliver_late();
        for _ in 0..100 {
            let _ = store.clone().read_meta(OBJECT);
        }
        store.deliver_late();
        // Damage that leaves the counts alone is the reconciler's to find; here an entry too many gives it away.
        for name in ["2026-10-01:away1", "2026-10-01:away2"] {
            let told = self.world.meta().get("groups").cloned().unwrap_or_default();
            if self.damaged && self.world.index().len().to_string() == told {
                store.add_index_entry(OBJECT, name);
            }
        }
        self.forget_owner();
    }

    pub fn heal(&mut self, nodes: &mut [&mut dyn Node]) {
        self.append(usize::MAX);
        for (node, running) in nodes.iter_mut().enumerate() {
            self.ingest(node, &mut **running);
        }
        for _ in 0..16 {
            self.world.clock.advance(BEAT_MS);
            for (node, running) in nodes.iter_mut().enumerate() {
                if self.live.is_none_or(|live| live == node) {
                    self.step(node, &mut **running);
                }
            }
        }
        // Both bases hold the same facts, so whoever publishes shows the same.
        let expected = self.oracles[0].published();
        assert_eq!(self.world.published(), expected, "P8: the store shows the base");
        assert_eq!(self.world.index(), expected.keys().cloned().collect::<Vec<_>>(), "P8");
        let meta = self.world.meta();
        assert_eq!(meta["groups"], expected.len().to_string());
        assert_eq!((meta["mixed"].as_str(), meta["token"].as_str()), ("0", ""));
        let heads: Vec<_> = nodes.iter_mut().map(|running| running.head()).collect();
        let shown = (meta["nonce"].as_str(), meta["version"].as_str());
        assert!(
            heads.iter().any(|head| (head.nonce.as_str(), head.commit.to_string().as_str()) == shown),
            "the newest commit of a base"
        );
        let fold = Oracle::of(&self.events);
        assert_eq!(expected, fold.published());
    }
}

pub fn sizes() -> impl Strategy<Value = Sizes> {
    let history = prop_oneof![Just(0), Just(4), Just(1_000_000)];
    (1..9_usize, history).prop_map(|(batch_records_max, history_changes_max)| Sizes {
        batch_records_max,
        groups_per_script_max: 3,
        history_changes_max,
    })
}

pub fn world(sizes: Sizes) -> World {
    let mut world = World::new(&["watermark=sparse"], 1);
    world.sizes = sizes;
    world
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn p6_p8_one_maintainer_heals_every_loss(
        changes in changes(0..40), acts in acts(1), sizes in sizes(),
    ) {
        let world = world(sizes);
        let mut watch = Watch::new(&world, number(&changes, 1, false), 1);
        world.run(|running| {
            watch.note_state(0, running);
            acts.iter().for_each(|act| watch.act(act, &mut [running]));
            watch.end_faults();
            watch.heal(&mut [running]);
        });
    }
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn p6_p7_p8_two_bases_never_publish_against_each_other_and_end_at_their_facts(
        changes in changes(0..40), acts in acts(2), sizes in sizes(),
    ) {
        let world = world(sizes);
        let mut watch = Watch::new(&world, number(&changes, 1, false), 2);
        world.run_on("first", |first| {
            world.run_on("second", |second| {
                watch.note_state(0, first);
                watch.note_state(1, second);
                acts.iter().for_each(|act| watch.act(act, &mut [first, second]));
                watch.end_faults();
                watch.heal(&mut [first, second]);
            });
        });
    }
}
