//! The meta hash of a view, built from a snapshot's head. The one place that names its fields.

use std::collections::BTreeMap;

use crate::pure::base::{Head, Position};
use crate::pure::catalog::Catalog;
use crate::pure::publish::{Cursor, Status, timestamp_text};

/// Version of the layout that readers see.
pub const SCHEMA: &str = "1";

/// How many activations an operator had made when this was published, the first generation's included. Of two
/// generations only the one that was activated later may replace the other's publication.
pub const ACTIVATION: &str = "activation";

/// Ages that the publisher knows and the base does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    pub now_ms: i64,
    /// When groups or watermark were last published.
    pub refreshed_ms: Option<i64>,
    /// Everything that the log held at this time is published.
    pub confirmed_ms: Option<i64>,
}

/// What names a view and its definition: present from the first script of a publish in parts on.
pub fn identity(catalog: &Catalog, view: usize, generation: &str) -> Vec<(&'static str, String)> {
    let entry = &catalog.views[view];
    vec![
        ("schema", SCHEMA.to_owned()),
        ("object", entry.view.object.clone()),
        ("generation", generation.to_owned()),
        ("contract_hash", entry.view.contract_hash.clone()),
        ("definition_hash", entry.view.definition_hash.clone()),
        ("freshness_slo_seconds", entry.view.freshness_slo_seconds.to_string()),
        ("watermark_mode", catalog.tables[entry.table].mode.name().to_owned()),
    ]
}

/// All fields of a finished publish at `head`. `groups` and `beat` are the script's own.
pub fn finished(catalog: &Catalog, view: usize, head: &Head, ages: &Ages) -> Vec<(&'static str, String)> {
    let entry = &catalog.views[view];
    let open_letters = head.open_letters[entry.table];
    let [watermark, positions, settled, history_from, dead_letters] = of_table(head, entry.table);
    let state = &head.views[view];
    let reconciled = state.reconciled.as_ref();
    let slo = entry.view.freshness_slo_seconds;
    let cursor = Cursor { version: head.commit.0, nonce: head.nonce.clone(), ..Cursor::default() };
    let mut fields = identity(catalog, view, &head.generation);
    fields.extend(cursor.fields());
    fields.extend([
        ("watermark", watermark),
        ("positions", positions),
        ("settled", settled),
        ("history_from", history_from),
        ("status", Status::judge(state, open_letters, ages.now_ms, ages.confirmed_ms, slo).name().to_owned()),
        ("refreshed_at", timestamp_text(ages.refreshed_ms)),
        ("confirmed_at", timestamp_text(ages.confirmed_ms)),
        ("dead_letters", dead_letters),
        ("retained_from", String::new()),
        ("reconciled_at", timestamp_text(reconciled.map(|last| last.at_ms))),
        ("reconciled_version", reconciled.map(|last| last.version.to_string()).unwrap_or_default()),
        ("reconcile_result", reconciled.map(|last| last.verdict.name().to_owned()).unwrap_or_default()),
    ]);
    fields
}

/// The fields that tell of the table behind a view, by name.
pub const OF_TABLE: [&str; 5] = ["watermark", "positions", "settled", "history_from", "dead_letters"];

/// The values of [`OF_TABLE`] at `head`: a function of the commit alone.
pub fn of_table(head: &Head, table: usize) -> [String; 5] {
    let first = |position: &Position| (position.first_offset > 0).then_some(position.first_offset);
    [
        watermark_text(head, table),
        positions_text(head, table, |position| Some(position.next_offset)),
        positions_text(head, table, |position| Some(position.settled)),
        positions_text(head, table, first),
        head.open_letters[table].to_string(),
    ]
}

/// CRC-32 of each of [`OF_TABLE`], as every commit keeps them: whoever reads a published meta later can tell
/// whether it says what it said at that commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u32; 5]);

impl Fingerprint {
    pub fn of(fields: &[String; 5]) -> Self {
        Fingerprint(fields.each_ref().map(|field| crc32fast::hash(field.as_bytes())))
    }

    /// The names of those fields that are other ones.
    pub fn differing(&self, other: &Fingerprint) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&other.0).zip(OF_TABLE);
        pairs.filter(|((ours, theirs), _)| ours != theirs).map(|(_, name)| name).collect()
    }
}

/// The watermark as readers see it; empty where there is none.
pub fn watermark_text(head: &Head, table: usize) -> String {
    head.tables[table].watermark.map(|watermark| watermark.to_string()).unwrap_or_default()
}

/// `{"topic:partition": offset, …}` of the partitions that feed a table.
fn positions_text(head: &Head, table: usize, offset: impl Fn(&Position) -> Option<i64>) -> String {
    let offsets: BTreeMap<String, i64> = head
        .positions
        .iter()
        .filter(|position| position.table == table)
        .filter_map(|position| Some((position.at.to_string(), offset(position)?)))
        .collect();
    serde_json::json!(offsets).to_string()
}

/// The activation that a publication shows; one that says nothing is the first.
pub fn parse_activation(meta: &BTreeMap<String, String>) -> u64 {
    meta.get(ACTIVATION).and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Reads [`positions`](finished) or `settled` back; unreadable text has none.
pub fn parse_positions(text: &str) -> BTreeMap<String, i64> {
    serde_json::from_str(text).unwrap_or_default()
}
