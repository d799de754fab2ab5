//! The program `wharf-lab`, which `wharf lab` and `wharf plan` run: experiments in virtual time or on this machine, and the planner.
//!
//! Its help and errors name the command by which it is run: `wharf lab`.
#![forbid(unsafe_code)]

mod args;
mod lab;
mod plan;

use args::{LabArgs, PlanArgs};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use std::process::ExitCode;
use wharf_cli::pages::{self, FILES, Pages};
use wharf_cli::{Registries, beside, command_line};
use wharf_plan::nics::Description;

/// The commands behind `wharf`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Work out what a server can carry, and what stops it
    Plan(Box<PlanArgs>),
    /// Run experiments in virtual time, beside published figures
    Lab(Box<LabArgs>),
    #[command(flatten)]
    Pages(Pages),
}

fn main() -> ExitCode {
    let definition = definition();
    let words = beside::behind_wharf(std::env::args_os().collect(), "lab", &definition);
    command_line::run(definition, &words, lab::help_of_experiment, carry_out)
}

fn definition() -> clap::Command {
    pages::with_examples(command_line::definition::<Command>(&Registries::default()), "wharf-lab")
}

fn carry_out(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Pages(pages) => pages.print("wharf-lab", definition(), with_words),
    }
}

/// Adds the words that `lab run` and `plan --nic` take, for completions: help does not list them.
fn with_words(command: clap::Command) -> clap::Command {
    let experiments = wharf_lab::experiment::all().iter().map(|experiment| experiment.name).chain(["all"]);
    let experiments = PossibleValuesParser::new(experiments.collect::<Vec<_>>());
    let nics = PossibleValuesParser::new(Description::names().chain([FILES]).collect::<Vec<_>>());
    let command = command.mut_subcommand("plan", |plan| plan.mut_arg("nic", |nic| nic.value_parser(nics)));
    command.mut_subcommand("lab", |lab| {
        lab.mut_subcommand("run", |run| run.mut_arg("name", |name| name.value_parser(experiments)))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::definition().debug_assert();
    }
}
