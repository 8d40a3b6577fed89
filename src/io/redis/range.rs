//! Long walks over a view: a slice whose keys are known beforehand is read by plain commands in one transaction, which
//! costs the server a third of what the script does. The keys are taken as they were a moment ago; where the index has
//! changed since, the script reads instead. Either way a slice is of one instant.

use redis::{Connection, RedisResult, Value};

use super::keys::ViewKeys;
use super::store::first_error_but_wrong_type;
use super::values::{fields, row_fields, sequence};
use crate::ports::RangeRead;

/// Index entries of the slice that is read next, as they were when the one before was read.
pub(super) struct Guess {
    pub bounds: Bounds,
    members: Vec<String>,
}

/// What is asked for: as `ZRANGEBYLEX` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub meta: String,
    pub from: String,
    pub to: String,
    pub limit: usize,
}

/// Reads a slice, and the keys of the one that follows. `None` is one that the guess does not fit.
pub(super) fn read(
    connection: &mut Connection,
    keys: &ViewKeys,
    bounds: &Bounds,
    guess: Option<Guess>,
) -> RedisResult<(Option<RangeRead>, Option<Guess>)> {
    let members = match guess.filter(|guess| guess.bounds == *bounds) {
        Some(guess) => guess.members,
        None => match text_members(members_command(keys, bounds).query(connection)?) {
            Some(members) => members,
            None => return Ok((None, None)),
        },
    };
    // 1. The transaction; after it, outside of it, what comes next.
    let next = members.last().filter(|_| members.len() == bounds.limit);
    let next = next.map(|last| Bounds { from: format!("({last}"), ..bounds.clone() });
    let mut pipeline = redis::Pipeline::with_capacity(5 + members.len());
    pipeline.ignore_errors();
    pipeline.cmd("MULTI");
    pipeline.cmd("HGETALL").arg(&keys.meta);
    pipeline.add_command(members_command(keys, bounds));
    for member in &members {
        pipeline.cmd("HGETALL").arg(keys.row(member));
    }
    pipeline.cmd("EXEC");
    if let Some(next) = &next {
        pipeline.add_command(members_command(keys, next));
    }
    let mut replies: Vec<Value> = pipeline.query(connection)?;
    let guess = match next {
        None => None,
        Some(bounds) => {
            let members = replies.pop().unwrap_or(Value::Nil).extract_error()?;
            text_members(members).map(|members| Guess { bounds, members })
        }
    };
    // 2. What it answered, where the index still named the same.
    let mut answers = match replies.pop() {
        // A row of another type is an error among its answers, and data here.
        Some(Value::Array(answers)) if answers.len() == 2 + members.len() => answers,
        Some(Value::ServerError(error)) => return Err(error.into()),
        _ => return Ok((None, None)),
    };
    let rows = answers.split_off(2);
    first_error_but_wrong_type(&rows)?;
    let found = text_members(answers.pop().unwrap_or(Value::Nil).extract_error()?);
    let meta = fields(answers.pop().unwrap_or(Value::Nil).extract_error()?);
    if found.as_ref() != Some(&members) {
        return Ok((None, None));
    }
    let rows: Option<Vec<_>> =
        members.into_iter().zip(rows).map(|(member, row)| Some((member, row_fields(row)?))).collect();
    Ok((meta.zip(rows).map(|(meta, rows)| RangeRead { meta, rows }), guess))
}

fn members_command(keys: &ViewKeys, bounds: &Bounds) -> redis::Cmd {
    let mut cmd = redis::cmd("ZRANGEBYLEX");
    cmd.arg(&keys.index).arg(&bounds.from).arg(&bounds.to).arg("LIMIT").arg(0).arg(bounds.limit);
    cmd
}

/// `None` where an entry is not text: the script tells which.
fn text_members(value: Value) -> Option<Vec<String>> {
    let text = |member| match member {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    };
    sequence(value)?.into_iter().map(text).collect()
}
