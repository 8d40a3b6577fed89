//! What Redis shows for a question: meta and the rows of an answer, of one instant. Must not judge whether the view may
//! answer.

use super::too_many;
use crate::ports::{Meta, PortResult, StoredFields, StoredGroup, ViewStore};
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::Cursor;
use crate::pure::query::{AddedUp, Keys, Query, RowTrouble, Rows, published_row};
use crate::pure::route::{Check, Code};
use crate::pure::schema::ColumnType;

/// Entries of one atomic read.
const PAGE: usize = 1_000;
/// How often a range of several pages is read because the view was published in between. An attempt ends with the
/// first page that is of another state; what moves faster than it can be read is sooner asked of the base.
const ATTEMPTS: usize = 3;

/// What was read.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The meta, or why Redis could not be asked.
    pub meta: Result<Meta, String>,
    pub rows: Rows,
    /// Why the rows are no answer, where they are none.
    pub trouble: Option<Check>,
}

impl Shown {
    fn without_rows(meta: Meta, trouble: Option<Check>) -> Self {
        Shown { meta: Ok(meta), rows: Rows::new(), trouble }
    }
}

/// How one attempt ended without rows.
enum Stop {
    /// The view was published between two pages.
    Moved,
    /// What was found is no answer.
    Trouble(Check),
    TooMany,
}

/// Reads the meta, and where `rows_asked` the rows of the answer with it. An unreachable Redis is an answer too.
pub fn read_shown(
    store: &mut dyn ViewStore,
    view: &View,
    query: &Query,
    rows_asked: bool,
    rows_max: usize,
) -> PortResult<Shown> {
    let read = match rows_asked {
        true => read_rows(store, view, query, rows_max),
        false => store.read_meta(&view.object).map(|meta| Ok(Shown::without_rows(meta, None))),
    };
    match read {
        Ok(Ok(shown)) => Ok(shown),
        Ok(Err(())) => Err(too_many(&view.object, rows_max)),
        Err(error) => Ok(Shown { meta: Err(error.what), rows: Rows::new(), trouble: None }),
    }
}

/// The inner error is an answer of too many rows.
fn read_rows(
    store: &mut dyn ViewStore,
    view: &View,
    query: &Query,
    rows_max: usize,
) -> PortResult<Result<Shown, ()>> {
    let keys = Keys::of(query, view);
    let mut newest = Meta::new();
    for _ in 0..ATTEMPTS {
        let (meta, read) = match &keys {
            Keys::Named(keys) => read_named(store, view, query, keys, rows_max)?,
            Keys::Range { after, through } => {
                read_range(store, view, query, after.clone(), through.as_deref(), rows_max)?
            }
        };
        match read {
            Ok(rows) => return Ok(Ok(Shown { meta: Ok(meta), rows, trouble: None })),
            Err(Stop::TooMany) => return Ok(Err(())),
            Err(Stop::Trouble(check)) => return Ok(Ok(Shown::without_rows(meta, Some(check)))),
            Err(Stop::Moved) => newest = meta,
        }
    }
    let trouble = Check::failed(
        Code::Mixed,
        format!("the view was published during each of {ATTEMPTS} readings of its pages"),
    );
    Ok(Ok(Shown::without_rows(newest, Some(trouble))))
}

fn read_named(
    store: &mut dyn ViewStore,
    view: &View,
    query: &Query,
    keys: &[GroupKey],
    rows_max: usize,
) -> PortResult<(Meta, Result<Rows, Stop>)> {
    let (meta, groups) = store.read_groups(&view.object, keys)?;
    let types = view.grain_types();
    let mut sums = AddedUp::new(query, view, rows_max);
    for (key, StoredGroup { fields, indexed }) in keys.iter().zip(&groups) {
        let added = match (indexed, fields.is_empty()) {
            (true, _) => add(view, query, &types, key, fields, &mut sums),
            (false, true) => Ok(()),
            (false, false) => Err(damaged(format!("row {key} is not in the index"))),
        };
        if let Err(stop) = added {
            return Ok((meta, Err(stop)));
        }
    }
    Ok((meta, Ok(sums.finish())))
}

fn read_range(
    store: &mut dyn ViewStore,
    view: &View,
    query: &Query,
    mut after: Option<String>,
    through: Option<&str>,
    rows_max: usize,
) -> PortResult<(Meta, Result<Rows, Stop>)> {
    let types = view.grain_types();
    let mut sums = AddedUp::new(query, view, rows_max);
    let mut first: Option<Meta> = None;
    loop {
        let page = store.read_range(&view.object, after.as_deref(), through, PAGE)?;
        let meta = first.get_or_insert_with(|| page.meta.clone());
        if Cursor::from_meta(meta) != Cursor::from_meta(&page.meta) {
            return Ok((page.meta, Err(Stop::Moved)));
        }
        let last = page.rows.len() < PAGE;
        for (key, fields) in page.rows {
            let key = GroupKey::from_encoded(key);
            if let Err(stop) = add(view, query, &types, &key, &fields, &mut sums) {
                return Ok((page.meta, Err(stop)));
            }
            after = Some(key.as_str().to_owned());
        }
        if last {
            return Ok((first.unwrap_or_default(), Ok(sums.finish())));
        }
    }
}

fn damaged(what: String) -> Stop {
    Stop::Trouble(Check::failed(Code::Unreachable, what))
}

fn add(
    view: &View,
    query: &Query,
    types: &[ColumnType],
    key: &GroupKey,
    fields: &StoredFields,
    sums: &mut AddedUp<'_>,
) -> Result<(), Stop> {
    let Some(grain) = key.decode(types) else {
        return Err(damaged(format!("the index names {key}, which is no group of the view")));
    };
    if !query.admits(view, &grain) {
        return Ok(());
    }
    match published_row(view, key.as_str(), fields) {
        Ok(numbers) => sums.add(&grain, &numbers).map_err(|_| Stop::TooMany),
        Err(RowTrouble::Damaged(what)) => Err(damaged(what)),
        // Which of its measures it is, only its rows can tell.
        Err(RowTrouble::Overflow) => {
            let evidence = format!("group {key} is published as overflow, without numbers to add");
            Err(Stop::Trouble(Check::failed(Code::NotAdditive, evidence)))
        }
    }
}
