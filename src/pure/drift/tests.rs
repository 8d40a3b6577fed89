//! What counts as which kind of difference, and what a report says of it.

use super::*;

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn columns() -> Vec<String> {
    vec!["units".to_owned(), "least".to_owned()]
}

fn kind(value: Option<&GroupValue>, shown: &Fields, indexed: bool) -> Option<Kind> {
    compare_group("k", value, &columns(), shown, indexed, 7).map(|difference| difference.kind)
}

#[test]
fn each_state_of_row_and_entry_has_its_kind() {
    let value = GroupValue::Measures(vec![Some(2), None]);
    let (right, none) = (fields(&[("units", "2")]), Fields::new());
    let wrong = fields(&[("units", "3")]);
    let cases = [
        (Some(&value), &right, true, None),
        (Some(&value), &wrong, true, Some(Kind::Different)),
        (Some(&value), &none, true, Some(Kind::Missing)),
        (Some(&value), &none, false, Some(Kind::Missing)),
        (Some(&value), &right, false, Some(Kind::WrongIndex)),
        (None, &none, false, None),
        (None, &none, true, Some(Kind::WrongIndex)),
        (None, &right, true, Some(Kind::Extra)),
        (None, &right, false, Some(Kind::Extra)),
        (Some(&GroupValue::Overflow), &fields(&[("_error", "overflow")]), true, None),
        (Some(&GroupValue::Overflow), &right, true, Some(Kind::Different)),
        (Some(&value), &fields(&[("_error", "wrongtype")]), true, Some(Kind::Different)),
        // A group whose measures are all null has an index entry and no row.
        (Some(&GroupValue::Measures(vec![None, None])), &none, true, None),
        (Some(&GroupValue::Measures(vec![None, None])), &none, false, Some(Kind::Missing)),
    ];
    for (value, shown, indexed, expected) in cases {
        assert_eq!(kind(value, shown, indexed), expected, "{value:?} {shown:?} {indexed}");
    }
}

#[test]
fn both_values_of_each_field_are_told() {
    let value = GroupValue::Measures(vec![Some(2), Some(1)]);
    let shown = fields(&[("units", "3"), ("more", "x"), ("least", "1")]);
    let found = compare_group("k", Some(&value), &columns(), &shown, true, 7).unwrap();
    let told: Vec<_> = found
        .fields
        .iter()
        .map(|field| (field.field.as_str(), field.base.as_deref(), field.redis.as_deref()))
        .collect();
    assert_eq!(told, [("more", None, Some("x")), ("units", Some("2"), Some("3"))]);
    // 03 is no number that driftless writes.
    let shown = fields(&[("units", "02"), ("least", "1")]);
    assert!(compare_group("k", Some(&value), &columns(), &shown, true, 7).is_some());
}

#[test]
fn a_cursor_must_agree_with_itself() {
    let meta = |version: &str, token: &str, part: &str, mixed: &str| {
        fields(&[("version", version), ("token", token), ("part", part), ("mixed", mixed)])
    };
    let wrong = |meta: Fields| -> Vec<String> {
        cursor_fields(&meta).into_iter().map(|difference| difference.field).collect()
    };
    assert!(wrong(meta("7", "", "0", "0")).is_empty());
    assert!(wrong(meta("7", "t-1", "3", "1")).is_empty());
    assert_eq!(wrong(meta("7", "t-1", "0", "0")), ["mixed"]);
    assert_eq!(wrong(meta("7", "", "2", "0")), ["part"]);
    assert_eq!(wrong(meta("x", "", "0", "1")), ["version", "mixed"]);
}
