//! The first look at every group: one thread reads the store slice by slice, another compares each slice with
//! snapshots taken after it.

use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use super::cursor::{Standing, standing};
use super::pace::Pace;
use super::{PENDING_MAX, Pass, Pending, is_settled, thread_trouble};
use crate::ports::{Marked, PortResult, RangeRead, StoredFields, ViewStore};
use crate::pure::drift::compare_group;
use crate::pure::group_key::GroupKey;
use crate::pure::seq::Commit;

/// Entries of one atomic read.
const SLICE: usize = 1_000;
/// Groups of one snapshot: a little more than a slice, since the base also knows groups that are gone.
pub(super) const GROUPS_MAX: usize = 1_500;
/// Slices that wait between the two threads.
const SLICES_WAITING: usize = 3;

/// Where the first look goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind this group.
    After(Option<String>),
    End,
}

/// One atomic read of the entries behind `after`; without `through` they are the last ones.
struct Slice {
    after: Option<String>,
    through: Option<String>,
    read: RangeRead,
}

impl Pass<'_> {
    /// The first group of the scope: what lies at its very beginning is looked at by itself.
    pub(super) fn first_place(&mut self) -> Place {
        match self.settings.scope.from.clone() {
            None => Place::After(None),
            Some(from) => {
                let key = GroupKey::from_encoded(from.clone());
                self.pending.push(Pending { key, suspect: true });
                Place::After(Some(from))
            }
        }
    }

    /// Reads and compares from behind `after` on. Returns where to go on, and why it ended before the end: the store
    /// did not show a state of this base; without a reason too many groups wait to be looked at again.
    pub(super) fn read_and_judge(
        &mut self,
        store: &mut dyn ViewStore,
        after: &Option<String>,
    ) -> PortResult<(Place, Option<String>)> {
        let object = self.object.clone();
        // All keys that begin with these parts: no character of a key follows the greatest one.
        let end = self.settings.scope.to.as_ref().map(|to| format!("{to}:\u{10FFFF}"));
        let pace = Pace::new(self.settings.share);
        std::thread::scope(|scope| {
            let (sender, slices) = sync_channel(SLICES_WAITING);
            let (object, end, pace) = (&object, &end, &pace);
            let mut after = after.clone();
            std::thread::Builder::new()
                .name("reconcile-reader".into())
                .spawn_scoped(scope, move || {
                    while let Some(next) = read_slice(store, object, after, end, pace, &sender) {
                        after = Some(next);
                    }
                })
                .map_err(thread_trouble)?;
            self.judge_all(slices, end, pace)
        })
    }

    fn judge_all(
        &mut self,
        slices: Receiver<PortResult<Slice>>,
        end: &Option<String>,
        pace: &Pace,
    ) -> PortResult<(Place, Option<String>)> {
        for slice in slices {
            let slice = slice?;
            let began = Instant::now();
            let after = slice.after.clone();
            let through = slice.through.clone();
            if let Some(why) = self.judge_slice(slice, end)? {
                return Ok((Place::After(after), Some(why)));
            }
            pace.worked(began.elapsed());
            match through {
                Some(last) if self.pending.len() > PENDING_MAX || self.is_stopped() => {
                    return Ok((Place::After(Some(last)), None));
                }
                Some(_) => {}
                None => return Ok((Place::End, None)),
            }
        }
        Ok((Place::End, None))
    }

    /// Compares a slice. Returns why it cannot be.
    fn judge_slice(&mut self, slice: Slice, end: &Option<String>) -> PortResult<Option<String>> {
        let Slice { after, through, read } = slice;
        let bound = through.as_ref().or(end.as_ref()).cloned();
        let mut rows = read.rows.into_iter().peekable();
        let mut from = after;
        let mut shown = None;
        loop {
            // 1. A snapshot that is younger than what was read.
            let mut snapshot = self.ports.base.snapshot()?;
            let version = match shown {
                Some(version) => version,
                None => match standing(&mut *snapshot, self.view, &read.meta)? {
                    Standing::Ours(version) => version,
                    // Everything is missing as of now.
                    Standing::Absent if self.absent => snapshot.head()?.commit,
                    Standing::Absent => return Ok(Some("the view is gone from Redis".to_owned())),
                    Standing::Unfinished(why) => return Ok(Some(why.to_owned())),
                    Standing::Foreign => return Ok(Some("Redis shows another base's state".to_owned())),
                },
            };
            shown = Some(version);
            // 2. The groups of both sides, up to where both are complete.
            let mut marked = snapshot.groups_after(self.view, from.as_deref(), GROUPS_MAX)?;
            let complete = marked.len() < GROUPS_MAX;
            let last = marked.last().map(|(key, _)| key.to_string()).filter(|_| !complete);
            let until = match (&last, &bound) {
                (Some(last), Some(bound)) if last < bound => Some(last),
                (Some(last), None) => Some(last),
                (_, bound) => bound.as_ref(),
            };
            let within = |key: &str| until.is_none_or(|until| key <= until.as_str());
            marked.retain(|(key, _)| within(key.as_str()));
            let mut stored = Vec::new();
            while let Some(row) = rows.next_if(|(key, _)| within(key)) {
                stored.push(row);
            }
            let both = merge(&marked, &stored);
            let keys: Vec<&str> = both.iter().map(|(key, _, _)| *key).collect();
            let values = snapshot.recompute_sorted(self.view, &keys)?;
            drop(snapshot);
            // 3. Each group whose rows are those of the version shown must be equal.
            for ((key, mark, fields), value) in both.into_iter().zip(values) {
                if fields.is_none() && value.is_none() && is_settled(mark, version) {
                    continue;
                }
                // What the index does not name may still have a row: that takes a look of its own.
                let Some(fields) = fields.filter(|_| is_settled(mark, version)) else {
                    if !self.absent {
                        self.pending_total += u64::from(!is_settled(mark, version));
                        self.pending.push(Pending { key: GroupKey::from_encoded(key), suspect: false });
                        continue;
                    }
                    let none = StoredFields::new();
                    self.conclude(key, value.as_ref(), &none, false, version, true)?;
                    continue;
                };
                self.conclude(key, value.as_ref(), fields, true, version, true)?;
            }
            self.tell_progress();
            if until == bound.as_ref() {
                return Ok(None);
            }
            from = until.cloned();
        }
    }

    /// Both sides of a group are known: counts it, and notes what differs.
    pub(super) fn conclude(
        &mut self,
        key: &str,
        value: Option<&crate::pure::publish::GroupValue>,
        fields: &StoredFields,
        indexed: bool,
        version: Commit,
        in_order: bool,
    ) -> PortResult<()> {
        let difference = compare_group(key, value, &self.columns, fields, indexed, version.0);
        self.tally.group(key, value, fields, indexed, difference.is_none(), in_order);
        difference.map_or(Ok(()), |difference| self.note(difference))
    }
}

