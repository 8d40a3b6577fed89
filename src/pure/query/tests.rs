//! Tests of questions: what is understood, what is refused, which values and keys it names.

use serde_json::json;

use super::*;
use crate::pure::group_key::GroupKey;
use crate::pure::schema::Column;

fn table() -> Table {
    use ColumnType::{Date, Integer, Text};
    let columns = [
        ("id", Integer, false),
        ("day", Date, false),
        ("zone", Text, true),
        ("n", Integer, false),
        ("state", Text, false),
        ("fare", Integer, true),
    ];
    let columns = columns.iter().map(|(name, column_type, nullable)| Column {
        name: (*name).into(),
        column_type: *column_type,
        nullable: *nullable,
    });
    Table { name: "trips".into(), columns: columns.collect(), key: vec![0] }
}

fn view(grain: &[&str], measures: serde_json::Value) -> View {
    let document = json!({
        "object": "by_zone", "base": "trips",
        "metric_contract": {"filters": ["state = done"], "measures": measures, "aggregate_grain": grain},
        "refresh": {"freshness_slo_seconds": 60},
    });
    View::compile(&document.to_string(), "t.json", &[table()]).unwrap()
}

fn plain() -> View {
    view(&["day", "zone"], json!({"trips": "count(*)", "fares": "sum(fare)"}))
}

fn ask(conditions: &str) -> Ask {
    Ask { measures: vec!["trips".to_owned()], conditions: conditions.to_owned(), ..Ask::default() }
}

fn query(view: &View, conditions: &str) -> Query {
    let measures = vec![view.measures[0].column.clone()];
    Ask { measures, ..ask(conditions) }.check(view, &table()).unwrap()
}

fn refused(ask: &Ask) -> String {
    ask.check(&plain(), &table()).unwrap_err().to_string()
}

#[test]
fn a_question_that_cannot_be_understood_names_the_place() {
    for (conditions, says) in [
        ("zone = 'a' or zone = 'b'", "where: "),
        ("zone like 'a%'", "is not supported"),
        ("zone not in ('a')", "is not supported"),
        ("zone not between 'a' and 'b'", "is not supported"),
        ("zones = 'a'", "\"zones\" is no column of trips; its columns are id, day"),
        ("day = 2026-02-30", "2026-02-30 is no day of the calendar"),
        ("day = 2026-2-3", "is no day"),
        ("day = 'soon'", "is no day written as YYYY-MM-DD"),
        ("zone = 2026-02-03", "put text in single quotes"),
        ("fare = 'a'", "is an integer, and \"a\" is none"),
        ("fare in (1, null)", "nothing equals null"),
        ("fare in (1, zone)", "is a column"),
        ("zone in (select 1)", "is not supported"),
        ("zone = state", "two columns cannot be compared"),
        ("zone = 'a' --", "comment"),
        ("fare >", "cannot be read"),
    ] {
        let message = refused(&ask(conditions));
        assert!(message.starts_with("where: ") && message.contains(says), "{conditions}: {message}");
    }
    let with = |change: fn(&mut Ask)| {
        let mut asked = ask("");
        change(&mut asked);
        refused(&asked)
    };
    assert!(with(|ask| ask.measures = vec!["profit".into()]).contains("measures: \"profit\" is no measure"));
    assert!(with(|ask| ask.measures.push("trips".into())).contains("measures: \"trips\" is asked for twice"));
    assert!(with(|ask| ask.measures.clear()).contains("by_zone has trips, fares"));
    assert!(with(|ask| ask.group_by = vec!["zoon".into()]).contains("group_by: \"zoon\" is no column"));
    assert!(with(|ask| ask.group_by = vec!["day".into(), "day".into()]).contains("given twice"));
    assert!(with(|ask| ask.contract = Some("9A".into())).contains("contract: \"9A\" is no contract hash"));
}

#[test]
fn what_the_views_own_filters_say_is_no_condition() {
    assert_eq!(query(&plain(), "state = 'done' and fare is not null").conditions.len(), 1);
    assert_eq!(query(&plain(), "state = done").filtered_outside(&plain()), [0usize; 0]);
    assert_eq!(query(&plain(), "state = 'open'").filtered_outside(&plain()), [4]);
}

#[test]
fn a_dimension_that_has_one_value_is_not_rolled_up() {
    let view = plain();
    for (conditions, group_by, rolled_up) in [
        ("", &[][..], &["day", "zone"][..]),
        ("day = 2026-01-02", &[], &["zone"]),
        ("day = 2026-01-02 and zone is null", &[], &[]),
        ("day between 2026-01-02 and '2026-01-02'", &["zone"], &[]),
        ("day >= 2026-01-02 and day <= 2026-01-02", &["zone"], &[]),
        ("day in (2026-01-02, '2026-01-02')", &["zone"], &[]),
        ("day in (2026-01-02, 2026-01-03) and day <> 2026-01-03", &["zone"], &[]),
        ("day in (2026-01-02, 2026-01-03)", &["zone"], &["day"]),
        ("day in (2026-01-02, 2026-01-03)", &["zone", "day"], &[]),
        ("day > 2026-01-02 and day < 2026-01-04", &["zone"], &["day"]),
        ("zone = 'a' and zone = 'b'", &["day"], &[]),
        ("fare = 1", &["zone"], &["day"]),
    ] {
        let asked = Ask { group_by: group_by.iter().map(|name| (*name).into()).collect(), ..ask(conditions) };
        let query = asked.check(&view, &table()).unwrap();
        assert_eq!(query.rolled_up(&view), rolled_up, "{conditions} by {group_by:?}");
    }
}

