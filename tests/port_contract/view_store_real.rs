//! What only a real Redis can do to a store: forget scripts, run out of memory, restart empty, be slow, be a
//! replica, hold what others wrote.

use std::path::Path;
use std::time::Duration;

use driftless::io::redis::{PrivateRedis, PrivateRedisOptions, READ_SCRIPT, RedisSettings, RedisStore};
use driftless::ports::{Trouble, ViewStore};
use driftless::pure::publish::{Cursor, PublishReply};

use crate::redis_server::start_with;
use crate::view_store::*;

fn bench_with(config: &[&str]) -> RealBench {
    RealBench { server: start_with(config), prefix: "driftless".to_owned() }
}

#[test]
fn a_server_that_forgets_its_scripts_gets_them_again() {
    let bench = RealBench::start();
    let mut store = bench.store();
    first(&mut store, vec![set_all("a", 1)]);
    bench.run::<()>(&["SCRIPT", "FLUSH"]);
    accept(&mut store, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("b", 1)]));
    bench.run::<()>(&["SCRIPT", "FLUSH"]);
    assert_eq!(index(&mut store), ["a", "b"]);
    assert_eq!(store.read_meta(VIEW).unwrap()["beat"], "2");
}

#[test]
fn out_of_memory_refuses_the_whole_publish() {
    let bench = RealBench::start();
    let mut store = bench.store();
    first(&mut store, vec![set_all("a", 1)]);
    bench.run::<()>(&["SET", "ballast", &"x".repeat(1_000_000)]);
    bench.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let before = bench.everything();
    let groups = (0..100).map(|n| set_all(&format!("k{n}"), n)).collect();
    let next = publish(&cursor(1, "n"), &cursor(2, "n"), groups);
    let error = store.publish(VIEW, &columns(), &next).unwrap_err();
    check_error(
        &error,
        Trouble::Transient,
        &["OOM", "maxmemory", "127.0.0.1", "driftless:{agg_daily_product}"],
    );
    assert_eq!(bench.everything(), before);
    assert_eq!(store.read_meta(VIEW).unwrap()["version"], "1", "reads go on");
    bench.run::<()>(&["CONFIG", "SET", "maxmemory", "100mb"]);
    accept(&mut store, &next);
}

#[test]
fn a_restart_without_persistence_shows_an_absent_view() {
    let mut bench = RealBench::start();
    let mut store = bench.store();
    first(&mut store, vec![set_all("a", 1)]);
    bench.server.restart().unwrap();
    let stale = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("b", 1)]);
    let error = store.publish(VIEW, &columns(), &stale).unwrap_err();
    check_error(&error, Trouble::Transient, &["closed the connection"]);
    let reply = store.publish(VIEW, &columns(), &stale).unwrap();
    assert_eq!(reply, PublishReply::CursorDiffers(Cursor::default()));
    first(&mut store, vec![set_all("a", 1)]);
}

#[test]
fn nobody_listening_is_transient_and_says_where() {
    let settings = start_with(&[]).settings();
    let error = RedisStore::new(&settings).unwrap().read_meta(VIEW).unwrap_err();
    check_error(&error, Trouble::Transient, &["redis://127.0.0.1:", "nothing listens"]);
}

#[test]
fn a_database_that_is_not_there_is_permanent() {
    let bench = RealBench::start();
    let url = |database: u32| RedisSettings {
        url: format!("{}/{database}", bench.server.url()),
        ..bench.server.settings()
    };
    let mut store = RedisStore::new(&url(1)).unwrap();
    first(&mut store, vec![set_all("a", 1)]);
    assert!(bench.store().read_meta(VIEW).unwrap().is_empty());
    let error = RedisStore::new(&url(99)).unwrap().read_meta(VIEW).unwrap_err();
    check_error(&error, Trouble::Permanent, &["DB index", "database number"]);
}

