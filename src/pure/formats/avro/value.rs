//! An Avro value as JSON, with numbers that keep their digits and bytes as base64, as the converter writes them.

use apache_avro::types::Value as Avro;
use serde_json::{Map, Value as Json};

use crate::pure::formats::decimal::to_base64;

pub(super) fn to_json(value: &Avro) -> Result<Json, String> {
    Ok(match value {
        Avro::Null => Json::Null,
        Avro::Boolean(yes) => (*yes).into(),
        Avro::Int(number) | Avro::Date(number) | Avro::TimeMillis(number) => (*number).into(),
        Avro::Long(number)
        | Avro::TimeMicros(number)
        | Avro::TimestampMillis(number)
        | Avro::TimestampMicros(number)
        | Avro::TimestampNanos(number)
        | Avro::LocalTimestampMillis(number)
        | Avro::LocalTimestampMicros(number)
        | Avro::LocalTimestampNanos(number) => (*number).into(),
        Avro::Float(number) => double(number.to_string()),
        Avro::Double(number) => double(number.to_string()),
        Avro::Bytes(bytes) | Avro::Fixed(_, bytes) => to_base64(bytes).into(),
        Avro::Decimal(decimal) => {
            let bytes = <Vec<u8>>::try_from(decimal).map_err(|error| error.to_string())?;
            to_base64(&bytes).into()
        }
        Avro::BigDecimal(decimal) => decimal.to_string().into(),
        Avro::String(text) | Avro::Enum(_, text) => text.as_str().into(),
        Avro::Uuid(uuid) => uuid.to_string().into(),
        Avro::Union(_, inner) => to_json(inner)?,
        Avro::Array(items) => items.iter().map(to_json).collect::<Result<Vec<_>, _>>()?.into(),
        Avro::Map(entries) => {
            let entries = entries.iter().map(|(name, value)| Ok((name.clone(), to_json(value)?)));
            Json::Object(entries.collect::<Result<Map<_, _>, String>>()?)
        }
        Avro::Record(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), to_json(value)?)));
            Json::Object(fields.collect::<Result<Map<_, _>, String>>()?)
        }
        Avro::Duration(_) => return Err("durations are not read".to_owned()),
    })
}

/// The shortest digits that mean this number; what is none is text, which no column takes for one.
fn double(shown: String) -> Json {
    match serde_json::from_str::<Json>(&shown) {
        Ok(number) => number,
        Err(_) => shown.into(),
    }
}
