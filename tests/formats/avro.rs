//! Avro with a schema registry: the recorded history, as the Avro converter would have written it, and what happens
//! when schemas change, are missing, or cannot be asked for.

use driftless::io::registry::{HttpRegistry, RegistrySettings};
use driftless::pure::base::Action;
use driftless::pure::event::Decoded;
use driftless::pure::formats::Record;
use driftless::pure::seq::TopicPartition;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::history::assert_history;
use super::messages::{catalog, is_of, json as parse, messages, try_catalog, world};
use super::registry::StandIn;
use super::transcode;
use crate::support::world::World;

const FILE: &str = "debezium_avro/driftless.toml";
const PASSWORD: &str = "secret";

/// A message in Avro: key and value.
type Bytes = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Schemas by the order in which they first came, as a registry numbers them.
#[derive(Default)]
struct Numbers(Vec<Value>);

impl Numbers {
    fn of(&mut self, told: &Value) -> u32 {
        let known = self.0.iter().position(|known| known == told);
        let at = known.unwrap_or_else(|| {
            self.0.push(told.clone());
            self.0.len() - 1
        });
        at as u32 + 1
    }

    fn message(&mut self, text: &str) -> Vec<u8> {
        let enveloped = parse(text);
        let id = self.of(&enveloped["schema"]);
        transcode::message(id, &enveloped["schema"], &enveloped["payload"])
    }

    fn register(&self, registry: &StandIn) {
        for (at, told) in self.0.iter().enumerate() {
            registry.put(at as u32 + 1, &transcode::schema_of(told));
        }
    }
}

/// The recorded history in Avro, registered.
fn history(registry: &StandIn) -> (World, Vec<Bytes>) {
    let mut world = world(catalog(FILE, &[]), 1);
    world.registry = registry.client(PASSWORD);
    let mut numbers = Numbers::default();
    let catalog = world.catalog.clone();
    let recorded = messages("debezium").into_iter().filter(|message| is_of(message, &catalog));
    let of = |text: Option<String>, numbers: &mut Numbers| text.map(|text| numbers.message(&text));
    let bytes = recorded.map(|message| (of(message.key, &mut numbers), of(message.value, &mut numbers)));
    let bytes = bytes.collect();
    numbers.register(registry);
    (world, bytes)
}

fn append(world: &World, (key, value): &Bytes) {
    let at = TopicPartition { topic: world.catalog.topics[0].name.clone(), partition: 0 };
    world.log.append(&at, key.as_deref(), value.as_deref());
}

#[test]
fn the_history_in_avro_ends_in_the_same_rows_and_each_schema_is_asked_for_once() {
    let registry = StandIn::start();
    let (world, bytes) = history(&registry);
    bytes.iter().for_each(|message| append(&world, message));
    world.run(|running| {
        running.ingest_all();
        assert_history(&world, running, "debezium_avro");
        let mut asked = registry.asked();
        asked.sort_unstable();
        assert_eq!(asked, [1, 2], "key and value");
    });
    // What is known is kept over a restart of the loops, as long as the process lives.
    bytes.iter().for_each(|message| append(&world, message));
    world.run(|running| {
        running.ingest_all();
        assert_history(&world, running, "again");
    });
    assert_eq!(registry.asked().len(), 2);
}

#[test]
fn a_registry_in_trouble_holds_reading_up_and_nothing_is_lost_or_turned_around() {
    let registry = StandIn::start();
    let (world, bytes) = history(&registry);
    registry.fail_with(Some(503));
    bytes.iter().for_each(|message| append(&world, message));
    world.run(|running| {
        for _ in 0..3 {
            let error = running.reader.poll(std::time::Duration::ZERO).expect_err("nobody answers");
            assert!(error.is_transient() && error.to_string().contains("status 503"), "{error}");
        }
        assert_eq!(running.counts().consumed(), 0);
        registry.fail_with(None);
        running.ingest_all();
        assert_history(&world, running, "after the trouble");
        assert_eq!(running.counts().consumed(), bytes.len() as u64);
    });
}

