//! Messages in Avro with a schema registry: a zero byte, the number of the schema, the value. Brings them to the JSON
//! that the converter would have written, schema and payload, and hands that to the decoder of the format. Schemas
//! are learnt from whoever can ask the registry; nothing here does.

mod told;
mod value;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;

use crate::pure::event::{Decoded, Mistake, Reason, Rejection};
use crate::pure::formats::native::Order;
use crate::pure::formats::{Decoder, Record};

/// The mark of a schema registry's messages.
const MARK: u8 = 0;
/// Mark and number of the schema.
const HEAD: usize = 5;
/// What one value may make the reader allocate.
const BYTES_MAX: usize = 64 << 20;

/// A format whose messages come in Avro.
#[derive(Clone, Debug)]
pub struct AvroDecoder {
    inner: Box<Decoder>,
    order: Order,
    /// By number; shared by all clones, since a number names one schema for good.
    known: Arc<Mutex<BTreeMap<u32, Known>>>,
}

#[derive(Clone, Debug)]
enum Known {
    Schema(Arc<Learnt>),
    /// The registry has no such schema, or one that cannot be read; it may have another day.
    Not(Arc<str>),
}

#[derive(Debug)]
struct Learnt {
    schema: Schema,
    /// The same as the converter's JSON says it.
    told: String,
}

impl AvroDecoder {
    pub fn new(inner: Decoder, order: Order) -> Self {
        apache_avro::util::max_allocation_bytes(BYTES_MAX);
        AvroDecoder { inner: Box::new(inner), order, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schemas that a message names and that are not known; with `again`, those too that the registry did not
    /// have when it was asked.
    pub fn unknown_schemas(&self, record: &Record<'_>, again: bool) -> Vec<u32> {
        let known = self.known();
        let mut unknown: Vec<u32> = [record.value, record.key]
            .into_iter()
            .flatten()
            .filter_map(number)
            .filter(|id| match known.get(id) {
                None => true,
                Some(Known::Not(_)) => again,
                Some(Known::Schema(_)) => false,
            })
            .collect();
        unknown.dedup();
        unknown
    }

    /// Takes what the registry says of a schema: its text, or why there is none.
    pub fn learn(&self, id: u32, answer: Result<String, String>) {
        let learnt = match answer.and_then(|text| Learnt::parse(&text)) {
            Ok(learnt) => Known::Schema(Arc::new(learnt)),
            Err(why) => Known::Not(format!("schema {id}: {why}").into()),
        };
        self.known().insert(id, learnt);
    }

    pub fn decode(&self, record: &Record<'_>) -> Result<Decoded, Rejection> {
        let seq = (self.order == Order::Offset).then(|| record.offset_seq());
        let fail = |(reason, detail): Mistake| Rejection { reason, detail, seq };
        // Keys are often plain text beside values in Avro.
        let key = match record.key {
            Some(bytes) if number(bytes).is_some() => Some(self.json(bytes).map_err(fail)?),
            _ => None,
        };
        let value = match record.value {
            Some([]) | None => None,
            Some(bytes) => Some(self.json(bytes).map_err(fail)?),
        };
        self.inner.decode(&Record {
            key: key.as_ref().map(String::as_bytes).or(record.key),
            value: value.as_ref().map(String::as_bytes).or(record.value),
            ..*record
        })
    }

    /// A value as the converter's JSON.
    fn json(&self, bytes: &[u8]) -> Result<String, Mistake> {
        let id = number(bytes).ok_or_else(|| {
            let detail = "the message does not begin with a schema registry's mark: a zero byte and a number";
            (Reason::NotAvro, detail.to_owned())
        })?;
        let learnt = match self.known().get(&id) {
            Some(Known::Schema(learnt)) => learnt.clone(),
            Some(Known::Not(why)) => return Err((Reason::UnknownSchema, why.to_string())),
            None => return Err((Reason::UnknownSchema, format!("schema {id} was not asked for"))),
        };
        let not_avro = |why: String| (Reason::NotAvro, format!("not what schema {id} says: {why}"));
        let mut rest = &bytes[HEAD..];
        let reader = GenericDatumReader::builder(&learnt.schema).build();
        let read = reader.and_then(|reader| reader.read_value(&mut rest));
        let read = read.map_err(|error| not_avro(error.to_string()))?;
        if !rest.is_empty() {
            return Err(not_avro(format!("{} bytes are left over", rest.len())));
        }
        let payload = value::to_json(&read).map_err(not_avro)?;
        Ok(format!("{{\"schema\":{},\"payload\":{payload}}}", learnt.told))
    }
}

impl Learnt {
    fn parse(text: &str) -> Result<Self, String> {
        let schema = Schema::parse_str(text).map_err(|error| error.to_string())?;
        Ok(Learnt { schema, told: told::of_schema(text)?.to_string() })
    }
}

/// The number of the schema that a message names.
fn number(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [MARK, a, b, c, d, ..] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}
