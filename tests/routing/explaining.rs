//! Why a number is what it is: rows, moves between groups, repairs, and the publish that showed them; and the book of
//! what was asked.

use driftless::io::redis::first_publish_from;
use driftless::io::sqlite::{Cause, GroupFacts, RowMove, SqliteUseBook};
use driftless::ports::{Lineage, UseBook, ViewStore};
use driftless::pure::base::Action;
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{Cursor, GroupValue};
use driftless::pure::route::{Code, Route};
use driftless::pure::usage::{OTHER_ROLES, Use, UseCount, kept_role};

use crate::house::{House, Line, contract};
use crate::support::OBJECT;

fn explain(house: &House, key: &str) -> GroupFacts {
    let catalog = &house.world.catalog;
    let cursor = Cursor::from_meta(&house.store().read_meta(OBJECT).expect("a meta"));
    let key = GroupKey::from_encoded(key);
    house.reader().explain(0, &catalog.tables[0].shape, &key, &cursor, 10, 10).expect("an explanation")
}

/// What each change did, newest first, with the event's sequence.
fn moves(facts: &GroupFacts) -> Vec<(u64, RowMove)> {
    let told = facts.changes.iter().map(|change| match &change.cause {
        Cause::Repair => (0, RowMove::Unknown),
        Cause::Event { seq, row, .. } => (seq.position, row.clone()),
    });
    told.collect()
}

#[test]
fn the_history_tells_what_brought_a_row_and_where_it_went() {
    let line = |seq: u64, line: i64, product: &'static str, status: &'static str| {
        Line("O1", line, "2026-09-22", product, "web", 1, 100, status).event(seq)
    };
    let house = House::ready(
        &contract(&[]),
        &[
            line(1, 1, "P1", "paid"),
            line(2, 2, "P1", "paid"),
            line(3, 3, "P2", "paid"),
            // Line 2 leaves for P2, line 3 comes, line 1 is refunded.
            line(4, 2, "P2", "paid"),
            line(5, 3, "P1", "paid"),
            line(6, 1, "P1", "refunded"),
        ],
    );
    house
        .request(&Action::RepairGroups { view: OBJECT.to_owned(), groups: vec!["2026-09-22:P1".to_owned()] });
    let (first, second) = (explain(&house, "2026-09-22:P1"), explain(&house, "2026-09-22:P2"));
    let other = |key: &str| GroupKey::from_encoded(format!("2026-09-22:{key}"));
    assert_eq!(
        moves(&first),
        [
            (0, RowMove::Unknown),
            (6, RowMove::Unknown),
            (5, RowMove::CameFrom(other("P2"))),
            (4, RowMove::WentTo(other("P2"))),
            (2, RowMove::Unknown),
            (1, RowMove::Unknown),
        ]
    );
    assert_eq!(
        moves(&second),
        [(5, RowMove::WentTo(other("P1"))), (4, RowMove::CameFrom(other("P1"))), (3, RowMove::Unknown)]
    );
    assert_eq!((first.rows_total, first.rows[0].0.position), (1, 5));
    assert_eq!(
        first.value,
        Some(GroupValue::Measures(vec![Some(1), Some(1), Some(1), Some(100), Some(50), Some(50)]))
    );
    let Cause::Event { at, offset, .. } = &first.changes[1].cause else { panic!("{first:?}") };
    assert_eq!((at.to_string().as_str(), *offset), ("sales.changes:0", 5));
    assert!(first.changes.iter().all(|change| change.at_ms.is_some()));
    // The repair is marked later than what Redis shows; the other group is not.
    let shown = house.store().read_meta(OBJECT).expect("a meta")["version"].parse::<u64>().expect("a number");
    assert_eq!(first.lineage, Lineage::Marked);
    assert!(first.changed_at.expect("a mark").0 > shown && second.changed_at.expect("a mark").0 <= shown);
    let absent = explain(&house, "2026-09-22:nothing");
    assert_eq!((absent.value, absent.changed_at, absent.rows_total), (None, None, 0));
}

