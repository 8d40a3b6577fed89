//! From the text of a contract document to a checked [`View`]. Must not know how a view is computed.

use std::collections::{BTreeMap, HashSet};

use super::document::Fields;
use super::{Consumer, ContractError, Deprecation, Dimension, Filter, Measure, Policy, View};
use super::{filter, hash, measure, syntax};
use crate::pure::canonical::parse_strict;
use crate::pure::schema::{Table, is_date};

const DOCUMENT_FIELDS: [&str; 12] = [
    "object",
    "base",
    "metric_contract",
    "columns",
    "refresh",
    "late",
    "retention",
    "owner",
    "lineage",
    "consumers",
    "policy",
    "deprecated",
];

/// A field that the engine does not read would be certified by the hash without being kept, so there is none.
const CONTRACT_FIELDS: [&str; 6] =
    ["grain", "filters", "measures", "aggregate_grain", "currency", "description"];

const REFRESH_MODE: &str = "incremental-partition-recompute";

pub(super) fn compile(text: &str, place: &str, tables: &[Table]) -> Result<View, ContractError> {
    let document = parse_strict(text).map_err(|message| ContractError {
        place: place.to_owned(),
        path: String::new(),
        message,
    })?;
    let root = Fields::root(place, &document)?;
    root.only(&DOCUMENT_FIELDS)?;
    let object = object_name(&root)?;
    let table = base_table(&root, tables)?;
    let contract = root.object("metric_contract")?;
    contract.only(&CONTRACT_FIELDS)?;
    for descriptive in ["grain", "currency", "description"] {
        contract.optional_text(descriptive)?;
    }
    let grain = grain(&contract, table)?;
    let filters = contract_filters(&contract, table)?;
    let measures = measures(&root, &contract, table, &grain)?;
    only_update_without_retention(&root)?;
    let (policy, row_filters) = policy(&root, table)?;
    let mut view = View {
        object,
        base: table.name.to_string(),
        grain,
        filters,
        row_filters,
        measures,
        contract_hash: hash::contract_hash(root.required("metric_contract")?),
        definition_hash: String::new(),
        freshness_slo_seconds: freshness(&root)?,
        owner: root.optional_text("owner")?.map(str::to_owned),
        lineage: owned(root.texts("lineage")?),
        consumers: consumers(&root)?,
        policy,
        deprecated: BTreeMap::new(),
        document: serde_json::Value::Null,
    };
    view.deprecated = deprecated(&root, &view.measures)?;
    view.definition_hash = hash::definition_hash(&view, table);
    view.document = document;
    Ok(view)
}

fn object_name(root: &Fields) -> Result<String, ContractError> {
    let name = root.text("object")?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || !name.bytes().all(allowed) {
        let message = format!("{name:?} is no name of a view: it is made of A-Z a-z 0-9 _ . -");
        return Err(root.error("object", message));
    }
    Ok(name.to_owned())
}

fn base_table<'t>(root: &Fields, tables: &'t [Table]) -> Result<&'t Table, ContractError> {
    let name = root.text("base")?;
    let table = tables.iter().find(|table| &*table.name == name).ok_or_else(|| {
        let known: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        root.error("base", format!("{name:?} is no configured table; configured: {known}"))
    })?;
    let mut names = table.columns.iter().map(|column| &column.name).chain([&table.name]);
    if names.any(|name| name.contains('\0')) {
        let message = "the table has the character NUL in a name, which SQL text cannot hold";
        return Err(root.error("base", message));
    }
    Ok(table)
}

fn grain(contract: &Fields, table: &Table) -> Result<Vec<Dimension>, ContractError> {
    contract.required("aggregate_grain")?;
    let mut grain: Vec<Dimension> = Vec::new();
    for (place, name) in contract.texts("aggregate_grain")? {
        let column = table.column(name).ok_or_else(|| {
            let message = format!(
                "{name:?} is no column of {}, and dimensions other than columns are not supported by this \
                 version; its columns are {}",
                table.name,
                syntax::column_names(table)
            );
            contract.error(&place, message)
        })?;
        if grain.iter().any(|dimension| dimension.column == column) {
            return Err(contract.error(&place, format!("{name:?} is given twice")));
        }
        grain.push(Dimension {
            name: name.to_owned(),
            column,
            column_type: table.columns[column].column_type,
            nullable: table.columns[column].nullable,
        });
    }
    if grain.is_empty() {
        return Err(contract.error("aggregate_grain", "at least one column is needed"));
    }
    Ok(grain)
}

fn contract_filters(contract: &Fields, table: &Table) -> Result<Vec<Filter>, ContractError> {
    // Required, so that no misspelt field leaves a view unfiltered.
    contract
        .optional("filters")
        .ok_or_else(|| contract.error("filters", "this field is required; [] stands for no filter"))?;
    let mut filters = Vec::new();
    for (place, text) in contract.texts("filters")? {
        let compiled = filter::compile(text, table).map_err(|message| contract.error(&place, message))?;
        filters.extend(compiled);
    }
    Ok(filters)
}

