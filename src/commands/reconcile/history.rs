//! `driftless reconcile history`: the passes on record.

use clap::Args;

use super::super::context::Context;
use super::super::output::{print_json, table, tell};
use super::super::{CommandResult, Format, Verdict};
use crate::pure::publish::timestamp_text;

/// List the passes on record, newest first.
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless reconcile history --view agg_daily_product --limit 10")]
pub struct Arguments {
    /// Of this view alone.
    #[arg(long)]
    view: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

pub fn run(context: &Context, format: Format, arguments: &Arguments) -> CommandResult {
    if let Some(object) = &arguments.view {
        context.view(Some(object))?;
    }
    let passes = context.open_reader()?.reconciles(arguments.view.as_deref(), arguments.limit)?;
    if format == Format::Json {
        print_json(&passes.iter().map(|pass| pass.to_json()).collect::<Vec<_>>().into());
        return Ok(Verdict::Fine);
    }
    if passes.is_empty() {
        tell!("no pass is on record");
        return Ok(Verdict::Fine);
    }
    let mut rows = table(&[
        "id",
        "view",
        "ended",
        "seconds",
        "version",
        "W",
        "verdict",
        "scope",
        "compared",
        "differences",
        "by",
    ]);
    for pass in &passes {
        let run = &pass.run;
        let count = |name: &str| run.report["counts"][name].to_string();
        rows.add_row([
            pass.id.to_string(),
            pass.object.clone(),
            timestamp_text(Some(run.ended_ms)),
            format!("{:.1}", (run.ended_ms - run.started_ms) as f64 / 1000.0),
            run.version.to_string(),
            run.watermark.clone(),
            run.verdict.name().to_owned(),
            if run.whole { "whole" } else { "part" }.to_owned(),
            count("compared"),
            count("differences"),
            pass.who.clone(),
        ]);
    }
    tell!("{rows}");
    Ok(Verdict::Fine)
}