#[test]
fn the_stream_tells_which_publish_showed_a_commit_first() {
    let line = |seq: u64| Line("O1", seq as i64, "2026-09-22", "P1", "web", 1, 100, "paid").event(seq);
    let house = House::ready(&contract(&[]), &[line(1)]);
    let mut marks = Vec::new();
    for seq in 2..5 {
        house.append(&[line(seq)]);
        house.publish();
        marks.push(explain(&house, "2026-09-22:P1").changed_at.expect("a mark").0);
    }
    let settings = house.server.settings();
    for (commit, watermark) in marks.iter().zip(["2", "3", "4"]) {
        let publish = first_publish_from(&settings, OBJECT, *commit).expect("the stream").expect("a publish");
        assert_eq!((publish.watermark.as_str(), publish.groups), (watermark, 1));
        assert!(publish.version >= *commit && publish.at_ms > 0);
    }
    assert_eq!(first_publish_from(&settings, OBJECT, marks[2] + 1_000).expect("the stream"), None);
    // Where the stream begins later, it cannot say which was the first.
    assert_eq!(first_publish_from(&settings, OBJECT, 1).expect("the stream"), None);
}

fn used(day: &str, role: Option<&str>, measures: &[&str]) -> Use {
    Use {
        day: day.to_owned(),
        view: OBJECT.to_owned(),
        role: kept_role(role),
        route: Some(Route::Base),
        reasons: vec![Code::Stale, Code::Mixed],
        measures: measures.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn the_book_counts_by_role_reason_and_measure_and_stays_small() {
    let house = House::new(&contract(&[]), &[]);
    house.read_all();
    let mut book = SqliteUseBook::open(&house.world.base_settings("first"), 10).expect("a book");
    for _ in 0..3 {
        book.count(&used("2026-09-21", Some("sales"), &["units", "gmv_cents"])).expect("a count");
    }
    book.count(&used("2026-09-22", None, &["units"])).expect("a count");
    let counts = |book: &SqliteUseBook, since: &str| book.counts(Some(OBJECT), since).expect("counts");
    let find = |counts: &[UseCount], role: &str, reason: &str, measure: &str| {
        let found = counts
            .iter()
            .find(|count| (&*count.role, &*count.reason, &*count.measure) == (role, reason, measure));
        found.map_or(0, |count| count.times)
    };
    let all = counts(&book, "2026-09-01");
    assert_eq!(find(&all, "sales", "", ""), 3);
    assert_eq!(find(&all, "sales", "STALE", ""), 3);
    assert_eq!(find(&all, "sales", "", "gmv_cents"), 3);
    assert_eq!(find(&all, "(none)", "", "units"), 1);
    assert!(all.iter().all(|count| count.route == "base"));
    assert_eq!(find(&counts(&book, "2026-09-22"), "sales", "", ""), 0);
    // Roles are what callers say: many of them are one.
    for number in 0..150 {
        book.count(&used("2026-09-23", Some(&format!("role {number}\u{7}{}", "x".repeat(100))), &[]))
            .expect("a count");
    }
    let day = counts(&book, "2026-09-23");
    assert_eq!(find(&day, OTHER_ROLES, "", ""), 50);
    assert!(day.iter().all(|count| count.role.chars().count() <= 64 && !count.role.contains('\u{7}')));
    // Ten days are kept.
    book.count(&used("2026-10-02", Some("sales"), &[])).expect("a count");
    assert_eq!(find(&counts(&book, ""), "sales", "", ""), 1);
}

#[test]
fn a_busy_base_fails_no_answer() {
    let house =
        House::ready(&contract(&[]), &[Line("O1", 1, "2026-09-22", "P1", "web", 1, 1, "paid").event(1)]);
    let writer = rusqlite::Connection::open(house.world.base_path("first")).expect("the base");
    writer.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let catalog = &house.world.catalog;
    let asked = crate::house::ask(&["units"], "", &[]);
    let query = asked.check(&catalog.views[0].view, &catalog.tables[0].shape).expect("a question");
    let mut book = SqliteUseBook::open(&house.world.base_settings("first"), 10).expect("a book");
    let (mut base, mut store) = (house.reader(), house.store());
    let mut ports =
        driftless::pipeline::route::Ports { base: &mut base, store: &mut store, clock: &*house.world.clock };
    let settings = &crate::house::SETTINGS;
    let mut answer = |book: &mut SqliteUseBook| {
        driftless::pipeline::route::answer(&mut ports, catalog, 0, &query, None, settings, Some(book))
            .expect("an answer")
            .route
    };
    assert_eq!(answer(&mut book), Some(Route::Redis));
    assert_eq!(book.counts(None, "").expect("counts"), []);
    writer.execute_batch("ROLLBACK").expect("the end of it");
    assert_eq!(answer(&mut book), Some(Route::Redis));
    assert_eq!(book.counts(None, "").expect("counts").len(), 3);
}
