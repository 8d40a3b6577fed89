//! An Avro schema as the converter's JSON schema: types, semantic names and scales of the fields. Reads the schema's
//! document itself, because libraries drop what they do not know, such as `connect.name`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// How deep records are followed; rows lie two deep.
const DEPTH_MAX: usize = 6;

/// The converter's schema of an Avro schema's document.
pub(super) fn of_schema(text: &str) -> Result<Value, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut names = BTreeMap::new();
    collect(&document, "", &mut names, 0);
    Ok(Value::Object(told(&document, "", &names, 0)))
}

/// Every named type by its full name.
fn collect<'a>(schema: &'a Value, namespace: &str, names: &mut BTreeMap<String, &'a Value>, depth: usize) {
    if depth > 64 {
        return;
    }
    match schema {
        Value::Array(branches) => {
            branches.iter().for_each(|branch| collect(branch, namespace, names, depth + 1));
        }
        Value::Object(object) => {
            let inner = namespace_of(object, namespace);
            if let Some(name) = object.get("name").and_then(Value::as_str)
                && object.contains_key("type")
            {
                names.insert(full_name(name, &inner), schema);
            }
            for field in object.get("fields").and_then(Value::as_array).into_iter().flatten() {
                if let Some(kind) = field.get("type") {
                    collect(kind, &inner, names, depth + 1);
                }
            }
            for part in ["type", "items", "values"] {
                if let Some(part) = object.get(part).filter(|part| !part.is_string()) {
                    collect(part, &inner, names, depth + 1);
                }
            }
        }
        _ => {}
    }
}

fn namespace_of(object: &Map<String, Value>, outer: &str) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match (text("namespace"), text("name").and_then(|name| name.rsplit_once('.'))) {
        (_, Some((namespace, _))) => namespace.to_owned(),
        (Some(namespace), None) => namespace.to_owned(),
        (None, None) => outer.to_owned(),
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    match (name.contains('.'), namespace) {
        (true, _) | (false, "") => name.to_owned(),
        (false, namespace) => format!("{namespace}.{name}"),
    }
}

fn told(
    schema: &Value,
    namespace: &str,
    names: &BTreeMap<String, &Value>,
    depth: usize,
) -> Map<String, Value> {
    let simple = |kind: &str| Map::from_iter([("type".to_owned(), kind.into())]);
    if depth > DEPTH_MAX {
        return simple("struct");
    }
    match schema {
        // A union with null is an optional value; any other union is whatever comes.
        Value::Array(branches) => {
            let mut others = branches.iter().filter(|branch| branch.as_str() != Some("null"));
            let mut union = match (others.next(), others.next()) {
                (Some(only), None) => told(only, namespace, names, depth + 1),
                _ => simple("union"),
            };
            union.insert("optional".to_owned(), true.into());
            union
        }
        Value::String(name) => match name.as_str() {
            "boolean" | "bytes" | "string" | "float" | "double" | "null" => simple(name),
            "int" => simple("int32"),
            "long" => simple("int64"),
            _ => match names.get(&full_name(name, namespace)).or_else(|| names.get(name)) {
                Some(named) => told(named, namespace, names, depth + 1),
                None => simple("struct"),
            },
        },
        Value::Object(object) => of_object(object, namespace, names, depth),
        _ => simple("union"),
    }
}

fn of_object(
    object: &Map<String, Value>,
    namespace: &str,
    names: &BTreeMap<String, &Value>,
    depth: usize,
) -> Map<String, Value> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let inner = namespace_of(object, namespace);
    let mut out = match text("type") {
        Some("record") => {
            let fields = object.get("fields").and_then(Value::as_array).into_iter().flatten().map(|field| {
                let kind = field.get("type").unwrap_or(&Value::Null);
                let mut out = told(kind, &inner, names, depth + 1);
                out.insert("field".to_owned(), field.get("name").cloned().unwrap_or_default());
                Value::Object(out)
            });
            let fields: Vec<Value> = fields.collect();
            Map::from_iter([("type".to_owned(), "struct".into()), ("fields".to_owned(), fields.into())])
        }
        Some("enum") => Map::from_iter([("type".to_owned(), "string".into())]),
        Some("fixed") => Map::from_iter([("type".to_owned(), "bytes".into())]),
        Some(kind @ ("array" | "map")) => Map::from_iter([("type".to_owned(), kind.into())]),
        _ => told(object.get("type").unwrap_or(&Value::Null), &inner, names, depth + 1),
    };
    let scale = object.get("scale").and_then(Value::as_i64).unwrap_or(0).to_string();
    let semantic = match (text("connect.name"), text("logicalType")) {
        (Some(name), _) => Some(name),
        // Instants of writers that are no connector have no name: how they are read is the configuration's to say.
        (None, Some("decimal")) => Some("org.apache.kafka.connect.data.Decimal"),
        (None, Some("date")) => Some("org.apache.kafka.connect.data.Date"),
        (None, Some("local-timestamp-millis")) => Some("org.apache.kafka.connect.data.Timestamp"),
        (None, Some("local-timestamp-micros")) => Some("io.debezium.time.MicroTimestamp"),
        (None, Some("local-timestamp-nanos")) => Some("io.debezium.time.NanoTimestamp"),
        (None, _) => None,
    };
    if let Some(name) = semantic {
        out.insert("name".to_owned(), name.into());
    }
    if let Some(parameters) = object.get("connect.parameters") {
        out.insert("parameters".to_owned(), parameters.clone());
    }
    if text("logicalType") == Some("decimal") {
        out.insert("parameters".to_owned(), json!({"scale": scale}));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connectors_schema_is_told_as_its_json_converter_tells_it() {
        let schema = r#"{"type":"record","name":"Envelope","namespace":"shop.public.orders","fields":[
            {"name":"before","type":["null",{"type":"record","name":"Value","fields":[
                {"name":"id","type":"int"},
                {"name":"day","type":{"type":"int","connect.version":1,"connect.name":"io.debezium.time.Date"}},
                {"name":"amount","type":["null",{"type":"bytes","scale":2,"precision":18,
                    "connect.parameters":{"scale":"2"},"connect.name":"org.apache.kafka.connect.data.Decimal",
                    "logicalType":"decimal"}],"default":null}],
                "connect.name":"shop.public.orders.Value"}],"default":null},
            {"name":"after","type":["null","Value"],"default":null},
            {"name":"op","type":"string"}]}"#;
        let told = of_schema(schema).expect("a schema");
        let (before, after) = (&told["fields"][0], &told["fields"][1]);
        assert_eq!(
            (&before["field"], &after["field"], &told["fields"][2]["type"]),
            (&"before".into(), &"after".into(), &"string".into())
        );
        assert_eq!(before["fields"], after["fields"], "a name means what it was defined as");
        assert_eq!(after["fields"][0], json!({"type": "int32", "field": "id"}));
        assert_eq!(
            after["fields"][1],
            json!({"type": "int32", "name": "io.debezium.time.Date", "field": "day"})
        );
        assert_eq!(
            after["fields"][2],
            json!({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"},
                "optional": true, "field": "amount"})
        );
    }

    #[test]
    fn a_schema_that_holds_itself_ends() {
        let schema = r#"{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}"#;
        assert!(of_schema(schema).expect("a schema").to_string().len() < 2_000);
    }
}
