//! Dual run against a real Redis: equal answers, damage, a stream that moves, questions that Redis never answers.

use driftless::pipeline::route::Ports;
use driftless::pipeline::shadow::{Compared, Verdict, compare};
use driftless::pure::publish::GroupValue;
use driftless::pure::query::Ask;
use driftless::pure::route::Code;
use serde_json::Value;

use crate::house::{House, Line, SETTINGS, ask, contract};

fn lines() -> Vec<Value> {
    let line = |seq: u64| {
        let product = ["P1", "P2", "P3"][seq as usize % 3];
        let mut event = Line("O", seq as i64, "2026-09-22", product, "web", 1, 100, "paid").event(seq);
        event["row"]["quantity"] = seq.into();
        event
    };
    (1..=12).map(line).collect()
}

fn compared(house: &House, asked: &Ask, mut pause: impl FnMut()) -> Compared {
    let catalog = &house.world.catalog;
    let query = asked.check(&catalog.views[0].view, &catalog.tables[0].shape).expect("a question");
    let (mut base, mut store) = (house.reader(), house.store());
    let mut ports = Ports { base: &mut base, store: &mut store, clock: &*house.world.clock };
    compare(&mut ports, catalog, 0, &query, &SETTINGS, &mut pause).expect("a comparison")
}

#[test]
fn equal_answers_are_the_same_and_a_damaged_field_differs() {
    let house = House::ready(&contract(&[]), &lines());
    let asked = ask(&["units"], "", &["product_id"]);
    let same = compared(&house, &asked, || panic!("nothing to wait for"));
    assert_eq!((same.verdict, same.rows, same.pending), (Verdict::Same, 3, 0));
    assert!(same.redis_us.is_some() && same.base_us.is_some());
    house.redis(&["HINCRBY", "driftless:{agg_daily_product}:row:2026-09-22:P2", "units", "1"]);
    let differs = compared(&house, &asked, || panic!("nothing to wait for"));
    assert_eq!(differs.verdict, Verdict::Differs);
    let [difference] = &differs.differences[..] else { panic!("{differs:?}") };
    assert_eq!(difference.key, ["P2".into()]);
    let number = |value: &Option<GroupValue>| match value {
        Some(GroupValue::Measures(numbers)) => numbers[0],
        other => panic!("{other:?}"),
    };
    assert_eq!(number(&difference.redis), number(&difference.base).map(|units| units + 1));
    assert_eq!(compared(&house, &ask(&["gmv_cents"], "", &[]), || ()).verdict, Verdict::Same);
}

#[test]
fn what_is_on_its_way_is_waited_for_and_never_called_a_difference() {
    let house = House::ready(&contract(&[]), &lines());
    let asked = ask(&["units", "gmv_cents"], "", &["product_id"]);
    house.append(&[Line("X", 1, "2026-09-22", "P1", "web", 5, 5, "paid").event(13)]);
    house.read_all();
    let mut looks = 0;
    let waited = compared(&house, &asked, || {
        looks += 1;
        if looks == 3 {
            house.publish();
        }
    });
    assert_eq!((waited.verdict, waited.rows, looks), (Verdict::Same, 3, 3));
    house.append(&[Line("X", 2, "2026-09-22", "P1", "web", 5, 5, "paid").event(14)]);
    house.read_all();
    let given_up = compared(&house, &asked, || ());
    assert_eq!((given_up.verdict, given_up.rows, given_up.pending), (Verdict::Undecided, 2, 1));
    assert!(given_up.why.contains("1 rows changed"), "{}", given_up.why);
    // A question about other groups does not wait for it.
    let beside = ask(&["units"], "product_id = 'P2'", &["product_id"]);
    assert_eq!(compared(&house, &beside, || panic!("not its group")).verdict, Verdict::Same);
}

#[test]
fn questions_that_redis_never_answers_and_states_that_say_nothing() {
    let house = House::ready(&contract(&[("/policy/roles", serde_json::json!(["sales"]))]), &lines());
    let as_sales = |asked: Ask| Ask { role: Some("sales".to_owned()), ..asked };
    let denied = compared(&house, &ask(&["units"], "", &[]), || ());
    assert_eq!((denied.verdict, denied.reasons), (Verdict::Denied, vec![Code::PolicyDenied]));
    let orders = compared(&house, &as_sales(ask(&["order_count"], "", &[])), || ());
    assert_eq!((orders.verdict, orders.redis_us), (Verdict::BaseOnly, None));
    assert!(orders.why.starts_with("NOT_ADDITIVE"), "{}", orders.why);
    // A state that keeps Redis from answering now does not keep it from being compared.
    house.world.clock.advance(1_000_000);
    let stale = compared(&house, &as_sales(ask(&["units"], "", &[])), || ());
    assert_eq!((stale.verdict, stale.reasons), (Verdict::Same, vec![Code::Stale]));
    house.redis(&["HSET", "driftless:{agg_daily_product}", "nonce", "another"]);
    let foreign = compared(&house, &as_sales(ask(&["units"], "", &[])), || ());
    assert_eq!(foreign.verdict, Verdict::Undecided);
    assert!(foreign.why.contains("none of this base"), "{}", foreign.why);
    house.redis(&["FLUSHALL"]);
    assert_eq!(compared(&house, &as_sales(ask(&["units"], "", &[])), || ()).verdict, Verdict::Undecided);
}
