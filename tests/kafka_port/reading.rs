//! What is handed out: order, places, bytes, ends, and what a new assignment changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use driftless::ports::{Bounds, Log};

use crate::cluster::*;

/// Key and value of a record.
type Fields<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

#[test]
fn records_come_in_order_from_the_offset_given_to_the_end() {
    on_each(|cluster| {
        let topic = cluster.topic("order", 3);
        for partition in 0..3 {
            send(cluster, &topic, partition, numbered(0, 2_000));
        }
        let mut log = cluster.log(&[&topic]);
        // Slots are places in the slice, not partition numbers; partition 1 is not read.
        log.assign(&[(at(&topic, 2), 0), (at(&topic, 0), 1_234)]).unwrap();
        let items = read_to_end(&mut log, 2);
        assert_eq!(offsets_of(&items, 0), (0..2_000).collect::<Vec<_>>());
        assert_eq!(offsets_of(&items, 1), (1_234..2_000).collect::<Vec<_>>());
        assert_eq!((last_end(&items, 0), last_end(&items, 1)), (2_000, 2_000));
        for item in &items {
            if let Item::Record { offset, value, .. } = item {
                assert_eq!(value.as_deref(), Some(offset.to_string().as_bytes()), "{offset}");
            }
        }
    });
}

#[test]
fn several_topics_are_read_by_one_log_and_not_mixed_up() {
    on_each(|cluster| {
        let (one, two) = (cluster.topic("one", 2), cluster.topic("two", 2));
        send(cluster, &one, 1, ["one".to_string()]);
        send(cluster, &two, 1, ["two".to_string(), "two".to_string()]);
        let mut log = cluster.log(&[&two, &one]);
        let mut all = vec![at(&one, 0), at(&one, 1), at(&two, 0), at(&two, 1)];
        all.sort();
        assert_eq!(log.partitions().unwrap(), all);
        let from: Vec<_> = all.iter().map(|place| (place.clone(), 0)).collect();
        log.assign(&from).unwrap();
        let items = read_to_end(&mut log, 4);
        let counts: Vec<_> = (0..4).map(|slot| offsets_of(&items, slot).len()).collect();
        assert_eq!(counts, [0, 1, 0, 2]);
    });
}

#[test]
fn at_most_as_many_items_as_asked_for_are_handed_out_and_none_is_lost() {
    on_each(|cluster| {
        let topic = cluster.topic("small", 1);
        send(cluster, &topic, 0, numbered(0, 100));
        let mut log = cluster.log(&[&topic]);
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        let mut items = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while items.len() < 101 && Instant::now() < deadline {
            let before = items.len();
            let count = poll_into(&mut log, 7, &mut items).unwrap();
            assert!(count <= 7);
            assert_eq!(items.len() - before, count);
        }
        assert_eq!(offsets_of(&items, 0), (0..100).collect::<Vec<_>>());
        assert_eq!(last_end(&items, 0), 100);
    });
}

#[test]
fn a_waiting_poll_returns_with_the_first_record_and_later_ends_are_told() {
    const ROUNDS: usize = 6;
    on_each(|cluster| {
        let topic = cluster.topic("wake", 1);
        let mut log = cluster.log(&[&topic]);
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        let mut items = read_to_end(&mut log, 1);
        assert_eq!(items, [Item::End { slot: 0, next_offset: 0 }]);
        let producer = cluster.producer();
        let mut slowest = Duration::ZERO;
        for round in 0..ROUNDS {
            producer.send(&topic, Some(0), None, Some(b"x")).unwrap();
            producer.flush(PATIENCE).unwrap();
            let asked = Instant::now();
            while offsets_of(&items, 0).len() <= round {
                poll_for(&mut log, 1_000, Duration::from_secs(5), &mut items).unwrap();
            }
            slowest = slowest.max(asked.elapsed());
        }
        // Far below the five seconds that a poll may wait for a full batch; slack for a busy machine.
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        eprintln!("slowest of {ROUNDS} single records: {slowest:?} after the acknowledgement");
        read_until(&mut log, &mut items, |items| {
            items.contains(&Item::End { slot: 0, next_offset: ROUNDS as i64 })
        });
    });
}

#[test]
fn null_and_empty_and_any_bytes_come_as_they_were_sent() {
    on_each(|cluster| {
        let topic = cluster.topic("bytes", 1);
        let all: Vec<u8> = (0..=255).collect();
        let large = vec![0xAB; 900_000];
        let sent: Vec<Fields> = vec![
            (None, None),
            (None, Some(b"")),
            (Some(b""), None),
            (Some(b"k"), Some(&all)),
            (Some(&all), Some(b"\0")),
            (Some(b"large"), Some(&large)),
        ];
        let producer = cluster.producer();
        for (key, value) in &sent {
            producer.send(&topic, Some(0), *key, *value).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        assert_eq!(producer.delivered(), sent.len() as u64);
        let mut log = cluster.log(&[&topic]);
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        let got: Vec<_> = read_to_end(&mut log, 1)
            .into_iter()
            .filter_map(|item| match item {
                Item::Record { key, value, .. } => Some((key, value)),
                Item::End { .. } => None,
            })
            .collect();
        let sent: Vec<_> = sent
            .into_iter()
            .map(|(key, value)| (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec)))
            .collect();
        assert!(got == sent, "bytes differ");
    });
}

