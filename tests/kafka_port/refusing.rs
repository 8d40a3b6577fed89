//! What is refused or told as trouble: offsets that the log does not hold, missing topics and partitions,
//! brokers that are away. Nothing may be skipped without a word.

use std::time::{Duration, Instant};

use driftless::io::kafka::{KafkaLog, KafkaSettings, MockKafka};
use driftless::ports::Log;

use crate::cluster::*;

#[test]
fn an_offset_above_the_end_is_a_permanent_error_with_its_place() {
    on_each(|cluster| {
        let topic = cluster.topic("above", 2);
        send(cluster, &topic, 0, numbered(0, 400));
        send(cluster, &topic, 1, numbered(0, 10));
        let mut log = cluster.log(&[&topic]);
        log.assign(&[(at(&topic, 0), 1_000), (at(&topic, 1), 0)]).unwrap();
        let error = poll_to_error(&mut log);
        assert!(!error.is_transient(), "{error}");
        for part in [&format!("{topic}:0"), "1000", "0 to 400", "remedy"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
        // It is not forgotten, and a new assignment cures it.
        assert!(!poll_to_error(&mut log).is_transient());
        log.assign(&[(at(&topic, 0), 399)]).unwrap();
        assert_eq!(offsets_of(&read_to_end(&mut log, 1), 0), [399]);
    });
}

#[test]
fn an_offset_that_retention_cut_is_a_permanent_error_with_its_place() {
    on_each(|cluster| {
        let topic = cluster.topic("cut", 1);
        match cluster {
            // The mock keeps 5 MiB of a partition.
            Cluster::Mock(_) => {
                send(cluster, &topic, 0, (0..12).map(|_| "x".repeat(900_000)));
            }
            Cluster::Real(_) => {
                send(cluster, &topic, 0, numbered(0, 100));
                cluster.admin().delete_records_below(&at(&topic, 0), 60).unwrap();
            }
        }
        let mut log = cluster.log(&[&topic]);
        let bounds = log.bounds(&at(&topic, 0)).unwrap();
        assert!(bounds.low > 0, "{bounds:?}");
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        let error = poll_to_error(&mut log);
        assert!(!error.is_transient(), "{error}");
        let held = format!("{} to {}", bounds.low, bounds.high);
        for part in [&format!("offset 0 of {topic}:0"), &held, "retention"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
        log.assign(&[(at(&topic, 0), bounds.low)]).unwrap();
        let items = read_to_end(&mut log, 1);
        assert_eq!(offsets_of(&items, 0).first(), Some(&bounds.low));
    });
}

#[test]
fn a_false_out_of_range_skips_and_repeats_nothing() {
    let mock = MockKafka::start().unwrap();
    let cluster = Cluster::Mock(mock);
    let topic = cluster.topic("false", 2);
    send(&cluster, &topic, 0, numbered(0, 3_000));
    send(&cluster, &topic, 1, numbered(0, 3_000));
    let mut log = cluster.log(&[&topic]);
    log.assign(&[(at(&topic, 0), 0), (at(&topic, 1), 5)]).unwrap();
    let Cluster::Mock(mock) = &cluster else { unreachable!() };
    let mut items = Vec::new();
    let mut passing = 0;
    mock.deny_offsets(2);
    let deadline = Instant::now() + PATIENCE;
    while !(0..2).all(|slot| items.contains(&Item::End { slot, next_offset: 3_000 })) {
        assert!(Instant::now() < deadline);
        if let Err(error) = poll_into(&mut log, 100, &mut items) {
            assert!(error.is_transient(), "{error}");
            passing += 1;
            if passing < 4 {
                mock.deny_offsets(1);
            }
        }
    }
    assert!(passing > 0, "the broker denied nothing");
    assert_eq!(offsets_of(&items, 0), (0..3_000).collect::<Vec<_>>());
    assert_eq!(offsets_of(&items, 1), (5..3_000).collect::<Vec<_>>());
}

#[test]
fn a_broker_that_goes_away_is_passing_trouble_told_seldom_and_nothing_is_lost() {
    let cluster = Cluster::Mock(MockKafka::start().unwrap());
    let topic = cluster.topic("away", 1);
    send(&cluster, &topic, 0, numbered(0, 10));
    let mut log = cluster.log(&[&topic]);
    log.assign(&[(at(&topic, 0), 0)]).unwrap();
    let mut items = read_to_end(&mut log, 1);
    let Cluster::Mock(mock) = &cluster else { unreachable!() };
    mock.go_away().unwrap();
    let error = poll_to_error(&mut log);
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains(&mock.brokers()), "{error}");
    let told_again = (0..10).filter(|_| poll_into(&mut log, 10, &mut Vec::new()).is_err()).count();
    assert_eq!(told_again, 0, "the same trouble was told again at once");
    mock.come_back().unwrap();
    send(&cluster, &topic, 0, numbered(10, 20));
    read_until(&mut log, &mut items, |items| offsets_of(items, 0).len() >= 20);
    assert_eq!(offsets_of(&items, 0), (0..20).collect::<Vec<_>>());
}

#[test]
fn an_address_where_nothing_listens_is_passing_trouble_that_names_it() {
    let mut settings = KafkaSettings::new("127.0.0.1:9", "driftless-test");
    settings.request_timeout_ms = 500;
    let mut log = KafkaLog::open(&settings, &["t".to_string()]).unwrap();
    let error = log.partitions().unwrap_err();
    assert!(error.is_transient());
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_missing_topic_is_a_permanent_error_until_it_is_created() {
    on_each(|cluster| {
        let present = cluster.topic("present", 1);
        let missing = fresh_name("missing");
        let mut log = cluster.log(&[&present, &missing]);
        for _ in 0..2 {
            let error = log.partitions().unwrap_err();
            assert!(!error.is_transient(), "{error}");
            assert!(error.to_string().contains(&missing), "{error}");
        }
        match cluster {
            Cluster::Mock(mock) => mock.create_topic(&missing, 2).unwrap(),
            Cluster::Real(_) => cluster.admin().create_topic(&missing, 2, 1, &[]).unwrap(),
        }
        assert_eq!(log.partitions().unwrap().len(), 3);
    });
}

#[test]
fn a_partition_that_does_not_exist_is_a_permanent_error_that_names_it() {
    on_each(|cluster| {
        let topic = cluster.topic("fewer", 2);
        let mut log = cluster.log(&[&topic]);
        let error = log.assign(&[(at(&topic, 0), 0), (at(&topic, 3), 7)]).unwrap_err();
        assert!(!error.is_transient(), "{error}");
        let named = format!("{topic}:3 (to be read from offset 7)");
        assert!(error.to_string().contains(&named), "{error}");
        assert_eq!(poll_into(&mut log, 10, &mut Vec::new()).unwrap(), 0);
    });
}

#[test]
fn a_negative_offset_is_refused_before_it_can_mean_a_reset() {
    let cluster = Cluster::Mock(MockKafka::start().unwrap());
    let topic = cluster.topic("negative", 1);
    let mut log = cluster.log(&[&topic]);
    for offset in [-1, -2, -1001] {
        assert!(log.assign(&[(at(&topic, 0), offset)]).is_err());
    }
}

#[test]
fn advice_that_cannot_be_given_is_no_error() {
    on_each(|cluster| {
        let topic = cluster.topic("advice", 1);
        send(cluster, &topic, 0, numbered(0, 5));
        let mut log = cluster.log(&[&topic]);
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        let mut items = read_to_end(&mut log, 1);
        log.advise(&[(at(&topic, 0), 5)]);
        log.advise(&[(at("no-such-topic", 9), 5)]);
        send(cluster, &topic, 0, numbered(5, 10));
        read_until(&mut log, &mut items, |items| offsets_of(items, 0).len() >= 10);
        // Told to the group, and still read from where the caller says.
        log.assign(&[(at(&topic, 0), 0)]).unwrap();
        assert_eq!(offsets_of(&read_to_end(&mut log, 1), 0).len(), 10);
    });
}

#[test]
fn a_topic_that_is_deleted_while_it_is_read_is_told() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("gone", 1);
    send(&cluster, &topic, 0, numbered(0, 3));
    let mut settings = cluster.settings();
    settings.properties.insert("topic.metadata.refresh.interval.ms".into(), "500".into());
    settings.properties.insert("topic.metadata.propagation.max.ms".into(), "1000".into());
    let mut log = KafkaLog::open(&settings, std::slice::from_ref(&topic)).unwrap();
    log.assign(&[(at(&topic, 0), 0)]).unwrap();
    read_to_end(&mut log, 1);
    cluster.admin().delete_topic(&topic).unwrap();
    let error = poll_to_error(&mut log);
    assert!(!error.is_transient(), "{error}");
    assert!(error.to_string().contains(&topic), "{error}");
}

#[test]
fn tls_without_the_feature_says_which_feature() {
    if cfg!(feature = "kafka-tls") {
        return;
    }
    for (name, value) in
        [("security.protocol", "ssl"), ("ssl.ca.location", "/nowhere.pem"), ("ssl.key.password", "hunter2")]
    {
        let mut settings = KafkaSettings::new("127.0.0.1:9", "driftless-test");
        settings.properties.insert(name.into(), value.into());
        let error = KafkaLog::open(&settings, &["t".to_string()]).err().unwrap();
        assert!(!error.is_transient());
        assert!(error.to_string().contains("kafka-tls"), "{name}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// Deletes a topic and makes another of the same name, with one partition of `count` records.
fn recreate(cluster: &Cluster, topic: &str, count: usize) {
    let admin = cluster.admin();
    admin.delete_topic(topic).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while admin.create_topic(topic, 1, 1, &[]).is_err() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    send(cluster, topic, 0, numbered(0, count));
}

#[test]
fn a_topic_that_was_re_created_is_refused_though_the_offset_exists() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("recreated", 1);
    send(&cluster, &topic, 0, numbered(0, 50));
    let mut log = cluster.log(&[&topic]);
    let id = log.topic_id(&topic).unwrap().expect("an id");
    log.assign(&[(at(&topic, 0), 0)]).unwrap();
    read_to_end(&mut log, 1);
    recreate(&cluster, &topic, 80);
    for error in [log.partitions().unwrap_err(), log.assign(&[(at(&topic, 0), 50)]).unwrap_err()] {
        assert!(!error.is_transient(), "{error}");
        for part in [&topic, &id, "re-created"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
    // A later start tells by the id that was kept.
    assert_ne!(cluster.log(&[&topic]).topic_id(&topic).unwrap(), Some(id));
}

#[test]
fn a_topic_that_is_re_created_while_it_is_read_stops_the_reading() {
    let Some(cluster) = real() else { return };
    let topic = cluster.topic("swapped", 1);
    send(&cluster, &topic, 0, numbered(0, 50));
    let mut settings = cluster.settings();
    settings.topic_check_ms = 100;
    let mut log = KafkaLog::open(&settings, std::slice::from_ref(&topic)).unwrap();
    log.assign(&[(at(&topic, 0), 0)]).unwrap();
    read_to_end(&mut log, 1);
    recreate(&cluster, &topic, 80);
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "nothing was noticed");
        match poll_into(&mut log, 1_000, &mut Vec::new()) {
            Err(error) if !error.is_transient() => {
                assert!(error.to_string().contains("re-created"), "{error}");
                break;
            }
            _ => {}
        }
    }
    assert!(!poll_to_error(&mut log).is_transient());
}

#[test]
fn credentials_that_the_broker_refuses_are_permanent_at_the_start_and_not_shown() {
    let Some(cluster) = real() else { return };
    let mut settings = cluster.settings();
    settings.request_timeout_ms = 2_000;
    for (name, value) in [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanisms", "PLAIN"),
        ("sasl.username", "alice"),
        ("sasl.password", "hunter2"),
    ] {
        settings.properties.insert(name.into(), value.into());
    }
    let mut log = KafkaLog::open(&settings, &["t".to_string()]).unwrap();
    let error = log.partitions().unwrap_err();
    assert!(!error.is_transient(), "{error}");
    assert!(error.to_string().contains("sasl.mechanisms"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
