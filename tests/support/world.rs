//! A whole maintainer in one thread: log in memory, real base file, store in memory, and the real pipeline
//! between them. A run is the life of one process: leaving it and running again is a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftless::io::sqlite::{BaseSettings, RequestBox, SqliteReader, SqliteWriter};
use driftless::io::twin::log::TwinLog;
use driftless::io::twin::view_store::TwinStore;
use driftless::pipeline::ingest::{Applied, Ingest, Probe};
use driftless::pipeline::publish::{PublishSettings, Publisher, Step, Succession};
use driftless::pipeline::read::{Item, ReadSettings, Reader, plan_start};
use driftless::pipeline::requests;
use driftless::ports::{
    BaseReader, BaseWriter, Clock, KeyScan, Log, Meta, Outline, PortResult, RangeRead, StoredFields,
    StoredGroup, ViewStore,
};
use driftless::pure::base::{Action, Counts, Head, Letter};
use driftless::pure::catalog::Catalog;
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{Publish, PublishReply};
use driftless::pure::seq::{Commit, TopicPartition};
use serde_json::Value;

use super::{ManualClock, OBJECT, TOPIC, catalog};

/// How long another publisher's beat has to stand still.
pub const TAKEOVER_MS: u64 = 5_000;
/// How often an idle publisher says that it is alive.
pub const BEAT_MS: u64 = 1_000;

/// Sizes that a test sets small, so that batches, parts and a pruned history come about.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batch_records_max: usize,
    pub groups_per_script_max: usize,
    pub history_changes_max: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { batch_records_max: 1_000, groups_per_script_max: 1_000, history_changes_max: 1_000_000 }
    }
}

/// What outlives a process: the files, the log, the store, and time.
pub struct World {
    folder: tempfile::TempDir,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<ManualClock>,
    pub log: TwinLog,
    pub store: TwinStore,
    pub sizes: Sizes,
    /// The base `second` is another generation than the first, not a standby.
    pub second_is_candidate: bool,
    starts: AtomicU64,
}

/// The partition of the topic with this number.
pub fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TOPIC.into(), partition: number }
}

impl World {
    /// `topic_settings` are `key=value` of the topic, such as `watermark=sparse`.
    pub fn new(topic_settings: &[&str], partitions: i32) -> Self {
        Self::with_catalog(catalog(topic_settings), partitions)
    }

    pub fn with_catalog(catalog: Arc<Catalog>, partitions: i32) -> Self {
        let log = TwinLog::new();
        (0..partitions).for_each(|number| log.add_partition(&partition(number)));
        World {
            folder: folder(),
            catalog,
            clock: ManualClock::new(),
            log,
            store: TwinStore::new(),
            sizes: Sizes::default(),
            second_is_candidate: false,
            starts: AtomicU64::new(1),
        }
    }

    /// Appends an event to a partition.
    pub fn append(&self, number: i32, event: &Value) -> i64 {
        self.log.append(&partition(number), None, Some(event.to_string().as_bytes()))
    }

    pub fn base_settings(&self, name: &str) -> BaseSettings {
        BaseSettings {
            path: self.base_path(name),
            generation: if self.second_is_candidate && name == "second" { "2" } else { "1" }.to_owned(),
            synchronous_full: false,
            cache_kib: 1_024,
            history_changes_max: self.sizes.history_changes_max,
            wal_checkpoint_bytes: 64 << 20,
        }
    }

