//! Applies the changes of one table inside a transaction: each key is read once and written once, whatever
//! the number of its events in the batch. Marks every group that a row left or entered (P3).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::pipeline::read::{Item, Message, What};
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
    /// Columns of the image that the stored row has.
    pub kept: &'a [usize],
    /// Whether its message tells other changes too.
    pub several: bool,
    pub message: &'a Message,
    /// Read once more: its offset has been counted before.
    pub again: bool,
}

impl<'a> TableChange<'a> {
    /// The changes that an item tells; none where it is something else.
    pub fn all_of(item: &'a Item, partition: i64, again: bool) -> impl Iterator<Item = TableChange<'a>> {
        let (one, several, message) = match &item.what {
            What::Change { seq, image, message } => (Some((*seq, image)), &[][..], Some(message)),
            What::Changes { changes, message } => (None, &changes[..], Some(message)),
            _ => (None, &[][..], None),
        };
        let several_told = several.len() > 1;
        let one = one.into_iter().map(|(seq, image)| (seq, image, &[][..]));
        let told = several.iter().map(|change| (change.seq, &change.image, &change.kept[..]));
        one.chain(told).zip(std::iter::repeat(message)).filter_map(move |((seq, image, kept), message)| {
            let (slot, offset, several) = (item.slot, item.offset, several_told);
            Some(TableChange { slot, partition, offset, seq, image, kept, several, message: message?, again })
        })
    }
}

/// A change that cannot be applied to what the base holds.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    pub change: TableChange<'a>,
    reason: Reason,
}

impl<'a> Refused<'a> {
    pub fn letter(&self) -> NewLetter<'a> {
        let TableChange { partition, offset, seq, message, .. } = self.change;
        let detail = match self.reason {
            Reason::NoStoredRow => {
                "the event leaves columns as they are, and the base has no row to take them from"
            }
            _ => "the base holds another content under this key and sequence; the first one stays",
        };
        NewLetter {
            partition,
            offset,
            seq: Some(seq),
            reason: self.reason.code(),
            detail,
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            headers: &message.headers,
        }
    }
}

/// What became of one offset.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub slot: usize,
    pub class: Class,
    /// The least sequence of those of its changes that are of this class.
    pub seq: Seq,
    /// Its offset has been counted before.
    pub again: bool,
}

/// What became of the changes.
#[derive(Debug, Default)]
pub struct Fold<'a> {
    /// One of each offset that is no dead letter.
    pub outcomes: Vec<Outcome>,
    /// One of each offset that is one.
    pub refused: Vec<Refused<'a>>,
    /// The greatest sequence that was applied, of dead letters too.
    pub greatest: Option<Seq>,
    /// Offsets that tell several changes, until all of them are known.
    gathered: BTreeMap<(usize, i64), Outcome>,
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
        let gathered = std::mem::take(&mut fold.gathered);
        fold.outcomes.extend(gathered.into_values().filter(|outcome| outcome.class != Class::DeadLetter));
        Ok(fold)
    }

    /// Counts a change, or what it adds to the class of its offset.
    fn note(&mut self, change: &TableChange<'a>, class: Class) {
        let outcome = Outcome { slot: change.slot, class, seq: change.seq, again: change.again };
        if class == Class::Applied {
            self.greatest = self.greatest.max(Some(change.seq));
        }
        if !change.several {
            self.outcomes.push(outcome);
            return;
        }
        let known = self.gathered.entry((change.slot, change.offset)).or_insert(outcome);
        if known.class == class {
            known.seq = known.seq.min(change.seq);
        } else if known.class.together(class) == class {
            *known = outcome;
        }
    }

    /// Keeps the first change of an offset that cannot be applied.
    fn refuse(&mut self, change: &TableChange<'a>, reason: Reason) {
        if change.several {
            let known = self.gathered.get(&(change.slot, change.offset));
            if known.is_some_and(|known| known.class == Class::DeadLetter) {
                return;
            }
            self.note(change, Class::DeadLetter);
        }
        self.refused.push(Refused { change: *change, reason });
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
        let mut latest = stored.as_ref().map(|stored| (stored.seq, Cow::Borrowed(&stored.image)));
        let mut changed = false;
        for change in changes {
            let known = latest.as_ref().map(|(seq, image)| (*seq, &**image));
            let image = completed(change, known.map(|(_, image)| image));
            let class = match judge(floor, known, change.seq, &image) {
                Verdict::Apply
                    if !change.kept.is_empty() && known.is_none_or(|(_, known)| known.row().is_none()) =>
                {
                    self.refuse(change, Reason::NoStoredRow);
                    continue;
                }
                Verdict::Apply => {
                    let before = known.and_then(|(_, image)| image.row());
                    for (view, entry) in catalog.views_of(table) {
                        for key in touched_groups(&entry.view, before, image.row()) {
                            let TableChange { partition, offset, seq, .. } = *change;
                            let event = Some(ChangeEvent { partition, offset, seq });
                            base.append_change(&Change { view, key: &key, event })?;
                            marks.insert((view, key));
                        }
                    }
                    latest = Some((change.seq, image));
                    changed = true;
                    Class::Applied
                }
                Verdict::Duplicate => Class::Duplicate,
                Verdict::Stale => Class::Stale,
                Verdict::Conflict => {
                    self.refuse(change, Reason::Conflict);
                    continue;
                }
            };
            self.note(change, class);
        }
        if let Some((seq, image)) = latest.filter(|_| changed) {
            base.store(table, seq, &image, stored.is_some())?;
        }
        Ok(())
    }
}

/// The image of a change with what it leaves to the stored row.
fn completed<'a>(change: &TableChange<'a>, known: Option<&Image>) -> Cow<'a, Image> {
    let (Image::Row(row), Some(stored), false) =
        (change.image, known.and_then(Image::row), change.kept.is_empty())
    else {
        return Cow::Borrowed(change.image);
    };
    let mut row = row.clone();
    for &column in change.kept {
        row[column] = stored[column].clone();
    }
    Cow::Owned(Image::Row(row))
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
