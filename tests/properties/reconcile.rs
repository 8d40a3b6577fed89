//! P9: a pass calls nothing drift that is none, whatever commits and publishes go on between its reads, and finds
//! every damage in a quiet view, names it, and has it mended.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use driftless::io::sqlite::SqliteReader;
use driftless::io::twin::view_store::{TwinStore, ViewKey};
use driftless::pipeline::publish::Step;
use driftless::pipeline::reconcile::{self, Ports, ReconcileSettings};
use driftless::pipeline::requests;
use driftless::ports::{
    Clock, KeyScan, Meta, Outline, PortResult, RangeRead, Requests, StoredFields, StoredGroup, ViewStore,
};
use driftless::pure::base::{Action, Answer, ReconcileVerdict};
use driftless::pure::drift::{Kind, Report, Scope};
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{Publish, PublishReply};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::cases;
use crate::chaos::world;
use crate::history::{changes, number, plain};
use crate::support::OBJECT;
use crate::support::oracle::Oracle;
use crate::support::world::{BEAT_MS, Running, Sizes, World};

fn settings(repair: bool) -> ReconcileSettings {
    ReconcileSettings {
        scope: Scope::default(),
        share: 1.0,
        beat_ms: BEAT_MS,
        repair,
        why: "a test".to_owned(),
        listed: 20,
    }
}

/// A maintainer that goes on whenever the pass does anything.
struct Living<'a, 'b> {
    running: &'a mut Running<'b>,
    events: std::vec::IntoIter<Value>,
    /// What it does next, over and over: how many events it appends, whether it ingests, whether it publishes.
    steps: Vec<(usize, bool, bool)>,
    at: usize,
}

impl Living<'_, '_> {
    fn go_on(&mut self) {
        let Some((append, ingest, publish)) = self.steps.get(self.at % self.steps.len().max(1)).copied()
        else {
            return;
        };
        self.at += 1;
        for event in self.events.by_ref().take(append) {
            self.running.world.append(0, &event);
        }
        if ingest {
            let items = self.running.poll();
            self.running.ingest.apply(&items).expect("the base takes the batch");
        }
        if publish {
            let step = self.running.step().expect("a reachable store");
            assert!(!matches!(step, Step::Standby), "nobody else publishes here");
        }
    }
}

/// The store as the pass sees it: before each call the maintainer has gone on.
struct Store<'m, 'a, 'b> {
    inner: TwinStore,
    living: &'m Mutex<Living<'a, 'b>>,
}

impl Store<'_, '_, '_> {
    fn next(&mut self) -> &mut TwinStore {
        self.living.lock().unwrap().go_on();
        &mut self.inner
    }
}

impl ViewStore for Store<'_, '_, '_> {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        self.next().read_meta(object)
    }
    fn publish(&mut self, _: &str, _: &[String], _: &Publish) -> PortResult<PublishReply> {
        panic!("a pass never writes to the store")
    }
    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        _limit: usize,
    ) -> PortResult<RangeRead> {
        // The pass tells the end by the number that it asked for, so slices stay whole.
        self.next().read_range(object, after, through, 1_000)
    }
    fn read_rows(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)> {
        self.next().read_rows(object, keys)
    }
    fn read_groups(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)> {
        self.next().read_groups(object, keys)
    }
    fn read_outline(&mut self, object: &str) -> PortResult<Outline> {
        self.next().read_outline(object)
    }
    fn scan_strays(&mut self, object: &str, cursor: u64) -> PortResult<KeyScan> {
        self.next().scan_strays(object, cursor)
    }
}

/// Requests are carried out by the maintainer itself.
struct Desk<'m, 'a, 'b>(&'m Mutex<Living<'a, 'b>>);

