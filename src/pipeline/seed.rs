//! The first load: rows that the log no longer tells, in one transaction, so that a killed load leaves nothing.

use crate::ports::{BaseWriter, PortError, PortResult, RowSource, SeedRow};
use crate::pure::base::{Counts, PartitionState, TableState};
use crate::pure::catalog::Catalog;
use crate::pure::event::Image;
use crate::pure::seq::{Commit, Seq, TopicPartition};
use crate::pure::value::Value;

/// What a load stands for.
pub struct Seed {
    pub table: usize,
    /// Every change up to this one is in the rows: the table's floor and first watermark.
    pub through: Seq,
    /// Where reading goes on, for partitions that are known.
    pub positions: Vec<(TopicPartition, i64)>,
}

/// Loads rows into an empty table. Returns the commit and how many.
pub fn load(
    base: &mut dyn BaseWriter,
    catalog: &Catalog,
    seed: &Seed,
    rows: &mut dyn RowSource,
    at_ms: i64,
) -> PortResult<(Commit, u64)> {
    base.begin()?;
    let result = load_in_transaction(base, catalog, seed, rows, at_ms);
    if result.is_err() {
        base.rollback();
    }
    result
}

fn load_in_transaction(
    base: &mut dyn BaseWriter,
    catalog: &Catalog,
    seed: &Seed,
    rows: &mut dyn RowSource,
    at_ms: i64,
) -> PortResult<(Commit, u64)> {
    let shape = &catalog.tables[seed.table].shape;
    let started = base.partitions()?.iter().any(|state| state.table == seed.table);
    if started || !base.is_empty(seed.table)? || base.table_state(seed.table)?.floor.is_some() {
        return Err(PortError::permanent(format!(
            "table {} is not new: it has rows or positions",
            shape.name
        ))
        .with_hint("a first load comes before the first start: delete the base file and load again, or name a new file in base.path"));
    }
    let mut count = 0;
    rows.each(&mut |SeedRow { row, seq, place }| {
        let seq = seq.unwrap_or(seed.through);
        if seq > seed.through {
            return Err(PortError::permanent(format!(
                "{place}: its sequence {seq} is greater than --through-seq {}",
                seed.through
            ))
            .with_hint("give the greatest sequence that the file stands for"));
        }
        let image = Image::Row(row);
        let key: Vec<&Value> = (0..shape.key.len()).map(|part| image.key_part(shape, part)).collect();
        if base.stored(seed.table, &key)?.is_some() {
            let key: Vec<String> = key.iter().map(ToString::to_string).collect();
            return Err(PortError::permanent(format!(
                "{place}: the primary key ({}) occurs a second time",
                key.join(", ")
            ))
            .with_hint("each row of the table may be in the file once; nothing was loaded"));
        }
        base.store(seed.table, seq, &image, false)?;
        count += 1;
        Ok(())
    })?;
    base.mark_all(seed.table)?;
    for (at, offset) in &seed.positions {
        base.save_partition(&PartitionState {
            id: 0,
            at: at.clone(),
            table: seed.table,
            first_offset: *offset,
            next_offset: *offset,
            frontier: Some(seed.through),
            anchor: None,
            counts: Counts::default(),
        })?;
    }
    let state = TableState {
        floor: Some(seed.through),
        truncated: None,
        watermark: Some(seed.through),
        greatest: Some(seed.through),
    };
    base.save_table(seed.table, &state)?;
    Ok((base.commit(at_ms)?, count))
}
