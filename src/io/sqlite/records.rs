//! Dead letters, requests and the small records, as writer and readers both read them.

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::writer::SqliteWriter;
use super::{BaseSettings, Doing, connect};
use crate::ports::{PortError, PortResult};
use crate::pure::base::{
    Action, Counts, Letter, LetterState, NewLetter, ReconcileRun, ReconcileVerdict, Request, TableState,
    ViewState,
};
use crate::pure::formats::Header;
use crate::pure::formats::decimal::{base64, to_base64};
use crate::pure::group_key::GroupKey;
use crate::pure::seq::{Seq, TopicPartition};
use crate::pure::watermark::Run;

/// The seven counters of a partition, from column `first` on.
pub(super) fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<Counts> {
    let count = |index: usize| -> rusqlite::Result<u64> {
        row.get::<_, i64>(first + index).map(|n| n.unsigned_abs())
    };
    Ok(Counts {
        applied: count(0)?,
        duplicate: count(1)?,
        stale: count(2)?,
        expired: count(3)?,
        control: count(4)?,
        dead_letter: count(5)?,
        below_watermark: count(6)?,
    })
}

pub(super) fn table_state(connection: &Connection, table_id: i64) -> PortResult<TableState> {
    connection
        .prepare_cached("SELECT floor, watermark, greatest FROM driftless_tables WHERE table_id = ?1")
        .and_then(|mut statement| {
            statement.query_row([table_id], |row| {
                Ok(TableState { floor: row.get(0)?, watermark: row.get(1)?, greatest: row.get(2)? })
            })
        })
        .doing("base: read a table's watermark")
}

pub(super) fn view_state(connection: &Connection, view_id: i64) -> PortResult<ViewState> {
    let doing = "base: read a view's state";
    let text: String = connection
        .prepare_cached("SELECT state FROM driftless_views WHERE view_id = ?1")
        .and_then(|mut statement| statement.query_row([view_id], |row| row.get(0)))
        .doing(doing)?;
    serde_json::from_str(&text).map_err(|error| PortError::permanent(format!("{doing}: {error}")))
}

pub(super) fn save_view_state(writer: &SqliteWriter, view: usize, state: &ViewState) -> PortResult<()> {
    let values = params![writer.view_ids[view], serde_json::json!(state).to_string()];
    let sql = "UPDATE driftless_views SET state = ?2 WHERE view_id = ?1";
    writer.run(sql, values, "base: save a view's state").map(|_| ())
}

pub(super) fn add_reconcile(
    writer: &SqliteWriter,
    object: &str,
    run: &ReconcileRun,
    who: &str,
) -> PortResult<i64> {
    writer.run(
        "INSERT INTO driftless_reconciles
           (object, started_ms, ended_ms, version, watermark, verdict, whole, who, report)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            object,
            run.started_ms,
            run.ended_ms,
            run.version as i64,
            run.watermark,
            run.verdict.name(),
            run.whole,
            who,
            run.report.to_string()
        ],
        "base: keep a reconcile pass",
    )?;
    Ok(writer.connection.last_insert_rowid())
}

/// A reconcile pass on record.
#[derive(Clone, Debug)]
pub struct PassOnRecord {
    pub id: i64,
    pub object: String,
    pub who: String,
    pub run: ReconcileRun,
}

impl PassOnRecord {
    /// The report as it was printed, with its number and who ran it.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"id": self.id, "view": self.object, "who": self.who,
            "verdict": self.run.verdict.name(), "whole": self.run.whole, "report": self.run.report})
    }
}

/// The newest passes, of one view or of all.
pub(super) fn reconciles(
    connection: &Connection,
    object: Option<&str>,
    limit: usize,
) -> PortResult<Vec<PassOnRecord>> {
    let doing = "base: read reconcile passes";
    let mut statement = connection
        .prepare_cached(
            "SELECT reconcile_id, object, started_ms, ended_ms, version, watermark, verdict, whole, who, report
             FROM driftless_reconciles WHERE ?1 IS NULL OR object = ?1 ORDER BY reconcile_id DESC LIMIT ?2",
        )
        .doing(doing)?;
    let mut rows = statement.query(params![object, limit as i64]).doing(doing)?;
    let mut passes = Vec::new();
    while let Some(row) = rows.next().doing(doing)? {
        let read = || -> rusqlite::Result<PassOnRecord> {
            let (verdict, report): (String, String) = (row.get(6)?, row.get(9)?);
            let run = ReconcileRun {
                started_ms: row.get(2)?,
                ended_ms: row.get(3)?,
                version: row.get::<_, i64>(4)? as u64,
                watermark: row.get(5)?,
                verdict: ReconcileVerdict::from_name(&verdict),
                whole: row.get(7)?,
                report: serde_json::from_str(&report).unwrap_or_default(),
            };
            Ok(PassOnRecord { id: row.get(0)?, object: row.get(1)?, who: row.get(8)?, run })
        };
        passes.push(read().doing(doing)?);
    }
    Ok(passes)
}

