//! A truncation among the changes: removes what came before it, where that is known.

use super::Ingest;
use crate::pipeline::read::{Item, Message};
use crate::ports::PortResult;
use crate::pure::event::{Class, Reason, Rejection};
use crate::pure::seq::Seq;
use crate::pure::watermark::Mode;

impl Ingest<'_> {
    /// Applies a truncation, where its place among the other changes is known; `again` for one whose offset has
    /// been counted before. Returns how many offsets that applied.
    pub(super) fn truncate(
        &mut self,
        item: &Item,
        seq: Seq,
        message: &Message,
        again: bool,
        at_ms: i64,
    ) -> PortResult<u64> {
        let (table, partition) = (self.partitions[item.slot].table, self.partitions[item.slot].id);
        let class = self.apply_truncation(table, seq)?;
        if again {
            self.count_again(|counts| match class {
                Some(class) => counts.count(class),
                None => counts.rejected += 1,
            });
            return Ok(0);
        }
        self.frontiers[table].observe(partition, seq);
        let Some(class) = class else {
            let detail =
                "offsets do not say which rows of other partitions it removed: build a new generation";
            let rejection =
                Rejection { reason: Reason::Truncated, detail: detail.to_owned(), seq: Some(seq) };
            self.keep_letter(item, &rejection, message, at_ms)?;
            return Ok(0);
        };
        self.partitions[item.slot].counts.count(class);
        Ok((class == Class::Applied).into())
    }

    /// Removes the rows below a truncation, inside the caller's transaction. Sequences of the source order it
    /// among the changes of all partitions, and what still arrives from before it is stale, as after a first load.
    /// Offsets order it where there is one partition alone; `None` where there are more.
    pub(in crate::pipeline) fn apply_truncation(
        &mut self,
        table: usize,
        seq: Seq,
    ) -> PortResult<Option<Class>> {
        if self.catalog.tables[table].mode == Mode::Offsets {
            let feeding = self.partitions.iter().filter(|state| state.table == table).count();
            if feeding > 1 {
                return Ok(None);
            }
            self.base.truncate(table, seq)?;
        } else {
            let state = &mut self.tables[table];
            if state.floor >= Some(seq) {
                return Ok(Some(if state.floor == Some(seq) { Class::Duplicate } else { Class::Stale }));
            }
            state.floor = Some(seq);
            self.base.truncate(table, seq)?;
        }
        let state = &mut self.tables[table];
        state.greatest = state.greatest.max(Some(seq));
        Ok(Some(Class::Applied))
    }
}
