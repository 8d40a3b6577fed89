//! What commands print: tables and JSON on standard output, progress on standard error where it is a terminal.

use std::io::{IsTerminal, Write};

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

/// A plain table with a header.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(header.iter().copied());
    table
}

/// Prints a line, or nothing where nobody reads any more, as behind `| head`: cleaning up goes on.
pub fn say(text: &str) {
    let _nobody_reads = writeln!(std::io::stdout(), "{text}");
}

/// As `println!`, through [`say`].
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::commands::output::say(&format!($($text)*))
    };
}
pub(crate) use tell;

/// Prints a JSON document, one line a field.
pub fn print_json(value: &serde_json::Value) {
    say(&format!("{value:#}"));
}

/// A bar for work of a known length, shown on a terminal alone.
pub fn progress(length: u64, unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let template =
        format!("{{bar:30}} {{human_pos}}/{{human_len}} {unit}  {{per_sec}}  {{eta}} left  {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// A line that says what is being done, shown on a terminal alone.
pub fn spinner() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(std::time::Duration::from_millis(120));
    spinner
}

/// Digits in groups of three, for people.
pub fn human(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}
