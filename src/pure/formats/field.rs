//! How one column of the base is read out of one value of a message. Judges a single value; knows no message
//! around it.

use std::sync::Arc;

use crate::pure::event::{Mistake, Reason};
use crate::pure::formats::decimal;
use crate::pure::formats::json::{Json, Kind, Object};
use crate::pure::formats::time::{self, Unit, Zone};
use crate::pure::schema::{Column, ColumnType, Table, is_date};
use crate::pure::value::Value;

/// A column of the base and where a message has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in the message.
    pub source: Arc<str>,
    pub encoding: Encoding,
}

/// How a value of the message is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoding {
    /// As the column is: a whole number, text, a date as text.
    Plain,
    /// Text, a number's digits or a truth value's name.
    Text,
    /// True and false as 1 and 0.
    Bool,
    /// A decimal number as number or text, or as a struct of scale and bytes; the column counts its units of ten
    /// to the minus `scale`.
    Decimal { scale: u32 },
    /// The same as base64 of a two's complement number, whose own scale is `bytes_scale`.
    DecimalBytes { bytes_scale: i64, scale: u32 },
    /// Days after 1970-01-01.
    Days,
    /// Ticks after 1970-01-01T00:00; an instant with a zone, a wall clock's time without one.
    Ticks { unit: Unit, zone: Option<Zone> },
    /// A date, a wall clock's time or an instant as text.
    Iso { zone: Zone },
    /// Of a type that the message names and the column cannot hold.
    Unreadable(Arc<str>),
}

impl Encoding {
    /// Whether a column of this type can be read so.
    pub fn fits(&self, column_type: ColumnType) -> bool {
        match self {
            Encoding::Plain => true,
            Encoding::Text => column_type == ColumnType::Text,
            Encoding::Bool | Encoding::Decimal { .. } | Encoding::DecimalBytes { .. } => {
                column_type == ColumnType::Integer
            }
            Encoding::Days | Encoding::Ticks { .. } | Encoding::Iso { .. } => column_type == ColumnType::Date,
            Encoding::Unreadable(_) => false,
        }
    }
}

/// The columns of a table as a format's messages have them.
pub fn read_row(table: &Table, fields: &[Field], from: &Object<'_>) -> Result<Vec<Value>, Mistake> {
    let read = |(column, field): (&Column, &Field)| read_named(column, field, from);
    table.columns.iter().zip(fields).map(read).collect()
}

/// The primary key alone, in key order.
pub fn read_key(table: &Table, fields: &[Field], from: &Object<'_>) -> Result<Vec<Value>, Mistake> {
    table.key.iter().map(|&column| read_named(&table.columns[column], &fields[column], from)).collect()
}

/// Whether the object has every column of the primary key.
pub fn has_key(table: &Table, fields: &[Field], object: &Object<'_>) -> bool {
    table.key.iter().all(|&column| object.has(&fields[column].source))
}

fn read_named(column: &Column, field: &Field, from: &Object<'_>) -> Result<Value, Mistake> {
    match from.get(&field.source)? {
        Some(json) => read(column, &field.encoding, json),
        None => Err(missing(column, field)),
    }
}

/// A column that the message does not have.
pub fn missing(column: &Column, field: &Field) -> Mistake {
    let renamed = if column.name == field.source { String::new() } else { format!(", for {}", column.name) };
    (Reason::MissingColumn, format!("column {}{renamed} is missing", field.source))
}

/// A value of the message as the column's.
pub fn read(column: &Column, encoding: &Encoding, json: Json<'_>) -> Result<Value, Mistake> {
    let name = &column.name;
    if json.is_null() {
        return match column.nullable {
            true => Ok(Value::Null),
            false => Err((Reason::NullNotAllowed, format!("{name} is null, the table does not allow that"))),
        };
    }
    read_some(column, encoding, json).map_err(|(reason, detail)| (reason, format!("{name}: {detail}")))
}

