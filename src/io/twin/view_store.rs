//! A `ViewStore` in memory, for tests and simulation: the same answers as the real one, and damage on demand.
//! Must not know who publishes, nor why.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::io::redis::{change_keys, check_publish};
use crate::ports::{
    KeyScan, Meta, Outline, PortError, PortResult, RangeRead, StoredFields, StoredGroup, ViewStore,
};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::{ChangeEntry, Cursor, GroupValue, GroupWrite, Publish, PublishReply};

const RANGE_LIMIT_MAX: usize = 1_000;
const CHANGES_MAX: usize = 1_000;

/// One client of a store in memory. A clone is another client of the same store.
#[derive(Clone, Debug, Default)]
pub struct TwinStore {
    shared: Arc<Mutex<Shared>>,
}

/// All data of a store at one moment, to go back to: what a failover to a stale replica shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinSnapshot(BTreeMap<String, View>);

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call never reaches the store.
    BeforeEffect,
    /// The call is carried out, and the answer is lost.
    AfterEffect,
    /// The call is given up; a publish arrives when [`TwinStore::deliver_late`] lets it.
    Late,
}

/// The key of a view that damage is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKey {
    Meta,
    Index,
    Changes,
}

#[derive(Debug, Default)]
struct Shared {
    views: BTreeMap<String, View>,
    /// A fault for each of the next calls.
    plan: VecDeque<Option<Fault>>,
    unreachable: bool,
    late: VecDeque<(String, Vec<String>, Publish)>,
    calls: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    meta: Meta,
    rows: BTreeMap<String, Row>,
    index: BTreeSet<String>,
    changes: VecDeque<Vec<(String, String)>>,
    /// Own keys that hold somebody else's value, each with its type.
    foreign: BTreeMap<&'static str, String>,
    /// Names of keys that are none of the view's kinds.
    others: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Row {
    Fields(StoredFields),
    /// A key of another type, written by somebody else.
    Foreign,
}

impl Row {
    fn fields(&self) -> StoredFields {
        match self {
            Row::Fields(fields) => fields.clone(),
            Row::Foreign => one_field("_error", "wrongtype"),
        }
    }
}

impl TwinStore {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view<T>(&self, object: &str, change: impl FnOnce(&mut View) -> T) -> T {
        change(self.lock().views.entry(object.to_owned()).or_default())
    }

    // Faults of the way to the store.

    /// The next call, by whichever client, fails like this.
    pub fn fail_next(&self, fault: Fault) {
        self.fail_nth(0, fault);
    }

    /// The call after `skipped` more calls fails like this.
    pub fn fail_nth(&self, skipped: usize, fault: Fault) {
        let plan = &mut self.lock().plan;
        if plan.len() <= skipped {
            plan.resize(skipped + 1, None);
        }
        plan[skipped] = Some(fault);
    }

    /// While unreachable, every call fails without effect.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().unreachable = !reachable;
    }

    /// Lets publishes that were given up arrive now, and says what the store answered to nobody.
    pub fn deliver_late(&self) -> Vec<PublishReply> {
        let mut shared = self.lock();
        let late = std::mem::take(&mut shared.late);
        late.iter().map(|(object, columns, publish)| shared.publish(object, columns, publish)).collect()
    }

    /// How many calls were made, failed ones included.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    // Loss.

    /// Everything is gone, as after a restart without persistence.
    pub fn flush_all(&self) {
        self.lock().views.clear();
    }

    pub fn snapshot(&self) -> TwinSnapshot {
        TwinSnapshot(self.lock().views.clone())
    }

    pub fn restore(&self, snapshot: &TwinSnapshot) {
        self.lock().views = snapshot.0.clone();
    }

    // Damage to one view, and a look at it.

    /// Removes a row and leaves its index entry. Whether there was one.
    pub fn delete_row(&self, object: &str, key: &str) -> bool {
        self.view(object, |view| view.rows.remove(key).is_some())
    }

    /// Removes an index entry and leaves its row. Whether there was one.
    pub fn delete_index_entry(&self, object: &str, key: &str) -> bool {
        self.view(object, |view| view.index.remove(key))
    }

    /// Writes a row without an index entry.
    pub fn add_stray(&self, object: &str, key: &str, field: &str, value: &str) {
        self.view(object, |view| {
            view.rows.insert(key.to_owned(), Row::Fields(one_field(field, value)));
        });
    }

    /// Writes an index entry without a row.
    pub fn add_index_entry(&self, object: &str, key: &str) {
        self.view(object, |view| view.index.insert(key.to_owned()));
    }

    /// Sets one field of a row, which is made where it is missing.
    pub fn set_row_field(&self, object: &str, key: &str, field: &str, value: &str) {
        self.view(object, |view| {
            let row = view.rows.entry(key.to_owned()).or_insert(Row::Fields(StoredFields::new()));
            if let Row::Fields(fields) = row {
                fields.insert(field.to_owned(), value.to_owned());
            }
        });
    }

    /// Puts a key of another type in the place of a row.
    pub fn replace_row(&self, object: &str, key: &str) {
        self.view(object, |view| view.rows.insert(key.to_owned(), Row::Foreign));
    }

