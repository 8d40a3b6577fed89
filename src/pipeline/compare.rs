//! Two bases compared group by group, both while they move. Each group is recomputed from its rows on either side; a
//! group that differs is looked at again, since one side may be a few events ahead of the other.

use std::time::Duration;

use crate::ports::{BaseReader, PortResult, StoredFields};
use crate::pure::group_key::GroupKey;

/// Groups of one slice and snapshot.
const SLICE: usize = 1_000;
/// Differing groups that are looked at again; a base that differs in more is no matter of a few events.
const AGAIN_MAX: usize = 100_000;
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// One view of one base.
pub struct Side<'a> {
    pub base: &'a mut dyn BaseReader,
    pub view: usize,
    /// The published fields, in the view's order.
    pub columns: Vec<String>,
}

/// A group and what each side makes of it: the fields that would be published, `None` where it has no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub key: GroupKey,
    pub first: Option<StoredFields>,
    pub second: Option<StoredFields>,
}

/// How many groups there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Comparison {
    pub same: u64,
    pub only_first: u64,
    pub only_second: u64,
    pub different: u64,
}

impl Comparison {
    pub fn differing(&self) -> u64 {
        self.only_first + self.only_second + self.different
    }

    fn count(&mut self, difference: &Difference) {
        *match (&difference.first, &difference.second) {
            (Some(_), None) => &mut self.only_first,
            (None, Some(_)) => &mut self.only_second,
            _ => &mut self.different,
        } += 1;
    }
}

/// Compares all groups. `sink` gets each difference once it is settled; `progress` how many groups more have been
/// looked at.
pub fn compare(
    first: &mut Side<'_>,
    second: &mut Side<'_>,
    sink: &mut dyn FnMut(Difference) -> PortResult<()>,
    progress: &mut dyn FnMut(u64),
) -> PortResult<Comparison> {
    let mut found = Comparison::default();
    let mut again: Vec<GroupKey> = Vec::new();
    let mut after: Option<String> = None;
    // 1. Slice by slice in the order of keys.
    loop {
        let ours = keys_after(first, after.as_deref())?;
        let theirs = keys_after(second, after.as_deref())?;
        let through = slice_end(&ours, &theirs);
        let mut keys: Vec<GroupKey> = ours.into_iter().chain(theirs).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| through.as_deref().is_none_or(|through| key.as_str() <= through));
        progress(keys.len() as u64);
        for difference in look(first, second, keys, &mut found.same)? {
            if again.len() < AGAIN_MAX {
                again.push(difference.key);
            } else {
                found.count(&difference);
                sink(difference)?;
            }
        }
        match through {
            Some(through) => after = Some(through),
            None => break,
        }
    }
    // 2. What differed, until it does not or has been looked at often enough.
    let mut left = Vec::new();
    for round in 0..LOOKS {
        left = look(first, second, again, &mut found.same)?;
        again = left.iter().map(|difference| difference.key.clone()).collect();
        if left.is_empty() || round + 1 == LOOKS {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    for difference in left {
        found.count(&difference);
        sink(difference)?;
    }
    Ok(found)
}

fn keys_after(side: &mut Side<'_>, after: Option<&str>) -> PortResult<Vec<GroupKey>> {
    let marked = side.base.snapshot()?.groups_after(side.view, after, SLICE)?;
    Ok(marked.into_iter().map(|(key, _)| key).collect())
}

/// Recomputes groups on both sides and returns those that differ. A group without rows on either side is none.
fn look(
    first: &mut Side<'_>,
    second: &mut Side<'_>,
    keys: Vec<GroupKey>,
    same: &mut u64,
) -> PortResult<Vec<Difference>> {
    let ours = values(first, &keys)?;
    let theirs = values(second, &keys)?;
    let mut differing = Vec::new();
    for ((key, first), second) in keys.into_iter().zip(ours).zip(theirs) {
        if first != second {
            differing.push(Difference { key, first, second });
        } else if first.is_some() {
            *same += 1;
        }
    }
    Ok(differing)
}

/// A snapshot for each slice, so that none is held for long.
fn values(side: &mut Side<'_>, keys: &[GroupKey]) -> PortResult<Vec<Option<StoredFields>>> {
    let mut values = Vec::with_capacity(keys.len());
    for slice in keys.chunks(SLICE) {
        let keys: Vec<&str> = slice.iter().map(GroupKey::as_str).collect();
        let computed = side.base.snapshot()?.recompute_sorted(side.view, &keys)?;
        values.extend(computed.into_iter().map(|value| Some(value?.fields(&side.columns))));
    }
    Ok(values)
}

/// Where a slice ends so that both sides are complete up to there; `None` at the end of both.
fn slice_end(ours: &[GroupKey], theirs: &[GroupKey]) -> Option<String> {
    let end = |keys: &[GroupKey]| {
        keys.last().filter(|_| keys.len() == SLICE).map(GroupKey::as_str).map(str::to_owned)
    };
    match (end(ours), end(theirs)) {
        (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
        (end, None) | (None, end) => end,
    }
}
