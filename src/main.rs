//! Parses arguments, calls one command, and turns its outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    driftless::commands::main()
}
