//! Defends the stream's promises: same bytes, dense sequences, true hints, shares, bounded disorder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::*;
use crate::pure::event::{Decoded, Image};
use crate::pure::formats::native::{NativeDecoder, Order};
use crate::pure::value::Value;

/// Everything happens often, with few lines to correct and few products.
fn eventful() -> Workload {
    Workload {
        events: 20_000,
        first_seq: 208,
        products: 7,
        update_share: 0.2,
        move_share: 0.15,
        refund_share: 0.15,
        delete_share: 0.2,
        reinsert_share: 0.5,
        late_share: 0.2,
        duplicate_share: 0.2,
        disorder_share: 0.3,
        correctable_lines_max: 500,
        ..Workload::default()
    }
}

fn decoder() -> NativeDecoder {
    NativeDecoder::new(Arc::new(crate::example::table()), Order::SourceSeq)
}

fn decode(decoder: &NativeDecoder, delivery: &Delivery) -> Image {
    match decoder.decode(0, Some(delivery.key.as_bytes()), Some(delivery.json.as_bytes())) {
        Ok(Decoded::Change { seq, image }) => {
            assert_eq!(seq, Seq::at(delivery.seq));
            image
        }
        other => panic!("{} gave {other:?}", delivery.json),
    }
}

/// The source events in their order, each once.
fn in_source_order(workload: &Workload) -> BTreeMap<u64, Delivery> {
    workload.events().map(|delivery| (delivery.seq, delivery)).collect()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("the stream is JSON")
}

/// The greatest seq and the row of each key.
fn fold<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> BTreeMap<String, (u64, Image)> {
    let decoder = decoder();
    let mut rows = BTreeMap::new();
    for delivery in deliveries {
        let image = decode(&decoder, delivery);
        match rows.get(&delivery.key) {
            Some((seq, _)) if *seq >= delivery.seq => {}
            _ => drop(rows.insert(delivery.key.clone(), (delivery.seq, image))),
        }
    }
    rows
}

