//! All that a base knows of one group, of one snapshot: value, rows, mark, and what the history still tells.

use std::collections::BTreeSet;

use rusqlite::{params, params_from_iter};

use super::Doing;
use super::reader::{SqliteReader, SqliteSnapshot};
use crate::ports::{Lineage, PortResult, Snapshot};
use crate::pure::base::Head;
use crate::pure::group_key::GroupKey;
use crate::pure::publish::{Cursor, GroupValue};
use crate::pure::schema::Table;
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::sql::quote_identifier;
use crate::pure::value::Value;

/// Rows of a group that are looked through for the row that an event wrote; larger groups are not.
const ROWS_SEARCHED_MAX: u64 = 10_000;

/// What a base knows of a group.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    pub head: Head,
    pub value: Option<GroupValue>,
    /// The commit that changed it last.
    pub changed_at: Option<Commit>,
    /// What the state that Redis shows is to this base.
    pub lineage: Lineage,
    /// Rows that are in the value.
    pub rows_total: u64,
    /// The first of them in the order of their keys: sequence and columns.
    pub rows: Vec<(Seq, Vec<Value>)>,
    /// The newest changes first.
    pub changes: Vec<GroupChange>,
}

/// One entry of the history of a group.
#[derive(Clone, Debug)]
pub struct GroupChange {
    pub commit: Commit,
    /// When it was committed; `None` where the history no longer tells.
    pub at_ms: Option<i64>,
    pub cause: Cause,
}

impl GroupChange {
    fn seq(&self) -> Option<Seq> {
        match &self.cause {
            Cause::Repair => None,
            Cause::Event { seq, .. } => Some(*seq),
        }
    }
}

/// What touched a group.
#[derive(Clone, Debug)]
pub enum Cause {
    Repair,
    Event { at: TopicPartition, offset: i64, seq: Seq, row: RowMove },
}

/// Where the event's row is, as far as base and history tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowMove {
    /// The row is in this group, and the event changed no group.
    Here,
    CameFrom(GroupKey),
    WentTo(GroupKey),
    /// The event moved a row between this group and the other; later events have changed it, or it is in no value.
    Between(GroupKey),
    /// Deleted, changed by a later event, or left out by the view's filters.
    Unknown,
}

impl SqliteReader {
    /// Looks a group up. `shown` is the cursor that Redis shows.
    pub fn explain(
        &mut self,
        view: usize,
        table: &Table,
        key: &GroupKey,
        shown: &Cursor,
        rows_max: usize,
        changes_max: usize,
    ) -> PortResult<GroupFacts> {
        let mut snapshot = SqliteSnapshot::begin(self)?;
        let head = snapshot.head()?;
        let value = snapshot.recompute(view, key)?;
        let lineage = snapshot.lineage(view, Commit(shown.version), &shown.nonce)?;
        let group = Group { reader: snapshot.reader(), view };
        let rows_total = group.count(key)?;
        Ok(GroupFacts {
            changed_at: group.reader.mark(view, key)?,
            rows: group.rows(table, key, rows_max)?,
            changes: group.changes(key, changes_max)?,
            head,
            value,
            lineage,
            rows_total,
        })
    }
}

/// Questions about the groups of one view, inside a snapshot.
struct Group<'a> {
    reader: &'a SqliteReader,
    view: usize,
}