/// F101: an answer that does not come leaves the outcome unknown; nothing is sent again, and a late effect
/// stands in the way of whatever was computed without it.
#[test]
fn a_publish_without_an_answer_is_sent_once() {
    let bench = bench_with(&["enable-debug-command yes"]);
    let settings = RedisSettings { response_timeout_ms: 200, ..bench.server.settings() };
    let mut store = RedisStore::new(&settings).unwrap();
    first(&mut store, vec![]);
    let (mut sleeper, mut watcher) = (bench.connection(), bench.connection());
    let asleep = std::thread::spawn(move || redis::cmd("DEBUG").arg("SLEEP").arg("2").exec(&mut sleeper));
    watcher.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while redis::cmd("PING").exec(&mut watcher).is_ok() {}
    let next = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("a", 1)]);
    let error = store.publish(VIEW, &columns(), &next).unwrap_err();
    check_error(&error, Trouble::Transient, &["no answer within the time limit"]);
    asleep.join().unwrap().unwrap();
    let meta = store.read_meta(VIEW).unwrap();
    assert_eq!((meta["version"].as_str(), meta["beat"].as_str()), ("2", "2"));
    let reply = store.publish(VIEW, &columns(), &next).unwrap();
    assert_eq!(reply, PublishReply::CursorDiffers(cursor(2, "n")));
}

#[test]
fn a_replica_is_refused() {
    let bench = bench_with(&["replicaof 127.0.0.1 1"]);
    let mut store = bench.store();
    let next = publish(&Cursor::default(), &cursor(1, "n"), vec![]);
    let error = store.publish(VIEW, &columns(), &next).unwrap_err();
    check_error(&error, Trouble::Transient, &["READONLY", "replica"]);
    let error = store.probe().unwrap_err();
    check_error(&error, Trouble::Permanent, &["is a replica", "its master is 127.0.0.1:1"]);
}

#[test]
fn the_probe_tells_version_and_policy() {
    let bench = RealBench::start();
    let facts = bench.store().probe().unwrap();
    assert_eq!((facts.policy.as_str(), facts.warnings.len()), ("noeviction", 0));
    assert!(facts.version.split('.').next().unwrap().parse::<u32>().unwrap() >= 7);
    bench.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let facts = bench.store().probe().unwrap();
    assert!(facts.warnings[0].contains("WILL DELETE GROUPS"), "{facts:?}");

    bench.run::<()>(&["ACL", "SETUSER", "mute", "on", "nopass", "~*", "+@all", "-info", "-config"]);
    let settings = RedisSettings { username: Some("mute".into()), ..bench.server.settings() };
    let facts = RedisStore::new(&settings).unwrap().probe().unwrap();
    assert_eq!(
        (facts.version.as_str(), facts.policy.as_str(), facts.warnings.len()),
        ("unknown", "unknown", 2)
    );
}

/// Glob characters in the prefix neither hide strays nor find those of others.
#[test]
fn glob_characters_in_the_prefix_are_literal() {
    let mut bench = RealBench::start();
    bench.prefix = r"a*b?[x]^\c".to_owned();
    let mut store = bench.store();
    first(&mut store, vec![set_all("a", 1)]);
    bench.add_stray("mine");
    bench.run::<()>(&["HSET", r"aQQbZx^\c:{agg_daily_product}:row:others", "f", "v"]);
    assert_eq!(strays(&mut store), ["mine"]);
}

#[test]
fn braces_in_prefix_or_view_are_refused() {
    let bench = RealBench::start();
    let settings = RedisSettings { prefix: "a{b}".into(), ..bench.server.settings() };
    check_error(&RedisStore::new(&settings).err().unwrap(), Trouble::Permanent, &["a{b}"]);
    check_error(&bench.store().read_meta("x}y").unwrap_err(), Trouble::Permanent, &["x}y"]);
}

