//! Names and scalars of a JSON message, and what a column makes of one. Judges one value at a time; knows neither
//! the event around it nor a second value.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::pure::event::{Mistake, Reason};
pub(super) use crate::pure::formats::json::Name;
use crate::pure::schema::{Column, ColumnType, is_date};
use crate::pure::seq::Seq;
use crate::pure::value::Value;

/// A scalar as JSON had it, not yet judged.
pub(super) enum Raw<'de> {
    Null,
    Integer(i64),
    OutOfRange,
    Fraction,
    Text(Cow<'de, str>),
    Other,
}

impl Raw<'_> {
    /// A whole number that a double holds exactly was meant as one (1e3); any other was not.
    fn of_double(number: f64) -> Self {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match number {
            _ if number.abs() >= EXACT => Raw::OutOfRange,
            _ if number.fract() == 0.0 => Raw::Integer(number as i64),
            _ => Raw::Fraction,
        }
    }
}

/// Judges a scalar by the column it is for.
pub(super) fn check(column: &Column, raw: Raw<'_>) -> Result<Value, Mistake> {
    let name = &column.name;
    let wrong = |found: &str| {
        let wanted = match column.column_type {
            ColumnType::Integer => "an integer",
            ColumnType::Text => "text",
            ColumnType::Date => "a date as text YYYY-MM-DD",
        };
        (Reason::WrongType, format!("{name} is {found}, it must be {wanted}"))
    };
    match (raw, column.column_type) {
        (Raw::Null, _) if column.nullable => Ok(Value::Null),
        (Raw::Null, _) => {
            Err((Reason::NullNotAllowed, format!("{name} is null, the table does not allow that")))
        }
        (Raw::Integer(number), ColumnType::Integer) => Ok(Value::Integer(number)),
        (Raw::Integer(_), _) => Err(wrong("a number")),
        (Raw::OutOfRange, _) => Err((Reason::NumberOutOfRange, format!("{name} is outside 64 bits"))),
        (Raw::Fraction, _) => Err(wrong("a fraction")),
        (Raw::Text(_), ColumnType::Integer) => Err(wrong("text")),
        (Raw::Text(text), _) if text.as_bytes().contains(&0) => {
            Err((Reason::NulInText, format!("{name} holds the character U+0000")))
        }
        (Raw::Text(text), ColumnType::Text) => Ok(Value::Text(text.into())),
        (Raw::Text(text), ColumnType::Date) if is_date(&text) => Ok(Value::Text(text.into())),
        (Raw::Text(text), ColumnType::Date) => {
            Err((Reason::NotADate, format!("{name} is {text:?}, which is no date YYYY-MM-DD")))
        }
        (Raw::Other, _) => Err(wrong("no plain value")),
    }
}

/// A JSON value as a column's value, or why it cannot be one.
pub fn column_value(column: &Column, json: &serde_json::Value) -> Result<Value, Mistake> {
    let raw = match json {
        serde_json::Value::Null => Raw::Null,
        serde_json::Value::String(text) => Raw::Text(text.as_str().into()),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Raw::Integer(number),
            (None, Some(number)) => Raw::of_double(number),
            (None, None) => Raw::OutOfRange,
        },
        _ => Raw::Other,
    };
    check(column, raw)
}

/// Reads the value after a name that means nothing here.
pub(super) fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// A visitor's answers for JSON values that are not what it is for.
macro_rules! not_for_this_visitor {
    ($answer:expr, null: $null:expr; $($method:ident: $kind:ty),*) => {
        $(fn $method<E: serde::de::Error>(self, _: $kind) -> Result<Self::Value, E> { Ok($answer) })*
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> { Ok($null) }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($answer)
        }
    };
}

pub(super) use not_for_this_visitor;

pub(super) fn read_seq(name: &str, raw: Raw<'_>) -> Result<Seq, Mistake> {
    match raw {
        Raw::Integer(number) => u64::try_from(number)
            .map(Seq::at)
            .map_err(|_| (Reason::NumberOutOfRange, format!("{name} is {number}, sequences start at 0"))),
        Raw::OutOfRange => Err((Reason::NumberOutOfRange, format!("{name} is outside 64 bits"))),
        Raw::Null => Err((Reason::MissingField, format!("{name} is null"))),
        _ => Err((Reason::WrongType, format!("{name} must be an integer"))),
    }
}

impl<'de> serde::Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value")
            }
            not_for_this_visitor!(Raw::Other, null: Raw::Null; visit_bool: bool);
            fn visit_i64<E>(self, number: i64) -> Result<Raw<'de>, E> {
                Ok(Raw::Integer(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Raw<'de>, E> {
                Ok(i64::try_from(number).map_or(Raw::OutOfRange, Raw::Integer))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Raw<'de>, E> {
                Ok(Raw::of_double(number))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Raw<'de>, E> {
                Ok(Raw::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw<'de>, E> {
                Ok(Raw::Text(Cow::Owned(text.into())))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Raw::Other)
            }
        }
        input.deserialize_any(RawVisitor)
    }
}