fn named(view: &View, conditions: &str) -> Vec<String> {
    match Keys::of(&query(view, conditions), view) {
        Keys::Named(keys) => keys.iter().map(GroupKey::to_string).collect(),
        range => panic!("{conditions}: {range:?}"),
    }
}

#[test]
fn conditions_that_name_all_values_name_the_keys() {
    let view = plain();
    assert_eq!(
        named(&view, "day in (2026-01-03, 2026-01-02) and zone in ('a:b', '')"),
        ["2026-01-02:", "2026-01-02:a%3Ab", "2026-01-03:", "2026-01-03:a%3Ab"]
    );
    assert_eq!(named(&view, "day = 2026-01-02 and zone is null"), ["2026-01-02:%~"]);
    assert_eq!(named(&view, "day = 2026-01-02 and zone = 'a' and zone > 'a'"), [""; 0]);
}

/// Whether a range holds a key, as the index is read.
fn holds(keys: &Keys, key: &str) -> bool {
    let Keys::Range { after, through } = keys else { panic!("{keys:?}") };
    after.as_deref().is_none_or(|after| key > after)
        && through.as_deref().is_none_or(|through| key <= through)
}

#[test]
fn a_range_holds_every_group_asked_for_and_few_others() {
    let days = ["2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-10"];
    let zones = ["", "a", "a:b", "é", "~", "\u{10FFFF}x", ";", "9", "P1", "P10", "P1;"];
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["day", "zone"],
            &[
                "day >= 2026-01-02",
                "day <= 2026-01-02",
                "day = 2026-01-02",
                "day > 2026-01-01 and day < 2026-01-10",
                "",
            ],
        ),
        (
            &["zone", "day"],
            &["zone = 'P1'", "zone = ''", "zone = 'P1' and day >= 2026-01-02", "zone = 'é'", "zone > 'P1'"],
        ),
        (&["zone"], &["zone != ''", "zone >= 'a'"]),
        (&["n", "day"], &["n = -5 and day <= 2026-01-02", "n > 3", "n in (1, 2)"]),
    ];
    for (grain, conditions) in cases {
        let view = super::tests::view(grain, json!({"fares": "sum(fare)"}));
        for text in conditions {
            let query = query(&view, text);
            let keys = Keys::of(&query, &view);
            let mut beside = 0;
            for day in days {
                for zone in zones.iter().map(|zone| Value::from(*zone)).chain([Value::Null]) {
                    for n in [-50, -5, 0, 1, 2, 10] {
                        let parts: Vec<Value> = grain
                            .iter()
                            .map(|name| match *name {
                                "day" => day.into(),
                                "zone" => zone.clone(),
                                _ => Value::Integer(n),
                            })
                            .collect();
                        let key = GroupKey::encode(&parts);
                        let asked = query.admits(&view, &parts);
                        assert!(!asked || holds(&keys, key.as_str()), "{text}: {key} is not in {keys:?}");
                        beside += usize::from(!asked && holds(&keys, key.as_str()));
                    }
                }
            }
            // One value and a day behind it is a stretch of its own.
            if matches!(*text, "day = 2026-01-02" | "zone = 'P1'" | "zone = 'P1' and day >= 2026-01-02") {
                assert_eq!(beside, 0, "{text}: {keys:?}");
            }
        }
    }
}

#[test]
fn times_are_read_in_their_units() {
    for (text, seconds) in [("90", 90), ("90s", 90), ("15m", 900), ("26h", 93_600), ("2d", 172_800), ("0", 0)]
    {
        assert_eq!(parse_seconds(text), Ok(seconds));
    }
    for text in ["", "s", "-1", "1.5h", "1w", "1 h", "99999999999999999999", "9223372036854775807d"] {
        assert!(parse_seconds(text).is_err(), "{text}");
    }
}

#[test]
fn a_line_of_a_file_is_strict() {
    let read = |text: &str| serde_json::from_str::<Ask>(text);
    let asked =
        read(r#"{"view":"v","measures":["trips"],"where":"day = 2026-01-02","group_by":["zone"]}"#).unwrap();
    assert_eq!((asked.view.as_deref(), asked.conditions.as_str()), (Some("v"), "day = 2026-01-02"));
    assert!(read(r#"{"measures":["trips"],"wher":""}"#).unwrap_err().to_string().contains("wher"));
}
