//! Applies the changes of one table inside a transaction: each key is read once and written once, whatever
//! the number of its events in the batch. Marks every group that a row left or entered (P3).

use std::collections::BTreeSet;

use crate::pipeline::read::Message;
use crate::ports::{BaseWriter, Change, ChangeEvent, PortResult};
use crate::pure::apply::{Verdict, judge};
use crate::pure::base::NewLetter;
use crate::pure::catalog::Catalog;
use crate::pure::contract::View;
use crate::pure::event::{Class, Image, Reason};
use crate::pure::group_key::GroupKey;
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// One change of the table being folded.
#[derive(Clone, Copy, Debug)]
pub struct TableChange<'a> {
    pub slot: usize,
    pub partition: i64,
    pub offset: i64,
    pub seq: Seq,
    pub image: &'a Image,
    pub message: &'a Message,
    /// Read once more: its offset has been counted before.
    pub again: bool,
}

impl<'a> TableChange<'a> {
    /// The dead letter of an event that contradicts the stored one of the same sequence.
    pub fn conflict(&self) -> NewLetter<'a> {
        NewLetter {
            partition: self.partition,
            offset: self.offset,
            seq: Some(self.seq),
            reason: Reason::Conflict.code(),
            detail: "the base holds another content under this key and sequence; the first one stays",
            key: self.message.key.as_deref(),
            value: self.message.value.as_deref(),
        }
    }
}

/// What became of the changes.
#[derive(Debug, Default)]
pub struct Fold<'a> {
    /// Each change that is no dead letter, with its class.
    pub classes: Vec<(Class, TableChange<'a>)>,
    pub conflicts: Vec<TableChange<'a>>,
}

impl<'a> Fold<'a> {
    /// Applies `changes`, which are in the order of arrival and are sorted by key here.
    pub fn run(
        base: &mut dyn BaseWriter,
        catalog: &Catalog,
        table: usize,
        floor: Option<Seq>,
        changes: &mut [TableChange<'a>],
    ) -> PortResult<Self> {
        let shape = &catalog.tables[table].shape;
        changes.sort_by(|a, b| a.image.compare_keys(b.image, shape));
        let mut fold = Fold::default();
        let mut marks: BTreeSet<(usize, GroupKey)> = BTreeSet::new();
        for same_key in changes.chunk_by(|a, b| a.image.compare_keys(b.image, shape).is_eq()) {
            fold.one_key(base, catalog, table, floor, same_key, &mut marks)?;
        }
        for (view, key) in &marks {
            base.mark(*view, key)?;
        }
        Ok(fold)
    }

    fn one_key(
        &mut self,
        base: &mut dyn BaseWriter,
        catalog: &Catalog,
        table: usize,
        floor: Option<Seq>,
        changes: &[TableChange<'a>],
        marks: &mut BTreeSet<(usize, GroupKey)>,
    ) -> PortResult<()> {
        let shape = &catalog.tables[table].shape;
        let key: Vec<_> = (0..shape.key.len()).map(|part| changes[0].image.key_part(shape, part)).collect();
        let stored = base.stored(table, &key)?;
        let mut latest = stored.as_ref().map(|stored| (stored.seq, &stored.image));
        let mut changed = false;
        for change in changes {
            let class = match judge(floor, latest, change.seq, change.image) {
                Verdict::Apply => {
                    let before = latest.and_then(|(_, image)| image.row());
                    for (view, entry) in catalog.views_of(table) {
                        for key in touched_groups(&entry.view, before, change.image.row()) {
                            let TableChange { partition, offset, seq, .. } = *change;
                            let event = Some(ChangeEvent { partition, offset, seq });
                            base.append_change(&Change { view, key: &key, event })?;
                            marks.insert((view, key));
                        }
                    }
                    latest = Some((change.seq, change.image));
                    changed = true;
                    Class::Applied
                }
                Verdict::Duplicate => Class::Duplicate,
                Verdict::Stale => Class::Stale,
                Verdict::Conflict => {
                    self.conflicts.push(*change);
                    continue;
                }
            };
            self.classes.push((class, *change));
        }
        if let Some((seq, image)) = latest.filter(|_| changed) {
            base.store(table, seq, image, stored.is_some())?;
        }
        Ok(())
    }
}

/// The group that a row leaves and the one that it enters, once where they are the same (P3).
fn touched_groups(
    view: &View,
    before: Option<&[Value]>,
    after: Option<&[Value]>,
) -> impl Iterator<Item = GroupKey> {
    let stays = before.zip(after).is_some_and(|(before, after)| {
        view.grain.iter().all(|dimension| before[dimension.column] == after[dimension.column])
    });
    let left = before.filter(|_| !stays).map(|row| view.group_key(row));
    let entered = after.map(|row| view.group_key(row));
    left.into_iter().chain(entered)
}