    pub fn remove_row_field(&self, object: &str, key: &str, field: &str) {
        self.view(object, |view| {
            if let Some(Row::Fields(fields)) = view.rows.get_mut(key) {
                fields.remove(field);
            }
        });
    }

    /// Writes a key under the view's name that is none of its kinds.
    pub fn add_foreign_key(&self, object: &str, suffix: &str) {
        self.view(object, |view| view.others.insert(format!("driftless:{{{object}}}{suffix}")));
    }

    pub fn remove_foreign_keys(&self, object: &str) {
        self.view(object, |view| view.others.clear());
    }

    pub fn clear_meta(&self, object: &str) {
        self.view(object, |view| view.meta.clear());
    }

    pub fn set_meta_field(&self, object: &str, field: &str, value: &str) {
        self.view(object, |view| view.meta.insert(field.to_owned(), value.to_owned()));
    }

    /// Puts a text in the place of one of the view's own keys.
    pub fn replace_key(&self, object: &str, key: ViewKey) {
        self.view(object, |view| {
            let name = match key {
                ViewKey::Meta => {
                    view.meta.clear();
                    "meta"
                }
                ViewKey::Index => {
                    view.index.clear();
                    "index"
                }
                ViewKey::Changes => {
                    view.changes.clear();
                    "changes"
                }
            };
            view.foreign.insert(name, "string".to_owned());
        });
    }

    /// The meta as it is, past all faults; empty where the view is absent.
    pub fn meta(&self, object: &str) -> Meta {
        self.view(object, |view| view.meta.clone())
    }

    /// Every row that exists, with an index entry or without.
    pub fn rows(&self, object: &str) -> BTreeMap<String, StoredFields> {
        let rows = |view: &mut View| view.rows.iter().map(|(key, row)| (key.clone(), row.fields())).collect();
        self.view(object, rows)
    }

    /// The entries of the stream of changes, oldest first.
    pub fn changes(&self, object: &str) -> Vec<Vec<(String, String)>> {
        self.view(object, |view| view.changes.iter().cloned().collect())
    }

    /// Runs one call under the plan of faults.
    fn call<T>(&mut self, run: impl FnOnce(&mut Shared) -> PortResult<T>) -> PortResult<T> {
        let mut shared = self.lock();
        match shared.next_fault() {
            None => run(&mut shared),
            Some(Fault::AfterEffect) => {
                run(&mut shared)?;
                Err(failed("the answer was lost"))
            }
            Some(_) => Err(failed("the call did not arrive")),
        }
    }
}

impl Shared {
    fn next_fault(&mut self) -> Option<Fault> {
        self.calls += 1;
        let planned = self.plan.pop_front().flatten();
        if self.unreachable { Some(Fault::BeforeEffect) } else { planned }
    }

    fn get(&mut self, object: &str) -> &View {
        self.views.entry(object.to_owned()).or_default()
    }

    /// What `publish.lua` does, step by step.
    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PublishReply {
        let view = self.views.entry(object.to_owned()).or_default();
        let refused = view
            .wrong_type(object, "meta")
            .or_else(|| view.other_cursor(&publish.expected))
            .or_else(|| view.wrong_type(object, "index"))
            .or_else(|| view.wrong_type(object, "changes"))
            .or_else(|| view.other_count(publish));
        if let Some(refused) = refused {
            return refused;
        }
        if let Some(change) = &publish.change {
            view.note(change);
        }
        for group in &publish.groups {
            view.write(group, columns);
        }
        view.tell(&publish.meta, !publish.groups.is_empty() || !publish.meta.is_empty());
        PublishReply::Accepted { groups: view.index.len() as u64 }
    }
}

