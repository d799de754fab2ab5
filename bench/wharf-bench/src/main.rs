//! The program `wharf-bench`, which `wharf bench` runs: it measures the path and devices on this machine.
//!
//! Its help and errors name the command by which it is run: `wharf bench`.
#![forbid(unsafe_code)]

mod args;
mod bench;

use args::BenchArgs;
use clap::Subcommand;
use std::process::ExitCode;
use wharf_cli::pages::{self, Pages};
use wharf_cli::{Registries, beside, command_line};

/// The commands behind `wharf`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the path on this machine
    Bench(Box<BenchArgs>),
    #[command(flatten)]
    Pages(Pages),
}

fn main() -> ExitCode {
    let definition = definition();
    let words = beside::behind_wharf(std::env::args_os().collect(), "bench", &definition);
    command_line::run(definition, &words, |_| None, carry_out)
}

fn definition() -> clap::Command {
    pages::with_examples(command_line::definition::<Command>(&Registries::default()), "wharf-bench")
}

fn carry_out(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Bench(args) => bench::bench(&args),
        Command::Pages(pages) => pages.print("wharf-bench", definition(), pages::with_devices),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::definition().debug_assert();
    }
}
