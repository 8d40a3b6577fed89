//! Answers of more groups than one atomic read holds, answers that are too long, and a view that moves while it is
//! read.

use driftless::pipeline::route::{Ports, RouteSettings, answer};
use driftless::ports::{KeyScan, Meta, Outline, PortResult, RangeRead, StoredFields, StoredGroup, ViewStore};
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{Publish, PublishReply};
use driftless::pure::route::{Code, Route};
use serde_json::Value;

use crate::house::{House, Line, SETTINGS, ask, contract, publish_all, told};

const GROUPS: u64 = 2_500;

fn many() -> House {
    let line = |seq: u64| {
        let mut event = Line("O", 1, "2026-09-22", "P", "web", 1, seq as i64, "paid").event(seq);
        let product = format!("P{:05}", seq % GROUPS);
        event["order_id"] = format!("O{seq}").into();
        event["row"]["order_id"] = format!("O{seq}").into();
        event["row"]["product_id"] = product.into();
        event
    };
    let events: Vec<Value> = (1..=2 * GROUPS).map(line).collect();
    House::ready(&contract(&[]), &events)
}

#[test]
fn an_answer_of_several_pages_is_of_one_version() {
    let house = many();
    for group_by in [&[][..], &["product_id"], &["order_date", "product_id"]] {
        let asked = ask(&["gmv_cents", "units"], "order_date = '2026-09-22'", group_by);
        let answer = house.answer(&asked, None);
        assert_eq!(answer.route, Some(Route::Redis));
        let expected = house.by_sql(group_by, &["gmv_cents", "units"], "", "1");
        assert_eq!(told(&answer), expected);
        assert_eq!(told(&house.answer(&asked, Some(Route::Base))), expected);
    }
    let settings = RouteSettings { groups_max: GROUPS as usize - 1, ..SETTINGS };
    for route in [Route::Redis, Route::Base] {
        let asked = ask(&["units"], "", &["product_id"]);
        let error = house.answer_within(&asked, Some(route), &settings).expect_err("too long an answer");
        assert!(error.to_string().contains("route.groups_max"), "{error}");
    }
}

/// Publishes something new before every read of a page but the first ones.
struct Moving<'a> {
    house: &'a House,
    store: driftless::io::redis::RedisStore,
    reads: u64,
    quiet_from: u64,
}

impl ViewStore for Moving<'_> {
    fn read_meta(&mut self, object: &str) -> PortResult<Meta> {
        self.store.read_meta(object)
    }

    fn publish(&mut self, object: &str, columns: &[String], publish: &Publish) -> PortResult<PublishReply> {
        self.store.publish(object, columns, publish)
    }

    fn read_range(
        &mut self,
        object: &str,
        after: Option<&str>,
        through: Option<&str>,
        limit: usize,
    ) -> PortResult<RangeRead> {
        self.reads += 1;
        if self.reads < self.quiet_from {
            let seq = 2 * GROUPS + self.reads;
            self.house
                .append(&[Line("Oxy", 1, "2026-09-22", "P00001", "web", seq as i64, 1, "paid").event(seq)]);
            let mut publisher_store = self.house.store();
            self.house.world.run(|running| {
                running.ingest_all();
                running.probe();
                publish_all(running, &mut publisher_store);
            });
        }
        self.store.read_range(object, after, through, limit)
    }

    fn read_rows(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredFields>)> {
        self.store.read_rows(object, keys)
    }

    fn read_groups(&mut self, object: &str, keys: &[GroupKey]) -> PortResult<(Meta, Vec<StoredGroup>)> {
        self.store.read_groups(object, keys)
    }

    fn read_outline(&mut self, object: &str) -> PortResult<Outline> {
        self.store.read_outline(object)
    }

    fn scan_strays(&mut self, object: &str, cursor: u64) -> PortResult<KeyScan> {
        self.store.scan_strays(object, cursor)
    }
}

#[test]
fn a_view_that_moves_between_pages_is_read_again_and_then_left_to_the_base() {
    for (quiet_from, route, reason) in [(4, Route::Redis, Code::Eligible), (1_000, Route::Base, Code::Mixed)]
    {
        let house = many();
        let asked = ask(&["units"], "", &[]);
        let catalog = &house.world.catalog;
        let query = asked.check(&catalog.views[0].view, &catalog.tables[0].shape).expect("a question");
        let mut base = house.reader();
        let mut store = Moving { house: &house, store: house.store(), reads: 0, quiet_from };
        let mut ports = Ports { base: &mut base, store: &mut store, clock: &*house.world.clock };
        let answer = answer(&mut ports, catalog, 0, &query, None, &SETTINGS, None).expect("an answer");
        assert_eq!((answer.route, answer.decision.reasons()), (Some(route), vec![reason]));
        assert!(store.reads >= 4, "{} reads", store.reads);
        assert_eq!(told(&answer), house.by_sql(&[], &["units"], "", "1"));
    }
}