impl View {
    fn number(&self, field: &str) -> u64 {
        self.meta.get(field).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn text(&self, field: &str) -> String {
        self.meta.get(field).cloned().unwrap_or_default()
    }

    fn readable(&self, object: &str, names: &[&'static str]) -> PortResult<()> {
        match names.iter().find(|name| self.foreign.contains_key(*name)) {
            None => Ok(()),
            Some(name) => Err(PortError::permanent(format!(
                "the {name} of {object} in memory has a type that is not the view's"
            ))),
        }
    }

    fn wrong_type(&self, object: &str, name: &'static str) -> Option<PublishReply> {
        let suffix = if name == "meta" { "" } else { name };
        self.foreign.get(name).map(|found| PublishReply::WrongType {
            key: format!("driftless:{{{object}}}:{suffix}").trim_end_matches(':').to_owned(),
            found: found.clone(),
        })
    }

    fn other_cursor(&self, expected: &Cursor) -> Option<PublishReply> {
        let shown = Cursor {
            version: self.number("version"),
            nonce: self.text("nonce"),
            token: self.text("token"),
            part: self.meta.get("part").and_then(|part| part.parse().ok()).unwrap_or(0),
        };
        (shown != *expected).then_some(PublishReply::CursorDiffers(shown))
    }

    fn other_count(&self, publish: &Publish) -> Option<PublishReply> {
        let (index, meta) = (self.index.len() as u64, self.number("groups"));
        (publish.check_count && index != meta).then_some(PublishReply::CountDiffers { index, meta })
    }

    fn note(&mut self, change: &ChangeEntry) {
        let mut entry = vec![
            ("version".to_owned(), change.version.to_string()),
            ("watermark".to_owned(), change.watermark.clone()),
            ("groups".to_owned(), change.groups.to_string()),
        ];
        entry.extend(change_keys(change).map(|keys| ("keys".to_owned(), keys)));
        self.changes.push_back(entry);
        while self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    fn write(&mut self, group: &GroupWrite, columns: &[String]) {
        let key = group.key.as_str().to_owned();
        self.rows.remove(&key);
        let fields = match &group.value {
            None => {
                self.index.remove(&key);
                return;
            }
            Some(GroupValue::Overflow) => one_field("_error", "overflow"),
            Some(GroupValue::Measures(values)) => columns
                .iter()
                .zip(values)
                .filter_map(|(column, value)| value.map(|value| (column.clone(), value.to_string())))
                .collect(),
        };
        self.index.insert(key.clone());
        // A hash without fields does not exist.
        if !fields.is_empty() {
            self.rows.insert(key, Row::Fields(fields));
        }
    }

    fn tell(&mut self, fields: &[(&'static str, String)], counted: bool) {
        let beat = self.number("beat") + 1;
        for (field, value) in fields {
            self.meta.insert((*field).to_owned(), value.clone());
        }
        // A bare sign of life counts nothing.
        if counted {
            self.meta.insert("groups".to_owned(), self.index.len().to_string());
        }
        self.meta.insert("beat".to_owned(), beat.to_string());
    }

    fn row(&self, key: &str) -> StoredFields {
        self.rows.get(key).map(Row::fields).unwrap_or_default()
    }
}

impl ViewStore for TwinStore {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        self.call(|shared| {
            let view = shared.get(object);
            view.readable(object, &["meta"])?;
            Ok(view.meta.clone())
        })
    }

    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply> {
        check_publish(columns, publish)?;
        let late = (object.to_owned(), columns.to_vec(), publish.clone());
        let mut shared = self.lock();
        match shared.next_fault() {
            None => Ok(shared.publish(object, columns, publish)),
            Some(Fault::BeforeEffect) => Err(failed("the call did not arrive")),
            Some(Fault::AfterEffect) => {
                shared.publish(object, columns, publish);
                Err(failed("the answer was lost"))
            }
            Some(Fault::Late) => {
                shared.late.push_back(late);
                Err(failed("no answer within the time limit"))
            }
        }
    }

    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead> {
        self.call(|shared| {
            let view = shared.get(object);
            view.readable(object, &["meta", "index"])?;
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let rows = view
                .index
                .range::<str, _>((start, Bound::Unbounded))
                .take_while(|key| through.is_none_or(|through| key.as_str() <= through))
                .take(limit.min(RANGE_LIMIT_MAX))
                .map(|key| (key.clone(), view.row(key)))
                .collect();
            Ok(RangeRead { meta: view.meta.clone(), rows })
        })
    }

    fn read_rows(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)> {
        self.call(|shared| {
            let view = shared.get(object);
            view.readable(object, &["meta"])?;
            let rows = keys.iter().map(|key| view.row(key.as_str())).collect();
            Ok((view.meta.clone(), rows))
        })
    }

    fn read_groups(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)> {
        self.call(|shared| {
            let view = shared.get(object);
            view.readable(object, &["meta", "index"])?;
            let group = |key: &GroupKey| StoredGroup {
                fields: view.row(key.as_str()),
                indexed: view.index.contains(key.as_str()),
            };
            Ok((view.meta.clone(), keys.iter().map(group).collect()))
        })
    }

    fn read_outline(&mut self, object: &str) -> PortResult<Outline> {
        self.call(|shared| {
            let view = shared.get(object);
            let names = ["meta", "index", "changes"].into_iter();
            let wrong =
                names.filter_map(|name| view.wrong_type(object, name)).filter_map(|reply| match reply {
                    PublishReply::WrongType { key, found } => Some((key, found)),
                    _ => None,
                });
            Ok(Outline {
                meta: view.meta.clone(),
                index: view.index.len() as u64,
                wrong_types: wrong.collect(),
                ..Outline::default()
            })
        })
    }

    fn scan_strays(&mut self, object: &str, _cursor: u64) -> PortResult<KeyScan> {
        self.call(|shared| {
            let view = shared.get(object);
            view.readable(object, &["index"])?;
            let stray = |key: &&String| !view.index.contains(*key);
            let strays = view.rows.keys().filter(stray).cloned().collect();
            Ok(KeyScan { next: 0, strays, foreign: view.others.iter().cloned().collect() })
        })
    }
}

fn one_field(field: &str, value: &str) -> StoredFields {
    StoredFields::from([(field.to_owned(), value.to_owned())])
}

fn failed(how: &str) -> PortError {
    PortError::transient(format!("the store in memory failed as planned: {how}"))
}
