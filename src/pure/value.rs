//! A column value as the base stores it. Knows its order and its JSON form; knows no table.

/// One column value. Dates are text in ISO form.
///
/// The derived order (null, integers, text by UTF-8 bytes) is SQLite's own BINARY order, which every
/// sorted output of driftless uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    Null,
    Integer(i64),
    Text(Box<str>),
}

impl Value {
    pub fn text(text: impl Into<Box<str>>) -> Self {
        Value::Text(text.into())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Integer(number) => (*number).into(),
            Value::Text(text) => text.as_ref().into(),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Integer(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Null => out.write_str("null"),
            Value::Integer(number) => write!(out, "{number}"),
            Value::Text(text) => out.write_str(text),
        }
    }
}
