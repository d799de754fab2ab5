//! `wharf lab`.

use clap::{Args, Subcommand};

/// Experiments in virtual time.
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

The same seed and parameters give the same result, to the byte, on any machine. Kinds of rows:
  fitted     a parameter was chosen so that it comes out
  predicted  it follows from parameters chosen for other rows
  measured   it was measured on a real machine";

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
    /// Say on standard error how fast packets were simulated
    #[arg(long)]
    pub(crate) time: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
