//! Where an event stands in the log of its source database, as a sequence that rises in the order in which the
//! source committed and, within a row, in the order in which it changed. Knows the positions that connectors write.

use crate::pure::event::{Mistake, Reason};
use crate::pure::formats::json::{Json, Object};
use crate::pure::seq::Seq;

/// The position in a `source` block. `prefix` stands before its names where they are fields of the row.
pub fn of_source(source: &Object<'_>, prefix: &str) -> Result<Seq, Mistake> {
    let name = |name: &str| format!("{prefix}{name}");
    let connector = source.text(&name("connector"))?;
    match connector.as_deref() {
        Some("postgresql") => postgresql(source, prefix),
        Some("mysql" | "mariadb") => mysql(source, prefix),
        Some("sqlserver") => sql_server(source, prefix),
        Some(other) => Err((
            Reason::NoPosition,
            format!(
                "the positions of connector {other:?} are not known; known are postgresql, mysql, mariadb and sqlserver, and watermark = \"offsets\" needs none"
            ),
        )),
        // Without a connector the fields themselves say whose they are.
        None if source.has(&name("lsn")) => postgresql(source, prefix),
        None if source.has(&name("file")) => mysql(source, prefix),
        None if source.has(&name("commit_lsn")) => sql_server(source, prefix),
        None => Err((
            Reason::NoPosition,
            format!("{} is missing: the event cannot be ordered", name("connector")),
        )),
    }
}

fn needed<T>(found: Option<T>, name: &str) -> Result<T, Mistake> {
    found.ok_or_else(|| {
        (Reason::NoPosition, format!("source: {name} is missing: the event cannot be ordered"))
    })
}

fn is_snapshot(source: &Object<'_>, prefix: &str) -> Result<bool, Mistake> {
    Ok(match source.some(&format!("{prefix}snapshot"))? {
        None => false,
        Some(value) => !matches!(value.raw(), "false" | "\"false\"" | "\"incremental\""),
    })
}

/// Changes of transactions that overlap arrive in the order of their commits, while `lsn` is where each was
/// written; so the position is the greater of `lsn` and the last commit before it, and `lsn` orders within. Rows of
/// a snapshot stand before every change that comes after them.
fn postgresql(source: &Object<'_>, prefix: &str) -> Result<Seq, Mistake> {
    let name = format!("{prefix}lsn");
    let lsn = needed(source.number(&name)?, &name)?;
    if is_snapshot(source, prefix)? {
        return Ok(Seq { epoch: 0, position: lsn, row: 0 });
    }
    let last_commit = match source.text(&format!("{prefix}sequence"))? {
        Some(text) => last_commit(&text)?,
        None => None,
    };
    Ok(Seq { epoch: 0, position: last_commit.unwrap_or(0).max(lsn), row: lsn })
}

/// The first part of `["24023119","24023128"]`.
fn last_commit(text: &str) -> Result<Option<u64>, Mistake> {
    let wrong = || (Reason::NoPosition, format!("source: sequence is {text:?}, no pair of log positions"));
    let pair = Json::parse(text.as_bytes()).map_err(|_| wrong())?.items("sequence").map_err(|_| wrong())?;
    let first = pair.first().ok_or_else(wrong)?;
    first.as_number("sequence").map_err(|_| wrong())
}

/// The number of the log's file, the position within, and the row of an event that has several.
fn mysql(source: &Object<'_>, prefix: &str) -> Result<Seq, Mistake> {
    let (file, pos) = (format!("{prefix}file"), format!("{prefix}pos"));
    let name = needed(source.text(&file)?, &file)?;
    let position = needed(source.number(&pos)?, &pos)?;
    let row = source.number(&format!("{prefix}row"))?.unwrap_or(0);
    // A snapshot's rows stand before whatever begins at its position.
    let row = if is_snapshot(source, prefix)? { 0 } else { row.saturating_add(1) };
    Ok(Seq { epoch: binlog_number(&name)?, position, row })
}

/// 3 of `mysql-bin.000003`.
pub fn binlog_number(file: &str) -> Result<u32, Mistake> {
    let number = file.rsplit_once('.').and_then(|(_, number)| number.parse().ok());
    number.ok_or_else(|| (Reason::NoPosition, format!("{file:?} is no binary log's file name")))
}

/// Commit and change are ordered by three numbers each; the change's, and the number of the event within, fit into
/// what the commit's leave free.
fn sql_server(source: &Object<'_>, prefix: &str) -> Result<Seq, Mistake> {
    let name = format!("{prefix}commit_lsn");
    let commit = needed(source.text(&name)?, &name)?;
    let commit = log_numbers(&commit)?;
    let change = match source.text(&format!("{prefix}change_lsn"))? {
        Some(text) if &*text != "NULL" => Some(log_numbers(&text)?),
        _ => None,
    };
    let (block, slot) = (u64::from(commit.1), u64::from(commit.2));
    let Some(change) = change else {
        return Ok(Seq { epoch: commit.0, position: block << 32 | slot << 16, row: 0 });
    };
    let serial = source.number(&format!("{prefix}event_serial_no"))?.unwrap_or(0).min(u64::from(u16::MAX));
    // A transaction may have begun some log files before the one that it was committed in.
    let behind = u64::from(commit.0.saturating_sub(change.0)).min(u64::from(u16::MAX - 1));
    let position = block << 32 | slot << 16 | (u64::from(u16::MAX) - behind);
    Ok(Seq { epoch: commit.0, position, row: u64::from(change.1) << 32 | u64::from(change.2) << 16 | serial })
}

