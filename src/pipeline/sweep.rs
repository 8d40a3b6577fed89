//! How any other state of the store is adopted: compares every group with the base, slice by slice, and
//! names those that differ. There is no other rebuild.

use std::collections::BTreeMap;

use crate::pipeline::publish::Publisher;
use crate::ports::{BaseReader, PortResult, StoredFields, ViewStore};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::Cursor;
use crate::pure::seq::Commit;

/// Entries of a slice: what one atomic read returns at most.
const SLICE: usize = 1_000;

/// What a sweep found.
pub(super) struct Found {
    /// Groups that differed, or might.
    pub candidates: Vec<GroupKey>,
    /// The base's commit before the first slice: what is marked later has to be published too.
    pub since: Commit,
}

/// Compares all groups. `None` where the store shows another cursor meanwhile: somebody else writes.
pub(super) fn run(
    publisher: &mut Publisher,
    base: &mut dyn BaseReader,
    store: &mut dyn ViewStore,
    cursor: &Cursor,
) -> PortResult<Option<Found>> {
    let since = base.snapshot()?.head()?.commit;
    let object = publisher.object().to_owned();
    let mut candidates = Vec::new();
    // 1. Index and base, side by side in the order of keys.
    let mut after: Option<String> = None;
    loop {
        let shown = store.read_range(&object, after.as_deref(), None, SLICE)?;
        if Cursor::from_meta(&shown.meta) != *cursor {
            return Ok(None);
        }
        let mut snapshot = base.snapshot()?;
        let known = snapshot.groups_after(publisher.view(), after.as_deref(), SLICE)?;
        let known: Vec<GroupKey> = known.into_iter().map(|(key, _)| key).collect();
        let through = slice_end(&shown.rows, &known);
        let within = |key: &str| through.as_deref().is_none_or(|through| key <= through);
        let mut rows: BTreeMap<String, StoredFields> =
            shown.rows.into_iter().filter(|(key, _)| within(key)).collect();
        let known = known.into_iter().filter(|key| within(key.as_str()));
        if rows.is_empty() {
            // Where nothing is shown at all, whether a group has rows is found out when it is published.
            candidates.extend(known);
        } else {
            let known: Vec<GroupKey> = known.collect();
            let keys: Vec<&str> = known.iter().map(GroupKey::as_str).collect();
            let values = snapshot.recompute_sorted(publisher.view(), &keys)?;
            for (key, value) in known.into_iter().zip(values) {
                let expected = value.map(|value| value.fields(publisher.columns()));
                if expected != rows.remove(key.as_str()) {
                    candidates.push(key);
                }
            }
        }
        // Shown, and never marked in the base.
        candidates.extend(rows.into_keys().map(GroupKey::from_encoded));
        drop(snapshot);
        publisher.beat_during_sweep(store, cursor)?;
        match through {
            Some(through) => after = Some(through),
            None => break,
        }
    }
    // 2. Rows that the index does not name.
    let mut position = 0;
    loop {
        let scan = store.scan_strays(&object, position)?;
        candidates.extend(scan.strays.into_iter().map(GroupKey::from_encoded));
        publisher.beat_during_sweep(store, cursor)?;
        position = scan.next;
        if position == 0 {
            break;
        }
    }
    tracing::info!(view = object, candidates = candidates.len(), "sweep: compared");
    Ok(Some(Found { candidates, since }))
}

/// Where a slice ends so that both sides are complete up to there; `None` at the end of both.
fn slice_end(rows: &[(String, StoredFields)], known: &[GroupKey]) -> Option<String> {
    let shown = rows.last().filter(|_| rows.len() == SLICE).map(|(key, _)| key.as_str());
    let marked = known.last().filter(|_| known.len() == SLICE).map(GroupKey::as_str);
    match (shown, marked) {
        (Some(shown), Some(marked)) => Some(shown.min(marked).to_owned()),
        (end, None) | (None, end) => end.map(str::to_owned),
    }
}