impl Requests for Desk<'_, '_, '_> {
    fn ask(&mut self, action: &Action, why: &str) -> PortResult<Answer> {
        let mut living = self.0.lock().unwrap();
        let at_ms = living.running.world.clock.wall_ms();
        let id = living.running.requests.put(action, "tester", why, at_ms)?;
        if let Action::SettleGroups { groups, .. } = action {
            let groups = groups.iter().map(|group| GroupKey::from_encoded(group.as_str())).collect();
            living.running.publisher.settle_next(groups);
        }
        for _ in 0..50 {
            let Running { ingest, publisher, .. } = &mut *living.running;
            requests::carry_out_with(ingest, &mut |_, _| publisher.take_settled().map(Ok))?;
            if let Some((done, answer)) = living.running.requests.answer(id)? {
                if matches!(action, Action::RepairGroups { .. }) {
                    living.running.publish_all();
                }
                return Ok(if done { Ok(answer) } else { Err(answer.to_string()) });
            }
            let _refused_or_not = living.running.step()?;
        }
        panic!("request {id} is not answered");
    }
}

/// One pass beside a maintainer that goes on by `steps`.
fn pass(
    running: &mut Running<'_>,
    events: Vec<Value>,
    steps: Vec<(usize, bool, bool)>,
    repair: bool,
) -> Report {
    let world: &World = running.world;
    let mut base = SqliteReader::open(&world.base_settings("first"), &world.catalog).unwrap();
    let living = Mutex::new(Living { running, events: events.into_iter(), steps, at: 0 });
    let stop = AtomicBool::new(false);
    let mut store = Store { inner: world.store.clone(), living: &living };
    let ports = Ports {
        base: &mut base,
        requests: &mut Desk(&living),
        clock: world.clock.clone(),
        wait: &mut |time: Duration| {
            world.clock.advance(time.as_millis() as u64);
            living.lock().unwrap().go_on();
        },
        stop: &stop,
        progress: &|_, _| {},
        found: &mut |_| Ok(()),
    };
    let report = reconcile::run(ports, &mut store, &world.catalog, 0, &settings(repair)).unwrap();
    reconcile::record(&mut Desk(&living), &report, 20).unwrap();
    report
}

