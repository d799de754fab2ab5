//! Experiments: each has a file of parameters, and makes rows beside published ones.
//!
//! To add one: a file here that implements [`Experiment`], its parameters in `parameters/NAME.toml`, and a line in
//! [`all`].

mod batching;
mod bql;
mod bulk;
mod drops;
mod error;
mod fairness;
mod hol;
mod host;
mod pages;
pub mod parameters;
mod pcie;
pub mod published;
mod request;
mod row;
pub mod sweep;
mod tx_napi;

pub use error::LabError;
pub use parameters::{Allowed, Parameter, ParameterKind, Parameters};
pub use request::{Report, Request};
pub use row::{Row, RowKind, Series};

use serde::Serialize;
use wharf_sim::RunError;

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// In virtual time: the same to the byte everywhere.
    Model,
    /// On this machine, with threads and its clock.
    Host,
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            World::Model => "model",
            World::Host => "host",
        })
    }
}

/// What can be asked of the lab.
pub trait Experiment: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it shows, in one line.
    fn what(&self) -> &'static str;

    /// Where it can run; the first is what is meant if nothing is said.
    fn worlds(&self) -> &'static [World] {
        &[World::Model]
    }

    /// Whether how many threads there are in world host can be chosen.
    fn has_threads(&self) -> bool {
        true
    }

    /// Its file of parameters in `world`.
    fn parameters(&self, world: World) -> &'static str;

    /// Runs it, a row after the other.
    ///
    /// # Errors
    /// [`LabError`].
    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError>;
}

/// All experiments.
pub fn all() -> &'static [&'static dyn Experiment] {
    &[
        &batching::BatchingApi,
        &bql::Limit,
        &bulk::Bulk,
        &drops::Drops,
        &fairness::Fairness,
        &hol::Hol,
        &pages::Pages,
        &pcie::Pcie,
        &tx_napi::TxNapi,
    ]
}

/// What a run is made with, and what it reports as it goes.
pub struct Bench<'a> {
    /// Where it runs: one of [`Experiment::worlds`].
    pub world: World,
    /// The parameters.
    pub parameters: &'a Parameters,
    /// The generator's seed.
    pub seed: u64,
    /// World host: how many threads, a run for each; empty where the experiment is to choose.
    pub threads: &'a [u32],
    /// World host: how long to measure each point; `None` where the experiment is to choose.
    pub duration_ns: Option<u64>,
    /// Packets simulated so far, for the lab's own speed.
    pub packets: u64,
    /// The figures so far.
    pub rows: Vec<Row>,
    /// The lines so far.
    pub series: Vec<Series>,
    say: &'a mut dyn FnMut(&str) -> bool,
}

impl Bench<'_> {
    /// Says what is being run; whether to go on with it. To be asked several times a second.
    pub fn goes_on(&mut self, run: &str) -> bool {
        (self.say)(run)
    }
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench(seed {}, {} packets)", self.seed, self.packets)
    }
}

/// The experiment of that name.
///
/// # Errors
/// [`LabError::Experiment`]: there is none.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    let there = || all().iter().map(|experiment| experiment.name()).collect::<Vec<_>>().join(", ");
    let found = all().iter().find(|experiment| experiment.name() == name);
    found.copied().ok_or_else(|| LabError::Experiment { name: name.into(), there: there() })
}

/// The parameters of `experiment` in `world`, as they are in its file.
///
/// # Errors
/// [`LabError::File`].
pub fn parameters_of(experiment: &dyn Experiment, world: World) -> Result<Parameters, LabError> {
    Parameters::read(experiment.name(), experiment.parameters(world))
}

/// Runs what is asked for; `say` is told what is being run, several times a second, and answers whether to go on.
///
/// # Errors
/// [`LabError`]: no such experiment, world, key or value; or a run that broke a rule of the path.
pub fn run(request: &Request, say: &mut dyn FnMut(&str) -> bool) -> Result<Report, LabError> {
    let Request { name, set, seed, threads, duration_ns, .. } = request;
    let experiment = named(name)?;
    let world = world_of(experiment, request)?;
    let mut parameters = parameters_of(experiment, world)?;
    set.iter().try_for_each(|assignment| parameters.set(assignment))?;
    let (seed, duration_ns) = (*seed, *duration_ns);
    let mut bench = Bench {
        world,
        parameters: &parameters,
        seed,
        threads,
        duration_ns,
        packets: 0,
        rows: Vec::new(),
        series: Vec::new(),
        say,
    };
    let interrupted = match experiment.run(&mut bench) {
        Err(LabError::Run { source: RunError::Interrupted, .. } | LabError::Interrupted) => true,
        done => done.map(|()| false)?,
    };
    let Bench { packets, rows, series, .. } = bench;
    let experiment = experiment.name();
    Ok(Report { experiment, world, seed, parameters, rows, series, interrupted, packets })
}

/// Where `experiment` is to run.
fn world_of(experiment: &dyn Experiment, request: &Request) -> Result<World, LabError> {
    let worlds = experiment.worlds();
    let world = request.world.or(worlds.first().copied()).unwrap_or(World::Model);
    if !worlds.contains(&world) {
        let there = worlds.iter().map(World::to_string).collect::<Vec<_>>().join(", ");
        return Err(LabError::World { experiment: experiment.name(), world, there });
    }
    let is_host = !request.threads.is_empty() || request.duration_ns.is_some();
    if is_host && world == World::Model {
        return Err(LabError::NotHost);
    }
    if !request.threads.is_empty() && !experiment.has_threads() {
        return Err(LabError::Threads(experiment.name()));
    }
    Ok(world)
}
