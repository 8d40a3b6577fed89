//! The contract of `ViewStore`, case by case, each run on the twin and on a real Redis.

use driftless::io::twin::view_store::{TwinStore, ViewKey};
use driftless::pure::group_key::GroupKey;
use driftless::pure::publish::{ChangeEntry, Cursor, PublishReply};

use crate::view_store::*;

/// Runs each case on both stores, each with one of its own.
macro_rules! on_both {
    ($($(#[$doc:meta])* fn $name:ident($bench:ident) $body:block)*) => {
        mod cases {
            use super::*;
            $($(#[$doc])* pub fn $name($bench: &dyn Bench) $body)*
        }
        mod twin {
            use super::*;
            $(#[test] fn $name() { cases::$name(&TwinStore::new()); })*
        }
        mod real {
            use super::*;
            $(#[test] fn $name() { cases::$name(&RealBench::start()); })*
        }
    };
}

on_both! {
    /// P8: absent is version 0, and the first publish goes onto it.
    fn an_absent_view_is_published_onto_cursor_zero(bench) {
        let mut store = bench.client();
        assert!(store.read_meta(VIEW).unwrap().is_empty());
        assert_eq!(store.read_range(VIEW, None, None, 10).unwrap(), Default::default());
        assert_eq!(row(&mut *store, "a"), fields(&[]));
        first(&mut *store, vec![set("a", [Some(1), Some(2), Some(3)])]);
        let meta = store.read_meta(VIEW).unwrap();
        assert_eq!(meta, fields(&[
            ("version", "1"), ("nonce", "n"), ("token", ""), ("part", "0"),
            ("watermark", "w1"), ("groups", "1"), ("beat", "1"),
        ]));
        assert_eq!(row(&mut *store, "a"), fields(&[("lines", "1"), ("units", "2"), ("gmv", "3")]));
        assert_eq!(index(&mut *store), ["a"]);
    }

    /// P7: each field of the cursor is compared, and a difference in any writes nothing.
    fn a_cursor_that_differs_in_one_field_writes_nothing(bench) {
        let mut store = bench.client();
        let shown = Cursor { version: 7, nonce: "007".into(), token: "t".into(), part: 3 };
        accept(&mut *store, &publish(&Cursor::default(), &shown, vec![set_all("a", 1)]));
        let before = bench.everything();
        let wrong = [
            Cursor { version: 8, ..shown.clone() },
            Cursor { version: 6, ..shown.clone() },
            Cursor { nonce: "7".into(), ..shown.clone() },
            Cursor { nonce: "7.0".into(), ..shown.clone() },
            Cursor { nonce: "".into(), ..shown.clone() },
            Cursor { token: "".into(), ..shown.clone() },
            Cursor { part: 4, ..shown.clone() },
            Cursor::default(),
        ];
        for expected in wrong {
            let late = publish(&expected, &cursor(9, "other"), vec![set_all("b", 2), remove("a")]);
            let reply = store.publish(VIEW, &columns(), &late).unwrap();
            assert_eq!(reply, PublishReply::CursorDiffers(shown.clone()), "{expected:?}");
        }
        assert_eq!(bench.everything(), before);
        accept(&mut *store, &publish(&shown, &cursor(8, "007"), vec![]));
    }

    /// P7: commit numbers past 2^53 are told apart.
    fn versions_are_compared_exactly(bench) {
        let mut store = bench.client();
        let great = cursor(9_007_199_254_740_993, "n");
        accept(&mut *store, &publish(&Cursor::default(), &great, vec![]));
        let near = cursor(9_007_199_254_740_992, "n");
        let reply = store.publish(VIEW, &columns(), &publish(&near, &cursor(1, "n"), vec![])).unwrap();
        assert_eq!(reply, PublishReply::CursorDiffers(great.clone()));
        accept(&mut *store, &publish(&great, &cursor(u64::MAX, "n"), vec![]));
        accept(&mut *store, &publish(&cursor(u64::MAX, "n"), &cursor(1, "n"), vec![]));
    }

    /// P7: of two clients with the same cursor one wins.
    fn of_two_clients_one_wins(bench) {
        let (mut one, mut other) = (bench.client(), bench.client());
        first(&mut *one, vec![]);
        let from = cursor(1, "n");
        accept(&mut *one, &publish(&from, &cursor(2, "n"), vec![set_all("a", 1)]));
        let reply = other.publish(VIEW, &columns(), &publish(&from, &cursor(2, "m"), vec![set_all("a", 9)])).unwrap();
        assert_eq!(reply, PublishReply::CursorDiffers(cursor(2, "n")));
        assert_eq!(row(&mut *other, "a")["lines"], "1");
    }

    /// P6: sets, replacements, removals and errors of one publish are there together.
    fn a_batch_is_written_as_a_whole(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1), set_all("b", 1), overflow("c"), set_all("d", 1)]);
        let groups = accept(&mut *store, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![
            set("a", [Some(5), None, Some(-5)]),
            overflow("b"),
            set_all("c", 2),
            remove("d"),
            remove("never there"),
            set("e", [None, None, Some(0)]),
        ]));
        assert_eq!(groups, 4);
        let read = store.read_range(VIEW, None, None, 1_000).unwrap();
        assert_eq!((read.meta["version"].as_str(), read.meta["groups"].as_str()), ("2", "4"));
        assert_eq!(read.rows, vec![
            ("a".to_owned(), fields(&[("lines", "5"), ("gmv", "-5")])),
            ("b".to_owned(), fields(&[("_error", "overflow")])),
            ("c".to_owned(), fields(&[("lines", "2"), ("units", "2"), ("gmv", "2")])),
            ("e".to_owned(), fields(&[("gmv", "0")])),
        ]);
        assert!(strays(&mut *store).is_empty());
    }

    /// A group whose measures are all null exists without a row: a hash without fields cannot be.
    fn a_group_of_nulls_has_an_entry_and_no_fields(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set("a", [None; 3])]);
        assert_eq!(index(&mut *store), ["a"]);
        assert_eq!(row(&mut *store, "a"), fields(&[]));
        assert_eq!(store.read_meta(VIEW).unwrap()["groups"], "1");
        accept(&mut *store, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![remove("a")]));
        assert!(index(&mut *store).is_empty());
    }

    /// Integers never pass through a double.
    fn values_are_exact(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![
            set("a", [Some(9_007_199_254_740_993), Some(i64::MIN), Some(i64::MAX)]),
            set("b", [Some(-9_007_199_254_740_993), Some(0), Some(-1)]),
        ]);
        assert_eq!(row(&mut *store, "a"), fields(&[
            ("lines", "9007199254740993"), ("units", "-9223372036854775808"), ("gmv", "9223372036854775807"),
        ]));
        assert_eq!(row(&mut *store, "b")["lines"], "-9007199254740993");
    }

    /// Keys are bytes to the store; the index orders them so.
    fn odd_keys_are_kept_and_ordered_by_bytes(bench) {
        let mut store = bench.client();
        let mut keys = vec![
            "", ":", "::", "a:", ":a", "%3A", "a%3Ab", "%~", "-", "+", "(a", "[a", "Zebra", "apple", "ä", "é:日本",
            "\u{1F600}", "\u{FFFF}", "a\"b'c", "10", "9", "row:x", "a\\b", "a'; DROP", "a\u{0}b", "a\r\nb",
        ];
        let groups = (1..).zip(&keys).map(|(value, key)| set_all(key, value)).collect();
        first(&mut *store, groups);
        for (value, key) in (1..).zip(&keys) {
            assert_eq!(row(&mut *store, key)["gmv"], value.to_string(), "{key:?}");
        }
        keys.sort();
        assert_eq!(index(&mut *store), keys);
        assert!(strays(&mut *store).is_empty());
    }

    /// F112: a lost index entry is noticed by the next publish, and a sweep's own count gets past it.
    fn a_lost_index_entry_refuses_the_next_publish(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1), set_all("b", 1)]);
        bench.delete_index_entry("a");
        let before = bench.everything();
        let next = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("c", 1)]);
        let reply = store.publish(VIEW, &columns(), &next).unwrap();
        assert_eq!(reply, PublishReply::CountDiffers { index: 1, meta: 2 });
        assert_eq!(bench.everything(), before);

        let mut sweep = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("a", 1), set_all("c", 1)]);
        sweep.check_count = false;
        // A beat beside the sweep says nothing of groups: the damage stays visible until the sweep has mended it.
        let mut beat = publish(&cursor(1, "n"), &cursor(1, "n"), Vec::new());
        (beat.check_count, beat.change) = (false, None);
        beat.meta.clear();
        accept(&mut *store, &beat);
        assert_eq!(store.read_meta(VIEW).unwrap()["groups"], "2");
        assert_eq!(accept(&mut *store, &sweep), 3);
        assert_eq!(store.read_meta(VIEW).unwrap()["groups"], "3");
        assert_eq!(index(&mut *store), ["a", "b", "c"]);
    }

    /// A key of another type is told before anything is written.
    fn wrong_types_are_refused_before_any_write(bench) {
        for (key, suffix) in [(ViewKey::Meta, ""), (ViewKey::Index, ":index"), (ViewKey::Changes, ":changes")] {
            let mut store = bench.client();
            bench.flush_all();
            let mut expected = cursor(1, "n");
            first(&mut *store, vec![set_all("a", 1)]);
            bench.replace_key(key);
            if key == ViewKey::Meta {
                expected = Cursor::default();
            }
            let before = bench.everything();
            let next = publish(&expected, &cursor(2, "n"), vec![set_all("a", 2), set_all("b", 2)]);
            let reply = store.publish(VIEW, &columns(), &next).unwrap();
            assert_eq!(reply, PublishReply::WrongType {
                key: format!("driftless:{{{VIEW}}}{suffix}"),
                found: "string".into(),
            });
            assert_eq!(bench.everything(), before);
            if key == ViewKey::Meta {
                assert!(!store.read_meta(VIEW).unwrap_err().is_transient());
            }
            if key == ViewKey::Index {
                assert!(!store.read_range(VIEW, None, None, 10).unwrap_err().is_transient());
            }
            bench.flush_all();
        }
    }

    /// A row that somebody replaced is shown as such, and the next publish of its group heals it.
    fn a_row_of_another_type_is_seen_and_healed(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1), set_all("b", 1)]);
        bench.replace_row("a");
        assert_eq!(row(&mut *store, "a"), fields(&[("_error", "wrongtype")]));
        assert_eq!(row(&mut *store, "b")["lines"], "1");
        let read = store.read_range(VIEW, None, None, 10).unwrap();
        assert_eq!(read.rows[0].1, fields(&[("_error", "wrongtype")]));
        accept(&mut *store, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("a", 2)]));
        assert_eq!(row(&mut *store, "a")["lines"], "2");
    }

    /// Publishing heals a row that was lost.
    fn a_lost_row_reads_as_no_fields(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1)]);
        bench.delete_row("a");
        let read = store.read_range(VIEW, None, None, 10).unwrap();
        assert_eq!(read.rows, vec![("a".to_owned(), fields(&[]))]);
        accept(&mut *store, &publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("a", 2)]));
        assert_eq!(row(&mut *store, "a")["lines"], "2");
    }

    /// Every accepted publish raises the beat, one without groups too, and a damaged beat starts anew.
    fn the_beat_rises_with_every_accepted_publish(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![]);
        let same = publish(&cursor(1, "n"), &cursor(1, "n"), vec![]);
        for beat in 2..5 {
            accept(&mut *store, &same);
            assert_eq!(store.read_meta(VIEW).unwrap()["beat"], beat.to_string());
        }
        store.publish(VIEW, &columns(), &publish(&cursor(9, "n"), &cursor(9, "n"), vec![])).unwrap();
        assert_eq!(store.read_meta(VIEW).unwrap()["beat"], "4");
        bench.set_meta_field("beat", "no number");
        accept(&mut *store, &same);
        assert_eq!(store.read_meta(VIEW).unwrap()["beat"], "1");
    }

    /// Parts: each advances the cursor, and only the last has a change entry.
    fn parts_advance_the_cursor(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1)]);
        let mut at = cursor(1, "n");
        for part in 1..=3 {
            let next = Cursor { token: "t".into(), part, ..at.clone() };
            let mut step = publish(&at, &next, vec![set_all(&format!("p{part}"), 1)]);
            step.change = None;
            accept(&mut *store, &step);
            at = next;
        }
        assert_eq!(bench.changes().len(), 1);
        let skipped = Cursor { part: 4, ..at.clone() };
        let reply = store.publish(VIEW, &columns(), &publish(&skipped, &cursor(2, "n"), vec![])).unwrap();
        assert_eq!(reply, PublishReply::CursorDiffers(at.clone()));
        accept(&mut *store, &publish(&at, &cursor(2, "n"), vec![]));
        assert_eq!(bench.changes().len(), 2);
        assert_eq!(index(&mut *store), ["a", "p1", "p2", "p3"]);
    }

    /// The stream of changes says which groups changed, or how many.
    fn change_entries_tell_version_watermark_and_groups(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("2026-09-22:P\"1\"", 1), set_all("ä", 1)]);
        let mut many = publish(&cursor(1, "n"), &cursor(2, "n"), vec![]);
        many.change = Some(ChangeEntry { version: 2, watermark: String::new(), groups: 101, keys: vec![] });
        accept(&mut *store, &many);
        accept(&mut *store, &publish(&cursor(2, "n"), &cursor(3, "n"), vec![]));
        assert_eq!(bench.changes(), [
            fields(&[("version", "1"), ("watermark", "w1"), ("groups", "2"), ("keys", r#"["2026-09-22:P\"1\"","ä"]"#)]),
            fields(&[("version", "2"), ("watermark", ""), ("groups", "101")]),
            fields(&[("version", "3"), ("watermark", "w3"), ("groups", "0"), ("keys", "[]")]),
        ]);
    }

    /// P12: the stream is bounded.
    fn the_stream_of_changes_is_capped(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![]);
        for version in 1..1_300 {
            accept(&mut *store, &publish(&cursor(version, "n"), &cursor(version + 1, "n"), vec![]));
        }
        let changes = bench.changes();
        assert!((1_000..=1_100).contains(&changes.len()), "{}", changes.len());
        assert_eq!(changes.last().unwrap()["version"], "1300");
    }

    /// Ranges exclude their start, include their end, and have a limit; the meta is of the same instant.
    fn ranges_have_bounds_and_a_limit(bench) {
        let mut store = bench.client();
        first(&mut *store, (0..1_500).map(|n| set_all(&format!("k{n:04}"), n)).collect());
        let mut keys = |after: Option<&str>, through: Option<&str>, limit| {
            let read = store.read_range(VIEW, after, through, limit).unwrap();
            assert_eq!(read.meta["groups"], "1500");
            read.rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys(None, Some("k0002"), 10), ["k0000", "k0001", "k0002"]);
        assert_eq!(keys(Some("k0001"), Some("k0003"), 10), ["k0002", "k0003"]);
        assert_eq!(keys(Some("k1497"), None, 10), ["k1498", "k1499"]);
        assert_eq!(keys(Some("k0001"), None, 2), ["k0002", "k0003"]);
        assert!(keys(Some("k0003"), Some("k0001"), 10).is_empty());
        assert!(keys(None, None, 0).is_empty());
        assert_eq!(keys(None, None, usize::MAX).len(), 1_000);
        assert_eq!(keys(Some("k0999"), None, 1_000).len(), 500);
    }

    /// Each page of a walk is of its own instant, whatever happens between two of them.
    fn a_walk_sees_what_changed_between_its_pages(bench) {
        let mut store = bench.client();
        first(&mut *store, (0..3_500).map(|n| set_all(&format!("k{n:04}"), n)).collect());
        let mut page = |after: Option<&str>| store.read_range(VIEW, after, None, 1_000).unwrap();
        assert_eq!(page(None).rows.last().unwrap().0, "k0999");
        // An entry goes, one comes, a value changes: all of the page that is read next.
        let groups = vec![remove("k1001"), set_all("k1001b", 7), set_all("k1002", 8)];
        accept(&mut *bench.client(), &publish(&cursor(1, "n"), &cursor(2, "n"), groups));
        let read = page(Some("k0999"));
        assert_eq!(read.meta["version"], "2");
        let shown: Vec<_> = read.rows[..4].iter().map(|(key, row)| (key.as_str(), row["gmv"].as_str())).collect();
        assert_eq!(shown, [("k1000", "1000"), ("k1001b", "7"), ("k1002", "8"), ("k1003", "1003")]);
        // A value changes, and a row goes that the index still names.
        accept(&mut *bench.client(), &publish(&cursor(2, "n"), &cursor(3, "n"), vec![set_all("k2001", 9)]));
        bench.delete_row("k2002");
        bench.replace_row("k2003");
        let read = page(Some("k1999"));
        assert_eq!((read.meta["version"].as_str(), read.rows[1].1["gmv"].as_str()), ("3", "9"));
        assert!(read.rows[2].1.is_empty());
        assert_eq!(read.rows[3].1["_error"], "wrongtype");
        assert_eq!(page(Some("k2999")).rows.len(), 500);
        assert!(page(Some("k3499")).rows.is_empty());
    }

    /// Named rows come in the order asked, with the meta of the same instant; twice if asked twice.
    fn rows_are_read_in_the_order_asked(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1), set_all("b", 2)]);
        let asked = ["b", "missing", "a", "b"].map(GroupKey::from_encoded);
        let (meta, rows) = store.read_rows(VIEW, &asked).unwrap();
        assert_eq!(meta["version"], "1");
        let units: Vec<_> = rows.iter().map(|row| row.get("units").map(String::as_str)).collect();
        assert_eq!(units, [Some("2"), None, Some("1"), Some("2")]);
        let (meta, rows) = store.read_rows(VIEW, &[]).unwrap();
        assert_eq!((meta["version"].as_str(), rows.len()), ("1", 0));
    }

    /// P8: rows without an index entry are found, whatever they are, and those only.
    fn strays_are_the_rows_without_an_entry(bench) {
        let mut store = bench.client();
        first(&mut *store, (0..2_000).map(|n| set_all(&format!("k{n}"), n)).collect());
        assert!(strays(&mut *store).is_empty());
        for stray in ["not:encoded {x}*", "%zz", ""] {
            bench.add_stray(stray);
        }
        bench.delete_index_entry("k5");
        bench.delete_row("k6");
        bench.replace_row("foreign");
        bench.replace_row("k7");
        assert_eq!(strays(&mut *store), ["", "%zz", "foreign", "k5", "not:encoded {x}*"]);
    }

    /// P9: a group comes with its index entry, all of one instant with the meta; the wrong type is data.
    fn groups_are_read_with_their_entries(bench) {
        let mut store = bench.client();
        first(&mut *store, ["a", "b", "c"].map(|key| set_all(key, 1)).to_vec());
        bench.delete_index_entry("b");
        bench.delete_row("c");
        bench.replace_row("d");
        let asked = ["d", "c", "b", "a", "nothing"].map(GroupKey::from_encoded);
        let (meta, groups) = store.read_groups(VIEW, &asked).unwrap();
        assert_eq!(meta["version"], "1");
        let found: Vec<_> = groups.iter().map(|group| (group.fields.len(), group.indexed)).collect();
        assert_eq!(found, [(1, false), (0, true), (3, false), (3, true), (0, false)]);
        assert_eq!(groups[0].fields["_error"], "wrongtype");
        assert_eq!(store.read_groups(VIEW, &[]).unwrap().1, []);
    }

    /// P9: the view's own keys are told, also where they are somebody else's.
    fn the_outline_tells_the_view_s_own_keys(bench) {
        let mut store = bench.client();
        assert_eq!(store.read_outline(VIEW).unwrap(), Default::default());
        first(&mut *store, vec![set_all("a", 1), set_all("b", 2)]);
        let outline = store.read_outline(VIEW).unwrap();
        assert_eq!((outline.meta["version"].as_str(), outline.index), ("1", 2));
        assert!(outline.wrong_types.is_empty() && outline.misplaced.is_empty() && outline.expiring.is_empty());
        bench.replace_key(ViewKey::Index);
        bench.replace_key(ViewKey::Meta);
        let outline = store.read_outline(VIEW).unwrap();
        let wrong: Vec<_> = outline.wrong_types.iter().map(|(key, found)| (key.as_str(), found.as_str())).collect();
        let meta = format!("driftless:{{{VIEW}}}");
        assert_eq!(wrong, [(meta.as_str(), "string"), (format!("{meta}:index").as_str(), "string")]);
        assert!(outline.meta.is_empty());
    }

    /// P9: keys under the view's name that are none of its kinds are told by their whole names.
    fn foreign_keys_are_found(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1)]);
        for suffix in [":notes", "x", ":rows:a"] {
            bench.add_foreign_key(suffix);
        }
        let mut found = store.scan_strays(VIEW, 0).unwrap().foreign;
        found.sort();
        let name = |suffix: &str| format!("driftless:{{{VIEW}}}{suffix}");
        assert_eq!(found, [name(":notes"), name(":rows:a"), name("x")]);
        assert!(strays(&mut *store).is_empty());
    }

    /// Views of one store do not touch each other.
    fn views_are_apart(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1)]);
        let other = publish(&Cursor::default(), &cursor(5, "m"), vec![set_all("b", 2)]);
        store.publish("agg_daily", &columns(), &other).unwrap();
        assert_eq!(store.read_meta(VIEW).unwrap()["version"], "1");
        assert_eq!(store.read_meta("agg_daily").unwrap()["version"], "5");
        assert_eq!(index(&mut *store), ["a"]);
    }

    /// Errors of the caller are refused before anything is sent.
    fn malformed_publishes_are_refused(bench) {
        let mut store = bench.client();
        let twice = publish(&Cursor::default(), &cursor(1, "n"), vec![set_all("a", 1), remove("a")]);
        assert!(!store.publish(VIEW, &columns(), &twice).unwrap_err().is_transient());
        let mut short = publish(&Cursor::default(), &cursor(1, "n"), vec![set_all("a", 1)]);
        short.groups[0].value = Some(driftless::pure::publish::GroupValue::Measures(vec![]));
        assert!(!store.publish(VIEW, &columns(), &short).unwrap_err().is_transient());
        assert!(store.read_meta(VIEW).unwrap().is_empty());
    }

    /// P8: what was flushed is absent, for clients that were connected too.
    fn a_flushed_store_is_absent(bench) {
        let mut store = bench.client();
        first(&mut *store, vec![set_all("a", 1)]);
        bench.flush_all();
        let stale = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("b", 1)]);
        let reply = store.publish(VIEW, &columns(), &stale).unwrap();
        assert_eq!(reply, PublishReply::CursorDiffers(Cursor::default()));
        assert!(store.read_meta(VIEW).unwrap().is_empty());
        first(&mut *store, vec![set_all("a", 1)]);
    }

    /// Batches larger than what Lua's stack takes in one call are whole all the same.
    fn ten_thousand_groups_go_in_one_publish(bench) {
        let mut store = bench.client();
        let key = |n: i64| format!("k{n:05}");
        first(&mut *store, (0..10_000).map(|n| set_all(&key(n), n)).collect());
        let next = (0..10_000).map(|n| match n {
            0 => overflow(&key(n)),
            1 => set_all(&key(n), -n),
            _ => remove(&key(n)),
        });
        let groups = accept(&mut *store, &publish(&cursor(1, "n"), &cursor(2, "n"), next.collect()));
        assert_eq!(groups, 2);
        assert_eq!(index(&mut *store), ["k00000", "k00001"]);
        assert_eq!(row(&mut *store, "k00000"), fields(&[("_error", "overflow")]));
        assert_eq!(row(&mut *store, "k00001")["gmv"], "-1");
        assert_eq!(row(&mut *store, "k09999"), fields(&[]));
        assert!(strays(&mut *store).is_empty());
    }
}
