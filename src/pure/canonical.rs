//! JSON in one form only, so that a hash of it means something: canonical writing, strict reading, sha256.
//! Must not know what a document is about.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The value as canonical JSON: keys of every object sorted by code point, no white space, ASCII only.
pub fn canonical_json(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write_value(value, &mut out);
    // Everything written is ASCII.
    String::from_utf8(out).unwrap_or_default()
}

/// sha256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => write_object(fields, out),
    }
}

fn write_object(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    // The order of UTF-8 bytes is that of code points.
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    out.push(b'{');
    for (position, (name, value)) in sorted.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_text(name, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

/// Appends a JSON string in ASCII: short escapes where JSON has them, `\uXXXX` in lower-case hex for all else
/// outside U+0020..U+007E, surrogate pairs beyond U+FFFF.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let plain = |byte: u8| (0x20..0x7F).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.extend_from_slice(text.as_bytes());
    } else {
        text.chars().for_each(|character| write_character(character, out));
    }
    out.push(b'"');
}

fn write_character(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        // Within U+0020..U+007E a character is its byte.
        ' '..='~' => out.push(character as u8),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(b"\\u");
                for shift in [12, 8, 4, 0] {
                    out.push(HEX[usize::from(*unit >> shift & 15)]);
                }
            }
        }
    }
}

/// Reads a JSON document of which every byte counts: a key given twice, or a number that is no integer of
/// 64 bits, is an error that names the place. Object keys keep their order.
pub fn parse_strict(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { path: "" }.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| error.to_string())
}

/// Builds the value found at `path`, which is empty for the document itself.
#[derive(Clone, Copy)]
struct Strict<'a> {
    path: &'a str,
}

impl Strict<'_> {
    fn inside(self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Err(E::custom(format!(
            "{}: {number} is no integer of 64 bits; write other numbers as text",
            self.path
        )))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = self.inside(&list.len().to_string());
            match items.next_element_seed(Strict { path: &path })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let path = self.inside(&name);
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("{path}: this key is given twice")));
            }
            let value = entries.next_value_seed(Strict { path: &path })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_form_follows_the_rules() {
        let document = r#"{ "b": [1, -2, null, true, {"z": 1, "a": []}], "é": "\u0001\u007f\"\\\/\n\r\t\b\f", "B": "😀" }"#;
        let value = parse_strict(document).unwrap();
        assert_eq!(
            canonical_json(&value),
            r#"{"B":"\ud83d\ude00","b":[1,-2,null,true,{"a":[],"z":1}],"\u00e9":"\u0001\u007f\"\\/\n\r\t\b\f"}"#
        );
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn code_point_order_is_not_utf16_order() {
        let value = parse_strict(r#"{"\ud83d\ude00":1,"\uffee":2}"#).unwrap();
        assert_eq!(canonical_json(&value), r#"{"\uffee":2,"\ud83d\ude00":1}"#);
    }

    #[test]
    fn integers_stay_integers() {
        let text = "[9223372036854775807,-9223372036854775808,18446744073709551615,9007199254740993]";
        assert_eq!(canonical_json(&parse_strict(text).unwrap()), text);
    }

    #[test]
    fn what_has_no_single_meaning_is_refused_with_its_place() {
        for (text, place) in [
            (r#"{"a":{"b":1,"c":2,"b":1}}"#, "a.b: this key is given twice"),
            (r#"{"a":1,"\u0061":1}"#, "a: this key is given twice"),
            (r#"{"a":[0,{"rate":1.5}]}"#, "a.1.rate: 1.5 is no integer"),
            (r#"{"a":18446744073709551616}"#, "a: 18446744073709552000 is no integer"),
            (r#"{"a":1} {"#, "trailing characters"),
            ("", "EOF"),
            (r#"{"a":"\ud800"}"#, "escape"),
        ] {
            let error = parse_strict(text).unwrap_err();
            assert!(error.contains(place), "{error}");
        }
    }

    proptest! {
        #[test]
        fn canonical_text_is_ascii_and_reads_back(text in any::<String>()) {
            let value = Value::String(text);
            let written = canonical_json(&value);
            prop_assert!(written.bytes().all(|byte| (0x20..0x7F).contains(&byte)));
            prop_assert_eq!(parse_strict(&written).unwrap(), value);
        }
    }
}
