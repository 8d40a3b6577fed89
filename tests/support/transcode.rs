//! From the JSON of Kafka Connect's converter, schema and payload, to Avro as its Avro converter writes it. Uses the
//! library's writer and none of the reading under test.

use std::collections::BTreeSet;

use apache_avro::Schema;
use apache_avro::types::Value as Avro;
use apache_avro::writer::datum::GenericDatumWriter;
use serde_json::{Map, Value, json};

/// The Avro schema of a converter's schema.
pub fn schema_of(told: &Value) -> Value {
    schema(told, &mut BTreeSet::new())
}

fn schema(told: &Value, named: &mut BTreeSet<String>) -> Value {
    let name = told["name"].as_str();
    let base = match told["type"].as_str().expect("a type") {
        "struct" => record(told, name.expect("structs have names"), named),
        "int8" | "int16" | "int32" => json!("int"),
        "int64" => json!("long"),
        other => json!(other),
    };
    let full = match (base.is_object() || told["type"] == "struct", name) {
        (false, Some(name)) => {
            let mut object =
                Map::from_iter([("type".to_owned(), base), ("connect.name".to_owned(), name.into())]);
            if let Some(parameters) = told.get("parameters") {
                object.insert("connect.parameters".to_owned(), parameters.clone());
            }
            if name == "org.apache.kafka.connect.data.Decimal" {
                let scale: u32 =
                    told["parameters"]["scale"].as_str().expect("a scale").parse().expect("a number");
                object.extend([
                    ("logicalType".to_owned(), json!("decimal")),
                    ("precision".to_owned(), json!(64)),
                    ("scale".to_owned(), json!(scale)),
                ]);
            }
            Value::Object(object)
        }
        _ => base,
    };
    if told["optional"] == true { json!(["null", full]) } else { full }
}

/// A record is defined where it comes first, and named afterwards.
fn record(told: &Value, name: &str, named: &mut BTreeSet<String>) -> Value {
    if !named.insert(name.to_owned()) {
        return json!(name);
    }
    let (namespace, short) = name.rsplit_once('.').unwrap_or(("", name));
    let fields = told["fields"].as_array().expect("fields").iter();
    let fields: Vec<Value> =
        fields.map(|field| json!({"name": field["field"], "type": schema(field, named)})).collect();
    json!({"type": "record", "name": short, "namespace": namespace, "fields": fields, "connect.name": name})
}

/// A message of the registry: mark, number, value.
pub fn message(id: u32, told: &Value, payload: &Value) -> Vec<u8> {
    let schema = Schema::parse_str(&schema_of(told).to_string()).expect("an Avro schema");
    let mut bytes = vec![0];
    bytes.extend(id.to_be_bytes());
    let writer = GenericDatumWriter::builder(&schema).build().expect("a writer");
    bytes.extend(writer.write_value_to_vec(value(told, payload)).expect("a value of the schema"));
    bytes
}

fn value(told: &Value, payload: &Value) -> Avro {
    let plain = || plain_value(told, payload);
    match (told["optional"] == true, payload.is_null()) {
        (true, true) => Avro::Union(0, Box::new(Avro::Null)),
        (true, false) => Avro::Union(1, Box::new(plain())),
        (false, _) => plain(),
    }
}

fn plain_value(told: &Value, payload: &Value) -> Avro {
    let decimal = told["name"] == "org.apache.kafka.connect.data.Decimal";
    match told["type"].as_str().expect("a type") {
        "struct" => {
            let fields = told["fields"].as_array().expect("fields").iter();
            let named = |field: &Value| {
                let name = field["field"].as_str().expect("a name").to_owned();
                let inner = value(field, &payload[&name]);
                (name, inner)
            };
            Avro::Record(fields.map(named).collect())
        }
        "int8" | "int16" | "int32" => Avro::Int(payload.as_i64().expect("a number") as i32),
        "int64" => Avro::Long(payload.as_i64().expect("a number")),
        "double" => Avro::Double(payload.as_f64().expect("a number")),
        "boolean" => Avro::Boolean(payload.as_bool().expect("a truth value")),
        "bytes" => {
            let bytes = base64(payload.as_str().expect("base64"));
            if decimal { Avro::Decimal(bytes.into()) } else { Avro::Bytes(bytes) }
        }
        "string" => Avro::String(payload.as_str().expect("text").to_owned()),
        other => panic!("type {other}"),
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = text
        .trim_end_matches('=')
        .chars()
        .map(|digit| format!("{:06b}", DIGITS.find(digit).expect("a digit")))
        .collect();
    let bytes = bits.as_bytes().chunks_exact(8);
    bytes.map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'))).collect()
}
