//! Reading what transactions wrote; real Kafka only, since the broker in this process does not tell them apart.

use driftless::ports::{Bounds, Log};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::cluster::*;

/// A producer with transactions, which driftless itself has no use for.
fn transactional(cluster: &Cluster, id: &str) -> BaseProducer {
    let producer: BaseProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &cluster.settings().brokers)
        .set("transactional.id", id)
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer
}

fn transaction(producer: &BaseProducer, topic: &str, values: &[&str], commit: bool) {
    producer.begin_transaction().unwrap();
    for value in values {
        let record = BaseRecord::<str, str>::to(topic).partition(0).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    match commit {
        true => producer.commit_transaction(PATIENCE).unwrap(),
        false => producer.abort_transaction(PATIENCE).unwrap(),
    }
}

#[test]
fn aborted_records_are_not_read_and_the_end_lies_behind_the_markers() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("txn", 1);
    let producer = transactional(&cluster, &topic);
    transaction(&producer, &topic, &["e1", "e2"], true);
    transaction(&producer, &topic, &["e3", "e3"], false);
    transaction(&producer, &topic, &["e4", "e5"], true);
    let mut log = cluster.log(&[&topic]);
    log.assign(&[(at(&topic, 0), 0)]).unwrap();
    let items = read_to_end(&mut log, 1);
    assert_eq!(values_of(&items), ["e1", "e2", "e4", "e5"]);
    // 2 records and a marker, three times.
    assert_eq!(last_end(&items, 0), 9);
    assert_eq!(log.bounds(&at(&topic, 0)).unwrap().high, 9);

    // A log that ends in an aborted transaction is read to its end as well.
    transaction(&producer, &topic, &["e6"], false);
    let mut items = Vec::new();
    read_until(&mut log, &mut items, |items| items.contains(&Item::End { slot: 0, next_offset: 11 }));
    assert_eq!(values_of(&items), Vec::<String>::new());
}

#[test]
fn an_open_transaction_holds_the_end_back_and_the_other_partition_goes_on() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("open", 2);
    send(&cluster, &topic, 0, numbered(0, 4));
    send(&cluster, &topic, 1, numbered(0, 6));
    let producer = transactional(&cluster, &topic);
    producer.begin_transaction().unwrap();
    let record = BaseRecord::<str, str>::to(&topic).partition(0).payload("late");
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(PATIENCE).unwrap();
    send(&cluster, &topic, 0, numbered(5, 8));
    let mut log = cluster.log(&[&topic]);
    assert_eq!(log.bounds(&at(&topic, 0)).unwrap(), Bounds { low: 0, high: 4 });
    log.assign(&[(at(&topic, 0), 0), (at(&topic, 1), 0)]).unwrap();
    let mut items = read_to_end(&mut log, 2);
    assert_eq!((last_end(&items, 0), last_end(&items, 1)), (4, 6));
    producer.commit_transaction(PATIENCE).unwrap();
    read_until(&mut log, &mut items, |items| items.contains(&Item::End { slot: 0, next_offset: 9 }));
    assert_eq!(offsets_of(&items, 0), (0..8).collect::<Vec<_>>());
}
