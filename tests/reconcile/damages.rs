//! The catalogue of damages: without a maintainer, where they stay, and beside a running one.

use serde_json::Value;

use crate::world::{VIEW, World, sale};

const ROW: &str = "driftless:{agg_daily_product}:row:2026-10-02:P2";
const GROUP: &str = "2026-10-02:P2";

struct Damage {
    name: &'static str,
    inflict: fn(&World),
    kind: &'static str,
    /// What the `key` of one of the differences is.
    key: &'static str,
    /// `--repair` can mend it by itself.
    mends: bool,
    /// What its owner does where not.
    remedy: fn(&World),
}

const DAMAGE: Damage =
    Damage { name: "", inflict: |_| {}, kind: "different", key: GROUP, mends: true, remedy: |_| {} };

fn index() -> String {
    format!("{VIEW}:index")
}

const CATALOGUE: &[Damage] = &[
    Damage {
        name: "a field changed by one",
        inflict: |world| world.redis(&["HINCRBY", ROW, "gmv_cents", "1"]),
        ..DAMAGE
    },
    Damage { name: "a field removed", inflict: |world| world.redis(&["HDEL", ROW, "units"]), ..DAMAGE },
    Damage { name: "a field added", inflict: |world| world.redis(&["HSET", ROW, "more", "1"]), ..DAMAGE },
    Damage { name: "a row deleted", inflict: |world| world.redis(&["DEL", ROW]), kind: "missing", ..DAMAGE },
    Damage {
        name: "an orphan row",
        inflict: |world| world.redis(&["HSET", &format!("{VIEW}:row:2026-10-09:P9"), "units", "1"]),
        kind: "extra",
        key: "2026-10-09:P9",
        ..DAMAGE
    },
    Damage {
        name: "an orphan row that is no group's",
        inflict: |world| world.redis(&["HSET", &format!("{VIEW}:row:nonsense"), "units", "1"]),
        kind: "extra",
        key: "nonsense",
        ..DAMAGE
    },
    Damage {
        name: "a row of the wrong type",
        inflict: |world| {
            world.redis::<()>(&["DEL", ROW]);
            world.redis(&["SET", ROW, "something else"])
        },
        ..DAMAGE
    },
    Damage {
        name: "an index entry removed",
        inflict: |world| world.redis(&["ZREM", &index(), GROUP]),
        kind: "wrong_index",
        ..DAMAGE
    },
    Damage {
        name: "an index entry added",
        inflict: |world| world.redis(&["ZADD", &index(), "0", "2026-10-09:P9"]),
        kind: "wrong_index",
        key: "2026-10-09:P9",
        ..DAMAGE
    },
    Damage {
        name: "an index entry out of place",
        inflict: |world| world.redis(&["ZADD", &index(), "1", GROUP]),
        kind: "wrong_index",
        ..DAMAGE
    },
    Damage {
        name: "a group that the base lacks",
        inflict: |world| {
            world.redis::<()>(&["HSET", &format!("{VIEW}:row:2026-10-09:P9"), "units", "1"]);
            world.redis::<()>(&["ZADD", &index(), "0", "2026-10-09:P9"]);
            world.redis(&["HINCRBY", VIEW, "groups", "1"])
        },
        kind: "extra",
        key: "2026-10-09:P9",
        ..DAMAGE
    },
    Damage {
        name: "the watermark raised",
        inflict: |world| world.redis(&["HSET", VIEW, "watermark", "1000"]),
        kind: "wrong_meta",
        key: "own key meta watermark",
        ..DAMAGE
    },
    Damage {
        name: "the cursor's version changed",
        inflict: |world| world.redis(&["HINCRBY", VIEW, "version", "1000"]),
        kind: "wrong_meta",
        key: "own key meta version",
        ..DAMAGE
    },
    Damage {
        name: "the cursor's lineage changed",
        inflict: |world| world.redis(&["HSET", VIEW, "nonce", "0123456789abcdef"]),
        kind: "wrong_meta",
        key: "own key meta nonce",
        ..DAMAGE
    },
    Damage {
        name: "the cursor's token changed",
        inflict: |world| world.redis(&["HSET", VIEW, "token", "0123456789abcdef-1"]),
        kind: "wrong_meta",
        key: "own key meta mixed",
        ..DAMAGE
    },
    Damage {
        name: "the meta deleted",
        inflict: |world| world.redis(&["DEL", VIEW]),
        kind: "wrong_meta",
        key: "own key meta",
        ..DAMAGE
    },
    Damage {
        name: "a whole date removed",
        inflict: |world| {
            for product in ["P1", "P2", "P3"] {
                world.redis::<()>(&["DEL", &format!("{VIEW}:row:2026-10-02:{product}")]);
                world.redis::<()>(&["ZREM", &index(), &format!("2026-10-02:{product}")]);
            }
            let left: i64 = world.redis(&["ZCARD", &index()]);
            world.redis(&["HSET", VIEW, "groups", &left.to_string()])
        },
        kind: "missing",
        ..DAMAGE
    },
    Damage {
        name: "a foreign key under the prefix",
        inflict: |world| world.redis(&["SET", &format!("{VIEW}:notes"), "x"]),
        kind: "foreign_key",
        key: "driftless:{agg_daily_product}:notes",
        mends: false,
        remedy: |world| world.redis(&["UNLINK", &format!("{VIEW}:notes")]),
    },
    Damage {
        name: "a field of the meta added",
        inflict: |world| world.redis(&["HSET", VIEW, "more", "x"]),
        kind: "wrong_meta",
        key: "own key meta more",
        mends: false,
        remedy: |world| world.redis(&["HDEL", VIEW, "more"]),
    },
    Damage {
        name: "the index in the place of something else",
        inflict: |world| {
            world.redis::<()>(&["DEL", &index()]);
            world.redis(&["SET", &index(), "x"])
        },
        kind: "wrong_index",
        key: "own key driftless:{agg_daily_product}:index",
        mends: false,
        remedy: |world| world.redis(&["DEL", &index()]),
    },
    Damage {
        name: "FLUSHALL",
        inflict: |world| world.redis(&["FLUSHALL"]),
        kind: "wrong_meta",
        key: "own key meta",
        ..DAMAGE
    },
];