fn read_some(column: &Column, encoding: &Encoding, json: Json<'_>) -> Result<Value, Mistake> {
    let day = |day: String| Value::text(day);
    let kind = json.kind()?;
    match (encoding, kind) {
        (Encoding::Plain, kind) => plain(column.column_type, kind),
        (Encoding::Text, Kind::Text(text)) => checked_text(&text),
        (Encoding::Text, Kind::Number(text)) => Ok(Value::text(text)),
        (Encoding::Text, Kind::Bool(yes)) => Ok(Value::text(if yes { "true" } else { "false" })),
        (Encoding::Bool, kind) => truth(&kind).map(|yes| Value::Integer(yes.into())),
        (Encoding::Decimal { scale }, Kind::Number(text)) => {
            decimal::of_text(text, *scale).map(Value::Integer)
        }
        (Encoding::Decimal { scale }, Kind::Text(text)) => {
            decimal::of_text(&text, *scale).map(Value::Integer)
        }
        (Encoding::Decimal { scale }, Kind::Object) => variable_scale(json, *scale).map(Value::Integer),
        (Encoding::DecimalBytes { bytes_scale, scale }, Kind::Text(text)) => {
            let bytes = decimal::base64(&text)
                .ok_or_else(|| (Reason::WrongType, format!("{text:?} is no base64")))?;
            decimal::of_bytes(&bytes, *bytes_scale, *scale).map(Value::Integer)
        }
        (Encoding::Days, Kind::Number(text)) => time::of_days(whole(text)?).map(day),
        (Encoding::Ticks { unit, zone }, Kind::Number(text)) => {
            time::of_ticks(whole(text)?, *unit, zone.as_ref()).map(day)
        }
        (Encoding::Iso { zone }, Kind::Text(text)) => time::of_text(&text, zone).map(day),
        (Encoding::Unreadable(told), _) => Err((
            Reason::WrongType,
            format!("the message's schema says {told}, which the column cannot hold"),
        )),
        (encoding, kind) => {
            let wanted = match encoding {
                Encoding::Text => "text, a number or a truth value",
                Encoding::Decimal { .. } => "a decimal number",
                Encoding::DecimalBytes { .. } => "a decimal number as base64",
                Encoding::Days => "a number of days",
                Encoding::Ticks { .. } => "a number of seconds or parts of one",
                _ => "text",
            };
            Err((Reason::WrongType, format!("it is {}, it must be {wanted}", shown(&kind))))
        }
    }
}

/// A value of the column's own kind, as in the native format.
fn plain(column_type: ColumnType, kind: Kind<'_>) -> Result<Value, Mistake> {
    match (column_type, kind) {
        (ColumnType::Integer, Kind::Number(text)) => whole(text).map(Value::Integer),
        (ColumnType::Text, Kind::Text(text)) => checked_text(&text),
        (ColumnType::Date, Kind::Text(text)) if is_date(&text) => Ok(Value::Text(text.into())),
        (ColumnType::Date, Kind::Text(text)) => Err((
            Reason::NotADate,
            format!("{text:?} is no date YYYY-MM-DD; a time is read with as = \"iso\""),
        )),
        (column_type, kind) => {
            let (wanted, other) = match column_type {
                ColumnType::Integer => ("a whole number", "decimal, decimal_bytes or bool"),
                ColumnType::Text => ("text", "text"),
                ColumnType::Date => {
                    ("a date as text", "days, seconds, millis, micros, nanos or their local_ forms")
                }
            };
            let detail = format!("it is {}, it must be {wanted}; as = … reads {other}", shown(&kind));
            Err((Reason::WrongType, detail))
        }
    }
}

/// C interfaces cut text at U+0000, and a cut key would be another key.
fn checked_text(text: &str) -> Result<Value, Mistake> {
    if text.as_bytes().contains(&0) {
        return Err((Reason::NulInText, "it holds the character U+0000".to_owned()));
    }
    Ok(Value::text(text))
}

/// A whole number however it is written (`1e3`, `2.0`).
fn whole(text: &str) -> Result<i64, Mistake> {
    decimal::of_text(text, 0).map_err(|(reason, detail)| match reason {
        Reason::NotExact => (Reason::WrongType, format!("it is {text}, it must be a whole number")),
        reason => (reason, detail),
    })
}

fn truth(kind: &Kind<'_>) -> Result<bool, Mistake> {
    match kind {
        Kind::Bool(yes) => Ok(*yes),
        Kind::Number("0") => Ok(false),
        Kind::Number("1") => Ok(true),
        Kind::Text(text) => match &**text {
            "true" | "t" | "1" => Ok(true),
            "false" | "f" | "0" => Ok(false),
            _ => Err((Reason::WrongType, format!("{text:?} is neither true nor false"))),
        },
        other => Err((Reason::WrongType, format!("it is {}, it must be true or false", shown(other)))),
    }
}

/// `{"scale": 2, "value": "BBo="}`: a decimal number that brings its own scale.
fn variable_scale(json: Json<'_>, scale: u32) -> Result<i64, Mistake> {
    let parts = json.object("a decimal number")?;
    let field = |name: &str| {
        let missing = || (Reason::MissingField, format!("a decimal number without {name}"));
        parts.some(name)?.ok_or_else(missing)
    };
    let bytes_scale = whole(field("scale")?.raw())?;
    let text = field("value")?.as_text("value")?.unwrap_or_default();
    let bytes =
        decimal::base64(&text).ok_or_else(|| (Reason::WrongType, format!("{text:?} is no base64")))?;
    decimal::of_bytes(&bytes, bytes_scale, scale)
}

fn shown(kind: &Kind<'_>) -> String {
    match kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool(yes) => yes.to_string(),
        Kind::Number(text) => (*text).to_owned(),
        Kind::Text(text) if text.len() <= 40 => format!("the text {text:?}"),
        Kind::Text(_) => "a text".to_owned(),
        Kind::Object => "an object".to_owned(),
        Kind::Array => "an array".to_owned(),
    }
}
