//! Faults that only the twin can be asked for: unknown outcomes, late packets, stale failover.

use driftless::io::twin::view_store::{Fault, TwinStore};
use driftless::pure::publish::{Cursor, PublishReply};

use crate::view_store::*;

#[test]
fn a_fault_before_the_effect_and_one_after_it_look_the_same() {
    for (fault, version) in [(Fault::BeforeEffect, None), (Fault::AfterEffect, Some("1"))] {
        let twin = TwinStore::new();
        let mut store = twin.client();
        twin.fail_next(fault);
        let step = publish(&Cursor::default(), &cursor(1, "n"), vec![set_all("a", 1)]);
        let error = store.publish(VIEW, &columns(), &step).unwrap_err();
        assert!(error.is_transient());
        let meta = store.read_meta(VIEW).unwrap();
        assert_eq!(meta.get("version").map(String::as_str), version);
    }
}

#[test]
fn a_late_publish_is_refused_when_the_cursor_has_moved_on() {
    let twin = TwinStore::new();
    let mut store = twin.client();
    twin.fail_next(Fault::Late);
    let late = publish(&Cursor::default(), &cursor(1, "n"), vec![set_all("a", 1)]);
    assert!(store.publish(VIEW, &columns(), &late).is_err());
    accept(&mut *store, &publish(&Cursor::default(), &cursor(2, "n"), vec![]));
    let replies = twin.deliver_late();
    assert_eq!(replies, [PublishReply::CursorDiffers(cursor(2, "n"))]);
    assert!(twin.deliver_late().is_empty());
}

#[test]
fn planned_faults_hit_the_call_they_were_planned_for() {
    let twin = TwinStore::new();
    let mut store = twin.client();
    twin.fail_nth(1, Fault::BeforeEffect);
    assert!(store.read_meta(VIEW).is_ok());
    assert!(store.read_range(VIEW, None, None, 1).is_err());
    assert!(store.read_rows(VIEW, &[]).is_ok());
    twin.set_reachable(false);
    assert!(store.scan_strays(VIEW, 0).is_err());
    twin.set_reachable(true);
    assert!(store.scan_strays(VIEW, 0).is_ok());
    assert_eq!(twin.calls(), 5);
}

#[test]
fn a_stale_failover_shows_the_older_state_to_all_clients() {
    let twin = TwinStore::new();
    let (mut one, mut other) = (twin.client(), twin.client());
    first(&mut *one, vec![set_all("a", 1)]);
    let stale = twin.snapshot();
    accept(&mut *one, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![remove("a")]));
    assert!(index(&mut *other).is_empty());
    twin.restore(&stale);
    assert_eq!(index(&mut *other), ["a"]);
    assert_eq!(one.read_meta(VIEW).unwrap()["version"], "1");
}