/// Whether the report names the kind with the key.
fn names(report: &Value, damage: &Damage) -> bool {
    let differences = report["differences"].as_array().unwrap();
    differences.iter().any(|one| one["kind"] == damage.kind && one["key"] == damage.key)
}

fn quarantined(world: &World) -> bool {
    let history = world.run(&["reconcile", "history", "--limit", "1", "--format", "json"]).expect(0).json();
    history[0]["verdict"] == "drift"
}

#[test]
fn p9_each_damage_is_found_named_and_mended_without_a_maintainer() {
    let world = World::published();
    world.assert_right();
    let clean = world.reconcile(&[], 0);
    assert_eq!(clean["counts"]["compared"], 12);
    assert_eq!(clean["sha256"]["redis"], world.expected_checksum());
    for damage in CATALOGUE {
        (damage.inflict)(&world);
        // 1. Found, named, and put on record.
        let report = world.reconcile(&[], 1);
        assert_eq!(report["verdict"], "drift", "{}: {report:#}", damage.name);
        assert!(names(&report, damage), "{}: {report:#}", damage.name);
        assert!(quarantined(&world), "{}", damage.name);
        // 2. Mended, or its owner is told how.
        if !damage.mends {
            let report = world.reconcile(&["--repair", "--limit", "100"], 1);
            assert_eq!(report["verdict"], "drift", "{}: {report:#}", damage.name);
            (damage.remedy)(&world);
        }
        let answer = world.run(&["reconcile", "--repair", "--why", "a test", "--format", "json"]);
        if damage.mends {
            let report = answer.expect(1).json();
            assert_eq!(report["verdict"], "repaired", "{}: {report:#}", damage.name);
            assert!(names(&report, damage), "{}: {report:#}", damage.name);
        }
        // 3. Everything is as before.
        world.assert_right();
        let report = world.reconcile(&[], 0);
        assert_eq!(report["verdict"], "in_sync", "{}: {report:#}", damage.name);
    }
}