#[test]
fn a_new_assignment_replaces_the_old_one_and_reads_again() {
    on_each(|cluster| {
        let topic = cluster.topic("again", 2);
        send(cluster, &topic, 0, numbered(0, 500));
        send(cluster, &topic, 1, numbered(0, 500));
        let mut log = cluster.log(&[&topic]);
        let mut part = Vec::new();
        log.assign(&[(at(&topic, 0), 0), (at(&topic, 1), 0)]).unwrap();
        read_until(&mut log, &mut part, |items| items.len() > 100);
        for (partition, from) in [(0, 100), (1, 400), (1, 0), (0, 499), (0, 500)] {
            log.assign(&[(at(&topic, partition), from)]).unwrap();
            let items = read_to_end(&mut log, 1);
            assert_eq!(offsets_of(&items, 0), (from..500).collect::<Vec<_>>());
            assert_eq!(last_end(&items, 0), 500);
        }
        log.assign(&[]).unwrap();
        let mut none = Vec::new();
        assert_eq!(poll_into(&mut log, 10, &mut none).unwrap(), 0);
    });
}

/// librdkafka ends the process where a partition is taken back again before it has been stopped.
#[test]
fn assignments_that_follow_each_other_at_once_end_nothing() {
    on_each(|cluster| {
        let topic = cluster.topic("quickly", 3);
        for partition in 0..3 {
            send(cluster, &topic, partition, numbered(0, 200));
        }
        for round in 0..6 {
            let mut log = cluster.log(&[&topic]);
            for from in 0..4 {
                let all: Vec<_> = (0..3).map(|partition| (at(&topic, partition), from)).collect();
                log.assign(&all).unwrap();
                if round % 2 == 0 {
                    read_until(&mut log, &mut Vec::new(), |items| !items.is_empty());
                }
            }
        }
    });
}

#[test]
fn bounds_tell_what_the_log_holds() {
    on_each(|cluster| {
        let topic = cluster.topic("bounds", 2);
        send(cluster, &topic, 1, numbered(0, 42));
        let mut log = cluster.log(&[&topic]);
        let empty = Bounds { low: 0, high: 0 };
        assert_eq!(log.bounds(&at(&topic, 0)).unwrap(), empty);
        assert_eq!(log.bounds(&at(&topic, 1)).unwrap(), Bounds { low: 0, high: 42 });
    });
}

#[test]
fn a_partition_added_later_is_noticed_and_read_from_its_start() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("grow", 1);
    let mut log = cluster.log(&[&topic]);
    assert_eq!(log.partitions().unwrap(), [at(&topic, 0)]);
    let admin = cluster.admin();
    admin.grow_topic(&topic, 3).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while log.partitions().unwrap().len() < 3 {
        assert!(Instant::now() < deadline);
    }
    send(&cluster, &topic, 2, numbered(0, 3));
    let from: Vec<_> = (0..3).map(|number| (at(&topic, number), 0)).collect();
    log.assign(&from).unwrap();
    assert_eq!(offsets_of(&read_to_end(&mut log, 3), 2), [0, 1, 2]);
    assert_eq!(admin.partition_count(&topic).unwrap(), Some(3));
    admin.delete_topic(&topic).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while admin.partition_count(&topic).unwrap().is_some() {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn records_spread_by_key_are_all_read_once() {
    on_each(|cluster| {
        let topic = cluster.topic("spread", 4);
        let producer = cluster.producer();
        for number in 0..20_000_u32 {
            let key = format!("k{}", number % 97);
            producer.send(&topic, None, Some(key.as_bytes()), Some(&number.to_be_bytes())).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        let mut log = cluster.log(&[&topic]);
        let from: Vec<_> = log.partitions().unwrap().into_iter().map(|place| (place, 0)).collect();
        log.assign(&from).unwrap();
        let mut last_by_key: BTreeMap<Vec<u8>, (usize, u32)> = BTreeMap::new();
        let mut count = 0;
        for item in read_to_end(&mut log, 4) {
            let Item::Record { slot, key, value, .. } = item else {
                continue;
            };
            let number = u32::from_be_bytes(value.unwrap().try_into().unwrap());
            let before = last_by_key.insert(key.unwrap(), (slot, number));
            assert!(before.is_none_or(|(held, last)| held == slot && last < number));
            count += 1;
        }
        assert_eq!(count, 20_000);
        assert_eq!(last_by_key.len(), 97);
    });
}
