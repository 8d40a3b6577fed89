//! `driftless checksum`: controls and the sha256 of a view's sorted groups, from Redis or from the base.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::context::Context;
use super::output::{print_json, table, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::ports::{BaseReader, Meta, PortError, PortResult, ViewStore};
use crate::pure::checksum::{ChecksumWriter, Controls};
use crate::pure::group_key::GroupKey;
use crate::pure::meta;
use crate::pure::publish::GroupValue;
use crate::pure::value::Value;

/// Print controls (totals) and the sha256 of a view's sorted groups.
///
/// The groups are ordered by their key's values and written as one JSON array of rows without blanks, in ASCII;
/// see docs/CONTRACTS.md. Equal checksums mean equal groups.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless checksum --view agg_daily_product --from redis
         driftless checksum --from base --columns line_count,units,gmv_cents --format json")]
pub struct Arguments {
    /// The view; may be left out where there is only one.
    #[arg(long)]
    view: Option<String>,
    /// Where the groups are taken from.
    #[arg(long, value_enum)]
    from: From,
    /// Measures to include after the grain, by their published names [default: all].
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    Redis,
    Base,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let view = context.view(arguments.view.as_deref())?;
    let chosen = chosen_columns(&context, view, &arguments.columns)?;
    let sum = match arguments.from {
        From::Base => from_base(&context, view, &chosen, &mut context.open_reader()?)?,
        From::Redis => from_store(&context, view, &chosen, &mut context.open_store()?)?,
    };
    print(&context, view, &sum, arguments.from, shared.format);
    Ok(Verdict::Fine)
}

/// Controls and checksum of a view at one state.
#[derive(Debug)]
pub struct Checksum {
    pub sha256: String,
    pub controls: Controls,
    /// The commit or version that the groups are of.
    pub version: String,
    pub watermark: String,
}

/// Positions of the columns named; all where none is.
pub fn chosen_columns(context: &Context, view: usize, names: &[String]) -> Result<Vec<usize>, CommandError> {
    let columns = context.catalog.views[view].view.columns();
    if names.is_empty() {
        return Ok((0..columns.len()).collect());
    }
    names
        .iter()
        .map(|name| {
            columns.iter().position(|column| column == name).ok_or_else(|| {
                CommandError::usage(
                    format!("--columns: the view has no measure {name}"),
                    format!("name some of: {}", columns.join(", ")),
                )
            })
        })
        .collect()
}

/// Sums groups that come in the order of their keys' values.
struct Summing<'a> {
    writer: ChecksumWriter,
    controls: Controls,
    chosen: &'a [usize],
}

impl<'a> Summing<'a> {
    fn new(context: &Context, view: usize, chosen: &'a [usize]) -> Self {
        let controls = Controls::new(&context.catalog.views[view].view);
        Summing { writer: ChecksumWriter::new(), controls, chosen }
    }

    fn add(&mut self, key: &[Value], value: &GroupValue) {
        let measures: Vec<Value> = match value {
            GroupValue::Measures(values) => {
                self.chosen.iter().map(|&column| values[column].map_or(Value::Null, Value::Integer)).collect()
            }
            GroupValue::Overflow => vec![Value::text("overflow")],
        };
        self.writer.row(key.iter().chain(&measures));
        self.controls.add(value);
    }
}

/// Recomputes every group from the rows of one snapshot.
pub fn from_base(
    context: &Context,
    view: usize,
    chosen: &[usize],
    base: &mut dyn BaseReader,
) -> PortResult<Checksum> {
    let mut snapshot = base.snapshot()?;
    let head = snapshot.head()?;
    let mut summing = Summing::new(context, view, chosen);
    snapshot.each_group(view, &mut |key, value| summing.add(key, value))?;
    Ok(Checksum {
        sha256: summing.writer.finish(),
        controls: summing.controls,
        version: head.commit.to_string(),
        watermark: meta::watermark_text(&head, context.catalog.views[view].table),
    })
}

