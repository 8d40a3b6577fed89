//! Logs: where they go and in which form. The one place that knows the subscriber.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The form of log lines, which always go to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `DRIFTLESS_LOG` filters as `RUST_LOG` does elsewhere; the default is `info`.
pub fn start(format: LogFormat, quiet: bool) {
    let default = if quiet { "warn" } else { "info" };
    let filter = EnvFilter::try_from_env("DRIFTLESS_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let color = std::io::stderr().is_terminal();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(color);
    // A second start, as in tests, changes nothing.
    let _already_started = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
