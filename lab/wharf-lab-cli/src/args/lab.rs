//! `wharf lab`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use wharf_cli::args::values;
use wharf_devices::spec::DeviceSpec;
use wharf_lab::experiment::World;

/// Experiments, in virtual time or on this machine.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) what: LabCommand,
}

/// The commands on experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments, or the parameters of one
    List(LabListArgs),
    /// Run one experiment, or all
    Run(LabRunArgs),
    /// Run one experiment for every combination of some parameters' values, in parallel
    Sweep(LabSweepArgs),
    /// Run a scenario of one's own in virtual time and on this machine: predicted, measured, error
    Compare(LabCompareArgs),
    /// Measure this machine's costs for scenarios, in less than a minute
    Calibrate(LabCalibrateArgs),
}

/// `wharf lab list`.
#[derive(Debug, Args)]
pub(crate) struct LabListArgs {
    /// An experiment, to list its parameters: defaults, allowed values and meanings
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print its file, with its numbers and what was published: to be changed, and run by `wharf lab run FILE`
    #[arg(long, requires = "name", conflicts_with = "json")]
    pub(crate) scenario: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  wharf lab run bulk
  wharf lab run bulk --set doorbell_ps=200000 --json
  wharf lab run pages --world host --threads 2,4 --seconds 5
  wharf lab run batching --world host --to xdp:eth0
  wharf lab run all --report figures
  wharf lab run all --effects
  wharf lab run scenario.toml --seed 2
  wharf lab list bulk --scenario > mine.toml; wharf lab run mine.toml

In world model the same seed and parameters give the same result, to the byte, on any machine. Kinds of rows:
  fitted     a parameter was chosen so that it comes out, and all are as in the file
  predicted  it follows from parameters chosen for other rows, or set for this run
  measured   it was measured on a real machine";

/// `wharf lab run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabRunArgs {
    /// An experiment, see `wharf lab list`; `all` that run in that world; or a file, of a scenario or with numbers for an experiment (docs/guide/scenarios.md)
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Change a parameter for this run; may be given several times. `wharf lab run NAME --help` lists those of NAME
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    pub(crate) seed: u64,
    /// Run with so many seeds, from that one on: figures are medians, with their spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number(1..=1000u32))]
    pub(crate) seeds: u32,
    /// In virtual time (model) or on this machine (host), if the experiment has both [default: the first in `wharf lab list`]
    #[arg(long, value_name = "WORLD", value_parser = world())]
    pub(crate) world: Option<World>,
    /// World host: numbers of threads, a run for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::number(1..=u32::from(values::SENDERS_MAX)))]
    pub(crate) threads: Vec<u32>,
    /// World host: how long to measure each point
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// World host, `batching`: device to send to, see `wharf devices` [default: null]
    #[arg(long, value_name = "DEVICE", value_parser = values::device)]
    pub(crate) to: Option<DeviceSpec>,
    /// Write a page (report.html, opens without a network) and its pictures into this folder, and print a scorecard in place of
    /// all figures
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print the published effects beside ours, and the mean error of each experiment, in place of all figures
    #[arg(long, conflicts_with = "json")]
    pub(crate) effects: bool,
    /// Print the simulated packets per second on standard error
    #[arg(long)]
    pub(crate) time: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const SWEEP_EXAMPLES: &str = "\
Examples:
  wharf lab sweep bql --set ring_frames=64,256,1024 --set hold_ns=1000000,1000000000 > points.jsonl
  wharf lab sweep hol --set streams=1,2,4,8 --seeds 1,2,3 --out points.jsonl
  wharf lab sweep hol --set streams=1,2,4,8 --part 3/8 --out points-3.jsonl

One line of JSON for each point: number, experiment, world, seed, set, fingerprint, rows; or error in place of rows. With \
--out a sweep that was ended goes on where it was when it is run again: what the file has is not run again; points that \
failed, and what is under way at the end, are. The file of a sweep that is done has its points in order. On many machines: \
docs/guide/sweeps.md.";

/// `wharf lab sweep`.
#[derive(Debug, Args)]
#[command(after_help = SWEEP_EXAMPLES)]
pub(crate) struct LabSweepArgs {
    /// An experiment, see `wharf lab list`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Values of a parameter; may be given several times, for a grid. `wharf lab sweep NAME --help` lists those of NAME
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) set: Vec<String>,
    /// Seeds of the generator
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = values::seed)]
    pub(crate) seeds: Vec<u64>,
    /// In virtual time (model) or on this machine (host), if the experiment has both
    #[arg(long, value_name = "WORLD", value_parser = world())]
    pub(crate) world: Option<World>,
    /// World host: numbers of threads, for each point
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::number(1..=u32::from(values::SENDERS_MAX)))]
    pub(crate) threads: Vec<u32>,
    /// World host: how long to measure each point
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Points at once [default: one per processor, and one in world host]
    #[arg(long, value_name = "N", value_parser = values::number(1..=u16::MAX))]
    pub(crate) jobs: Option<u16>,
    /// Run only every Nth point, beginning with the Ith: the share of one of N machines
    #[arg(long, value_name = "I/N", value_parser = part)]
    pub(crate) part: Option<(usize, usize)>,
    /// Append to this file, and skip the points that it has already [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  wharf lab calibrate --out machine.toml
  wharf lab compare scenario.toml --machine machine.toml
  wharf lab compare scenario.toml --rounds 9 --json

On this machine a scenario without a link goes to `null`, and one with a link to a line of its rate in the same process, \
which computes when each frame leaves. The file of a scenario: docs/guide/scenarios.md.";

/// `wharf lab compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct LabCompareArgs {
    /// The scenario's file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// The machine's file, in place of the scenario's
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<String>,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    pub(crate) seed: u64,
    /// Measurements; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = values::number(1..=1000u32))]
    pub(crate) rounds: u32,
    /// Time of each measurement [default: 1]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// `wharf lab calibrate`.
#[derive(Debug, Args)]
pub(crate) struct LabCalibrateArgs {
    /// The device whose costs are measured: `null` alone, or `wire` as well
    #[arg(long, value_name = "DEVICE", default_value = "wire", value_parser = ["null", "wire"])]
    pub(crate) to: String,
    /// Write the file here [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Makes a reader of worlds.
fn world() -> impl TypedValueParser<Value = World> {
    let read = |name: String| if name == "host" { World::Host } else { World::Model };
    PossibleValuesParser::new(["model", "host"]).map(read)
}

/// Reads `I/N`: part I of N, from 1 on.
fn part(text: &str) -> Result<(usize, usize), String> {
    let wrong = || "want I/N with I from 1 to N, such as 3/8".to_string();
    let (which, of) = text.split_once('/').ok_or_else(wrong)?;
    match (which.parse(), of.parse()) {
        (Ok(which), Ok(of)) if (1..=of).contains(&which) => Ok((which, of)),
        _ => Err(wrong()),
    }
}
