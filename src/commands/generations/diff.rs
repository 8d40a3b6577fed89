//! `driftless generations diff`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::context_of;
use crate::commands::context::Context;
use crate::commands::output::{human, print_json, progress, table, tell};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::io::sqlite::SqliteReader;
use crate::pipeline::compare::{Comparison, Difference, Side, compare};
use crate::ports::{PortError, StoredFields};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    first: String,
    second: String,
    /// Only this view [default: all that both have].
    #[arg(long)]
    view: Option<String>,
    /// Differences shown a view.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// All differences, one JSON document a line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

struct ViewDiff {
    object: String,
    found: Comparison,
    shown: Vec<Difference>,
}

pub fn run(context: &Context, arguments: &Arguments, format: Format) -> CommandResult {
    let control = context.control()?;
    let first = context_of(context, &control, &arguments.first)?;
    let second = context_of(context, &control, &arguments.second)?;
    let (mut ours, mut theirs) = (first.open_reader()?, second.open_reader()?);
    let mut out = arguments
        .out
        .as_ref()
        .map(|path| {
            let file = File::create(path);
            file.map(BufWriter::new).map_err(|error| CommandError::File(path.display().to_string(), error))
        })
        .transpose()?;
    let mut diffs = Vec::new();
    for (view, entry) in first.catalog.views.iter().enumerate() {
        let object = &entry.view.object;
        let asked = arguments.view.as_ref().is_none_or(|asked| asked == object);
        let Some(other) = second.catalog.view(object).filter(|_| asked) else { continue };
        let mut sides = (side(&first, &mut ours, view), side(&second, &mut theirs, other));
        diffs.push(view_diff(object, &mut sides, arguments.limit, &mut out)?);
    }
    if let Some(object) = arguments.view.as_ref().filter(|_| diffs.is_empty()) {
        return Err(CommandError::usage(
            format!("there is no view {object} in both generations"),
            "driftless generations list --format json names the views of each",
        ));
    }
    if let (Some(out), Some(path)) = (&mut out, &arguments.out) {
        out.flush().map_err(|error| CommandError::File(path.display().to_string(), error))?;
    }
    print(arguments, &diffs, format);
    Ok(if diffs.iter().all(|diff| diff.found.differing() == 0) { Verdict::Fine } else { Verdict::No })
}

fn side<'a>(context: &Context, base: &'a mut SqliteReader, view: usize) -> Side<'a> {
    Side { base, view, columns: context.catalog.views[view].view.columns() }
}

fn view_diff(
    object: &str,
    (first, second): &mut (Side<'_>, Side<'_>),
    limit: usize,
    out: &mut Option<BufWriter<File>>,
) -> Result<ViewDiff, CommandError> {
    let mut shown = Vec::new();
    let bar = progress(0, "groups");
    let mut sink = |difference: Difference| {
        if let Some(out) = out {
            writeln!(out, "{}", difference_json(object, &difference))
                .map_err(|error| PortError::permanent(format!("--out: {error}")))?;
        }
        if shown.len() < limit {
            shown.push(difference);
        }
        Ok(())
    };
    let found = compare(first, second, &mut sink, &mut |groups| bar.inc(groups))?;
    bar.finish_and_clear();
    Ok(ViewDiff { object: object.to_owned(), found, shown })
}

fn difference_json(object: &str, difference: &Difference) -> Value {
    json!({
        "view": object, "group": difference.key.as_str(), "first": difference.first, "second": difference.second,
    })
}

fn print(arguments: &Arguments, diffs: &[ViewDiff], format: Format) {
    if format == Format::Json {
        print_json(&json!({
            "first": arguments.first, "second": arguments.second,
            "views": diffs.iter().map(|diff| json!({
                "view": diff.object, "groups": diff.found, "differing": diff.found.differing(),
                "differences": diff.shown.iter().map(|shown| difference_json(&diff.object, shown)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }));
        return;
    }
    let (first, second) = (&arguments.first, &arguments.second);
    for ViewDiff { object, found, shown } in diffs {
        tell!(
            "{object}: {} groups the same, {} different, {} only in {first}, {} only in {second}",
            human(found.same),
            human(found.different),
            human(found.only_first),
            human(found.only_second)
        );
        if shown.is_empty() {
            continue;
        }
        let mut rows = table(&["group", first, second]);
        for difference in shown {
            rows.add_row([
                difference.key.as_str().to_owned(),
                fields_text(difference.first.as_ref(), difference.second.as_ref()),
                fields_text(difference.second.as_ref(), difference.first.as_ref()),
            ]);
        }
        tell!("{rows}");
        let more = found.differing() - shown.len() as u64;
        if more > 0 {
            tell!("and {} more: --limit, or --out FILE for all", human(more));
        }
    }
}

/// The fields that differ from the other side's.
fn fields_text(fields: Option<&StoredFields>, other: Option<&StoredFields>) -> String {
    let Some(fields) = fields else { return "no such group".to_owned() };
    let differs =
        |(name, value): &(&String, &String)| other.is_none_or(|other| other.get(*name) != Some(*value));
    let texts: Vec<String> =
        fields.iter().filter(differs).map(|(name, value)| format!("{name} {value}")).collect();
    texts.join("\n")
}
