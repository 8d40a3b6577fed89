//! The stores under test: how each is made, damaged and looked into, and the words the cases are written in.

use std::collections::BTreeMap;

use driftless::io::redis::{KeySpace, PrivateRedis, RedisStore};
use driftless::io::twin::view_store::{TwinStore, ViewKey};
use driftless::ports::{PortError, Trouble, ViewStore};
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{ChangeEntry, Cursor, GroupValue, GroupWrite, Publish, PublishReply};

use crate::redis_server;

pub const VIEW: &str = "agg_daily_product";

/// A store with hands to damage it and eyes to look into it.
pub trait Bench {
    /// Another client of the same store.
    fn client(&self) -> Box<dyn ViewStore>;
    fn delete_row(&self, key: &str);
    fn add_stray(&self, key: &str);
    fn replace_row(&self, key: &str);
    fn delete_index_entry(&self, key: &str);
    fn replace_key(&self, key: ViewKey);
    fn set_meta_field(&self, field: &str, value: &str);
    fn flush_all(&self);
    /// Entries of the stream of changes, oldest first.
    fn changes(&self) -> Vec<BTreeMap<String, String>>;
    /// All that the store holds of the view, whatever it is.
    fn everything(&self) -> String;
}

impl Bench for TwinStore {
    fn client(&self) -> Box<dyn ViewStore> {
        Box::new(self.clone())
    }
    fn delete_row(&self, key: &str) {
        assert!(TwinStore::delete_row(self, VIEW, key));
    }
    fn add_stray(&self, key: &str) {
        TwinStore::add_stray(self, VIEW, key, "lines", "1");
    }
    fn replace_row(&self, key: &str) {
        TwinStore::replace_row(self, VIEW, key);
    }
    fn delete_index_entry(&self, key: &str) {
        assert!(TwinStore::delete_index_entry(self, VIEW, key));
    }
    fn replace_key(&self, key: ViewKey) {
        TwinStore::replace_key(self, VIEW, key);
    }
    fn set_meta_field(&self, field: &str, value: &str) {
        TwinStore::set_meta_field(self, VIEW, field, value);
    }
    fn flush_all(&self) {
        TwinStore::flush_all(self);
    }
    fn changes(&self) -> Vec<BTreeMap<String, String>> {
        let entries = TwinStore::changes(self, VIEW);
        entries.into_iter().map(|entry| entry.into_iter().collect()).collect()
    }
    fn everything(&self) -> String {
        format!("{:?}", self.snapshot())
    }
}

/// A real server of this test's own.
pub struct RealBench {
    pub server: PrivateRedis,
    pub prefix: String,
}

impl RealBench {
    pub fn start() -> Self {
        RealBench { server: redis_server::start_with(&[]), prefix: "driftless".to_owned() }
    }

    pub fn store(&self) -> RedisStore {
        let settings =
            driftless::io::redis::RedisSettings { prefix: self.prefix.clone(), ..self.server.settings() };
        RedisStore::new(&settings).unwrap()
    }

    /// A connection past the port, as somebody else has one.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.server.url()).unwrap().get_connection().unwrap()
    }

    pub fn keys(&self) -> driftless::io::redis::ViewKeys {
        KeySpace::new(&self.prefix).unwrap().view(VIEW).unwrap()
    }

    pub fn run<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]);
        cmd.query(&mut self.connection()).unwrap()
    }
}