/// Reads every group that the store shows. A publish meanwhile makes it read again.
pub fn from_store(
    context: &Context,
    view: usize,
    chosen: &[usize],
    store: &mut dyn ViewStore,
) -> PortResult<Checksum> {
    for _ in 0..5 {
        if let Some(sum) = try_from_store(context, view, chosen, store)? {
            return Ok(sum);
        }
    }
    Err(PortError::transient("the view was published again during each of five readings")
        .with_hint("try again when the stream is quieter, or use --from base"))
}

fn try_from_store(
    context: &Context,
    view: usize,
    chosen: &[usize],
    store: &mut dyn ViewStore,
) -> PortResult<Option<Checksum>> {
    let Some((meta, groups)) = read_groups(context, view, store)? else {
        return Ok(None);
    };
    let mut summing = Summing::new(context, view, chosen);
    for (key, value) in &groups {
        summing.add(key, value);
    }
    let text = |name: &str| meta.get(name).cloned().unwrap_or_default();
    Ok(Some(Checksum {
        sha256: summing.writer.finish(),
        controls: summing.controls,
        version: text("version"),
        watermark: text("watermark"),
    }))
}

/// Grain values and measures of one group.
pub type Group = (Vec<Value>, GroupValue);

/// The meta and every group that the store shows, in the order of their keys' values; `None` where the view was
/// published again meanwhile.
pub fn read_groups(
    context: &Context,
    view: usize,
    store: &mut dyn ViewStore,
) -> PortResult<Option<(Meta, Vec<Group>)>> {
    let entry = &context.catalog.views[view].view;
    let (types, columns) = (entry.grain_types(), entry.columns());
    let first = store.read_meta(&entry.object)?;
    if first.is_empty() {
        return Err(PortError::permanent(format!("the view {} is not in Redis", entry.object))
            .with_hint("start `driftless run`, or check redis.url and redis.prefix"));
    }
    let version =
        |meta: &Meta| (meta.get("version").cloned(), meta.get("nonce").cloned(), meta.get("part").cloned());
    let mut groups: Vec<Group> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let range = store.read_range(&entry.object, after.as_deref(), None, 1000)?;
        if version(&range.meta) != version(&first) {
            return Ok(None);
        }
        after = range.rows.last().map(|(key, _)| key.clone());
        let last = range.rows.len() < 1000;
        for (key, fields) in range.rows {
            let parts = GroupKey::from_encoded(key.clone()).decode(&types).ok_or_else(|| {
                PortError::permanent(format!(
                    "the index of {} names {key:?}, which is no group key",
                    entry.object
                ))
            })?;
            groups.push((parts, parse_group(&columns, &fields, &key)?));
        }
        if last {
            break;
        }
    }
    groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(Some((first, groups)))
}

/// A row's fields as a group's value; what is no number is a damaged row.
pub fn parse_group(
    columns: &[String],
    fields: &crate::ports::StoredFields,
    key: &str,
) -> PortResult<GroupValue> {
    if fields.contains_key("_error") {
        return Ok(GroupValue::Overflow);
    }
    columns
        .iter()
        .map(|column| {
            fields.get(column).map(|text| text.parse::<i64>()).transpose().map_err(|_| {
                PortError::permanent(format!("row {key}: field {column} is no integer"))
                    .with_hint("somebody else wrote it; restart the maintainer after deleting the row")
            })
        })
        .collect::<PortResult<_>>()
        .map(GroupValue::Measures)
}

fn print(context: &Context, view: usize, sum: &Checksum, from: From, format: Format) {
    let object = &context.catalog.views[view].view.object;
    let from = match from {
        From::Redis => "redis",
        From::Base => "base",
    };
    if format == Format::Json {
        print_json(&json!({
            "view": object, "from": from, "version": sum.version, "watermark": sum.watermark,
            "groups": sum.controls.groups(), "controls": sum.controls.to_json(), "sha256": sum.sha256,
        }));
        return;
    }
    tell!("{object} from {from} at version {}, watermark {}", sum.version, sum.watermark);
    let mut rows = table(&["control", "total"]);
    rows.add_row(["groups".to_owned(), sum.controls.groups().to_string()]);
    for (name, total) in sum.controls.totals() {
        rows.add_row([name.to_owned(), total.to_string()]);
    }
    tell!("{rows}\nsha256 {}", sum.sha256);
}
