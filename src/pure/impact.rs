//! What breaks when a column goes, and what a change of a contract means to those who read it. Functions of compiled
//! views; must not know where contracts are kept.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::pure::contract::{Consumer, Measure, View, filter};
use crate::pure::schema::Table;

/// How far a view breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    Nothing,
    /// The measures named; the others stay, under another contract hash.
    Measures,
    /// All of it: its groups or its rows cannot be told any more.
    Whole,
}

impl Breaks {
    pub fn name(self) -> &'static str {
        match self {
            Breaks::Nothing => "nothing",
            Breaks::Measures => "measures",
            Breaks::Whole => "whole",
        }
    }
}

/// What one view loses with a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewImpact {
    pub breaks: Breaks,
    /// The column is part of the table's primary key.
    pub key: bool,
    pub grain: bool,
    /// Texts of the contract's filters that read it.
    pub filters: Vec<String>,
    /// The policy's row filter, where it reads it.
    pub row_filter: Option<String>,
    /// Positions of the measures that read it; all of them where the whole view breaks.
    pub measures: Vec<usize>,
    /// Positions of deprecated measures whose replacement is among those.
    pub replacements: Vec<usize>,
    /// Who reads what breaks: a consumer is declared for the view as a whole.
    pub consumers: Vec<Consumer>,
}

/// What `view` loses when `column` of its table goes.
pub fn of_column(view: &View, table: &Table, column: usize) -> ViewImpact {
    let reads = |text: &str| {
        let compiled = filter::compile(text, table).unwrap_or_default();
        compiled.iter().any(|filter| filter.column == column)
    };
    let key = table.is_key(column);
    let grain = view.grain.iter().any(|dimension| dimension.column == column);
    let filters: Vec<String> = filter_texts(view).into_iter().filter(|text| reads(text)).collect();
    let row_filter = view.policy.row_filter.clone().filter(|text| reads(text));
    let whole = key || grain || !filters.is_empty() || row_filter.is_some();
    let measures: Vec<usize> =
        (0..view.measures.len()).filter(|at| whole || measure_reads(&view.measures[*at], column)).collect();
    let replaced = view.deprecated.iter().filter(|(at, word)| {
        !measures.contains(at) && word.instead.is_some_and(|instead| measures.contains(&instead))
    });
    let replacements = replaced.map(|(at, _)| *at).collect();
    let breaks = match (whole, measures.is_empty()) {
        (true, _) => Breaks::Whole,
        (false, false) => Breaks::Measures,
        (false, true) => Breaks::Nothing,
    };
    let consumers = if breaks == Breaks::Nothing { Vec::new() } else { view.consumers.clone() };
    ViewImpact { breaks, key, grain, filters, row_filter, measures, replacements, consumers }
}

fn measure_reads(measure: &Measure, column: usize) -> bool {
    let mut reads = false;
    measure.aggregate.for_each_column(&mut |read| reads |= read == column);
    reads
}

/// The contract's filters as written.
pub fn filter_texts(view: &View) -> Vec<String> {
    let items = view.document["metric_contract"]["filters"].as_array().into_iter().flatten();
    items.filter_map(Json::as_str).map(str::to_owned).collect()
}

/// The text of a measure as written.
pub fn measure_text(view: &View, measure: usize) -> String {
    let name = &view.measures[measure].name;
    view.document["metric_contract"]["measures"][name].as_str().unwrap_or_default().to_owned()
}

/// One thing that two contracts say differently; `None` is not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The place in the document, such as `metric_contract.measures.units`.
    pub place: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

/// What a change of a contract means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractDiff {
    /// Whether the numbers mean something else: the contract hash differs.
    pub meaning: bool,
    /// Whether Redis holds something else, so that a new generation is needed: the definition hash differs.
    pub definition: bool,
    pub differences: Vec<Difference>,
    /// Published fields that the new contract adds, and those that it takes away.
    pub appear: Vec<String>,
    pub vanish: Vec<String>,
    /// Declared consumers of the old contract: whoever of them pins its hash is refused after the change.
    pub consumers: Vec<Consumer>,
}

/// Compares two contracts, of one view or of two.
pub fn of_change(old: &View, new: &View) -> ContractDiff {
    let mut differences = Vec::new();
    compare("", Some(&old.document), Some(&new.document), &mut differences);
    let (had, has) = (columns(old), columns(new));
    let meaning = old.contract_hash != new.contract_hash;
    let definition = old.definition_hash != new.definition_hash;
    ContractDiff {
        meaning,
        definition,
        differences,
        appear: has.difference(&had).cloned().collect(),
        vanish: had.difference(&has).cloned().collect(),
        consumers: if meaning || definition { old.consumers.clone() } else { Vec::new() },
    }
}

fn columns(view: &View) -> BTreeSet<String> {
    view.columns().into_iter().chain(view.grain.iter().map(|dimension| dimension.name.clone())).collect()
}

/// Objects are compared field by field, everything else as a whole; null is as good as absent.
fn compare(place: &str, old: Option<&Json>, new: Option<&Json>, found: &mut Vec<Difference>) {
    let (old, new) = (old.filter(|value| !value.is_null()), new.filter(|value| !value.is_null()));
    if old == new {
        return;
    }
    let fields = |value: Option<&Json>| value.and_then(Json::as_object).cloned();
    if let (Some(had), Some(has)) = (fields(old), fields(new)) {
        let added = has.keys().filter(|name| !had.contains_key(*name));
        for name in had.keys().chain(added) {
            let inside = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            compare(&inside, had.get(name), has.get(name), found);
        }
        return;
    }
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    found.push(Difference { place: place.to_owned(), old: old.map(text), new: new.map(text) });
}