impl Bench for RealBench {
    fn client(&self) -> Box<dyn ViewStore> {
        Box::new(self.store())
    }
    fn delete_row(&self, key: &str) {
        assert_eq!(self.run::<i64>(&["DEL", &self.keys().row(key)]), 1);
    }
    fn add_stray(&self, key: &str) {
        self.run::<()>(&["HSET", &self.keys().row(key), "lines", "1"]);
    }
    fn replace_row(&self, key: &str) {
        self.run::<()>(&["SET", &self.keys().row(key), "something else"]);
    }
    fn delete_index_entry(&self, key: &str) {
        assert_eq!(self.run::<i64>(&["ZREM", &self.keys().index, key]), 1);
    }
    fn replace_key(&self, key: ViewKey) {
        let keys = self.keys();
        let name = match key {
            ViewKey::Meta => keys.meta,
            ViewKey::Index => keys.index,
            ViewKey::Changes => keys.changes,
        };
        self.run::<()>(&["SET", &name, "something else"]);
    }
    fn set_meta_field(&self, field: &str, value: &str) {
        self.run::<()>(&["HSET", &self.keys().meta, field, value]);
    }
    fn flush_all(&self) {
        self.run::<()>(&["FLUSHALL"]);
    }
    fn changes(&self) -> Vec<BTreeMap<String, String>> {
        type Entries = Vec<(String, BTreeMap<String, String>)>;
        let entries: Entries = self.run(&["XRANGE", &self.keys().changes, "-", "+"]);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
    fn everything(&self) -> String {
        let mut names: Vec<String> = self.run(&["KEYS", "*"]);
        names.sort();
        let dump = |name: &String| format!("{name} {:?}", self.run::<redis::Value>(&["DUMP", name]));
        names.iter().map(dump).collect()
    }
}

// The words of the cases.

pub fn columns() -> Vec<String> {
    ["lines", "units", "gmv"].map(str::to_owned).to_vec()
}

pub fn cursor(version: u64, nonce: &str) -> Cursor {
    Cursor { version, nonce: nonce.to_owned(), ..Cursor::default() }
}

pub fn set(key: &str, values: [Option<i64>; 3]) -> GroupWrite {
    GroupWrite { key: GroupKey::from_encoded(key), value: Some(GroupValue::Measures(values.to_vec())) }
}

pub fn set_all(key: &str, value: i64) -> GroupWrite {
    set(key, [Some(value); 3])
}

pub fn overflow(key: &str) -> GroupWrite {
    GroupWrite { key: GroupKey::from_encoded(key), value: Some(GroupValue::Overflow) }
}

pub fn remove(key: &str) -> GroupWrite {
    GroupWrite { key: GroupKey::from_encoded(key), value: None }
}

/// A publish from one cursor to the next, with the meta fields and the change entry that go with it.
pub fn publish(expected: &Cursor, to: &Cursor, groups: Vec<GroupWrite>) -> Publish {
    Publish {
        expected: expected.clone(),
        check_count: true,
        change: Some(ChangeEntry {
            version: to.version,
            watermark: format!("w{}", to.version),
            groups: groups.len() as u64,
            keys: groups.iter().map(|group| group.key.clone()).collect(),
        }),
        groups,
        meta: vec![
            ("version", to.version.to_string()),
            ("nonce", to.nonce.clone()),
            ("token", to.token.clone()),
            ("part", to.part.to_string()),
            ("watermark", format!("w{}", to.version)),
        ],
    }
}

/// Publishes onto an absent view as version 1 of lineage `n`.
pub fn first(store: &mut dyn ViewStore, groups: Vec<GroupWrite>) {
    accept(store, &publish(&Cursor::default(), &cursor(1, "n"), groups));
}

pub fn accept(store: &mut dyn ViewStore, publish: &Publish) -> u64 {
    match store.publish(VIEW, &columns(), publish).unwrap() {
        PublishReply::Accepted { groups } => groups,
        refused => panic!("refused: {refused:?}"),
    }
}

pub fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
}

pub fn row(store: &mut dyn ViewStore, key: &str) -> BTreeMap<String, String> {
    let (_, mut rows) = store.read_rows(VIEW, &[GroupKey::from_encoded(key)]).unwrap();
    rows.remove(0)
}

pub fn strays(store: &mut dyn ViewStore) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = 0;
    loop {
        let mut scan = store.scan_strays(VIEW, cursor).unwrap();
        found.append(&mut scan.strays);
        cursor = scan.next;
        if cursor == 0 {
            found.sort();
            return found;
        }
    }
}

pub fn index(store: &mut dyn ViewStore) -> Vec<String> {
    let read = store.read_range(VIEW, None, None, 1_000).unwrap();
    read.rows.into_iter().map(|(key, _)| key).collect()
}

/// An error has a kind, a remedy, these parts, and never a planted secret.
pub fn check_error(error: &PortError, kind: Trouble, parts: &[&str]) {
    let text = format!("{error} {error:?}");
    assert_eq!(error.kind, kind, "{text}");
    assert!(error.hint.is_some(), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in: {text}");
    }
}