#[test]
fn p8_p9_beside_a_maintainer_each_damage_is_gone_after_one_pass_with_repair() {
    let mut world = World::published();
    world.reconcile(&[], 0);
    let mut maintainer = world.maintain();
    let mut seq = 24;
    for damage in CATALOGUE {
        (damage.inflict)(&world);
        if !damage.mends {
            (damage.remedy)(&world);
        }
        // The maintainer may have mended it before the pass looked, while it looked, or because it was told to.
        let answer = world.run(&["reconcile", "--repair", "--format", "json"]);
        let report = answer.json();
        let verdict = report["verdict"].as_str().unwrap().to_owned();
        assert!(["in_sync", "repaired"].contains(&verdict.as_str()), "{}: {report:#}", damage.name);
        answer.expect(i32::from(verdict == "repaired"));
        // It goes on publishing, and the end is right.
        seq += 1;
        world.send(&sale(seq, seq, "2026-10-02", "P2"));
        world.wait_for(&mut maintainer, damage.name, || {
            (world.meta().get("watermark") == Some(&seq.to_string())).then_some(())
        });
        world.assert_right();
        let report = world.reconcile(&[], 0);
        assert_eq!(report["counts"]["unsettled"], 0, "{report:#}");
    }
    maintainer.signal("TERM");
    maintainer.wait(std::time::Duration::from_secs(30)).expect(0);
}

#[test]
fn p9_an_older_value_put_back_is_found() {
    let mut world = World::published();
    let before: std::collections::BTreeMap<String, String> = world.redis(&["HGETALL", ROW]);
    world.send(&sale(25, 25, "2026-10-02", "P2"));
    world.run(&["run", "--once"]).expect(0);
    for (field, value) in &before {
        world.redis::<()>(&["HSET", ROW, field, value]);
    }
    let report = world.reconcile(&[], 1);
    assert_eq!(report["counts"]["different"], 1, "{report:#}");
    let fields = report["differences"][0]["fields"].as_array().unwrap();
    let gmv = fields.iter().find(|field| field["field"] == "gmv_cents").unwrap();
    assert_eq!(gmv["redis"], before["gmv_cents"], "{report:#}");
    world.reconcile(&["--repair"], 1);
    world.assert_right();
}

#[test]
fn p9_drift_that_comes_back_is_told_and_the_scope_is_kept() {
    let world = World::published();
    for times in 1..=3 {
        world.redis::<()>(&["HINCRBY", ROW, "units", "1"]);
        let report = world.reconcile(&["--repair"], 1);
        let repeated = report["repair"]["repeated"].as_array().unwrap().len();
        assert_eq!(repeated, usize::from(times == 3), "{report:#}");
    }
    // A part of the view neither finds what lies outside nor ends a quarantine.
    world.redis::<()>(&["HINCRBY", ROW, "units", "1"]);
    world.reconcile(&["--from", "2026-10-03"], 0);
    world.reconcile(&["--from", "2026-10-02", "--to", "2026-10-02"], 1);
    assert_eq!(
        world.reconcile(&["--from", "2026-10-02:P2", "--to", "2026-10-02:P2"], 1)["counts"]["compared"],
        0
    );
    assert_eq!(world.reconcile(&["--sample", "12"], 1)["counts"]["different"], 1);
    let history = world.run(&["reconcile", "history", "--format", "json"]).expect(0).json();
    assert_eq!(history.as_array().unwrap().len(), 7, "{history:#}");
    let out = world.installation.path("all.jsonl");
    world.reconcile(&["--out", out.to_str().unwrap(), "--limit", "0"], 1);
    let line: Value = serde_json::from_str(std::fs::read_to_string(&out).unwrap().trim()).unwrap();
    assert_eq!((&line["kind"], &line["key"]), (&"different".into(), &GROUP.into()));
}