pub(super) fn count_repair(
    writer: &SqliteWriter,
    object: &str,
    key: &GroupKey,
    at_ms: i64,
) -> PortResult<u64> {
    writer
        .connection
        .prepare_cached(
            "INSERT INTO driftless_repairs VALUES (?1, ?2, 1, ?3)
             ON CONFLICT (object, group_key) DO UPDATE SET times = times + 1, last_ms = excluded.last_ms
             RETURNING times",
        )
        .and_then(|mut statement| statement.query_row(params![object, key.as_str(), at_ms], |row| row.get(0)))
        .map(|times: i64| times.unsigned_abs())
        .doing("base: count a repair")
}

pub(super) fn runs(connection: &Connection, table_id: i64) -> PortResult<Vec<Run>> {
    let read = || -> rusqlite::Result<Vec<Run>> {
        connection
            .prepare("SELECT from_seq, to_seq FROM driftless_runs WHERE table_id = ?1")?
            .query_map([table_id], |row| {
                Ok(Run { from: row.get::<_, i64>(0)? as u64, to: row.get::<_, i64>(1)? as u64 })
            })?
            .collect()
    };
    read().doing("base: read seen sequences")
}

pub(super) fn holds(connection: &Connection, table_id: i64) -> PortResult<Vec<(i64, Option<Seq>)>> {
    let read = || -> rusqlite::Result<Vec<(i64, Option<Seq>)>> {
        connection
            .prepare(
                "SELECT letter_id, hold FROM driftless_dead_letters
                 WHERE state = 'open' AND partition_id IN (SELECT partition_id FROM driftless_partitions WHERE table_id = ?1)",
            )?
            .query_map([table_id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    read().doing("base: read what dead letters hold")
}

pub(super) fn add_letter(writer: &SqliteWriter, letter: &NewLetter<'_>, at_ms: i64) -> PortResult<i64> {
    writer.run(
        "INSERT INTO driftless_dead_letters (partition_id, offset, seq, reason, detail, key, value, headers, state, created_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open', ?9)",
        params![
            letter.partition,
            letter.offset,
            letter.seq,
            letter.reason,
            letter.detail,
            letter.key,
            letter.value,
            headers_text(letter.headers),
            at_ms
        ],
        "base: keep a dead letter",
    )?;
    Ok(writer.connection.last_insert_rowid())
}

/// Headers as JSON, `[["name", "base64"]]`; nothing where there are none.
fn headers_text(headers: &[Header]) -> Option<String> {
    let pair = |header: &Header| {
        let value = header.value.as_deref().map(to_base64);
        serde_json::json!([&*header.name, value])
    };
    let list: Vec<serde_json::Value> = headers.iter().map(pair).collect();
    (!list.is_empty()).then(|| serde_json::Value::Array(list).to_string())
}

fn headers_of(text: Option<String>) -> Vec<Header> {
    let pairs: Vec<(String, Option<String>)> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let header = |(name, value): (String, Option<String>)| Header {
        name: name.into(),
        value: value.and_then(|value| base64(&value)).map(Into::into),
    };
    pairs.into_iter().map(header).collect()
}

/// Which dead letters to read.
#[derive(Clone, Copy, Debug)]
pub struct LetterFilter {
    pub only: Option<i64>,
    pub open_only: bool,
    /// Those with a greater number.
    pub after: i64,
    pub limit: usize,
}

pub(super) fn letters(connection: &Connection, filter: &LetterFilter) -> PortResult<Vec<Letter>> {
    let read = || -> rusqlite::Result<Vec<Letter>> {
        connection
            .prepare_cached(
                "SELECT letter_id, l.partition_id, topic, partition, l.offset, seq, reason, detail, key, value, state,
                   created_ms, who, why, headers
                 FROM driftless_dead_letters l JOIN driftless_partitions p ON p.partition_id = l.partition_id
                 WHERE letter_id > ?1 AND (?2 IS NULL OR letter_id = ?2) AND (state = 'open' OR NOT ?3)
                 ORDER BY letter_id LIMIT ?4",
            )?
            .query_map(
                params![filter.after, filter.only, filter.open_only, filter.limit as i64],
                |row| {
                    let state: String = row.get(10)?;
                    Ok(Letter {
                        id: row.get(0)?,
                        partition: row.get(1)?,
                        at: TopicPartition {
                            topic: row.get::<_, String>(2)?.into(),
                            partition: row.get(3)?,
                        },
                        offset: row.get(4)?,
                        seq: row.get(5)?,
                        reason: row.get(6)?,
                        detail: row.get(7)?,
                        key: row.get(8)?,
                        value: row.get(9)?,
                        headers: headers_of(row.get(14)?),
                        state: match state.as_str() {
                            "open" => LetterState::Open,
                            "waived" => LetterState::Waived,
                            _ => LetterState::Retried,
                        },
                        created_ms: row.get(11)?,
                        who: row.get(12)?,
                        why: row.get(13)?,
                    })
                },
            )?
            .collect()
    };
    read().doing("base: read dead letters")
}

pub(super) fn open_requests(connection: &Connection) -> PortResult<Vec<Request>> {
    let read = || -> rusqlite::Result<Vec<(i64, String, String, String)>> {
        connection
            .prepare_cached(
                "SELECT request_id, action, who, why FROM driftless_requests WHERE state = 'open' ORDER BY request_id",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect()
    };
    read()
        .doing("base: read requests")?
        .into_iter()
        .filter_map(|(id, action, who, why)| match serde_json::from_str::<Action>(&action) {
            Ok(action) => Some(Ok(Request { id, action, who, why })),
            Err(error) => refuse_unreadable(connection, id, &error).err().map(Err),
        })
        .collect()
}

/// A request of another release: nobody here can carry it out, and it must not stand in the way.
fn refuse_unreadable(connection: &Connection, id: i64, error: &serde_json::Error) -> PortResult<()> {
    tracing::warn!(request = id, %error, "a request cannot be read; it is refused");
    let answer =
        serde_json::Value::from(format!("this release cannot read the request: {error}")).to_string();
    connection
        .execute(
            "UPDATE driftless_requests SET state = 'refused', answer = ?2 WHERE request_id = ?1",
            params![id, answer],
        )
        .map(|_| ())
        .doing("base: refuse a request")
}

/// A command's side of requests: puts one on record and looks for its answer.
pub struct RequestBox {
    connection: Connection,
}

impl RequestBox {
    pub fn open(settings: &BaseSettings) -> PortResult<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(RequestBox { connection: connect(settings, flags)? })
    }

    /// Puts a request on record, in one short transaction. Returns its number.
    pub fn put(&self, action: &Action, who: &str, why: &str, at_ms: i64) -> PortResult<i64> {
        let text = serde_json::to_string(action)
            .map_err(|error| PortError::permanent(format!("request: {error}")))?;
        self.connection
            .execute(
                "INSERT INTO driftless_requests (at_ms, who, why, action) VALUES (?1, ?2, ?3, ?4)",
                params![at_ms, who, why, text],
            )
            .doing("base: put a request on record")?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The answer to the request that was put last.
    pub fn newest_answer(&self) -> PortResult<Option<(bool, serde_json::Value)>> {
        let newest: Option<i64> = self
            .connection
            .query_row("SELECT max(request_id) FROM driftless_requests", [], |row| row.get(0))
            .doing("base: look for an answer")?;
        newest.map_or(Ok(None), |request| self.answer(request))
    }

    /// The answer, once there is one: whether it was carried out, and what was said.
    pub fn answer(&self, request: i64) -> PortResult<Option<(bool, serde_json::Value)>> {
        let found: Option<(String, Option<String>)> = self
            .connection
            .query_row(
                "SELECT state, answer FROM driftless_requests WHERE request_id = ?1",
                [request],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .doing("base: look for an answer")?;
        Ok(found.and_then(|(state, answer)| {
            let text = answer?;
            let value = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
            (state != "open").then_some((state == "done", value))
        }))
    }
}