fn measures(
    root: &Fields,
    contract: &Fields,
    table: &Table,
    grain: &[Dimension],
) -> Result<Vec<Measure>, ContractError> {
    let declared = contract.object("measures")?;
    let names: Vec<&str> = declared.entries().map(|(name, _)| name).collect();
    let columns = root.optional_object("columns")?;
    if let Some(columns) = &columns {
        columns.only(&names)?;
    }
    let mut measures = Vec::new();
    let mut taken: HashSet<&str> = grain.iter().map(|dimension| dimension.name.as_str()).collect();
    for (name, text) in declared.entries() {
        let text = declared.as_text(name, text)?;
        let aggregate = measure::compile(text, table).map_err(|message| declared.error(name, message))?;
        let (column, holder) = match columns.as_ref().filter(|columns| columns.optional(name).is_some()) {
            Some(columns) => (columns.text(name)?, columns),
            None => (name, &declared),
        };
        if column.is_empty() || column.starts_with('_') || column.chars().any(char::is_control) {
            let message = format!(
                "{column:?} cannot be published: a field has no _ in front, and no control character"
            );
            return Err(holder.error(name, message));
        }
        if !taken.insert(column) {
            let message = format!("{column:?} is already the name of a grain column or of another field");
            return Err(holder.error(name, message));
        }
        measures.push(Measure {
            name: name.to_owned(),
            column: column.to_owned(),
            additive: aggregate.is_additive(),
            aggregate,
        });
    }
    if measures.is_empty() {
        return Err(declared.error("", "at least one measure is needed"));
    }
    Ok(measures)
}

fn only_update_without_retention(root: &Fields) -> Result<(), ContractError> {
    match root.optional_text("late")? {
        None | Some("update") => {}
        Some(other) => {
            let message = format!("{other:?} is not supported by this version; it is \"update\"");
            return Err(root.error("late", message));
        }
    }
    match root.optional("retention") {
        None => Ok(()),
        Some(_) => Err(root.error("retention", "not supported by this version; it is null")),
    }
}

fn freshness(root: &Fields) -> Result<u64, ContractError> {
    let refresh = root.object("refresh")?;
    refresh.only(&["mode", "freshness_slo_seconds"])?;
    match refresh.optional_text("mode")? {
        None | Some(REFRESH_MODE) => {}
        Some(other) => {
            let message = format!("{other:?} is not supported by this version; it is {REFRESH_MODE:?}");
            return Err(refresh.error("mode", message));
        }
    }
    let seconds = refresh.optional_positive("freshness_slo_seconds")?;
    seconds.ok_or_else(|| refresh.error("freshness_slo_seconds", "this field is required"))
}

fn policy(root: &Fields, table: &Table) -> Result<(Policy, Vec<Filter>), ContractError> {
    let mut policy = Policy { row_filter: None, minimum_group_lines: None, roles: vec!["*".to_owned()] };
    let Some(declared) = root.optional_object("policy")? else {
        return Ok((policy, Vec::new()));
    };
    declared.only(&["row_filter", "minimum_group_lines", "roles"])?;
    policy.row_filter = declared.optional_text("row_filter")?.map(str::to_owned);
    policy.minimum_group_lines = declared.optional_positive("minimum_group_lines")?;
    if declared.optional("roles").is_some() {
        policy.roles = owned(declared.texts("roles")?);
    }
    let row_filters = match &policy.row_filter {
        None => Vec::new(),
        Some(text) => {
            filter::compile(text, table).map_err(|message| declared.error("row_filter", message))?
        }
    };
    Ok((policy, row_filters))
}

fn deprecated(root: &Fields, measures: &[Measure]) -> Result<BTreeMap<usize, Deprecation>, ContractError> {
    let mut deprecated = BTreeMap::new();
    let Some(declared) = root.optional_object("deprecated")? else {
        return Ok(deprecated);
    };
    let names: Vec<&str> = measures.iter().map(|measure| measure.name.as_str()).collect();
    declared.only(&names)?;
    let position = |name: &str| names.iter().position(|known| *known == name);
    for (name, _) in declared.entries() {
        let Some(measure) = position(name) else { continue };
        let word = declared.object(name)?;
        word.only(&["since", "use", "why"])?;
        let since = word.text("since")?;
        if !is_date(since) {
            return Err(word.error("since", format!("{since:?} is no day written as YYYY-MM-DD")));
        }
        let instead = word
            .optional_text("use")?
            .map(|other| {
                position(other).filter(|other| *other != measure).ok_or_else(|| {
                    let known = names.join(", ");
                    word.error("use", format!("{other:?} is no other measure of the view; it has {known}"))
                })
            })
            .transpose()?;
        let why = word.optional_text("why")?.map(str::to_owned);
        deprecated.insert(measure, Deprecation { since: since.to_owned(), instead, why });
    }
    Ok(deprecated)
}

fn consumers(root: &Fields) -> Result<Vec<Consumer>, ContractError> {
    let mut consumers = Vec::new();
    for consumer in root.objects("consumers")? {
        consumer.only(&["name", "owner"])?;
        consumers.push(Consumer {
            name: consumer.text("name")?.to_owned(),
            owner: consumer.optional_text("owner")?.map(str::to_owned),
        });
    }
    Ok(consumers)
}

fn owned(texts: Vec<(String, &str)>) -> Vec<String> {
    texts.into_iter().map(|(_, text)| text.to_owned()).collect()
}
