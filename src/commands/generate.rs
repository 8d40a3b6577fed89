//! `driftless generate`: the example's stream of change events as lines of JSON, the same for the same arguments.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use jiff::civil::Date;
use serde_json::json;

use super::output::{human, print_json, progress, tell};
use super::{CommandError, CommandResult, Format, Shared, Verdict};
use crate::example::Workload;

/// Write a stream of order-line events: one JSON document a line, the same bytes for the same arguments.
///
/// It has what a real change log has: updates, moves between groups, refunds, deletes, keys that come back, late
/// orders, events that come twice or out of order. `source_seq` has no holes (watermark mode dense).
#[derive(Debug, Args)]
#[command(after_help = "Example: driftless generate --events 100000 --out events.jsonl
         driftless generate --events 1000000 --disorder-share 0 | driftless produce - --partitions 4")]
pub struct Arguments {
    /// Write to this file, and a summary to standard output [default: events to standard output, no summary].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    workload: WorkloadArguments,
}

/// Every setting of [`Workload`].
#[derive(Debug, Args)]
struct WorkloadArguments {
    /// Chooses the stream.
    #[arg(long, default_value_t = Workload::default().seed)]
    seed: u64,
    /// Distinct events; those that come twice are extra lines.
    #[arg(long, default_value_t = Workload::default().events)]
    events: u64,
    /// source_seq of the first event.
    #[arg(long, value_name = "SEQ", default_value_t = Workload::default().first_seq)]
    first_seq: u64,
    /// Number of the first order; a second stream into the same table needs one past the first stream's.
    #[arg(long, value_name = "NUMBER", default_value_t = Workload::default().first_order)]
    first_order: u64,
    /// The day the stream begins.
    #[arg(long, value_name = "YYYY-MM-DD", default_value_t = Workload::default().start_date)]
    start_date: Date,
    /// Days over which the events are spread.
    #[arg(long, default_value_t = Workload::default().days)]
    days: u32,
    /// Distinct products, P100 the most wanted.
    #[arg(long, default_value_t = Workload::default().products)]
    products: u32,
    /// Distinct customers.
    #[arg(long, default_value_t = Workload::default().customers)]
    customers: u32,
    /// How much more the first products are wanted than the last: 0 all alike, 1 a usual shop.
    #[arg(long, value_name = "NUMBER", default_value_t = Workload::default().zipf_exponent)]
    zipf_exponent: f64,
    /// Lines of an order at most.
    #[arg(long, value_name = "LINES", default_value_t = Workload::default().lines_per_order_max)]
    lines_per_order_max: u32,
    /// Share of events that change quantity or amount of a line, from 0 to 1 as all shares.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().update_share)]
    update_share: f64,
    /// Share of events that move a line to another product or an earlier day.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().move_share)]
    move_share: f64,
    /// Share of events that turn a paid line into a refunded one.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().refund_share)]
    refund_share: f64,
    /// Share of events that delete a line.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().delete_share)]
    delete_share: f64,
    /// Share of deleted lines that come back under the same key.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().reinsert_share)]
    reinsert_share: f64,
    /// Share of new orders dated before the day they arrive on.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().late_share)]
    late_share: f64,
    /// Days that such an order is late at most.
    #[arg(long, value_name = "DAYS", default_value_t = Workload::default().late_days_max)]
    late_days_max: u32,
    /// Share of events that are delivered a second time.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().duplicate_share)]
    duplicate_share: f64,
    /// Share of events that are delivered after events that follow them.
    #[arg(long, value_name = "SHARE", default_value_t = Workload::default().disorder_share)]
    disorder_share: f64,
    /// Places by which a delivery comes late at most.
    #[arg(long, value_name = "PLACES", default_value_t = Workload::default().disorder_places_max)]
    disorder_places_max: u32,
    /// Lines remembered for later correction, about 50 bytes each.
    #[arg(long, value_name = "LINES", default_value_t = Workload::default().correctable_lines_max)]
    correctable_lines_max: u32,
}

impl WorkloadArguments {
    fn checked(&self) -> Result<Workload, CommandError> {
        let workload = Workload {
            seed: self.seed,
            events: self.events,
            first_seq: self.first_seq,
            first_order: self.first_order,
            start_date: self.start_date,
            days: self.days,
            products: self.products,
            customers: self.customers,
            zipf_exponent: self.zipf_exponent,
            lines_per_order_max: self.lines_per_order_max,
            update_share: self.update_share,
            move_share: self.move_share,
            refund_share: self.refund_share,
            delete_share: self.delete_share,
            reinsert_share: self.reinsert_share,
            late_share: self.late_share,
            late_days_max: self.late_days_max,
            duplicate_share: self.duplicate_share,
            disorder_share: self.disorder_share,
            disorder_places_max: self.disorder_places_max,
            correctable_lines_max: self.correctable_lines_max,
        };
        check(&workload)?;
        Ok(workload)
    }
}

/// What the workload refuses, as an error of the arguments: its messages name settings as the code does.
pub fn check(workload: &Workload) -> Result<(), CommandError> {
    workload.validate().map_err(|message| {
        let (what, remedy) = message.split_once(": ").unwrap_or((&message, "see driftless generate --help"));
        CommandError::usage(what.replace('_', "-"), remedy)
    })
}

pub fn run(shared: &Shared, arguments: &Arguments) -> CommandResult {
    let workload = arguments.workload.checked()?;
    let started = Instant::now();
    let Some(path) = &arguments.out else {
        return match write(&workload, std::io::stdout().lock(), &mut |_| {}) {
            Ok(_) => Ok(Verdict::Fine),
            // Who reads has had enough, as `head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Verdict::Fine),
            Err(error) => Err(CommandError::File("standard output".into(), error)),
        };
    };
    let fail = |error| CommandError::File(path.display().to_string(), error);
    let bar = progress(workload.events, "events");
    let file = File::create(path).map_err(fail)?;
    let written = write(&workload, file, &mut |events| bar.set_position(events)).map_err(fail)?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let (first_seq, last_seq) = (workload.first_seq, workload.first_seq + workload.events.saturating_sub(1));
    match shared.format {
        Format::Json => print_json(&json!({
            "file": path, "events": workload.events, "messages": written.messages,
            "duplicates": written.messages - workload.events, "bytes": written.bytes,
            "first_seq": first_seq, "last_seq": last_seq, "seed": workload.seed,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        })),
        Format::Text => tell!(
            "{} events in {} lines ({} come twice), source_seq {first_seq} to {last_seq}, {:.1} MB in {} in {seconds:.1} s",
            human(workload.events),
            human(written.messages),
            human(written.messages - workload.events),
            written.bytes as f64 / 1e6,
            path.display(),
        ),
    }
    Ok(Verdict::Fine)
}

#[derive(Default)]
struct Written {
    messages: u64,
    bytes: u64,
}

/// Writes the stream; tells now and then how many messages there are.
fn write(workload: &Workload, out: impl Write, tell: &mut dyn FnMut(u64)) -> std::io::Result<Written> {
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut written = Written::default();
    for delivery in workload.events() {
        out.write_all(delivery.json.as_bytes())?;
        out.write_all(b"\n")?;
        written.messages += 1;
        written.bytes += delivery.json.len() as u64 + 1;
        if written.messages.is_multiple_of(4_096) {
            tell(written.messages.min(workload.events));
        }
    }
    out.flush()?;
    Ok(written)
}
