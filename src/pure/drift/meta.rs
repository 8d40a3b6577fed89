//! The meta of a view against what follows from the base at the version that it shows. Every field has its rule.

use std::collections::BTreeSet;

use super::{FieldDifference, Fields};
use crate::pure::base::Head;
use crate::pure::catalog::Catalog;
use crate::pure::meta::{self, Ages, Fingerprint, OF_TABLE, of_table, parse_positions};
use crate::pure::publish::{Status, timestamp_ms};

/// Clocks of two machines may differ by as much.
const CLOCKS_MS: i64 = 60_000;
/// What is told of a value that is another one than the commit's, where only that is known.
const ANOTHER: &str = "(another value)";

/// Cursor fields that contradict each other or are no numbers, whichever base they are of.
pub fn cursor_fields(shown: &Fields) -> Vec<FieldDifference> {
    let text = |name: &str| shown.get(name).map_or("", String::as_str);
    let mut wrong = Vec::new();
    for name in ["version", "part"] {
        if text(name).parse::<u64>().is_err() {
            wrong.push(difference(shown, name, "a number"));
        }
    }
    let token = text("token");
    if text("mixed") != if token.is_empty() { "0" } else { "1" } {
        wrong.push(difference(shown, "mixed", if token.is_empty() { "0" } else { "1" }));
    }
    if token.is_empty() && text("part") != "0" && text("part").parse::<u64>().is_ok() {
        wrong.push(difference(shown, "part", "0"));
    }
    wrong
}

/// The fields of a meta that shows a version of this base, `shown` and `index` of one instant, and `head` of a
/// snapshot taken after it. `told` is what that version's commit kept of them.
pub fn meta_fields(
    catalog: &Catalog,
    view: usize,
    head: &Head,
    told: Option<Fingerprint>,
    shown: &Fields,
    index: u64,
    now_ms: i64,
) -> Vec<FieldDifference> {
    let text = |name: &str| shown.get(name).map_or("", String::as_str);
    let current = text("version") == head.commit.to_string();
    let mut wrong = Vec::new();
    // 1. What never changes.
    for (name, ours) in meta::identity(catalog, view, &head.generation) {
        if text(name) != ours {
            wrong.push(difference(shown, name, &ours));
        }
    }
    // 2. What follows from the version's commit.
    wrong.extend(of_commit(catalog.views[view].table, head, told, shown, current));
    // 3. What the script counted.
    if text("groups") != index.to_string() {
        wrong.push(difference(shown, "groups", &index.to_string()));
    }
    // 4. What was said of the view: known while its version is the newest.
    let expected = meta::finished(catalog, view, head, &Ages { now_ms, ..Ages::default() });
    let of_view = ["reconciled_at", "reconciled_version", "reconcile_result", "retained_from"];
    for (name, ours) in expected.iter().filter(|(name, _)| current && of_view.contains(name)) {
        if text(name) != ours {
            wrong.push(difference(shown, name, ours));
        }
    }
    wrong.extend(status(catalog.views[view].table, view, head, shown, current));
    // 5. What the publisher alone knows must at least be possible.
    for name in ["refreshed_at", "confirmed_at"] {
        let at = timestamp_ms(text(name));
        let unknown = text(name).is_empty() && name == "confirmed_at";
        if !unknown && at.is_none_or(|at| at > now_ms.saturating_add(CLOCKS_MS)) {
            wrong.push(difference(shown, name, "a time in the past"));
        }
    }
    for name in ["beat", meta::ACTIVATION] {
        if text(name).parse::<u64>().is_err() {
            wrong.push(difference(shown, name, "a number"));
        }
    }
    // 6. All of them, and no other.
    let known: BTreeSet<&str> =
        expected.iter().map(|(name, _)| *name).chain(["groups", "beat", meta::ACTIVATION]).collect();
    for name in shown.keys().filter(|name| !known.contains(name.as_str())) {
        wrong.push(FieldDifference { field: name.clone(), base: None, redis: shown.get(name).cloned() });
    }
    for name in known.into_iter().filter(|name| !shown.contains_key(*name)) {
        if !wrong.iter().any(|known| known.field == name) {
            wrong.push(difference(shown, name, ANOTHER));
        }
    }
    wrong
}

fn of_commit(
    table: usize,
    head: &Head,
    told: Option<Fingerprint>,
    shown: &Fields,
    current: bool,
) -> Vec<FieldDifference> {
    let text = |name: &str| shown.get(name).map_or("", String::as_str);
    let ours = of_table(head, table);
    if current {
        let pairs = OF_TABLE.iter().zip(&ours).filter(|(name, ours)| text(name) != **ours);
        return pairs.map(|(name, ours)| difference(shown, name, ours)).collect();
    }
    let fields = OF_TABLE.map(|name| text(name).to_owned());
    if let Some(told) = told {
        let names = told.differing(&Fingerprint::of(&fields));
        return names.into_iter().map(|name| difference(shown, name, ANOTHER)).collect();
    }
    // The commit is not kept any more: nothing may be ahead of the base.
    let mut wrong = Vec::new();
    if text("watermark").parse().ok() > head.tables[table].watermark {
        wrong.push(difference(shown, "watermark", &format!("at most {}", ours[0])));
    }
    for (name, most) in [("positions", &ours[1]), ("settled", &ours[2])] {
        let most_of = parse_positions(most);
        let ahead = |(at, offset): (&String, &i64)| most_of.get(at).is_none_or(|most| offset > most);
        if parse_positions(text(name)).iter().any(ahead) {
            wrong.push(difference(shown, name, &format!("at most {most}")));
        }
    }
    wrong
}

fn status(table: usize, view: usize, head: &Head, shown: &Fields, current: bool) -> Option<FieldDifference> {
    let told = shown.get("status").map_or("", String::as_str);
    let judged = Status::judge(&head.views[view], head.open_letters[table], 0, None, 0);
    let by_age = [Status::Fresh, Status::Stale].map(Status::name);
    let grave = [Status::Disabled, Status::Quarantined, Status::Incomplete].map(Status::name);
    let expected = match judged {
        Status::Stale | Status::Fresh if !current || by_age.contains(&told) => None,
        Status::Stale | Status::Fresh => Some("fresh or stale"),
        _ if !current => None,
        judged => (told != judged.name()).then(|| judged.name()),
    };
    let known = by_age.contains(&told) || grave.contains(&told);
    let expected = expected.or_else(|| (!known).then_some("a status"))?;
    Some(difference(shown, "status", expected))
}

fn difference(shown: &Fields, name: &str, base: &str) -> FieldDifference {
    FieldDifference { field: name.to_owned(), base: Some(base.to_owned()), redis: shown.get(name).cloned() }
}