/// `00000027:00000758:0005`.
fn log_numbers(text: &str) -> Result<(u32, u32, u16), Mistake> {
    let wrong = || (Reason::NoPosition, format!("{text:?} is no log position of SQL Server"));
    let mut parts = text.split(':');
    let mut next = || u32::from_str_radix(parts.next().unwrap_or_default(), 16).map_err(|_| wrong());
    let (file, block, slot) = (next()?, next()?, next()?);
    let slot = u16::try_from(slot).map_err(|_| wrong())?;
    if parts.next().is_some() { Err(wrong()) } else { Ok((file, block, slot)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(source: &str) -> Result<Seq, Reason> {
        let object =
            Json::parse(source.as_bytes()).and_then(|json| json.object("source")).expect("an object");
        of_source(&object, "").map_err(|(reason, _)| reason)
    }

    /// Each stands before the next.
    fn assert_rising(sources: &[&str]) {
        let seqs: Vec<Seq> = sources.iter().map(|source| seq(source).expect(source)).collect();
        assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    }

    #[test]
    fn postgresql_rises_in_the_order_of_commits_where_transactions_overlap() {
        assert_rising(&[
            r#"{"connector":"postgresql","snapshot":"first","sequence":"[null,\"100\"]","lsn":100}"#,
            r#"{"connector":"postgresql","snapshot":"false","sequence":"[null,\"120\"]","lsn":120}"#,
            r#"{"connector":"postgresql","snapshot":"false","sequence":"[\"140\",\"140\"]","lsn":140}"#,
            // Written at 130, while the one before was open; committed after it.
            r#"{"connector":"postgresql","snapshot":"false","sequence":"[\"150\",\"130\"]","lsn":130}"#,
            r#"{"connector":"postgresql","snapshot":"false","sequence":"[\"150\",\"150\"]","lsn":150}"#,
            r#"{"connector":"postgresql","snapshot":"incremental","sequence":"[\"150\",\"160\"]","lsn":160}"#,
            r#"{"lsn":170}"#,
        ]);
        for source in [
            r#"{"connector":"postgresql"}"#,
            r#"{"connector":"postgresql","lsn":1,"sequence":"7"}"#,
            r#"{"connector":"postgresql","lsn":1,"sequence":"[]"}"#,
            r#"{"connector":"mongodb","ord":1}"#,
            "{}",
        ] {
            assert_eq!(seq(source), Err(Reason::NoPosition), "{source}");
        }
        assert_eq!(seq(r#"{"connector":"postgresql","lsn":-1}"#), Err(Reason::WrongType));
    }

    #[test]
    fn mysql_rises_by_file_position_and_row() {
        assert_rising(&[
            r#"{"connector":"mysql","snapshot":"true","file":"mysql-bin.000003","pos":154,"row":0}"#,
            r#"{"connector":"mysql","snapshot":"false","file":"mysql-bin.000003","pos":154,"row":0}"#,
            r#"{"connector":"mysql","snapshot":"false","file":"mysql-bin.000003","pos":154,"row":1}"#,
            r#"{"connector":"mariadb","file":"mysql-bin.000003","pos":900,"row":0}"#,
            r#"{"connector":"mysql","file":"mysql-bin.000010","pos":4,"row":0}"#,
        ]);
        assert_eq!(seq(r#"{"connector":"mysql","file":"binlog","pos":4}"#), Err(Reason::NoPosition));
    }

    #[test]
    fn sql_server_rises_by_commit_change_and_event() {
        let at = |commit: &str, change: &str, serial: u32| {
            format!(
                r#"{{"connector":"sqlserver","commit_lsn":"{commit}","change_lsn":{change},"event_serial_no":{serial}}}"#
            )
        };
        let sources = [
            at("00000027:00000758:0005", "null", 0),
            at("00000027:00000758:0005", "\"00000026:00000900:0003\"", 1),
            at("00000027:00000758:0005", "\"00000027:00000758:0003\"", 1),
            at("00000027:00000758:0005", "\"00000027:00000758:0003\"", 2),
            at("00000027:00000758:0005", "\"00000027:00000758:0004\"", 1),
            at("00000027:00000758:0006", "\"00000026:00000100:0001\"", 1),
            at("00000028:00000010:0001", "\"00000028:00000010:0000\"", 1),
        ];
        assert_rising(&sources.each_ref().map(String::as_str));
        for text in ["7", "x:y:z", "00000027:00000758", "0:0:0:0", "00000027:00000758:10000"] {
            assert_eq!(seq(&at(text, "null", 0)), Err(Reason::NoPosition), "{text}");
        }
    }
}