/// Damage that no cursor can name is told with its remedy, and nothing is written over it.
#[test]
fn entries_that_cannot_be_ours_are_told() {
    let bench = RealBench::start();
    let mut store = bench.store();
    first(&mut store, vec![set_all("a", 1)]);
    let mut add = redis::cmd("ZADD");
    add.arg(&bench.keys().index).arg(0).arg(b"\xff\x00");
    add.exec(&mut bench.connection()).unwrap();
    let error = store.read_range(VIEW, None, None, 10).unwrap_err();
    check_error(&error, Trouble::Permanent, &[r#"ZREM driftless:{agg_daily_product}:index"#, r"\xff\x00"]);
    bench.set_meta_field("groups", "many");
    let next = publish(&cursor(1, "n"), &cursor(2, "n"), vec![]);
    check_error(
        &store.publish(VIEW, &columns(), &next).unwrap_err(),
        Trouble::Permanent,
        &["many", "DEL driftless:"],
    );
    bench.set_meta_field("version", "abc");
    check_error(
        &store.publish(VIEW, &columns(), &next).unwrap_err(),
        Trouble::Permanent,
        &["abc", "DEL driftless:"],
    );
}

/// The text that dashboards use, with the documented call for all products of one day.
#[test]
fn dashboards_read_a_prefix_with_the_shipped_script() {
    let bench = RealBench::start();
    let keys = ["2026-09-21:P9", "2026-09-22:P1", "2026-09-22:P2", "2026-09-22é:P3", "2026-09-23:P1"];
    first(&mut bench.store(), keys.iter().map(|key| set_all(key, 4)).collect());
    type Row = (String, Vec<String>);
    let read = |arguments: &[&str]| {
        let mut cmd = redis::cmd("EVAL_RO");
        cmd.arg(READ_SCRIPT).arg(1).arg("driftless:{agg_daily_product}").arg(arguments);
        let mut reply: Vec<redis::Value> = cmd.query(&mut bench.connection()).unwrap();
        let meta: std::collections::BTreeMap<String, String> =
            redis::from_redis_value(reply.remove(0)).unwrap();
        let rows: Vec<Row> = reply.into_iter().map(|row| redis::from_redis_value(row).unwrap()).collect();
        (meta, rows)
    };
    let (meta, rows) = read(&["[2026-09-22:", "(2026-09-22;"]);
    assert_eq!(meta["watermark"], "w1");
    let found: Vec<&str> = rows.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(found, ["2026-09-22:P1", "2026-09-22:P2"]);
    assert_eq!(rows[0].1, ["lines", "4", "units", "4", "gmv", "4"]);
    assert_eq!(
        (read(&[]).1.len(), read(&["-", "+", "2"]).1.len(), read(&["-", "+", "x"]).1.len()),
        (5, 2, 5)
    );
    bench.flush_all();
    let (meta, rows) = read(&[]);
    assert!(meta.is_empty() && rows.is_empty());
}

#[test]
fn a_private_server_ends_with_its_owner() {
    let server = start_with(&[]);
    let process = format!("/proc/{}", server.process_id());
    if Path::new("/proc/self").exists() {
        assert!(Path::new(&process).exists());
        drop(server);
        assert!(!Path::new(&process).exists());
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let options = |executable: Option<&str>, config: &str| PrivateRedisOptions {
        executable: executable.map(Into::into),
        config: vec![config.to_owned()],
        ..PrivateRedisOptions::default()
    };
    let error = PrivateRedis::start(options(Some("/nonexistent/redis"), "")).unwrap_err();
    check_error(&error, Trouble::Permanent, &["/nonexistent/redis"]);
    let error = PrivateRedis::start(options(None, "no-such-directive 1")).unwrap_err();
    check_error(&error, Trouble::Permanent, &["ended at once", "no-such-directive"]);
}

/// P9: an entry with another score is out of every range's order, and a key that expires is soon gone.
#[test]
fn entries_out_of_place_and_expiring_keys_are_told() {
    let bench = RealBench::start();
    let mut store = bench.client();
    first(&mut *store, ["a", "b", "c"].map(|key| set_all(key, 1)).to_vec());
    let index = bench.keys().index;
    bench.run::<()>(&["ZADD", &index, "1", "a", "-2", "c"]);
    bench.run::<()>(&["EXPIRE", &index, "1000"]);
    let outline = store.read_outline(VIEW).unwrap();
    assert_eq!((outline.index, outline.misplaced), (3, vec!["c".to_owned(), "a".to_owned()]));
    assert_eq!(outline.expiring, [index]);
    let asked = ["a", "b"].map(driftless::pure::group_key::GroupKey::from_encoded);
    let (_, groups) = store.read_groups(VIEW, &asked).unwrap();
    assert_eq!([groups[0].indexed, groups[1].indexed], [false, true]);
}
