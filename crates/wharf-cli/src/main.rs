//! The `wharf` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wharf_cli::run(&wharf_cli::Registries::default(), std::env::args_os())
}
