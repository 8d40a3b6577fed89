//! A pass's report on standard output.

use super::super::Format;
use super::super::output::{human, print_json, table, tell};
use crate::pure::base::ReconcileVerdict;
use crate::pure::drift::{Difference, Kind, OWN_KEY, Report};

/// One document for one view, a list for several.
pub fn print(reports: &[Report], listed: usize, format: Format) {
    match (format, reports) {
        (Format::Json, [report]) => print_json(&report.to_json(listed)),
        (Format::Json, reports) => {
            print_json(&reports.iter().map(|report| report.to_json(listed)).collect::<Vec<_>>().into());
        }
        (Format::Text, reports) => reports.iter().for_each(|report| print_text(report, listed)),
    }
}

fn print_text(report: &Report, listed: usize) {
    let (tally, at) = (&report.tally, &report.compared_at);
    let seconds = (report.ended_ms - report.started_ms) as f64 / 1000.0;
    tell!(
        "{}: {}, {} groups compared in {seconds:.1} s, at version {} and watermark {}",
        report.object,
        sentence(report.verdict()),
        human(tally.compared),
        at.last_version,
        if at.watermark.is_empty() { "-" } else { &at.watermark }
    );
    if report.pending > 0 {
        tell!(
            "{} changed at the first look: {} were looked at again, {} compared by the publisher, {} are unsettled",
            human(report.pending),
            human(tally.looked_again),
            human(tally.settled_by_publisher),
            human(report.unsettled_total)
        );
    }
    let mut rows = table(&["control", "base", "redis"]);
    rows.add_row(["groups".to_owned(), tally.base.groups().to_string(), tally.redis.groups().to_string()]);
    for ((name, base), (_, redis)) in tally.base.totals().zip(tally.redis.totals()) {
        rows.add_row([name.to_owned(), base.to_string(), redis.to_string()]);
    }
    let (groups, base, redis) = &report.checksums;
    rows.add_row([format!("sha256 of {groups}"), short(base), short(redis)]);
    tell!("{rows}");
    if tally.differences() > 0 {
        print_differences(report, listed);
    }
    for one in report.unsettled.iter().take(listed) {
        tell!("unsettled: {}: {}", one.key, one.why);
    }
    for trouble in &report.troubles {
        tell!("trouble: {trouble}");
    }
}

fn print_differences(report: &Report, listed: usize) {
    let counts: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| (kind.name(), report.tally.of_kind(*kind)))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {name}", human(count)))
        .collect();
    tell!("differences: {}", counts.join(", "));
    let mut rows = table(&["kind", "key", "what", "base", "redis", ""]);
    for difference in report.differences.iter().take(listed) {
        let side = |of: fn(&crate::pure::drift::FieldDifference) -> &Option<String>| {
            let told = difference
                .fields
                .iter()
                .map(|field| format!("{}={}", field.field, of(field).as_deref().unwrap_or("(none)")));
            told.collect::<Vec<_>>().join("\n")
        };
        rows.add_row([
            difference.kind.name().to_owned(),
            difference.key.strip_prefix(OWN_KEY).unwrap_or(&difference.key).to_owned(),
            difference.detail.clone(),
            side(|field| &field.base),
            side(|field| &field.redis),
            state(difference),
        ]);
    }
    tell!("{rows}");
    for group in &report.repeated {
        tell!(
            "drift of {group} comes back: it has been repaired three times or more; find out who writes it"
        );
    }
}

fn state(difference: &Difference) -> String {
    let times = difference.repaired_times.map(|times| format!(", repaired {times} times"));
    format!("{}{}", if difference.mended { "mended" } else { "" }, times.unwrap_or_default())
}

fn sentence(verdict: ReconcileVerdict) -> &'static str {
    match verdict {
        ReconcileVerdict::InSync => "in sync",
        ReconcileVerdict::Repaired => "drift found and mended",
        ReconcileVerdict::Drift => "DRIFT",
        ReconcileVerdict::Undecided => "could not decide",
    }
}

fn short(sum: &str) -> String {
    sum.chars().take(16).collect()
}
