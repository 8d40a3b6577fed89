//! An answer worked out from the rows of the base, all of one snapshot.

use std::ops::ControlFlow;

use super::{RouteSettings, too_many};
use crate::ports::{BaseReader, Clock, PortError, PortResult, Snapshot};
use crate::pure::base::Head;
use crate::pure::catalog::Catalog;
use crate::pure::query::{Query, Rows, Worked};

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: u64 = 4_096;

/// The rows of the answer, and what they are a snapshot of. The caller has made sure that the policy allows it.
pub fn work_out(
    base: &mut dyn BaseReader,
    clock: &dyn Clock,
    catalog: &Catalog,
    view: usize,
    query: &Query,
    settings: &RouteSettings,
) -> PortResult<(Head, Rows)> {
    let mut snapshot = base.snapshot()?;
    let head = snapshot.head()?;
    let rows = work_out_in(&mut *snapshot, clock, catalog, view, query, settings)?;
    Ok((head, rows))
}

/// The rows of the answer as this snapshot has them.
pub fn work_out_in(
    snapshot: &mut dyn Snapshot,
    clock: &dyn Clock,
    catalog: &Catalog,
    view: usize,
    query: &Query,
    settings: &RouteSettings,
) -> PortResult<Rows> {
    let entry = &catalog.views[view];
    let object = &entry.view.object;
    let worked = Worked::new(query, entry, &catalog.tables[entry.table].shape);
    let until = clock.monotonic_ms().saturating_add(settings.base_ms_max);
    let mut fold = worked.fold(settings.groups_max);
    let (mut seen, mut stopped) = (0u64, None);
    snapshot.select(&worked.selection, &mut |row| {
        seen += 1;
        if fold.add(row).is_err() {
            stopped = Some(too_many(object, settings.groups_max));
        } else if seen.is_multiple_of(ROWS_PER_LOOK) && clock.monotonic_ms() > until {
            stopped = Some(too_long(object, settings.base_ms_max, seen));
        }
        if stopped.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match stopped {
        Some(error) => Err(error),
        None => Ok(fold.finish()),
    }
}

fn too_long(object: &str, base_ms_max: u64, rows: u64) -> PortError {
    PortError::permanent(format!(
        "view {object}: the base has worked on the answer for {} s and read {rows} rows",
        base_ms_max / 1000
    ))
    .with_hint("narrow the question, or raise route.base_seconds_max; the WAL grows meanwhile")
}
