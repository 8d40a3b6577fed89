//! The names of a view's keys in Redis, built here and nowhere else. Knows nothing of what the keys hold.

use crate::ports::{PortError, PortResult};

/// The prefix that all keys of this installation begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    prefix: Box<str>,
}

/// The keys of one view. They share the hash tag `{object}`, so they live in one slot of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewKeys {
    /// Hash: what the view says of itself, `<prefix>{object}`.
    pub meta: String,
    /// Sorted set with score 0: the encoded group keys.
    pub index: String,
    /// Stream, capped: one entry a publish.
    pub changes: String,
    row_prefix: String,
}

impl KeySpace {
    /// Braces in the prefix would take the place of the hash tag, so they are refused.
    pub fn new(prefix: &str) -> PortResult<Self> {
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return Err(PortError::permanent(format!(
                "the Redis key prefix '{prefix}' cannot be used: it is empty or holds a brace"
            ))
            .with_hint("choose a short word such as 'driftless' as the Redis key prefix"));
        }
        Ok(KeySpace { prefix: prefix.into() })
    }

    pub fn view(&self, object: &str) -> PortResult<ViewKeys> {
        if object.is_empty() || object.contains(['{', '}']) {
            return Err(PortError::permanent(format!(
                "a view cannot be named '{object}' in Redis: the name is empty or holds a brace"
            ))
            .with_hint("use letters, digits, '_' and '-' in the contract's \"object\""));
        }
        let meta = format!("{}:{{{object}}}", self.prefix);
        Ok(ViewKeys {
            index: format!("{meta}:index"),
            changes: format!("{meta}:changes"),
            row_prefix: format!("{meta}:row:"),
            meta,
        })
    }
}

impl ViewKeys {
    /// The key of a group's row.
    pub fn row(&self, encoded: &str) -> String {
        let mut key = String::with_capacity(self.row_prefix.len() + encoded.len());
        key.push_str(&self.row_prefix);
        key.push_str(encoded);
        key
    }

    /// The encoded group key within a row's key.
    pub fn group_of<'a>(&self, row: &'a [u8]) -> Option<&'a [u8]> {
        row.strip_prefix(self.row_prefix.as_bytes())
    }

    /// A pattern for `SCAN` that matches the rows of this view and nothing else.
    pub fn rows_pattern(&self) -> String {
        literally(&self.row_prefix)
    }

    /// A pattern for `SCAN` that matches every key whose name begins with this view's.
    pub fn pattern(&self) -> String {
        literally(&self.meta)
    }
}

/// The pattern of all that begins with this text.
fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(prefix: &str, object: &str) -> ViewKeys {
        KeySpace::new(prefix).unwrap().view(object).unwrap()
    }

    #[test]
    fn the_documented_layout() {
        let keys = view("driftless", "agg_daily_product");
        assert_eq!(keys.meta, "driftless:{agg_daily_product}");
        assert_eq!(keys.index, "driftless:{agg_daily_product}:index");
        assert_eq!(keys.changes, "driftless:{agg_daily_product}:changes");
        let row = keys.row("2026-09-22:P100");
        assert_eq!(row, "driftless:{agg_daily_product}:row:2026-09-22:P100");
        assert_eq!(keys.group_of(row.as_bytes()).unwrap(), b"2026-09-22:P100");
        assert_eq!(keys.group_of(keys.index.as_bytes()), None);
    }

    #[test]
    fn the_keys_of_a_view_share_one_slot() {
        let keys = view("a:b", "agg");
        let slots = [slot(&keys.meta), slot(&keys.index), slot(&keys.changes), slot(&keys.row("x:y"))];
        assert_eq!(slots, [slot("agg"); 4]);
        assert_eq!(slot("123456789"), 12739, "the value of the Redis cluster specification");
    }

    #[test]
    fn glob_characters_of_the_prefix_are_taken_literally() {
        assert_eq!(view(r"a*b?[c]\", "v").rows_pattern(), r"a\*b\?\[c\]\\:{v}:row:*");
    }

    #[test]
    fn names_that_would_break_the_hash_tag_are_refused() {
        for prefix in ["", "a{b", "a}b"] {
            assert!(KeySpace::new(prefix).is_err(), "{prefix}");
        }
        for object in ["", "a{b", "a}b"] {
            assert!(KeySpace::new("p").unwrap().view(object).is_err(), "{object}");
        }
    }

    /// Slot of a key by the Redis cluster specification: CRC16 (XMODEM) of the hash tag, modulo 16384.
    fn slot(key: &str) -> u16 {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
        let crc = tag.bytes().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            })
        });
        crc % 16_384
    }
}
