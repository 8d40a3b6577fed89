//! What no range of either side tells: keys under the view's name that do not belong there, and groups that have
//! rows and no mark. One thread walks over the store, another over the base; what they find is looked at afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::pace::Pace;
use super::{PENDING_MAX, Pass, thread_trouble};
use crate::ports::{BaseReader, PortError, PortResult, ViewStore};
use crate::pure::drift::{Difference, Kind};
use crate::pure::group_key::GroupKey;

/// Groups of one snapshot.
const STEP: usize = 20_000;

/// What both walks found.
pub(super) struct Strangers {
    /// Encoded keys of rows without an index entry, and of groups without a mark.
    pub suspects: Vec<GroupKey>,
    /// Keys that are none of the view's kinds.
    pub foreign: Vec<Difference>,
    /// There are more than these.
    pub overflowed: bool,
}

impl Pass<'_> {
    pub(super) fn find_strangers(&mut self, store: &mut dyn ViewStore) -> PortResult<Strangers> {
        let (object, view, version) = (self.object.clone(), self.view, self.compared_at.last_version);
        let pace = Pace::new(self.settings.share);
        let (stop, base) = (self.ports.stop, &mut self.ports.base);
        let (keys, unmarked) = std::thread::scope(|scope| {
            let (object, pace) = (&object, &pace);
            let walking = std::thread::Builder::new()
                .name("reconcile-reader".into())
                .spawn_scoped(scope, move || walk_store(store, object, pace, stop))
                .map_err(thread_trouble)?;
            let unmarked = walk_base(*base, view, pace, stop);
            let keys = walking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, PortError>((keys?, unmarked?))
        })?;
        let (strays, foreign) = keys;
        let overflowed = strays.len() + foreign.len() > PENDING_MAX || unmarked.len() > PENDING_MAX;
        // A walk over the store may tell a key twice.
        let mut suspects: Vec<GroupKey> =
            strays.into_iter().map(GroupKey::from_encoded).chain(unmarked).collect();
        suspects.sort_unstable();
        suspects.dedup();
        let detail = "driftless writes no such key; find out who does, then remove it with UNLINK";
        let foreign =
            foreign.into_iter().map(|key| Difference::new(Kind::ForeignKey, key, version, detail)).collect();
        Ok(Strangers { suspects, foreign, overflowed })
    }
}

/// Strays and foreign keys of the store.
fn walk_store(
    store: &mut dyn ViewStore,
    object: &str,
    pace: &Pace,
    stop: &AtomicBool,
) -> PortResult<(Vec<String>, Vec<String>)> {
    let (mut strays, mut foreign, mut cursor) = (Vec::new(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) && strays.len() + foreign.len() <= PENDING_MAX {
        pace.keep();
        let began = Instant::now();
        let scan = store.scan_strays(object, cursor)?;
        strays.extend(scan.strays);
        foreign.extend(scan.foreign);
        pace.worked(began.elapsed());
        cursor = scan.next;
        if cursor == 0 {
            break;
        }
    }
    Ok((strays, foreign))
}

/// Groups that have rows and no mark.
fn walk_base(
    base: &mut dyn BaseReader,
    view: usize,
    pace: &Pace,
    stop: &AtomicBool,
) -> PortResult<Vec<GroupKey>> {
    let (mut found, mut place) = (Vec::new(), None);
    while !stop.load(Ordering::Relaxed) && found.len() <= PENDING_MAX {
        pace.keep();
        let began = Instant::now();
        found.extend(base.snapshot()?.unmarked(view, &mut place, STEP)?);
        pace.worked(began.elapsed());
        if place.is_none() {
            break;
        }
    }
    Ok(found)
}
