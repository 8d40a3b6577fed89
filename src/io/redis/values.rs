//! Replies of Redis as the port's types. Bytes that are not UTF-8 can only be somebody else's; they become U+FFFD,
//! so that they are seen to differ.

use redis::Value;

use crate::ports::StoredFields;

/// What a row holds, for the reader, where somebody else's key is in its place.
pub(super) const WRONG_TYPE_FIELD: (&str, &str) = ("_error", "wrongtype");

pub(super) fn sequence(value: Value) -> Option<Vec<Value>> {
    value.into_sequence().ok()
}

pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(lossy(bytes)),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK".to_owned()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A flat list of field, value, field, value.
pub(super) fn fields(value: Value) -> Option<StoredFields> {
    let mut flat = sequence(value)?.into_iter();
    let mut fields = StoredFields::new();
    while let Some(field) = flat.next() {
        fields.insert(text(field)?, text(flat.next()?)?);
    }
    Some(fields)
}

/// The fields of a row as `HGETALL` answered in a transaction; a key of another type is data here, not an error.
pub(super) fn row_fields(value: Value) -> Option<StoredFields> {
    match value {
        Value::ServerError(error) if error.code() == "WRONGTYPE" => {
            let (field, what) = WRONG_TYPE_FIELD;
            Some(StoredFields::from([(field.to_owned(), what.to_owned())]))
        }
        value => fields(value),
    }
}
