//! The head of a base: what its newest commit is, and what it says of tables, partitions and views. Read alike by
//! snapshots and by the writer inside its transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Doing, records};
use crate::ports::PortResult;
use crate::pure::base::{Head, Position};
use crate::pure::meta::{self, Fingerprint};
use crate::pure::seq::{Commit, TopicPartition};

/// The head as this connection's transaction sees it; tables and views by their numbers in the base.
pub(super) fn read(connection: &Connection, tables: &[i64], views: &[i64]) -> PortResult<Head> {
    let doing = "base: read its head";
    let commit: Option<i64> = connection
        .prepare_cached("SELECT max(commit_no) FROM driftless_commits")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(doing)?;
    let nonce: Option<String> = connection
        .prepare_cached("SELECT nonce FROM driftless_lineage ORDER BY first_commit DESC LIMIT 1")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .doing(doing)?;
    let generation: String = connection
        .prepare_cached("SELECT value FROM driftless_facts WHERE name = 'generation'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(doing)?;
    Ok(Head {
        commit: Commit(commit.unwrap_or(0) as u64),
        nonce: nonce.unwrap_or_default(),
        generation,
        positions: positions(connection, tables)?,
        tables: tables.iter().map(|&id| records::table_state(connection, id)).collect::<PortResult<_>>()?,
        open_letters: tables.iter().map(|&id| open_letters(connection, id)).collect::<PortResult<_>>()?,
        views: views.iter().map(|&id| records::view_state(connection, id)).collect::<PortResult<_>>()?,
    })
}

fn positions(connection: &Connection, tables: &[i64]) -> PortResult<Vec<Position>> {
    let read = || -> rusqlite::Result<Vec<Position>> {
        let mut statement = connection.prepare_cached(
            "SELECT topic, partition, table_id, first_offset, next_offset,
               (SELECT min(offset) FROM driftless_dead_letters l WHERE l.partition_id = p.partition_id AND state = 'open'),
               applied, duplicate, stale, expired, control, dead_letter, below_watermark
             FROM driftless_partitions p ORDER BY topic, partition",
        )?;
        let mut rows = statement.query([])?;
        let mut positions = Vec::new();
        while let Some(row) = rows.next()? {
            let table_id: i64 = row.get(2)?;
            let Some(table) = tables.iter().position(|&id| id == table_id) else {
                continue;
            };
            let next_offset: i64 = row.get(4)?;
            positions.push(Position {
                at: TopicPartition { topic: row.get::<_, String>(0)?.into(), partition: row.get(1)? },
                table,
                first_offset: row.get(3)?,
                next_offset,
                settled: row.get::<_, Option<i64>>(5)?.unwrap_or(next_offset),
                counts: records::counts(row, 6)?,
            });
        }
        Ok(positions)
    };
    read().doing("base: read positions")
}

fn open_letters(connection: &Connection, table_id: i64) -> PortResult<u64> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM driftless_dead_letters INDEXED BY driftless_dead_letters_open
             WHERE state = 'open' AND partition_id IN (SELECT partition_id FROM driftless_partitions WHERE table_id = ?1)",
        )
        .and_then(|mut statement| statement.query_row([table_id], |row| row.get::<_, i64>(0)))
        .map(|count| count.unsigned_abs())
        .doing("base: count dead letters")
}

/// What every meta says of the tables at the present state: for each table its number and its fingerprint.
pub(super) fn fingerprints(connection: &Connection, tables: &[i64]) -> PortResult<Vec<u8>> {
    let head = Head {
        positions: positions(connection, tables)?,
        tables: tables.iter().map(|&id| records::table_state(connection, id)).collect::<PortResult<_>>()?,
        open_letters: tables.iter().map(|&id| open_letters(connection, id)).collect::<PortResult<_>>()?,
        ..Head::default()
    };
    let mut bytes = Vec::with_capacity(RECORD * tables.len());
    for (table, id) in tables.iter().enumerate() {
        bytes.extend(id.to_be_bytes());
        let Fingerprint(parts) = Fingerprint::of(&meta::of_table(&head, table));
        bytes.extend(parts.iter().flat_map(|part| part.to_be_bytes()));
    }
    Ok(bytes)
}

/// Bytes of one table: its number, and five CRC-32.
const RECORD: usize = 8 + 5 * 4;

pub(super) fn fingerprint(
    connection: &Connection,
    table_id: i64,
    commit: Commit,
) -> PortResult<Option<Fingerprint>> {
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached("SELECT told FROM driftless_commits WHERE commit_no = ?1")
        .and_then(|mut statement| statement.query_row(params![commit.0 as i64], |row| row.get(0)).optional())
        .doing("base: read what a commit told")?;
    let records = bytes.unwrap_or_default();
    let (records, _) = records.as_chunks::<RECORD>();
    let found = records.iter().find(|record| record[..8] == table_id.to_be_bytes());
    Ok(found.map(|record| {
        let (parts, _) = record[8..].as_chunks::<4>();
        let mut fingerprint = [0; 5];
        for (field, part) in fingerprint.iter_mut().zip(parts) {
            *field = u32::from_be_bytes(*part);
        }
        Fingerprint(fingerprint)
    }))
}