#[test]
fn equal_settings_give_the_bytes_they_always_gave() {
    let hash = |workload: &Workload| {
        let mut hash = Sha256::new();
        for delivery in workload.events() {
            hash.update(format!("{}\t{}\n", delivery.key, delivery.json));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hash(&eventful()), hash(&eventful()));
    assert_ne!(hash(&eventful()), hash(&Workload { seed: 2, ..eventful() }));
    // A changed hash is a changed stream: earlier measurements cannot be repeated with it.
    assert_eq!(hash(&eventful()), "b66e37e8441451a625eba46bf57183c6bb0dd1d167459ca124d8d260998f0656");
    assert_eq!(
        hash(&Workload { events: 20_000, ..Workload::default() }),
        "df73adb7f2a807d41aa497410638a5568cb39fffc18e35f6afd658c7772c5a04"
    );
}

#[test]
fn an_event_reads_as_documented() {
    let first =
        Workload { products: 1, disorder_share: 0.0, ..Workload::default() }.events().next().expect("events");
    assert_eq!(first.key, r#"{"order_id":"O100000","line_no":1}"#);
    let json = concat!(
        r#"{"event_id":"EV1","source_seq":1,"op":"I","order_id":"O100000","line_no":1,"#,
        r#""old_order_date":null,"old_product_id":null,"new_order_date":"2026-09-18","new_product_id":"P100","#,
        r#""applied_at":"2026-09-18T00:00:00Z","row":{"order_id":"O100000","line_no":1,"#,
        r#""order_date":"2026-09-18","product_id":"P100","customer_id":"C1611","#,
        r#""channel":"web","quantity":5,"amount_cents":16250,"cost_cents":10400,"status":"paid"}}"#,
    );
    assert_eq!(first.json, json);
}

#[test]
fn sequences_are_dense_and_unique_and_a_duplicate_repeats_its_original() {
    let workload = eventful();
    let mut seen: BTreeMap<u64, Delivery> = BTreeMap::new();
    let mut duplicates = 0;
    for delivery in workload.events() {
        match seen.get(&delivery.seq) {
            Some(original) => {
                assert_eq!(*original, delivery);
                duplicates += 1;
            }
            None => drop(seen.insert(delivery.seq, delivery)),
        }
    }
    assert!(seen.keys().copied().eq(208..20_208));
    assert!((3_600..4_400).contains(&duplicates), "{duplicates}");
}

#[test]
fn delivery_alters_nothing_that_happened() {
    let troubled = eventful();
    let calm =
        Workload { duplicate_share: 0.0, disorder_share: 0.0, disorder_places_max: 0, ..troubled.clone() };
    let as_it_came: Vec<Delivery> = calm.events().collect();
    assert!(as_it_came.iter().map(|delivery| delivery.seq).eq(208..20_208));
    assert!(as_it_came.iter().eq(in_source_order(&troubled).values()));
}

#[test]
fn disorder_stays_within_its_places() {
    let workload = eventful();
    let mut greatest = 0;
    let mut late = 0;
    for delivery in workload.events() {
        greatest = greatest.max(delivery.seq);
        late += u32::from(delivery.seq < greatest);
        assert!(delivery.seq + u64::from(workload.disorder_places_max) >= greatest);
    }
    assert!(late > 5_000, "{late}");
}

#[test]
fn folding_by_greatest_seq_equals_folding_in_source_order() {
    let workload = eventful();
    let delivered: Vec<Delivery> = workload.events().collect();
    let ordered = in_source_order(&workload);
    let mut expected = BTreeMap::new();
    let decoder = decoder();
    for delivery in ordered.values() {
        expected.insert(delivery.key.clone(), (delivery.seq, decode(&decoder, delivery)));
    }
    assert_eq!(fold(&delivered), expected);
    assert_eq!(fold(delivered.iter().rev()), expected);
}

#[test]
fn hints_and_operations_are_true() {
    let decoder = decoder();
    let mut rows: BTreeMap<String, Box<[Value]>> = BTreeMap::new();
    let mut deleted: BTreeSet<String> = BTreeSet::new();
    let (mut came_back, mut moved) = (0, 0);
    let mut last_time = String::new();
    for delivery in in_source_order(&eventful()).into_values() {
        let event = json(&delivery.json);
        assert_eq!(event["event_id"], format!("EV{}", delivery.seq));
        let key = json(&delivery.key);
        assert_eq!((&key["order_id"], &key["line_no"]), (&event["order_id"], &event["line_no"]));
        let stored = rows.get(&delivery.key);
        let column = |at: usize| stored.map_or(serde_json::Value::Null, |row| row[at].to_json());
        assert_eq!((&event["old_order_date"], &event["old_product_id"]), (&column(2), &column(3)));
        let time = event["applied_at"].as_str().expect("a time").to_owned();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && time >= last_time);
        last_time = time;
        let operation = event["op"].as_str().expect("an operation");
        match decode(&decoder, &delivery) {
            Image::Row(row) => {
                assert_eq!(operation, if stored.is_some() { "U" } else { "I" });
                moved += u32::from(stored.is_some_and(|old| old[2..4] != row[2..4]));
                came_back += u32::from(deleted.remove(&delivery.key));
                assert_eq!(
                    (&event["new_order_date"], &event["new_product_id"]),
                    (&row[2].to_json(), &row[3].to_json())
                );
                rows.insert(delivery.key, row);
            }
            Image::Deleted(_) => {
                assert_eq!(operation, "D");
                assert!(event["row"].is_null() && event["new_order_date"].is_null());
                assert!(rows.remove(&delivery.key).is_some());
                deleted.insert(delivery.key);
            }
        }
    }
    assert!(came_back > 1_000, "{came_back}");
    assert!((2_600..3_400).contains(&moved), "{moved}");
    assert!(last_time.starts_with("2026-10-17T23:5"), "{last_time}");
}

#[test]
fn shares_hold_roughly() {
    let workload = Workload { events: 50_000, zipf_exponent: 1.0, ..Workload::default() };
    let (mut inserts, mut late, mut updates, mut refunds, mut deletes, mut hottest) = (0, 0, 0, 0, 0, 0);
    let mut previous: BTreeMap<String, String> = BTreeMap::new();
    for delivery in in_source_order(&workload).into_values() {
        let event = json(&delivery.json);
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let status = text(&event["row"]["status"]);
        match event["op"].as_str() {
            Some("I") => {
                inserts += 1;
                late += u32::from(text(&event["row"]["order_date"])[..] < text(&event["applied_at"])[..10]);
                hottest += u32::from(event["row"]["product_id"] == "P100");
            }
            Some("U") => {
                updates += 1;
                refunds += u32::from(status == "refunded" && previous[&delivery.key] == "paid");
            }
            _ => deletes += 1,
        }
        previous.insert(delivery.key, status);
    }
    let about = |count: u32, of: u32, share: f64| {
        let found = f64::from(count) / f64::from(of);
        assert!((found - share).abs() < 0.1 * share + 0.002, "{found} instead of {share}");
    };
    about(inserts, 50_000, 0.84);
    about(updates, 50_000, 0.14);
    about(refunds, 50_000, 0.03);
    about(deletes, 50_000, 0.02);
    about(late, inserts, 0.02);
    // 1 / (1 + 1/2 + … + 1/1000)
    about(hottest, inserts, 0.1336);
}

#[test]
fn the_smallest_and_the_strangest_settings_make_a_stream() {
    let smallest = Workload {
        days: 1,
        products: 1,
        customers: 1,
        lines_per_order_max: 1,
        correctable_lines_max: 1,
        late_share: 0.0,
        late_days_max: 0,
        events: 1_000,
        ..Workload::default()
    };
    let strangest = Workload {
        update_share: 0.0,
        move_share: 0.0,
        refund_share: 0.0,
        delete_share: 0.9,
        reinsert_share: 1.0,
        late_share: 1.0,
        duplicate_share: 1.0,
        disorder_share: 1.0,
        zipf_exponent: 10.0,
        first_seq: 0,
        events: 1_000,
        ..Workload::default()
    };
    for workload in [smallest, strangest] {
        assert_eq!(workload.validate(), Ok(()));
        assert_eq!(in_source_order(&workload).len(), 1_000);
        let deliveries: Vec<_> = workload.events().collect();
        fold(&deliveries);
    }
}

#[test]
fn what_is_refused_names_its_setting_and_gives_no_events() {
    let valid = Workload::default;
    for (name, workload) in [
        ("days", Workload { days: 0, ..valid() }),
        ("products", Workload { products: 0, ..valid() }),
        ("first_seq", Workload { first_seq: u64::MAX, ..valid() }),
        ("first_order", Workload { first_order: u64::MAX - 1, ..valid() }),
        ("start_date", Workload { start_date: Date::MIN, ..valid() }),
        ("zipf_exponent", Workload { zipf_exponent: f64::NAN, ..valid() }),
        ("update_share", Workload { update_share: 1.5, ..valid() }),
        ("add up", Workload { update_share: 0.5, delete_share: 0.41, ..valid() }),
        ("late_days_max", Workload { late_days_max: 0, ..valid() }),
        ("disorder_places_max", Workload { disorder_places_max: 0, ..valid() }),
    ] {
        let message = workload.validate().expect_err(name);
        assert!(message.contains(name), "{message}");
        assert_eq!(workload.events().count(), 0);
    }
    assert_eq!(valid().validate(), Ok(()));
}