/// Reads one slice and hands it on. Returns the last key where more follow, and somebody wants them.
fn read_slice(
    store: &mut dyn ViewStore,
    object: &str,
    after: Option<String>,
    end: &Option<String>,
    pace: &Pace,
    slices: &SyncSender<PortResult<Slice>>,
) -> Option<String> {
    pace.keep();
    let began = Instant::now();
    let read = store.read_range(object, after.as_deref(), end.as_deref(), SLICE);
    pace.worked(began.elapsed());
    let (slice, next) = match read {
        Err(error) => (Err(error), None),
        Ok(read) => {
            let next = read.rows.last().filter(|_| read.rows.len() == SLICE).map(|(key, _)| key.clone());
            (Ok(Slice { after, through: next.clone(), read }), next)
        }
    };
    slices.send(slice).is_ok().then_some(next)?
}

/// Every group that either side names, in order: its mark, and its row where the index names it.
fn merge<'a>(
    marked: &'a [Marked],
    stored: &'a [(String, StoredFields)],
) -> Vec<(&'a str, Option<Commit>, Option<&'a StoredFields>)> {
    let mut both = Vec::with_capacity(marked.len().max(stored.len()));
    let (mut marked, mut stored) = (marked.iter().peekable(), stored.iter().peekable());
    loop {
        let order = match (marked.peek(), stored.peek()) {
            (Some((left, _)), Some((right, _))) => left.as_str().cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return both,
        };
        let mark = if order.is_le() { marked.next() } else { None };
        let row = if order.is_ge() { stored.next() } else { None };
        let key = mark.map(|(key, _)| key.as_str()).or(row.map(|(key, _)| key.as_str()));
        both.extend(key.map(|key| (key, mark.map(|(_, commit)| *commit), row.map(|(_, fields)| fields))));
    }
}