#[test]
fn a_registry_that_refuses_us_or_is_none_is_said_with_what_to_do() {
    let registry = StandIn::start();
    let (mut world, bytes) = history(&registry);
    append(&world, &bytes[0]);
    world.registry = registry.client("wrong");
    world.run(|running| {
        let error = running.reader.poll(std::time::Duration::ZERO).expect_err("refused");
        assert!(
            !error.is_transient() && error.to_string().contains("DRIFTLESS_REGISTRY_PASSWORD"),
            "{error}"
        );
    });
    world.registry = None;
    world.run(|running| {
        let error = running.reader.poll(std::time::Duration::ZERO).expect_err("nobody to ask");
        assert!(error.to_string().contains("registry.url"), "{error}");
    });
    for (url, says) in [("ftp://x", "http://host:port"), ("http://user:word@x", "registry.username")] {
        let settings = RegistrySettings { url: url.into(), username: None, password: None, timeout_ms: 1 };
        let error = HttpRegistry::open(&settings).err().expect(says).to_string();
        assert!(error.contains(says) && !error.contains("word@"), "{error}");
    }
    for (settings, says) in [
        (&["registry.timeout_ms=0"][..], "from 1 to 600000"),
        (&["topic.0.format=maxwell"], "has no such setting"),
    ] {
        let error = try_catalog(FILE, settings).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

/// What differs from the plain row: its values and the message around them.
type Change<'a> = &'a dyn Fn(&mut Vec<Value>, &mut serde_json::Map<String, Value>);

#[test]
fn schemas_evolve_message_by_message() {
    let registry = StandIn::start();
    let mut world = world(catalog(FILE, &[]), 1);
    world.registry = registry.client(PASSWORD);
    let recorded = messages("debezium");
    let insert =
        recorded.iter().find(|message| message.value.as_deref().is_some_and(|value| value.contains("O1009")));
    let insert = parse(insert.and_then(|message| message.value.as_deref()).expect("an insert"));
    let with = |line_no: i64, change: Change<'_>| {
        let mut message = insert.clone();
        let mut fields = message["schema"]["fields"][1]["fields"].as_array().expect("fields").clone();
        message["payload"]["after"]["line_no"] = line_no.into();
        let row = message["payload"]["after"].as_object_mut().expect("a row");
        change(&mut fields, row);
        for image in [0, 1] {
            message["schema"]["fields"][image]["fields"] = fields.clone().into();
        }
        message["payload"]["source"]["lsn"] = (50_000_000 + line_no).into();
        message["payload"]["source"]["sequence"] = Value::Null;
        message
    };
    let at = |fields: &[Value], name: &str| {
        fields.iter().position(|field| field["field"] == name).expect("a field")
    };
    let variants = [
        with(1, &|_, _| {}),
        // A new column, and a wider type.
        with(2, &|fields, row| {
            fields.push(json!({"type": "string", "optional": true, "field": "note"}));
            row.insert("note".into(), "new".into());
            let at = at(fields, "quantity");
            fields[at]["type"] = "int64".into();
        }),
        // The amount with another scale: 30.010 is 3001 hundredths.
        with(3, &|fields, row| {
            let at = at(fields, "amount");
            fields[at]["parameters"]["scale"] = "3".into();
            row.insert("amount".into(), "dTo=".into());
        }),
        // A column is gone.
        with(4, &|fields, row| {
            let at = at(fields, "status");
            fields.remove(at);
            row.remove("status");
        }),
    ];
    let mut numbers = Numbers::default();
    for message in &variants {
        append(&world, &(None, Some(numbers.message(&message.to_string()))));
    }
    assert_eq!(numbers.0.len(), 4);
    numbers.register(&registry);
    world.run(|running| {
        running.ingest_all();
        let letters: Vec<_> =
            running.letters().into_iter().map(|letter| (letter.offset, letter.detail)).collect();
        assert_eq!(letters, [(3, "column status is missing".to_owned())]);
        let rows = world.base_rows("first");
        let shown: Vec<_> = rows.iter().map(|row| json!([row[1], row[6], row[7]])).collect();
        assert_eq!(shown, [json!([1, 2, 3001]), json!([2, 2, 3001]), json!([3, 2, 3001])]);
    });
}

#[test]
fn an_unknown_schema_is_a_dead_letter_until_the_registry_has_it() {
    let registry = StandIn::start();
    let (world, bytes) = history(&registry);
    let unknown: Vec<u8> = [&[0, 0, 0, 0, 77], &bytes[0].1.as_ref().expect("a value")[5..]].concat();
    append(&world, &(None, Some(unknown.clone())));
    append(&world, &(None, Some(unknown)));
    append(&world, &(None, Some(b"{\"op\":\"c\"}".to_vec())));
    append(&world, &(None, Some([&bytes[0].1.as_ref().expect("a value")[..9], &[0xff; 9][..]].concat())));
    world.run(|running| {
        running.ingest_all();
        let reasons: Vec<_> = running.letters().into_iter().map(|letter| letter.reason).collect();
        assert_eq!(reasons, ["unknown_schema", "unknown_schema", "not_avro", "not_avro"]);
        assert_eq!(
            registry.asked().iter().filter(|id| **id == 77).count(),
            1,
            "asked once, not for each message"
        );
        let told = parse(&messages("debezium")[0].value.clone().expect("a value"))["schema"].clone();
        registry.put(77, &transcode::schema_of(&told));
        let answer = running.request(&Action::RetryLetters { letter: None }).1;
        assert_eq!((&answer["retried"], &answer["still_open"]), (&2.into(), &2.into()));
        assert_eq!(world.base_rows("first").len(), 1);
    });
}

#[test]
fn what_the_registry_says_may_be_no_schema_that_can_be_read() {
    let registry = StandIn::start();
    let mut world = world(catalog(FILE, &[]), 1);
    world.registry = registry.client(PASSWORD);
    registry.put_answer(1, json!({"schema": "syntax = \"proto3\";", "schemaType": "PROTOBUF"}));
    registry.put_answer(
        2,
        json!({"schema": "\"int\"", "references": [{"name": "a", "subject": "b", "version": 1}]}),
    );
    registry.put_answer(3, json!({"schema": "{\"type\":\"record\"}"}));
    registry.put_answer(4, json!({"schema": "\"int\""}));
    for id in 1..=4u8 {
        append(&world, &(None, Some(vec![0, 0, 0, 0, id, 2])));
    }
    world.run(|running| {
        running.ingest_all();
        let letters: Vec<_> =
            running.letters().into_iter().map(|letter| (letter.reason, letter.detail)).collect();
        for (letter, says) in
            letters.iter().zip(["type PROTOBUF", "refers to other", "schema 3", "must be an object"])
        {
            assert!(letter.1.contains(says), "{says}: {letters:?}");
        }
        assert_eq!(letters.len(), 4);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_behind_the_mark_get_an_answer(
        id in 1u8..3,
        tail in proptest::collection::vec(any::<u8>(), 0..200),
        (number, at, with) in any::<(usize, usize, u8)>(),
    ) {
        thread_local! {
            static WORLD: (World, Vec<Bytes>) = {
                let registry = StandIn::start();
                let (world, bytes) = history(&registry);
                bytes.iter().for_each(|message| append(&world, message));
                world.run(|running| running.ingest_all());
                (world, bytes)
            };
        }
        WORLD.with(|(world, bytes)| {
            let decoder = &world.catalog.topics[0].decoder;
            let decode = |value: &[u8]| -> Result<Decoded, _> {
                decoder.decode(&Record { offset: 1, key: None, value: Some(value), headers: &[] })
            };
            let random = [&[0, 0, 0, 0, id], &tail[..]].concat();
            prop_assert_eq!(decode(&random), decode(&random));
            if let Some(value) = &bytes[number % bytes.len()].1 {
                let mut damaged = value.clone();
                let at = at % damaged.len();
                damaged[at] = with;
                prop_assert_eq!(decode(&damaged), decode(&damaged));
            }
            Ok(())
        })?;
    }
}
