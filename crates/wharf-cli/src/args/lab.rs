//! `wharf lab`.

use super::values;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;
use wharf_lab::experiment::World;

/// Experiments, in virtual time or on this machine.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) what: LabCommand,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments
    List(LabListArgs),
    /// Run one
    Run(LabRunArgs),
}

/// `wharf lab list`.
#[derive(Debug, Args)]
pub(crate) struct LabListArgs {
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  wharf lab run bulk
  wharf lab run bulk --set doorbell_ps=200000 --json
  wharf lab run pages --world host --threads 2,4 --seconds 5

In world model the same seed and parameters give the same result, to the byte, on any machine. Kinds of rows:
  fitted     a parameter was chosen so that it comes out, and all are as in the file
  predicted  it follows from parameters chosen for other rows, or set for this run
  measured   it was measured on a real machine";

/// Where to run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WorldChoice {
    Model,
    Host,
}

impl From<WorldChoice> for World {
    fn from(choice: WorldChoice) -> Self {
        match choice {
            WorldChoice::Model => World::Model,
            WorldChoice::Host => World::Host,
        }
    }
}

/// `wharf lab run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabRunArgs {
    /// Which experiment; see `wharf lab list`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Change a parameter for this run; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// In virtual time (model) or on this machine (host), where the experiment has both; the first in `wharf lab list` unless given
    #[arg(long, value_name = "WORLD")]
    pub(crate) world: Option<WorldChoice>,
    /// World host: numbers of threads, a run for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    pub(crate) threads: Vec<u32>,
    /// World host: how long to measure each point
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Say on standard error how fast packets were simulated
    #[arg(long)]
    pub(crate) time: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
