//! Which published groups can hold an answer: their keys by name, or a range of the index. Must not know how either
//! is read.

use super::Query;
use crate::pure::contract::View;
use crate::pure::group_key::GroupKey;
use crate::pure::schema::ColumnType;
use crate::pure::value::Value;

/// Groups named one by one at most: what one atomic read takes.
pub const KEYS_MAX: usize = 1_000;

/// Where the groups of an answer are; a range may hold others too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    Named(Vec<GroupKey>),
    /// Entries of the index behind `after` and up to `through`, which is one of them.
    Range {
        after: Option<String>,
        through: Option<String>,
    },
}

impl Keys {
    /// For a question about columns of the grain alone.
    pub fn of(query: &Query, view: &View) -> Self {
        match named(query, view) {
            Some(keys) => Keys::Named(keys),
            None => range(query, view),
        }
    }
}

/// All keys, where the conditions name every value of every dimension, and are not too many.
fn named(query: &Query, view: &View) -> Option<Vec<GroupKey>> {
    let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
    for dimension in &view.grain {
        let values = query.values(dimension.column)?;
        if combinations.len().saturating_mul(values.len()) > KEYS_MAX {
            return None;
        }
        combinations = combinations
            .iter()
            .flat_map(|parts| {
                values.iter().map(|value| parts.iter().chain([value]).cloned().collect::<Vec<_>>())
            })
            .collect();
    }
    Some(combinations.iter().map(|parts| GroupKey::encode(parts)).collect())
}

/// The narrowest stretch of the index that holds every group asked for. The order of encoded keys is that of values
/// only in days, so a range goes as far as leading dimensions have one value, and one day further.
fn range(query: &Query, view: &View) -> Keys {
    let mut prefix = String::new();
    let mut rest = view.grain.iter().peekable();
    while let Some(dimension) = rest.peek() {
        match query.values(dimension.column).as_deref() {
            // Some other dimension has not, or the keys would have been named.
            Some([value]) => {
                prefix.push_str(GroupKey::encode(std::slice::from_ref(value)).as_str());
                prefix.push(':');
                rest.next();
            }
            _ => break,
        }
    }
    let day = rest.peek().filter(|dimension| dimension.column_type == ColumnType::Date);
    let bound = |value: Option<&Value>| match value {
        Some(Value::Text(day)) => Some(format!("{prefix}{day}")),
        _ => None,
    };
    let least = day.and_then(|day| bound(query.least(day.column)));
    let greatest = day.and_then(|day| bound(query.greatest(day.column)));
    let start = least.or_else(|| (!prefix.is_empty()).then(|| prefix.clone()));
    // The character behind `:` ends everything that begins with the text before it.
    let end = greatest
        .map(|day| format!("{day};"))
        .or_else(|| prefix.strip_suffix(':').map(|parts| format!("{parts};")));
    Keys::Range { after: start.as_deref().and_then(just_below), through: end }
}

/// A text below `text` with as good as nothing between them; `None` where nothing is below.
fn just_below(text: &str) -> Option<String> {
    let mut below = text.to_owned();
    let last = below.pop()?;
    if last.is_ascii() && last > '\0' {
        below.push(char::from(last as u8 - 1));
        below.push(char::MAX);
    }
    // Otherwise the text without its last character: not close, and still below.
    Some(below)
}