    pub fn base_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.db"))
    }

    /// One life of the maintainer on the first base.
    pub fn run<T>(&self, body: impl FnOnce(&mut Running<'_>) -> T) -> T {
        self.run_on("first", body)
    }

    /// As [`run`](World::run), on a base of this name.
    pub fn run_on<T>(&self, name: &str, body: impl FnOnce(&mut Running<'_>) -> T) -> T {
        self.try_run_on(name, body).expect("the maintainer starts")
    }

    /// As [`run_on`](World::run_on), where the start may be refused.
    pub fn try_run_on<T>(&self, name: &str, body: impl FnOnce(&mut Running<'_>) -> T) -> PortResult<T> {
        let random = self.starts.fetch_add(1, Ordering::Relaxed);
        let (settings, catalog) = (self.base_settings(name), self.catalog.clone());
        // 1. The base: one writer, one reader.
        let mut writer = SqliteWriter::open(&settings, &catalog, random, self.clock.wall_ms())?;
        let base = SqliteReader::open(&settings, &catalog)?;
        let requests = RequestBox::open(&settings)?;
        // 2. The log, from where the base stands.
        let known = writer.partitions()?;
        let tables = 0..catalog.tables.len();
        let floors: Vec<_> =
            tables.map(|table| Ok(writer.table_state(table)?.floor)).collect::<PortResult<_>>()?;
        let mut log = self.log.client();
        let planned = plan_start(&mut log, &catalog, &known, &floors)?;
        let read = ReadSettings {
            batch_records_max: self.sizes.batch_records_max,
            partition_refresh: Duration::ZERO,
            through: None,
        };
        let reader = Reader::start(&mut log, catalog.clone(), &planned, floors, read)?;
        let ingest = Ingest::open(&mut writer, catalog.clone(), self.clock.clone(), &planned)?;
        // 3. The store.
        let settings = PublishSettings {
            groups_per_script_max: self.sizes.groups_per_script_max,
            beat_ms: BEAT_MS,
            takeover_ms: TAKEOVER_MS,
        };
        let publisher = Publisher::new(catalog, 0, self.clock.clone(), settings, random);
        let publish_settings = settings;
        Ok(body(&mut Running {
            world: self,
            ingest,
            reader,
            base,
            requests,
            publisher,
            publish_settings,
            store: self.store.clone(),
        }))
    }

    /// Live rows of a base as the oracle lists them: the columns in order, then the sequence.
    pub fn base_rows(&self, name: &str) -> Vec<Vec<Value>> {
        let connection = rusqlite::Connection::open(self.base_path(name)).expect("the base");
        let columns = super::oracle::BASE_COLUMNS;
        let sql = format!(
            "SELECT {}, _seq FROM driftless_rows_{} WHERE _live = 1 ORDER BY order_id, line_no",
            columns.join(", "),
            super::TABLE
        );
        let mut statement = connection.prepare(&sql).expect("the storage of the facts");
        let rows = statement.query_map([], |row| (0..=columns.len()).map(|at| json(row, at)).collect());
        rows.and_then(Iterator::collect).expect("rows")
    }

    /// Graves of a base: key and sequence.
    pub fn graves(&self, name: &str) -> BTreeMap<super::oracle::Key, u64> {
        let connection = rusqlite::Connection::open(self.base_path(name)).expect("the base");
        let sql =
            format!("SELECT order_id, line_no, _seq FROM driftless_rows_{} WHERE _live = 0", super::TABLE);
        let mut statement = connection.prepare(&sql).expect("the storage of the facts");
        let rows = statement
            .query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)?.unsigned_abs())));
        rows.and_then(Iterator::collect).expect("graves")
    }

    /// Everything that the store shows of the view: each row with an index entry or without.
    pub fn published(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        self.store.rows(OBJECT)
    }

    /// The entries of the index.
    pub fn index(&self) -> Vec<String> {
        let mut store = self.store.clone();
        let (mut index, mut after) = (Vec::new(), None::<String>);
        loop {
            let read = store.read_range(OBJECT, after.as_deref(), None, 1_000).expect("a reachable store");
            match read.rows.last() {
                None => return index,
                Some((key, _)) => after = Some(key.clone()),
            }
            index.extend(read.rows.into_iter().map(|(key, _)| key));
        }
    }

    pub fn meta(&self) -> Meta {
        self.store.clone().read_meta(OBJECT).expect("a reachable store")
    }
}

fn json(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Value> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        // A sequence of several parts.
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        other => panic!("no column of the example holds {other:?}"),
    })
}

/// In memory where the machine has that, since a test may make thousands of bases.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// A maintainer that lives.
pub struct Running<'a> {
    pub world: &'a World,
    pub ingest: Ingest<'a>,
    pub reader: Reader<'a>,
    pub base: SqliteReader,
    pub requests: RequestBox,
    pub publisher: Publisher,
    publish_settings: PublishSettings,
    pub store: TwinStore,
}

