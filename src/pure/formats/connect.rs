//! The JSON that Kafka Connect's converter writes: a payload alone, or a schema and a payload. The schema tells how
//! values are written, message by message, so that a column whose type was widened is read as it now is.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pure::event::Mistake;
use crate::pure::formats::field::{Encoding, Field};
use crate::pure::formats::json::{Json, Object};
use crate::pure::formats::time::{Unit, Zone};
use crate::pure::schema::{Column, ColumnType, Table};

/// A message or its key without the converter's envelope.
#[derive(Clone, Copy, Debug)]
pub struct Unwrapped<'a> {
    pub payload: Json<'a>,
    pub schema: Option<Json<'a>>,
}

/// Takes the envelope off where there is one: an object of nothing but `schema` and `payload`.
pub fn unwrap(json: Json<'_>) -> Result<Unwrapped<'_>, Mistake> {
    if json.is_object() {
        let object = json.object("the message")?;
        if let Some(payload) = object.get("payload")?
            && object.names().all(|name| matches!(name, "schema" | "payload"))
        {
            return Ok(Unwrapped { payload, schema: object.some("schema")? });
        }
    }
    Ok(Unwrapped { payload: json, schema: None })
}

/// How the columns are read: as configured, or as the message's own schema says. A schema is looked at once, and
/// again only when another one comes.
#[derive(Clone, Debug)]
pub struct Plans {
    table: Arc<Table>,
    configured: Arc<[Field]>,
    /// Where days of instants are read off.
    zone: Zone,
    last: Arc<Mutex<Option<Told>>>,
}

/// The schema that came last, and the fields that it makes.
type Told = (Box<str>, Arc<[Field]>);

impl Plans {
    pub fn new(table: Arc<Table>, configured: Vec<Field>, zone: Zone) -> Self {
        Plans { table, configured: configured.into(), zone, last: Arc::default() }
    }

    pub fn configured(&self) -> &Arc<[Field]> {
        &self.configured
    }

    /// The fields of a row; `inside` names the part of the schema that is the row's, where it is not the whole.
    pub fn of(&self, schema: Option<Json<'_>>, inside: Option<&str>) -> Result<Arc<[Field]>, Mistake> {
        let Some(schema) = schema else { return Ok(self.configured.clone()) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, fields)) = &*last
            && **known == *schema.raw()
        {
            return Ok(fields.clone());
        }
        let fields = self.plan(schema, inside)?;
        *last = Some((schema.raw().into(), fields.clone()));
        Ok(fields)
    }

    fn plan(&self, schema: Json<'_>, inside: Option<&str>) -> Result<Arc<[Field]>, Mistake> {
        let mut row = schema.object("schema")?;
        if let Some(name) = inside {
            match named(&row, name)? {
                Some(found) => row = found,
                None => return Ok(self.configured.clone()),
            }
        }
        let mut fields = Vec::with_capacity(self.configured.len());
        for (column, field) in self.table.columns.iter().zip(self.configured.iter()) {
            let encoding = match named(&row, &field.source)? {
                Some(told) => self.told(column, &field.encoding, &told)?,
                None => field.encoding.clone(),
            };
            fields.push(Field { source: field.source.clone(), encoding });
        }
        Ok(fields.into())
    }

    /// What the schema of a field says of how it is written.
    fn told(&self, column: &Column, configured: &Encoding, told: &Object<'_>) -> Result<Encoding, Mistake> {
        let scale = match configured {
            Encoding::Decimal { scale } | Encoding::DecimalBytes { scale, .. } => *scale,
            _ => 0,
        };
        let ticks = |unit| Some(Encoding::Ticks { unit, zone: None });
        let iso = || Some(Encoding::Iso { zone: self.zone.clone() });
        let name = told.text("name")?.unwrap_or_default();
        let semantic = match &*name {
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => Some(Encoding::Days),
            "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => ticks(Unit::Millis),
            "io.debezium.time.MicroTimestamp" => ticks(Unit::Micros),
            "io.debezium.time.NanoTimestamp" => ticks(Unit::Nanos),
            "io.debezium.time.ZonedTimestamp"
            | "io.debezium.time.IsoDate"
            | "io.debezium.time.IsoTimestamp" => iso(),
            "io.debezium.data.VariableScaleDecimal" => Some(Encoding::Decimal { scale }),
            "org.apache.kafka.connect.data.Decimal" => {
                let parameters =
                    told.some("parameters")?.map(|json| json.object("parameters")).transpose()?;
                let bytes_scale = match parameters {
                    Some(parameters) => parameters.text("scale")?.and_then(|text| text.parse().ok()),
                    None => None,
                };
                bytes_scale.map(|bytes_scale| Encoding::DecimalBytes { bytes_scale, scale })
            }
            _ => None,
        };
        if let Some(semantic) = semantic {
            return Ok(match (semantic.fits(column.column_type), column.column_type) {
                (true, _) => semantic,
                // A number of days or ticks is a number.
                (false, ColumnType::Integer) => Encoding::Plain,
                (false, _) => Encoding::Unreadable(name.as_ref().into()),
            });
        }
        // Without a name of its own the value is what its type says.
        let kind = told.text("type")?.unwrap_or_default();
        Ok(match (configured, &*kind) {
            (Encoding::DecimalBytes { scale, .. }, kind) if kind != "bytes" => {
                Encoding::Decimal { scale: *scale }
            }
            (Encoding::Days | Encoding::Ticks { .. }, "string") => Encoding::Iso { zone: self.zone.clone() },
            (Encoding::Plain, "boolean") if column.column_type == ColumnType::Integer => Encoding::Bool,
            _ => configured.clone(),
        })
    }
}

/// The field of a struct's schema with this name.
pub fn named<'a>(row: &Object<'a>, name: &str) -> Result<Option<Object<'a>>, Mistake> {
    let Some(fields) = row.some("fields")? else { return Ok(None) };
    for field in fields.items("fields")? {
        let field = field.object("a field of the schema")?;
        if field.text("field")?.as_deref() == Some(name) {
            return Ok(Some(field));
        }
    }
    Ok(None)
}
