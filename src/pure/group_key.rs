//! Group keys and their reversible encoding, the only place that builds or takes apart one. Knows values
//! and their types; must not know a view, a Redis key prefix, or where a key is stored.

use std::fmt;

use crate::pure::schema::ColumnType;
use crate::pure::value::Value;

/// A group key in its encoded form: parts joined by `:`, each escaped so that joining is reversible.
/// Its order is by bytes, the order of a Redis index with equal scores and of a SQLite text key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(Box<str>);

/// How null is written: no escaped text has a `%` that is not followed by two hex digits.
const NULL: &str = "%~";

const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte <= 0x20 {
        special[byte] = true;
        byte += 1;
    }
    special[0x7F] = true;
    let listed = b"%:{}*?[]^\\";
    let mut position = 0;
    while position < listed.len() {
        special[listed[position] as usize] = true;
        position += 1;
    }
    special
};

impl GroupKey {
    /// Encodes the grain values of one group, in the order of the view's grain.
    ///
    /// ```
    /// use driftless::pure::{group_key::GroupKey, value::Value};
    /// let key = GroupKey::encode(&["2026-09-22".into(), "P:1".into(), Value::Null, 7.into()]);
    /// assert_eq!(key.as_str(), "2026-09-22:P%3A1:%~:7");
    /// ```
    pub fn encode(parts: &[Value]) -> Self {
        Self::encode_all(parts)
    }

    /// Like [`encode`](Self::encode), for values that lie scattered, as in a row of the table.
    pub fn encode_all<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut text = String::with_capacity(32);
        for (position, part) in parts.into_iter().enumerate() {
            if position > 0 {
                text.push(':');
            }
            encode_part(part, &mut text);
        }
        GroupKey(text.into_boxed_str())
    }

    /// Takes a key as it is stored, without looking at it; [`decode`](Self::decode) tells whether it is one.
    pub fn from_encoded(text: impl Into<Box<str>>) -> Self {
        GroupKey(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The grain values, one a type; `None` where the text is not exactly what [`encode`](Self::encode) writes
    /// for some values of these types.
    pub fn decode(&self, types: &[ColumnType]) -> Option<Vec<Value>> {
        if types.is_empty() {
            return self.0.is_empty().then(Vec::new);
        }
        let mut parts = self.0.split(':');
        let mut values = Vec::with_capacity(types.len());
        for column_type in types {
            values.push(decode_part(parts.next()?, *column_type)?);
        }
        let complete = parts.next().is_none();
        (complete && Self::encode(&values) == *self).then_some(values)
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn encode_part(part: &Value, out: &mut String) {
    match part {
        Value::Null => out.push_str(NULL),
        Value::Integer(number) => {
            // Writing into a String cannot fail.
            let _ = fmt::Write::write_fmt(out, format_args!("{number}"));
        }
        Value::Text(text) => encode_text(text, out),
    }
}

fn encode_text(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| SPECIAL[usize::from(*byte)]) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte) if SPECIAL[usize::from(byte)] => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
            _ => out.push(character),
        }
    }
}

fn decode_part(part: &str, column_type: ColumnType) -> Option<Value> {
    if part == NULL {
        return Some(Value::Null);
    }
    match column_type {
        ColumnType::Integer => part.parse().ok().map(Value::Integer),
        ColumnType::Text | ColumnType::Date => decode_text(part).map(Value::text),
    }
}

fn decode_text(part: &str) -> Option<String> {
    if !part.contains('%') {
        return Some(part.to_owned());
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hostile_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z%:~{}*?0-9A-F\\\\\\[\\]^]{0,6}",
            any::<String>(),
            "[\\x00-\\x21\\x7f\\u{80}-\\u{a0}]{0,4}",
        ]
    }

    fn grain() -> impl Strategy<Value = (Value, Value, Value)> {
        let text = || {
            prop_oneof![
                9 => hostile_text().prop_map(Value::text),
                1 => Just(Value::Null),
            ]
        };
        let number = prop_oneof![any::<i64>().prop_map(Value::Integer), Just(Value::Null)];
        (text(), number, text())
    }

    const TYPES: [ColumnType; 3] = [ColumnType::Text, ColumnType::Integer, ColumnType::Text];

    proptest! {
        #[test]
        fn encoding_is_reversible_and_injective(first in grain(), second in grain()) {
            let first = [first.0, first.1, first.2];
            let second = [second.0, second.1, second.2];
            let key = GroupKey::encode(&first);
            prop_assert_eq!(key.decode(&TYPES), Some(first.to_vec()));
            prop_assert_eq!(first == second, key == GroupKey::encode(&second));
            let harmless = |byte: u8| byte > 0x20 && byte != 0x7F && !b"{}*?[]^\\".contains(&byte);
            prop_assert!(key.as_str().bytes().all(harmless), "{}", key);
        }

        #[test]
        fn what_decodes_is_what_encode_writes(text in "[a%:~01EFe+-]{0,9}") {
            let key = GroupKey::from_encoded(text);
            for types in [&TYPES[..], &TYPES[..1], &TYPES[1..2], &TYPES[..2]] {
                if let Some(values) = key.decode(types) {
                    prop_assert_eq!(&GroupKey::encode(&values), &key);
                }
            }
        }
    }

    #[test]
    fn layout_version_1_is_fixed() {
        let encoded = |parts: &[Value]| GroupKey::encode(parts).to_string();
        assert_eq!(encoded(&["2026-09-22".into(), "P100".into()]), "2026-09-22:P100");
        assert_eq!(encoded(&["".into()]), "");
        assert_eq!(encoded(&["".into(), "".into()]), ":");
        assert_eq!(encoded(&[Value::Null, "%~".into()]), "%~:%25~");
        assert_eq!(encoded(&[(-7).into(), "é\u{80} \u{7f}".into()]), "-7:é\u{80}%20%7F");
        assert_eq!(encoded(&[i64::MIN.into()]), "-9223372036854775808");
        assert_eq!(encoded(&["{}*?[]^\\".into()]), "%7B%7D%2A%3F%5B%5D%5E%5C");
    }

    #[test]
    fn foreign_keys_do_not_decode() {
        let decodes = |text: &str, types: &[ColumnType]| GroupKey::from_encoded(text).decode(types).is_some();
        for text in ["007", "+7", "-0", "", "7 ", "9223372036854775808", "%37", "7:"] {
            assert!(!decodes(text, &[ColumnType::Integer]), "{text}");
        }
        for text in ["%41", "%3a", "%", "%4", "%FF", "a b", "%~x", "a:b", "%+1"] {
            assert!(!decodes(text, &[ColumnType::Text]), "{text}");
        }
        assert!(!decodes("a", &[ColumnType::Text, ColumnType::Text]));
        assert!(!decodes("a", &[]));
    }
}
