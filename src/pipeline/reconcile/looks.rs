//! Groups looked at one by one, row and index entry in one step: those that were changing at the first look, those
//! that a range does not tell enough of, and those that differed, to see whether they still do.

use std::time::Duration;

use super::cursor::{Standing, standing};
use super::{BETWEEN, LOOKS, Pass, Pending, is_settled};
use crate::ports::{PortResult, StoredGroup, ViewStore};
use crate::pure::base::Action;
use crate::pure::drift::{Difference, compare_group};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::seq::Commit;

/// Groups of one look.
const CHUNK: usize = 500;
/// Groups that the publisher is asked about at once.
const SETTLE_CHUNK: usize = 200;

/// A group as one look saw it.
pub(super) struct Seen {
    stored: StoredGroup,
    value: Option<GroupValue>,
    version: Commit,
}

impl Pass<'_> {
    /// Looks at the groups at one moment; `None` for one whose mark is later than the version shown. `Err` inside is
    /// why nothing can be said now.
    fn look(
        &mut self,
        store: &mut dyn ViewStore,
        keys: &[GroupKey],
    ) -> PortResult<Result<Vec<Option<Seen>>, &'static str>> {
        let (meta, groups) = store.read_groups(&self.object, keys)?;
        let mut snapshot = self.ports.base.snapshot()?;
        let version = match standing(&mut *snapshot, self.view, &meta)? {
            Standing::Ours(version) => version,
            Standing::Absent if self.absent => snapshot.head()?.commit,
            Standing::Absent => return Ok(Err("the view is gone from Redis")),
            Standing::Unfinished(why) => return Ok(Err(why)),
            Standing::Foreign => return Ok(Err("Redis shows another base's state")),
        };
        let mut seen = Vec::with_capacity(keys.len());
        for (key, stored) in keys.iter().zip(groups) {
            let mark = snapshot.mark(self.view, key)?;
            seen.push(match is_settled(mark, version) {
                true => Some(Seen { stored, value: snapshot.recompute(self.view, key)?, version }),
                false => None,
            });
        }
        Ok(Ok(seen))
    }

    /// Looks at every pending group until it is decided: up to ten times, then the publisher is asked.
    pub(super) fn look_at_pending(&mut self, store: &mut dyn ViewStore) -> PortResult<()> {
        let mut why = "its changes were not published";
        for look in 1..=LOOKS {
            if self.pending.is_empty() || self.is_stopped() {
                break;
            }
            if look > 1 {
                (self.ports.wait)(Duration::from_millis(BETWEEN.delay_ms(look - 1, 0)));
            }
            for pending in chunks(std::mem::take(&mut self.pending)) {
                let keys: Vec<GroupKey> = pending.iter().map(|one| one.key.clone()).collect();
                match self.look(store, &keys)? {
                    Err(reason) => {
                        why = reason;
                        self.pending.extend(pending);
                    }
                    Ok(seen) => {
                        for (one, seen) in pending.into_iter().zip(seen) {
                            match seen {
                                Some(seen) => self.decide(&one, &seen)?,
                                None => self.pending.push(one),
                            }
                        }
                    }
                }
            }
            self.tell_progress();
        }
        self.settle_pending(why)
    }

    fn decide(&mut self, one: &Pending, seen: &Seen) -> PortResult<()> {
        let Seen { stored, value, version } = seen;
        let (key, value) = (one.key.as_str(), value.as_ref());
        if !one.suspect {
            // A group that is nowhere any more was compared as well: both sides are without it.
            self.tally.looked_again += 1;
            return self.conclude(key, value, &stored.fields, stored.indexed, *version, false);
        }
        let found = compare_group(key, value, &self.columns, &stored.fields, stored.indexed, version.0);
        found.map_or(Ok(()), |difference| self.note(difference))
    }

    /// Asks the publisher about what is still pending: it compares inside its own snapshot, where nothing moves.
    fn settle_pending(&mut self, why: &str) -> PortResult<()> {
        let pending = std::mem::take(&mut self.pending);
        let mut refused: Option<String> = None;
        for chunk in pending.chunks(SETTLE_CHUNK) {
            let groups = chunk.iter().map(|one| one.key.to_string()).collect();
            let action = Action::SettleGroups { view: self.object.clone(), groups };
            let answer = match &refused {
                // What it cannot do once it cannot do at all.
                Some(refusal) => Err(refusal.clone()),
                None if self.is_stopped() => Err("the pass was told to end".to_owned()),
                None => {
                    match self.ports.requests.ask(&action, "reconcile: groups that change all the time") {
                        Ok(answer) => answer,
                        Err(error) if error.is_transient() => Err(error.what),
                        Err(error) => return Err(error),
                    }
                }
            };
            match answer {
                Ok(settled) => {
                    let found: Vec<Difference> =
                        serde_json::from_value(settled["differences"].clone()).unwrap_or_default();
                    found.into_iter().try_for_each(|difference| self.note(difference))?;
                    let compared = chunk.iter().filter(|one| !one.suspect).count() as u64;
                    self.tally.compared += compared;
                    self.tally.settled_by_publisher += compared;
                }
                Err(refusal) => {
                    for one in chunk {
                        self.leave_unsettled(&one.key, &format!("{why}; {refusal}"));
                    }
                    refused = Some(refusal);
                }
            }
        }
        Ok(())
    }

    /// Looks at everything that differed once more, up to `looks` times, and notes what is right again.
    pub(super) fn look_whether_mended(&mut self, store: &mut dyn ViewStore, looks: u32) -> PortResult<()> {
        for look in 1..=looks {
            if look > 1 {
                (self.ports.wait)(Duration::from_millis(BETWEEN.delay_ms(look - 1, 0)));
            }
            let standing = |difference: &&Difference| !difference.mended && difference.is_of_group();
            let keys: Vec<GroupKey> = self
                .differences
                .iter()
                .filter(standing)
                .map(|difference| GroupKey::from_encoded(difference.key.clone()))
                .collect();
            let mut right = std::collections::HashSet::new();
            for keys in keys.chunks(CHUNK) {
                let Ok(seen) = self.look(store, keys)? else { continue };
                for (key, seen) in keys.iter().zip(seen) {
                    let Some(Seen { stored, value, version }) = seen else { continue };
                    let (fields, indexed) = (&stored.fields, stored.indexed);
                    let columns = &self.columns;
                    if compare_group(key.as_str(), value.as_ref(), columns, fields, indexed, version.0)
                        .is_none()
                    {
                        right.insert(key.to_string());
                    }
                }
            }
            for difference in self.differences.iter_mut().filter(|difference| difference.is_of_group()) {
                difference.mended |= right.contains(&difference.key);
            }
            let left = self.differences.iter().any(|one| !one.mended && one.is_of_group());
            if !left || self.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn tell_progress(&self) {
        (self.ports.progress)(self.tally.compared, self.total.max(self.tally.compared));
    }
}

fn chunks(pending: Vec<Pending>) -> impl Iterator<Item = Vec<Pending>> {
    let mut rest = pending.into_iter();
    std::iter::from_fn(move || {
        let chunk: Vec<Pending> = rest.by_ref().take(CHUNK).collect();
        (!chunk.is_empty()).then_some(chunk)
    })
}
