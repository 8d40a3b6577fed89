//! `driftless seed`: the first load of a table.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::output::{human, print_json, progress, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::io::rows::RowFile;
use crate::pipeline::seed::{self, Seed};
use crate::pure::seq::{Seq, TopicPartition};

/// Load the rows that the log no longer tells, before the first start.
///
/// Each row enters at its own `source_seq`, where the file has such a column, otherwise at N. Events up to N are
/// stale from then on, and N is the first watermark. It all happens in one transaction: a load that ends early
/// leaves nothing behind.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: driftless seed --table fact_sales --from sales.csv --through-seq 206 --positions sales.changes:0=9
         driftless seed --table fact_sales --from sqlite:shop.db#order_lines --through-seq 206"
)]
pub struct Arguments {
    /// The table to load.
    #[arg(long)]
    table: String,
    /// FILE.csv, FILE.jsonl, or sqlite:FILE#table.
    #[arg(long, value_name = "FILE")]
    from: String,
    /// Every change up to this sequence is in the file; epoch.position.row where positions of a source order them.
    #[arg(long, value_name = "N")]
    through_seq: Seq,
    /// Where reading goes on: topic:partition=offset, several with commas. Partitions that are not named are
    /// read from the start of the log, where P2 makes what is in already harmless.
    #[arg(long, value_delimiter = ',', value_name = "TOPIC:PARTITION=OFFSET")]
    positions: Vec<String>,
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    crate::telemetry::start(shared.log, true);
    let context = Context::load(shared)?;
    let table = context.catalog.table(&arguments.table).ok_or_else(|| {
        let names: Vec<&str> = context.catalog.tables.iter().map(|table| &*table.shape.name).collect();
        CommandError::usage(
            format!("table {} is not configured", arguments.table),
            format!("name one of: {}", names.join(", ")),
        )
    })?;
    let positions = arguments
        .positions
        .iter()
        .map(|text| position(&context, table, text))
        .collect::<Result<Vec<_>, _>>()?;
    let file = RowFile::parse(&arguments.from)?;
    let bar = progress(file.length().unwrap_or(0), if file.length().is_some() { "bytes" } else { "rows" });
    let shape = context.catalog.tables[table].shape.clone();
    let mut rows = file.open(shape, {
        let bar = bar.clone();
        Box::new(move |step| bar.inc(step))
    });
    let mut base = context.open_writer()?;
    let seed = Seed { table, through: arguments.through_seq, positions };
    let (commit, count) = seed::load(&mut base, &context.catalog, &seed, &mut rows, context.clock.wall_ms())?;
    bar.finish_and_clear();
    match shared.format {
        Format::Json => print_json(&json!({
            "table": arguments.table, "rows": count, "through_seq": arguments.through_seq.to_json(), "commit": commit.0,
        })),
        Format::Text => tell!(
            "{} rows in {} as of sequence {}; next: driftless run",
            human(count),
            arguments.table,
            arguments.through_seq
        ),
    }
    Ok(Verdict::Fine)
}

fn position(context: &Context, table: usize, text: &str) -> Result<(TopicPartition, i64), CommandError> {
    let wrong = |what: &str| {
        CommandError::usage(
            format!("--positions {text}: {what}"),
            "write topic:partition=offset, e.g. sales.changes:0=1200, with a topic that feeds the table",
        )
    };
    let (place, offset) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
    let (topic, partition) = place.rsplit_once(':').ok_or_else(|| wrong("there is no :"))?;
    let topic = context
        .catalog
        .topic(topic)
        .filter(|topic| topic.table == table)
        .ok_or_else(|| wrong("the topic does not feed the table"))?;
    let partition: i32 = partition.parse().map_err(|_| wrong("the partition is no number"))?;
    let offset: i64 = offset.parse().map_err(|_| wrong("the offset is no number"))?;
    if partition < 0 || offset < 0 {
        return Err(wrong("neither number can be negative"));
    }
    Ok((TopicPartition { topic: topic.name.clone(), partition }, offset))
}
