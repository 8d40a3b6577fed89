//! The view that the page's examples read: published as the maintainer publishes it, in two publishes.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use driftless::config::{Config, Overrides, load_catalog};
use driftless::io::redis::{PrivateRedis, RedisStore};
use driftless::ports::ViewStore;
use driftless::pure::base::{Counts, Head, Position, TableState, ViewState};
use driftless::pure::catalog::Catalog;
use driftless::pure::group_key::GroupKey;
use driftless::pure::meta::{self, Ages};
use driftless::pure::publish::{ChangeEntry, Cursor, GroupValue, GroupWrite, Publish, PublishReply};
use driftless::pure::seq::{Commit, Seq, TopicPartition};

use crate::redis_server;

/// The shipped configuration and contract.
pub fn catalog() -> Catalog {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/driftless.toml");
    load_catalog(&Config::load(Some(&file), &Overrides::default()).unwrap()).unwrap()
}

/// The meta of the second publish, whose offset is the sequence less one.
pub fn meta(catalog: &Catalog) -> Vec<(&'static str, String)> {
    meta_at(catalog, 42, 207)
}

fn meta_at(catalog: &Catalog, commit: u64, watermark: u64) -> Vec<(&'static str, String)> {
    let next_offset = i64::try_from(watermark).unwrap();
    let head = Head {
        commit: Commit(commit),
        nonce: "6b1f".to_owned(),
        generation: "1".to_owned(),
        positions: vec![Position {
            at: TopicPartition { topic: "sales.changes".into(), partition: 0 },
            table: 0,
            first_offset: 0,
            next_offset,
            settled: next_offset,
            counts: Counts::default(),
        }],
        tables: vec![TableState { watermark: Some(Seq::at(watermark)), ..TableState::default() }],
        open_letters: vec![0],
        views: vec![ViewState::default()],
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now_ms = i64::try_from(now).unwrap();
    let ages = Ages { now_ms, refreshed_ms: Some(now_ms), confirmed_ms: Some(now_ms) };
    let mut fields = meta::finished(catalog, 0, &head, &ages);
    fields.push((meta::ACTIVATION, "1".to_owned()));
    fields
}

/// A server with a day of many groups, and a day of few: odd keys, a value that overflowed, a group that left.
pub fn start() -> PrivateRedis {
    let server = redis_server::start_with(&[]);
    let catalog = catalog();
    let mut store = RedisStore::new(&server.settings()).unwrap();
    let before = (1..=120).map(|n| group("2026-09-21", &format!("P{n:03}"), [1, 1, 1, 1_000, 600, 400]));
    let after = vec![
        GroupWrite { key: key("2026-09-21", "P120"), value: None },
        group("2026-09-22", "", [1, 1, 1, 500, 300, 200]),
        group("2026-09-22", "A:1 é", [1, 1, 3, 900, 600, 300]),
        group("2026-09-22", "P100", [2, 2, 2, 13_000, 7_000, 6_000]),
        group("2026-09-22", "P200", [1, 1, 1, 3_500, 1_500, 2_000]),
        GroupWrite { key: key("2026-09-22", "P900"), value: Some(GroupValue::Overflow) },
    ];
    publish(&mut store, &catalog, Cursor::default(), (41, 201), before.collect());
    let shown = Cursor { version: 41, nonce: "6b1f".to_owned(), ..Cursor::default() };
    publish(&mut store, &catalog, shown, (42, 207), after);
    server
}

fn publish(
    store: &mut RedisStore,
    catalog: &Catalog,
    expected: Cursor,
    (version, watermark): (u64, u64),
    groups: Vec<GroupWrite>,
) {
    let told = groups.len() <= 100;
    let publish = Publish {
        expected,
        check_count: true,
        change: Some(ChangeEntry {
            version,
            watermark: watermark.to_string(),
            groups: groups.len() as u64,
            keys: groups.iter().filter(|_| told).map(|group| group.key.clone()).collect(),
        }),
        groups,
        meta: meta_at(catalog, version, watermark),
    };
    let view = &catalog.views[0].view;
    let reply = store.publish(&view.object, &view.columns(), &publish).unwrap();
    assert!(matches!(reply, PublishReply::Accepted { .. }), "{reply:?}");
}

fn key(day: &str, product: &str) -> GroupKey {
    GroupKey::encode(&[day.into(), product.into()])
}

fn group(day: &str, product: &str, values: [i64; 6]) -> GroupWrite {
    let value = GroupValue::Measures(values.map(Some).to_vec());
    GroupWrite { key: key(day, product), value: Some(value) }
}
