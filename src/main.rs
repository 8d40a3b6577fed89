//! Parses arguments, calls one command, and turns its outcome into an exit code.

use std::process::ExitCode;

/// Records are made on one thread and dropped on another, which the system's allocator pays for with its locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    driftless::commands::main()
}
