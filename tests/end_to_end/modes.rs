//! The other promises that a log's writer may make, and logs written in transactions.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::world::{PATIENCE, World, sale, sales, wait_for};

#[test]
fn p5_an_append_ordered_log_lifts_quiet_partitions_to_what_was_applied_before_its_ends_were_asked_for() {
    let Some(world) = World::with_topic("append-ordered", 3, "watermark = \"append_ordered\"") else {
        return;
    };
    let producer = world.producer();
    let mut maintainer = world.maintain(&[]);
    // Each is acknowledged before the next is sent; the third partition stays empty.
    for number in 1..=40 {
        let value = sale(number, number, "P1", 1);
        producer.send(&world.topic, Some((number % 2) as i32), None, Some(value.as_bytes())).unwrap();
        producer.flush(PATIENCE).unwrap();
    }
    wait_for(&mut maintainer, "W 40", Duration::from_secs(10), || (world.watermark() == "40").then_some(()));
    assert_eq!(world.gmv("P1"), Some(40));
    maintainer.signal("TERM");
    maintainer.wait(Duration::from_secs(10)).expect(0);
    // The same by a run that ends by itself.
    world.send(1, sales(41..=41));
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.watermark(), "41");
    world.checksum(&[]);
}

#[test]
fn p2_without_sequences_the_offset_orders_the_events_of_a_key_and_there_is_no_watermark() {
    let Some(world) = World::with_topic("offsets", 2, "watermark = \"offsets\"") else { return };
    let without_seq = |order: u64, amount: i64| {
        let mut event: serde_json::Value = serde_json::from_str(&sale(1, order, "P1", amount)).unwrap();
        event.as_object_mut().unwrap().remove("source_seq");
        event.to_string()
    };
    world.send(0, [without_seq(1, 10), without_seq(1, 20), without_seq(2, 5)]);
    world.send(1, [without_seq(3, 7)]);
    // A tombstone deletes the row of its key.
    let producer = world.producer();
    producer.send(&world.topic, Some(0), Some(br#"{"order_id":"O2","line_no":1}"#), None).unwrap();
    producer.flush(PATIENCE).unwrap();
    world.run(&["run", "--once"]).expect(0);
    assert_eq!(world.gmv("P1"), Some(27));
    let meta = world.meta();
    assert_eq!((meta["watermark"].as_str(), meta["watermark_mode"].as_str()), ("", "offsets"));
    let positions: serde_json::Value = serde_json::from_str(&meta["positions"]).unwrap();
    assert_eq!(
        positions,
        serde_json::json!({format!("{}:0", world.topic): 4, format!("{}:1", world.topic): 1})
    );
    world.run(&["status"]).expect(0);
    world.checksum(&[]);
}

/// A producer with transactions, which driftless itself has no use for.
fn transactional(world: &World) -> BaseProducer {
    let producer: BaseProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &world.brokers)
        .set("transactional.id", &world.topic)
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer
}

fn transaction(world: &World, producer: &BaseProducer, values: &[String], commit: bool) {
    producer.begin_transaction().unwrap();
    for value in values {
        let record = BaseRecord::<str, str>::to(&world.topic).partition(0).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    match commit {
        true => producer.commit_transaction(PATIENCE).unwrap(),
        false => producer.abort_transaction(PATIENCE).unwrap(),
    }
}

#[test]
fn p10_aborted_records_are_not_applied_and_markers_are_accounted_for_to_the_end() {
    let Some(world) = World::with_topic("transactions", 1, "watermark = \"sparse\"") else { return };
    let producer = transactional(&world);
    let mut maintainer = world.maintain(&[]);
    transaction(&world, &producer, &[sale(1, 1, "P1", 10), sale(2, 2, "P1", 10)], true);
    transaction(&world, &producer, &[sale(3, 1, "P1", 999), sale(3, 3, "P2", 999)], false);
    transaction(&world, &producer, &[sale(4, 4, "P1", 10)], true);
    // Three records, two aborted ones, three markers.
    world.wait_published(&mut maintainer, 8);
    assert_eq!((world.gmv("P1"), world.gmv("P2")), (Some(30), None));
    assert_eq!(world.watermark(), "4");
    wait_for(&mut maintainer, "confirmed", Duration::from_secs(10), || {
        (world.run(&["status"]).code == Some(0)).then_some(())
    });
    let partition = &world.status()["partitions"][0];
    assert_eq!(partition["lag"], 0, "{partition}");
    assert_eq!((&partition["counts"]["applied"], &partition["counts"]["control"]), (&3.into(), &5.into()));
    // A log that ends in an aborted transaction is read to its end by a run that ends by itself, too.
    maintainer.signal("TERM");
    maintainer.wait(Duration::from_secs(10)).expect(0);
    transaction(&world, &producer, &[sale(5, 5, "P1", 999)], false);
    world.run(&["run", "--once"]).expect(0);
    assert_eq!((world.published_offsets(), world.gmv("P1")), (10, Some(30)));
    world.run(&["status"]).expect(0);
}
