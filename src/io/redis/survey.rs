//! What a reconciler asks of a view beside its rows: groups with their index entries, the view's own keys, and keys
//! that do not belong there. Reads only, and decides nothing.

use redis::{Cmd, Connection, RedisResult, Value};

use super::keys::ViewKeys;
use super::store::first_error_but_wrong_type;
use super::values::{fields, lossy, row_fields, sequence, text};
use crate::ports::{KeyScan, Meta, Outline, StoredGroup};
use crate::pure::group_key::GroupKey;

/// Keys that one step of a scan looks at, about.
const SCAN_COUNT: usize = 1_000;
/// Index entries out of place that are named at most.
const MISPLACED_MAX: usize = 1_000;

/// `None` is a reply that cannot be understood.
pub(super) fn groups(
    connection: &mut Connection,
    keys: &ViewKeys,
    asked: &[GroupKey],
) -> RedisResult<Option<(Meta, Vec<StoredGroup>)>> {
    let mut pipeline = redis::Pipeline::with_capacity(2 + asked.len());
    pipeline.atomic().ignore_errors();
    pipeline.cmd("HGETALL").arg(&keys.meta);
    // One member more, so that there is always one: no group key holds a blank.
    let scores = pipeline.cmd("ZMSCORE").arg(&keys.index).arg(" ");
    for key in asked {
        scores.arg(key.as_str());
    }
    for key in asked {
        pipeline.cmd("HGETALL").arg(keys.row(key.as_str()));
    }
    let mut replies: Vec<Value> = pipeline.query(connection)?;
    if replies.len() != 2 + asked.len() {
        return Ok(None);
    }
    let rows = replies.split_off(2);
    first_error_but_wrong_type(&rows)?;
    let scores = replies.pop().unwrap_or(Value::Nil).extract_error()?;
    let meta = replies.pop().unwrap_or(Value::Nil).extract_error()?;
    let understood = || {
        let scores = sequence(scores)?;
        let groups = rows.into_iter().zip(scores.into_iter().skip(1)).map(|(row, score)| {
            // An entry out of place is found by no range for certain.
            let indexed = text(score).is_some_and(|score| score == "0");
            Some(StoredGroup { fields: row_fields(row)?, indexed })
        });
        Some((fields(meta)?, groups.collect::<Option<Vec<_>>>()?))
    };
    Ok(understood())
}

/// `None` is a reply that cannot be understood.
pub(super) fn outline(connection: &mut Connection, keys: &ViewKeys) -> RedisResult<Option<Outline>> {
    let own = [(&keys.meta, "hash"), (&keys.index, "zset"), (&keys.changes, "stream")];
    let mut pipeline = redis::pipe();
    pipeline.atomic().ignore_errors();
    for (key, _) in own {
        pipeline.cmd("TYPE").arg(key);
        pipeline.cmd("PTTL").arg(key);
    }
    pipeline.cmd("HGETALL").arg(&keys.meta);
    pipeline.cmd("ZCARD").arg(&keys.index);
    for (from, to) in [("-inf", "(0"), ("(0", "+inf")] {
        let cmd = pipeline.cmd("ZRANGEBYSCORE").arg(&keys.index).arg(from).arg(to);
        cmd.arg("LIMIT").arg(0).arg(MISPLACED_MAX);
    }
    let replies: Vec<Value> = pipeline.query(connection)?;
    let mut replies = replies.into_iter();
    let mut outline = Outline::default();
    for (key, expected) in own {
        let Some(found) = replies.next().map(Value::extract_error).transpose()?.and_then(text) else {
            return Ok(None);
        };
        let expires = replies.next().map(Value::extract_error).transpose()?;
        if found != "none" && found != expected {
            outline.wrong_types.push((key.clone(), found));
        }
        if matches!(expires, Some(Value::Int(milliseconds)) if milliseconds >= 0) {
            outline.expiring.push(key.clone());
        }
    }
    let wrong = |key: &String| outline.wrong_types.iter().any(|(wrong, _)| wrong == key);
    let (meta_wrong, index_wrong) = (wrong(&keys.meta), wrong(&keys.index));
    let mut next = || replies.next().unwrap_or(Value::Nil);
    let meta = next();
    if !meta_wrong {
        match fields(meta.extract_error()?) {
            Some(meta) => outline.meta = meta,
            None => return Ok(None),
        }
    }
    let (count, below, above) = (next(), next(), next());
    if index_wrong {
        return Ok(Some(outline));
    }
    let Value::Int(count) = count.extract_error()? else { return Ok(None) };
    outline.index = count.unsigned_abs();
    for side in [below, above] {
        let Some(members) = sequence(side.extract_error()?) else { return Ok(None) };
        outline.misplaced.extend(members.into_iter().filter_map(text));
    }
    Ok(Some(outline))
}

/// One step over all keys that begin with the view's name.
pub(super) fn scan(connection: &mut Connection, keys: &ViewKeys, cursor: u64) -> RedisResult<KeyScan> {
    let mut ask = Cmd::new();
    ask.arg("SCAN").arg(cursor).arg("MATCH").arg(keys.pattern()).arg("COUNT").arg(SCAN_COUNT);
    let (next, found): (u64, Vec<Vec<u8>>) = ask.query(connection)?;
    let (mut rows, mut foreign) = (Vec::new(), Vec::new());
    for key in found {
        let own = [&keys.meta, &keys.index, &keys.changes].iter().any(|own| own.as_bytes() == key);
        // A row's name that is not text is none that driftless could have written, or could remove.
        match keys.group_of(&key).map(std::str::from_utf8) {
            Some(Ok(_)) => rows.push(key),
            _ if own => {}
            _ => foreign.push(lossy(key)),
        }
    }
    let suspects = without_entry(connection, keys, rows, false)?;
    // A row may have come or gone with its entry between the two commands: the few suspects are looked at once
    // more, row and entry in one step.
    let strays = without_entry(connection, keys, suspects, true)?;
    let members = strays.iter().filter_map(|row| keys.group_of(row));
    Ok(KeyScan { next, strays: members.map(|member| lossy(member.to_vec())).collect(), foreign })
}

/// The row keys that have no index entry; with `existing`, of those that exist at that moment.
fn without_entry(
    connection: &mut Connection,
    keys: &ViewKeys,
    rows: Vec<Vec<u8>>,
    existing: bool,
) -> RedisResult<Vec<Vec<u8>>> {
    let members: Vec<&[u8]> = rows.iter().filter_map(|row| keys.group_of(row)).collect();
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = redis::pipe();
    pipeline.atomic().cmd("ZMSCORE").arg(&keys.index).arg(&members);
    if existing {
        for row in &rows {
            pipeline.cmd("EXISTS").arg(row);
        }
    }
    let mut replies: Vec<Value> = pipeline.query(connection)?;
    let exist = replies.split_off(1.min(replies.len()));
    let scores = replies.pop().and_then(sequence).unwrap_or_default();
    Ok(rows
        .iter()
        .zip(scores)
        .enumerate()
        .filter(|(at, (_, score))| {
            *score == Value::Nil && (!existing || exist.get(*at) == Some(&Value::Int(1)))
        })
        .map(|(_, (row, _))| row.clone())
        .collect())
}