impl Group<'_> {
    /// `FROM … WHERE …` of the rows of one group, and its parameters; `None` for a key of another view.
    fn from(&self, key: &GroupKey) -> Option<(String, Vec<Value>)> {
        let entry = &self.reader.views[self.view].entry;
        let parts = key.decode(&entry.view.grain_types())?;
        let terms: String = entry
            .view
            .grain
            .iter()
            .enumerate()
            .map(|(position, dimension)| {
                format!(" AND {} IS ?{}", quote_identifier(&dimension.name), position + 1)
            })
            .collect();
        Some((format!("{}{terms}", entry.recompute.rows_from), parts))
    }

    fn count(&self, key: &GroupKey) -> PortResult<u64> {
        let Some((from, parts)) = self.from(key) else { return Ok(0) };
        self.reader
            .connection
            .query_row(&format!("SELECT count(*) {from}"), params_from_iter(&parts), |row| row.get(0))
            .map(|count: i64| count.unsigned_abs())
            .doing("base: count the rows of a group")
    }

    fn rows(&self, table: &Table, key: &GroupKey, limit: usize) -> PortResult<Vec<(Seq, Vec<Value>)>> {
        let Some((from, parts)) = self.from(key) else { return Ok(Vec::new()) };
        let name = |column: usize| quote_identifier(&table.columns[column].name);
        let columns: Vec<String> = (0..table.columns.len()).map(name).collect();
        let order: Vec<String> = table.key.iter().map(|column| name(*column)).collect();
        let sql =
            format!("SELECT _seq, {} {from} ORDER BY {} LIMIT {limit}", columns.join(", "), order.join(", "));
        let read = || -> rusqlite::Result<Vec<(Seq, Vec<Value>)>> {
            self.reader
                .connection
                .prepare(&sql)?
                .query_map(params_from_iter(&parts), |row| {
                    let values = (1..=columns.len()).map(|at| row.get(at)).collect::<Result<_, _>>()?;
                    Ok((row.get(0)?, values))
                })?
                .collect()
        };
        read().doing("base: read the rows of a group")
    }

    /// Sequences of the rows of a group that is small enough to be looked through.
    fn sequences(&self, key: &GroupKey) -> PortResult<BTreeSet<Seq>> {
        let Some((from, parts)) = self.from(key) else { return Ok(BTreeSet::new()) };
        if self.count(key)? > ROWS_SEARCHED_MAX {
            return Ok(BTreeSet::new());
        }
        let read = || -> rusqlite::Result<BTreeSet<Seq>> {
            self.reader
                .connection
                .prepare(&format!("SELECT _seq {from}"))?
                .query_map(params_from_iter(&parts), |row| row.get(0))?
                .collect()
        };
        read().doing("base: read the sequences of a group")
    }

    fn changes(&self, key: &GroupKey, limit: usize) -> PortResult<Vec<GroupChange>> {
        let sequences = self.sequences(key)?;
        let doing = "base: read the history of a group";
        let mut statement = self
            .reader
            .connection
            .prepare(
                "SELECT h.commit_no, c.at_ms, topic, partition, h.offset, h.seq,
                   (SELECT o.group_key FROM driftless_changes o
                    WHERE o.change_id BETWEEN h.change_id - 1 AND h.change_id + 1 AND o.view_id = h.view_id
                      AND o.partition_id = h.partition_id AND o.offset = h.offset AND o.group_key <> h.group_key)
                 FROM driftless_changes h
                   LEFT JOIN driftless_commits c ON c.commit_no = h.commit_no
                   LEFT JOIN driftless_partitions p ON p.partition_id = h.partition_id
                 WHERE h.view_id = ?1 AND h.group_key = ?2 ORDER BY h.change_id DESC LIMIT ?3",
            )
            .doing(doing)?;
        let values = params![self.reader.views[self.view].id, key.as_str(), limit as i64];
        let mut rows = statement.query(values).doing(doing)?;
        let mut changes = Vec::new();
        while let Some(row) = rows.next().doing(doing)? {
            let (mut change, other) = read_change(row).doing(doing)?;
            if let Cause::Event { seq, row, .. } = &mut change.cause {
                *row = self.row_move(*seq, &sequences, other)?;
            }
            changes.push(change);
        }
        // Within a commit the history is in the order of keys, not of events.
        changes.sort_by_key(|change| std::cmp::Reverse((change.commit, change.seq())));
        Ok(changes)
    }

    fn row_move(&self, seq: Seq, here: &BTreeSet<Seq>, other: Option<GroupKey>) -> PortResult<RowMove> {
        Ok(match (here.contains(&seq), other) {
            (true, None) => RowMove::Here,
            (true, Some(other)) => RowMove::CameFrom(other),
            (false, None) => RowMove::Unknown,
            (false, Some(other)) if self.sequences(&other)?.contains(&seq) => RowMove::WentTo(other),
            (false, Some(other)) => RowMove::Between(other),
        })
    }
}

/// An entry, and the other group that its event touched.
fn read_change(row: &rusqlite::Row<'_>) -> rusqlite::Result<(GroupChange, Option<GroupKey>)> {
    let topic: Option<String> = row.get(2)?;
    let cause = match topic {
        None => Cause::Repair,
        Some(topic) => Cause::Event {
            at: TopicPartition { topic: topic.into(), partition: row.get(3)? },
            offset: row.get(4)?,
            seq: row.get(5)?,
            row: RowMove::Unknown,
        },
    };
    let commit = Commit(row.get::<_, i64>(0)?.unsigned_abs());
    let other: Option<String> = row.get(6)?;
    Ok((GroupChange { commit, at_ms: row.get(1)?, cause }, other.map(GroupKey::from_encoded)))
}
