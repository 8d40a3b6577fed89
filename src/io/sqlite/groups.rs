//! Groups of a view as a snapshot has them: their marks, and their values recomputed from their rows.
//! Knows no store and compares nothing.

use std::cmp::Ordering;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, Statement, params, params_from_iter};

use super::Doing;
use super::reader::{ReadView, SqliteReader};
use crate::ports::{Marked, PortResult};
use crate::pure::group_key::GroupKey;
use crate::pure::publish::GroupValue;
use crate::pure::recompute::Accumulator;
use crate::pure::seq::Commit;
use crate::pure::value::Value;

/// The grain's values of the group that a walk has come to.
type Place = Box<[Value]>;

/// Fewer groups are looked up one by one.
const RANGE_GROUPS_MIN: usize = 8;
/// Rows of other groups, for each group asked for, after which a range is left and the rest is looked up one by one.
const OTHER_ROWS_PER_GROUP: usize = 4;

impl SqliteReader {
    pub(super) fn groups_after(
        &self,
        view: usize,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<Marked>> {
        // One statement for both would not seek: a condition that may be absent cannot bound an index.
        let from = if after.is_some() { ">" } else { ">=" };
        let sql = format!(
            "SELECT group_key, changed_at FROM driftless_groups
             WHERE view_id = ?1 AND group_key {from} ?2 ORDER BY group_key LIMIT ?3"
        );
        let read = || -> rusqlite::Result<Vec<Marked>> {
            self.connection
                .prepare_cached(&sql)?
                .query_map(params![self.views[view].id, after.unwrap_or_default(), limit as i64], |row| {
                    let key: String = row.get(0)?;
                    Ok((GroupKey::from_encoded(key), Commit(row.get::<_, i64>(1)? as u64)))
                })?
                .collect()
        };
        read().doing("base: walk over groups")
    }

    pub(super) fn mark(&self, view: usize, key: &GroupKey) -> PortResult<Option<Commit>> {
        self.connection
            .prepare_cached("SELECT changed_at FROM driftless_groups WHERE view_id = ?1 AND group_key = ?2")
            .and_then(|mut statement| {
                statement
                    .query_row(params![self.views[view].id, key.as_str()], |row| row.get::<_, i64>(0))
                    .optional()
            })
            .map(|mark| mark.map(|commit| Commit(commit as u64)))
            .doing("base: read a mark")
    }

    pub(super) fn recompute(&mut self, view: usize, key: &GroupKey) -> PortResult<Option<GroupValue>> {
        let ReadView { grain, entry, inputs, .. } = &mut self.views[view];
        // A key that is none of this view's has no rows.
        let Some(parts) = key.decode(grain) else {
            return Ok(None);
        };
        let mut read = || -> rusqlite::Result<Option<GroupValue>> {
            let mut statement = self.connection.prepare_cached(&entry.recompute.group_sql)?;
            let mut accumulator = Accumulator::new(&entry.recompute);
            let columns = entry.recompute.inputs.len();
            one_group(&mut statement, &parts, columns, inputs, &mut accumulator)
        };
        read().doing(&format!("base: recompute {}", entry.view.object))
    }

    pub(super) fn recompute_sorted(
        &mut self,
        view: usize,
        keys: &[&str],
    ) -> PortResult<Vec<Option<GroupValue>>> {
        let ReadView { grain, entry, inputs, .. } = &mut self.views[view];
        let mut values: Vec<Option<GroupValue>> = vec![None; keys.len()];
        // The order of values need not be the order of keys, but often is.
        let mut asked: Vec<(Vec<Value>, usize)> = keys
            .iter()
            .enumerate()
            .filter_map(|(at, key)| Some((GroupKey::from_encoded(*key).decode(grain)?, at)))
            .collect();
        asked.sort();
        let mut read = || -> rusqlite::Result<()> {
            let mut accumulator = Accumulator::new(&entry.recompute);
            let columns = entry.recompute.inputs.len();
            let mut done = 0;
            if let Some(sql) = entry.recompute.range_sql.as_ref().filter(|_| asked.len() >= RANGE_GROUPS_MIN)
            {
                let mut statement = self.connection.prepare_cached(sql)?;
                done = one_range(&mut statement, &asked, columns, inputs, &mut accumulator, &mut values)?;
            }
            let mut statement = self.connection.prepare_cached(&entry.recompute.group_sql)?;
            for (parts, at) in &asked[done..] {
                values[*at] = one_group(&mut statement, parts, columns, inputs, &mut accumulator)?;
            }
            Ok(())
        };
        read().doing(&format!("base: recompute {}", entry.view.object))?;
        Ok(values)
    }

    pub(super) fn unmarked(
        &mut self,
        view: usize,
        place: &mut Option<Box<[Value]>>,
        groups: usize,
    ) -> PortResult<Vec<GroupKey>> {
        let ReadView { id, grain, entry, .. } = &self.views[view];
        let read = || -> rusqlite::Result<(Vec<GroupKey>, Option<Place>)> {
            let (mut found, mut seen) = (Vec::new(), 0);
            let mut last: Option<Box<[Value]>> = None;
            let mut mark = self
                .connection
                .prepare_cached("SELECT 1 FROM driftless_groups WHERE view_id = ?1 AND group_key = ?2")?;
            // From behind the last place: the same values but for the last one, then but for the last two, …
            let steps: Vec<Option<usize>> = match place {
                None => vec![None],
                Some(_) => (0..grain.len()).rev().map(Some).collect(),
            };
            for step in steps {
                let (sql, mut parameters) = match (step, &*place) {
                    (Some(equal), Some(place)) => {
                        let after_null = place[equal] == Value::Null;
                        let bound = if after_null { equal } else { equal + 1 };
                        (entry.recompute.walk_sql(Some((equal, after_null))), place[..bound].to_vec())
                    }
                    _ => (entry.recompute.walk_sql(None), Vec::new()),
                };
                parameters.push(Value::Integer((groups - seen) as i64));
                let mut statement = self.connection.prepare_cached(&sql)?;
                let mut rows = statement.query(params_from_iter(&parameters))?;
                while let Some(row) = rows.next()? {
                    let parts: Box<[Value]> =
                        (0..grain.len()).map(|column| row.get(column)).collect::<Result<_, _>>()?;
                    let key = GroupKey::encode(&parts);
                    if !mark.exists(params![id, key.as_str()])? {
                        found.push(key);
                    }
                    last = Some(parts);
                    seen += 1;
                }
                if seen == groups {
                    return Ok((found, last));
                }
            }
            Ok((found, None))
        };
        let (found, last) = read().doing(&format!("base: look for marks of {}", entry.view.object))?;
        *place = last;
        Ok(found)
    }

    pub(super) fn each_group(
        &mut self,
        view: usize,
        sink: &mut dyn FnMut(&[Value], &GroupValue),
    ) -> PortResult<()> {
        let entry = &self.views[view].entry;
        let grain = entry.view.grain.len();
        let width = grain + entry.recompute.inputs.len();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(&entry.recompute.all_sql)?;
            let mut rows = statement.query([])?;
            let mut group: Option<(Vec<Value>, Accumulator<'_>)> = None;
            let mut values = Vec::with_capacity(width);
            while let Some(row) = rows.next()? {
                values.clear();
                for column in 0..width {
                    values.push(row.get::<_, Value>(column)?);
                }
                let (key, inputs) = values.split_at(grain);
                if let Some((open, accumulator)) = &mut group
                    && open == key
                {
                    accumulator.add(inputs);
                    continue;
                }
                let mut accumulator = Accumulator::new(&entry.recompute);
                accumulator.add(inputs);
                if let Some((key, done)) = group.replace((key.to_vec(), accumulator)) {
                    emit(&key, done, sink);
                }
            }
            if let Some((key, done)) = group {
                emit(&key, done, sink);
            }
            Ok(())
        };
        read().doing(&format!("base: recompute all of {}", entry.view.object))
    }
}

fn emit(key: &[Value], mut group: Accumulator<'_>, sink: &mut dyn FnMut(&[Value], &GroupValue)) {
    if let Some(value) = group.finish() {
        sink(key, &value);
    }
}

fn one_group(
    statement: &mut Statement<'_>,
    parts: &[Value],
    columns: usize,
    inputs: &mut Vec<Value>,
    accumulator: &mut Accumulator<'_>,
) -> rusqlite::Result<Option<GroupValue>> {
    let mut rows = statement.query(params_from_iter(parts))?;
    while let Some(row) = rows.next()? {
        add(row, 0, columns, inputs, accumulator)?;
    }
    Ok(accumulator.finish())
}

fn add(
    row: &Row<'_>,
    first: usize,
    columns: usize,
    inputs: &mut Vec<Value>,
    accumulator: &mut Accumulator<'_>,
) -> rusqlite::Result<()> {
    inputs.clear();
    for column in first..first + columns {
        inputs.push(row.get(column)?);
    }
    accumulator.add(inputs);
    Ok(())
}

/// Reads the groups asked for in one walk over the range that they lie in. Returns how many of them it has dealt
/// with: all, or those up to where too much of the range was none of them.
fn one_range(
    statement: &mut Statement<'_>,
    asked: &[(Vec<Value>, usize)],
    columns: usize,
    inputs: &mut Vec<Value>,
    accumulator: &mut Accumulator<'_>,
    values: &mut [Option<GroupValue>],
) -> rusqlite::Result<usize> {
    let (Some((first, _)), Some((last, _))) = (asked.first(), asked.last()) else {
        return Ok(0);
    };
    let mut rows = statement.query(params_from_iter(first.iter().chain(last)))?;
    let (mut at, mut others) = (0, 0);
    while let Some(row) = rows.next()? {
        loop {
            let Some((parts, place)) = asked.get(at) else {
                return Ok(at);
            };
            match compare(row, parts)? {
                Ordering::Greater => {
                    values[*place] = accumulator.finish();
                    at += 1;
                }
                Ordering::Equal => {
                    add(row, parts.len(), columns, inputs, accumulator)?;
                    break;
                }
                Ordering::Less => {
                    others += 1;
                    if others > OTHER_ROWS_PER_GROUP * asked.len() {
                        // The group at hand has no row so far: it is behind this place.
                        return Ok(at);
                    }
                    break;
                }
            }
        }
    }
    if let Some((_, place)) = asked.get(at) {
        values[*place] = accumulator.finish();
    }
    // Behind the last row there is nothing.
    Ok(asked.len())
}

/// The order of a row's first columns and grain values, as SQLite sorts them.
fn compare(row: &Row<'_>, parts: &[Value]) -> rusqlite::Result<Ordering> {
    for (column, part) in parts.iter().enumerate() {
        let order = match (row.get_ref(column)?, part) {
            (ValueRef::Null, Value::Null) => Ordering::Equal,
            (ValueRef::Null, _) => Ordering::Less,
            (_, Value::Null) => Ordering::Greater,
            (ValueRef::Integer(found), Value::Integer(wanted)) => found.cmp(wanted),
            (ValueRef::Text(found), Value::Text(wanted)) => found.cmp(wanted.as_bytes()),
            (ValueRef::Integer(_), Value::Text(_)) => Ordering::Less,
            _ => Ordering::Greater,
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}
