//! A publish as arguments of `publish.lua`, and the script's reply as data. Sends nothing.

use redis::{Cmd, Value};

use super::keys::ViewKeys;
use super::values::{sequence, text};
use crate::ports::{PortError, PortResult};
use crate::pure::publish::{ChangeEntry, Cursor, GroupValue, Publish, PublishReply};

/// Two arguments a column have to fit on Lua's stack.
const COLUMNS_MAX: usize = 1_000;

/// Refuses what the script could not write as a whole.
pub(crate) fn check(columns: &[String], publish: &Publish) -> PortResult<()> {
    if columns.len() > COLUMNS_MAX {
        return Err(PortError::permanent(format!(
            "a view of {} measures cannot be published: {COLUMNS_MAX} is the most",
            columns.len()
        ))
        .with_hint("split the contract into several views"));
    }
    let mut keys: Vec<&str> = publish.groups.iter().map(|group| group.key.as_str()).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PortError::permanent(format!(
            "a publish names the group {} twice, which is an error in driftless",
            twice[0]
        )));
    }
    for group in &publish.groups {
        if let Some(GroupValue::Measures(values)) = &group.value
            && values.len() != columns.len()
        {
            return Err(PortError::permanent(format!(
                "a publish has {} values for the {} measures of group {}, which is an error in driftless",
                values.len(),
                columns.len(),
                group.key.as_str()
            )));
        }
    }
    Ok(())
}

/// Adds number of keys, keys and arguments as the head of `publish.lua` describes them.
pub(super) fn write_arguments(
    cmd: &mut Cmd,
    keys: &ViewKeys,
    columns: &[String],
    publish: &Publish,
    changes_max: u64,
) {
    cmd.arg(3 + publish.groups.len());
    cmd.arg(&keys.meta).arg(&keys.index).arg(&keys.changes);
    for group in &publish.groups {
        cmd.arg(keys.row(group.key.as_str()));
    }

    let expected = &publish.expected;
    cmd.arg(expected.version).arg(&expected.nonce);
    cmd.arg(&expected.token).arg(expected.part);
    cmd.arg(u8::from(publish.check_count)).arg(changes_max);
    write_change(cmd, publish.change.as_ref());

    cmd.arg(columns.len()).arg(publish.meta.len());
    cmd.arg(columns);
    for (field, value) in &publish.meta {
        cmd.arg(field).arg(value);
    }
    for group in &publish.groups {
        write_value(cmd, group.value.as_ref());
    }
}

fn write_change(cmd: &mut Cmd, change: Option<&ChangeEntry>) {
    let Some(change) = change else {
        cmd.arg("").arg("").arg("").arg("");
        return;
    };
    cmd.arg(change.version).arg(&change.watermark).arg(change.groups);
    cmd.arg(change_keys(change).unwrap_or_default());
}

/// The changed keys as a JSON array; `None` where there are too many to tell.
pub(crate) fn change_keys(change: &ChangeEntry) -> Option<String> {
    let keys: Vec<_> = change.keys.iter().map(|key| key.as_str().into()).collect();
    let told = change.groups == 0 || !keys.is_empty();
    told.then(|| serde_json::Value::Array(keys).to_string())
}

fn write_value(cmd: &mut Cmd, value: Option<&GroupValue>) {
    match value {
        None => cmd.arg("-"),
        Some(GroupValue::Overflow) => cmd.arg("!"),
        Some(GroupValue::Measures(values)) => {
            cmd.arg("+");
            for value in values {
                match value {
                    Some(number) => cmd.arg(number),
                    None => cmd.arg(""),
                };
            }
            cmd
        }
    };
}

/// What the script replied; `None` where it is no reply of this script, `Some(Err(_))` where it shows damage.
pub(super) fn parse_reply(reply: Value) -> Option<Result<PublishReply, Damage>> {
    let parts: Vec<String> = sequence(reply)?.into_iter().map(text).collect::<Option<_>>()?;
    let (name, parts) = parts.split_first()?;
    Some(Ok(match (name.as_str(), parts) {
        ("accepted", [groups]) => PublishReply::Accepted { groups: groups.parse().ok()? },
        ("cursor", [version, nonce, token, part]) => {
            let (Ok(version), Ok(part)) = (version.parse(), part.parse()) else {
                return Some(Err(Damage(format!("version '{version}', part '{part}'"))));
            };
            PublishReply::CursorDiffers(Cursor { version, nonce: nonce.clone(), token: token.clone(), part })
        }
        ("type", [key, found]) => PublishReply::WrongType { key: key.clone(), found: found.clone() },
        ("count", [index, meta]) => {
            let Ok(meta) = meta.parse() else {
                return Some(Err(Damage(format!("groups '{meta}'"))));
            };
            PublishReply::CountDiffers { index: index.parse().ok()?, meta }
        }
        _ => return None,
    }))
}

/// Fields of the meta that hold no number; nothing was written.
pub(super) struct Damage(pub(super) String);