fn told(report: &Report) -> String {
    format!("{:#}", report.to_json(100))
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn p9_no_pass_calls_drift_what_is_only_going_on(
        before in changes(1..20), during in changes(0..60),
        steps in proptest::collection::vec((0..4_usize, any::<bool>(), any::<bool>()), 1..8),
        script_max in 1..5_usize,
    ) {
        let world = world(Sizes { groups_per_script_max: script_max, ..Sizes::default() });
        let all = [before.clone(), during].concat();
        let mut events = number(&all, 1, false);
        let later = events.split_off(before.len());
        events.iter().for_each(|event| { world.append(0, event); });
        world.run(|running| {
            running.catch_up();
            let report = pass(running, later, steps, false);
            prop_assert_eq!(report.tally.differences(), 0, "{}", told(&report));
            prop_assert!(
                matches!(report.verdict(), ReconcileVerdict::InSync | ReconcileVerdict::Undecided),
                "{}", told(&report)
            );
            // Once everything is quiet there is nothing that it cannot decide.
            running.catch_up();
            let report = pass(running, Vec::new(), Vec::new(), false);
            prop_assert_eq!(report.verdict(), ReconcileVerdict::InSync, "{}", told(&report));
            prop_assert_eq!(report.tally.redis.groups(), world.index().len() as u64);
            Ok(())
        })?;
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    ChangeField,
    RemoveField,
    AddField,
    DeleteRow,
    AddStray,
    ReplaceRow,
    DeleteIndexEntry,
    AddIndexEntry,
    RaiseWatermark,
    ChangePositions,
    ForeignKey,
    MetaGroups,
}

const DAMAGES: [Damage; 12] = [
    Damage::ChangeField,
    Damage::RemoveField,
    Damage::AddField,
    Damage::DeleteRow,
    Damage::AddStray,
    Damage::ReplaceRow,
    Damage::DeleteIndexEntry,
    Damage::AddIndexEntry,
    Damage::RaiseWatermark,
    Damage::ChangePositions,
    Damage::ForeignKey,
    Damage::MetaGroups,
];

impl Damage {
    /// Does it, and returns which kind a pass has to find at which key; `None` where nothing was there to damage.
    fn inflict(self, store: &TwinStore, at: &Index) -> Option<(Kind, String)> {
        let rows: Vec<(String, BTreeMap<String, String>)> = store.rows(OBJECT).into_iter().collect();
        let some = || (!rows.is_empty()).then(|| at.get(&rows).clone());
        let meta = |field: &str| (Kind::WrongMeta, format!("own key meta {field}"));
        Some(match self {
            Damage::ChangeField => {
                let (key, fields) = some()?;
                let (field, value) = fields.iter().next().unwrap();
                let other = value.parse::<i64>().map_or(0, |number| number.wrapping_add(1));
                store.set_row_field(OBJECT, &key, field, &other.to_string());
                (Kind::Different, key)
            }
            Damage::RemoveField => {
                let (key, fields) = some().filter(|(_, fields)| fields.len() > 1)?;
                store.remove_row_field(OBJECT, &key, fields.keys().next().unwrap());
                (Kind::Different, key)
            }
            Damage::AddField => {
                let (key, _) = some()?;
                store.set_row_field(OBJECT, &key, "more", "1");
                (Kind::Different, key)
            }
            Damage::DeleteRow => {
                let (key, _) = some()?;
                store.delete_row(OBJECT, &key);
                (Kind::Missing, key)
            }
            Damage::AddStray => {
                store.add_stray(OBJECT, "2020-01-01:P", "units", "1");
                (Kind::Extra, "2020-01-01:P".to_owned())
            }
            Damage::ReplaceRow => {
                let (key, _) = some()?;
                store.replace_row(OBJECT, &key);
                (Kind::Different, key)
            }
            Damage::DeleteIndexEntry => {
                let (key, _) = some()?;
                store.delete_index_entry(OBJECT, &key);
                (Kind::WrongIndex, key)
            }
            Damage::AddIndexEntry => {
                store.add_index_entry(OBJECT, "2020-01-02:P");
                (Kind::WrongIndex, "2020-01-02:P".to_owned())
            }
            Damage::RaiseWatermark => {
                store.set_meta_field(OBJECT, "watermark", "999999");
                meta("watermark")
            }
            Damage::ChangePositions => {
                store.set_meta_field(OBJECT, "positions", "{}");
                meta("positions")
            }
            Damage::ForeignKey => {
                store.add_foreign_key(OBJECT, ":notes");
                (Kind::ForeignKey, format!("driftless:{{{OBJECT}}}:notes"))
            }
            Damage::MetaGroups => {
                store.set_meta_field(OBJECT, "groups", "999");
                meta("groups")
            }
        })
    }
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn p9_every_damage_of_a_quiet_view_is_found_named_and_mended(
        history in changes(1..30), damages in proptest::collection::vec((0..DAMAGES.len(), any::<Index>()), 1..5),
    ) {
        let world = world(Sizes::default());
        let events = number(&history, 1, false);
        events.iter().for_each(|event| { world.append(0, event); });
        world.run(|running| {
            running.catch_up();
            let clean = pass(running, Vec::new(), Vec::new(), false);
            prop_assert_eq!(clean.verdict(), ReconcileVerdict::InSync, "{}", told(&clean));
            // What the pass put on record is published before anything is damaged.
            running.catch_up();
            // 1. Each key is damaged once, so that each damage keeps its kind.
            let mut expected: BTreeMap<String, Kind> = BTreeMap::new();
            for (damage, at) in &damages {
                let before = world.store.snapshot();
                if let Some((kind, key)) = DAMAGES[*damage].inflict(&world.store, at)
                    && expected.insert(key, kind).is_some()
                {
                    world.store.restore(&before);
                    return Ok(());
                }
            }
            // The index' count follows from its entries.
            let counts = expected.values().any(|kind| *kind == Kind::WrongIndex);
            let report = pass(running, Vec::new(), Vec::new(), false);
            let mut found: BTreeMap<String, Kind> =
                report.differences.iter().map(|one| (one.key.clone(), one.kind)).collect();
            if counts {
                expected.remove("own key meta groups");
                found.remove("own key meta groups");
            }
            prop_assert_eq!(&found, &expected, "{}", told(&report));
            let bad = if expected.is_empty() && !counts && found.is_empty() {
                ReconcileVerdict::InSync
            } else {
                ReconcileVerdict::Drift
            };
            prop_assert_eq!(report.verdict(), bad, "{}", told(&report));
            // 2. Foreign keys are nobody's to remove but their owner's.
            world.store.remove_foreign_keys(OBJECT);
            let report = pass(running, Vec::new(), Vec::new(), true);
            prop_assert!(
                matches!(report.verdict(), ReconcileVerdict::Repaired | ReconcileVerdict::InSync),
                "{}", told(&report)
            );
            prop_assert_eq!(world.published(), Oracle::of(&events).published());
            let report = pass(running, Vec::new(), Vec::new(), false);
            prop_assert_eq!(report.verdict(), ReconcileVerdict::InSync, "{}", told(&report));
            Ok(())
        })?;
    }
}

#[test]
fn p9_a_group_that_changes_before_every_look_is_compared_by_the_publisher() {
    let world = world(Sizes::default());
    // One line that moves on with every event, so that its group is marked by every commit.
    let event = |seq: u64| {
        let mut event = plain(1);
        event["source_seq"] = seq.into();
        event["row"]["amount_cents"] = (seq as i64).into();
        event
    };
    world.append(0, &event(1));
    world.run(|running| {
        running.catch_up();
        let later: Vec<Value> = (2..2_000).map(event).collect();
        // Published first, then committed: the base is ahead at every look.
        let report = pass(running, later, vec![(1, false, true), (1, true, false)], false);
        assert_eq!(report.verdict(), ReconcileVerdict::InSync, "{}", told(&report));
        assert_eq!(report.tally.compared, 1);
        assert_eq!(report.unsettled_total, 0);
    });
}

#[test]
fn p9_a_stranger_s_cursor_is_not_called_drift_and_an_altered_one_is() {
    let world = world(Sizes::default());
    (1..=3).for_each(|seq| {
        world.append(0, &plain(seq));
    });
    world.run(|running| {
        running.catch_up();
        let shown = world.store.snapshot();
        // 1. Another base publishes: its numbers are its own.
        world.store.set_meta_field(OBJECT, "nonce", "somebody-else");
        world.store.set_meta_field(OBJECT, "version", "77");
        world.store.set_meta_field(OBJECT, "positions", r#"{"sales.changes:0":9}"#);
        let report = pass(running, Vec::new(), Vec::new(), false);
        assert_eq!(report.verdict(), ReconcileVerdict::Undecided, "{}", told(&report));
        // 2. Only the cursor is another one: somebody wrote it.
        for (field, value) in [("nonce", "somebody-else"), ("version", "77")] {
            world.store.restore(&shown);
            running.publish_all();
            world.store.set_meta_field(OBJECT, field, value);
            let report = pass(running, Vec::new(), Vec::new(), false);
            assert_eq!(report.verdict(), ReconcileVerdict::Drift, "{field}: {}", told(&report));
            let found: Vec<_> = report.differences.iter().map(|one| one.key.as_str()).collect();
            assert_eq!(found, [format!("own key meta {field}")]);
        }
        // 3. A token alone contradicts itself.
        world.store.restore(&shown);
        running.publish_all();
        world.store.set_meta_field(OBJECT, "token", "x-1");
        let report = pass(running, Vec::new(), Vec::new(), false);
        assert_eq!(report.verdict(), ReconcileVerdict::Drift, "{}", told(&report));
        // 4. The index in the place of something else.
        world.store.restore(&shown);
        running.publish_all();
        world.store.replace_key(OBJECT, ViewKey::Index);
        let report = pass(running, Vec::new(), Vec::new(), false);
        assert_eq!(report.tally.of_kind(Kind::WrongIndex), 1, "{}", told(&report));
    });
}