impl Running<'_> {
    /// An operator activates this generation: a new publisher, which may replace the others' publication.
    pub fn activate(&mut self, activation: u64, replaces: &[&str]) {
        let random = self.world.starts.fetch_add(1, Ordering::Relaxed);
        let replaces = replaces.iter().map(|name| (*name).to_owned()).collect();
        let succession = Succession { activation, replaces, ..Succession::default() };
        let (catalog, clock) = (self.world.catalog.clone(), self.world.clock.clone());
        self.publisher =
            Publisher::new(catalog, 0, clock, self.publish_settings, random).with_succession(succession);
    }

    /// Reads one batch; empty where the log has nothing more.
    pub fn poll(&mut self) -> Vec<Item> {
        self.reader.poll(Duration::ZERO).expect("a reachable log")
    }

    /// Reads to the ends of the log, a commit a batch.
    pub fn ingest_all(&mut self) -> Applied {
        let mut sum = Applied::default();
        loop {
            let items = self.poll();
            if items.is_empty() {
                return sum;
            }
            let applied = self.ingest.apply(&items).expect("the base takes the batch");
            sum.commit = applied.commit.or(sum.commit);
            sum.consumed += applied.consumed;
            sum.applied += applied.applied;
        }
    }

    /// Publishes until there is nothing to publish. Returns the groups published.
    pub fn publish_all(&mut self) -> u64 {
        let mut groups = 0;
        for _ in 0..100 {
            match self.step() {
                Ok(Step::Published { groups: published, .. }) => groups += published,
                Ok(Step::Idle | Step::Beat) => return groups,
                Ok(Step::Standby) => panic!("nobody else publishes here"),
                Ok(Step::Refused(_)) | Err(_) => {}
            }
        }
        panic!("the publisher does not come to rest");
    }

    /// One step of the publisher.
    pub fn step(&mut self) -> PortResult<Step> {
        self.publisher.step(&mut self.base, &mut self.store)
    }

    /// As [`step`](Running::step), while the writer goes on: before each call of the store one batch is read and
    /// applied. `feed_and_note` is called before that with nothing, and after it with what was done.
    pub fn step_busy(&mut self, mut feed_and_note: impl FnMut(Option<Applied>) + Send) -> PortResult<Step> {
        let Running { ingest, reader, base, publisher, store, .. } = self;
        let mut between = || {
            feed_and_note(None);
            let items = reader.poll(Duration::ZERO).expect("a reachable log");
            if !items.is_empty() {
                feed_and_note(Some(ingest.apply(&items).expect("the base takes the batch")));
            }
        };
        publisher.step(base, &mut Busy { store, between: &mut between })
    }

    /// Reads and publishes everything.
    pub fn catch_up(&mut self) {
        self.ingest_all();
        self.publish_all();
    }

    /// Notes what has been applied, asks for the ends of the log, tells both loops, and applies what follows.
    pub fn probe(&mut self) {
        let mut log = self.world.log.client();
        let asked_ms = self.world.clock.wall_ms();
        let greatest = self.ingest.greatest();
        let ends: Vec<_> = log.partitions().expect("a reachable log");
        let ends = ends.into_iter().map(|at| {
            let high = log.bounds(&at).expect("a reachable log").high;
            (at, high)
        });
        let probe = Probe { asked_ms, greatest, ends: ends.collect() };
        self.ingest.note_probe(probe.clone());
        self.publisher.note_probe(probe);
        self.ingest.apply(&[]).expect("the base takes the probe");
    }

    pub fn head(&mut self) -> Head {
        self.base.snapshot().and_then(|mut snapshot| snapshot.head()).expect("a snapshot")
    }

    /// The encoded keys of the groups that commits after this one marked.
    pub fn dirty_since(&mut self, commit: Commit) -> Vec<String> {
        let mut snapshot = self.base.snapshot().expect("a snapshot");
        let keys = snapshot.dirty_since(0, commit).expect("the marks");
        keys.iter().map(|key| key.as_str().to_owned()).collect()
    }

    /// The watermark as text; `None` where there is none.
    pub fn watermark(&self) -> Option<u64> {
        self.ingest.watermark(0).map(|watermark| watermark.position)
    }

    /// All partitions together.
    pub fn counts(&mut self) -> Counts {
        let mut sum = Counts::default();
        self.head().positions.iter().for_each(|position| sum.add(&position.counts));
        sum
    }

    pub fn letters(&self) -> Vec<Letter> {
        self.base.letters(None, false, 1_000).expect("dead letters")
    }

    /// Puts a request on record, has it carried out, and returns whether it was, with the answer.
    pub fn request(&mut self, action: &Action) -> (bool, Value) {
        let at_ms = self.world.clock.wall_ms();
        let id = self.requests.put(action, "tester", "a test", at_ms).expect("a request on record");
        requests::carry_out(&mut self.ingest).expect("requests are carried out");
        self.requests.answer(id).expect("the request").expect("an answer")
    }
}

/// A store whose every call finds the base further on.
struct Busy<'a> {
    store: &'a mut TwinStore,
    between: &'a mut (dyn FnMut() + Send),
}

impl Busy<'_> {
    fn next(&mut self) -> &mut TwinStore {
        (self.between)();
        self.store
    }
}

impl ViewStore for Busy<'_> {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        self.next().read_meta(object)
    }

    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply> {
        self.next().publish(object, columns, publish)
    }

    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead> {
        self.next().read_range(object, after, through, limit)
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
