//! Experiments: each has a file of parameters, and makes rows beside published ones.
//!
//! To add one: a file here that implements [`Experiment`], its parameters in `parameters/NAME.toml`, and a
//! line in [`all`].

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

/// The world in which an experiment runs.
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

/// An experiment of the lab.
pub trait Experiment: Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns its one-line description.
    fn what(&self) -> &'static str;

    /// Returns the worlds in which it can run, the default first.
    fn worlds(&self) -> &'static [World] {
        &[World::Model]
    }

    /// True if the number of threads in world host can be chosen.
    fn has_threads(&self) -> bool {
        true
    }

    /// Returns its file of parameters in `world`.
    fn parameters(&self, world: World) -> &'static str;

    /// Runs it, row by row.
    ///
    /// # Errors
    /// [`LabError`].
    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError>;
}

/// Returns all experiments.
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

/// The settings of a run, and its reports so far.
pub struct Bench<'a> {
    /// The world: one of [`Experiment::worlds`].
    pub world: World,
    /// The parameters.
    pub parameters: &'a Parameters,
    /// The generator's seed.
    pub seed: u64,
    /// World host: numbers of threads, with a run for each; empty for the experiment's own choice.
    pub threads: &'a [u32],
    /// World host: time to measure each point; `None` for the experiment's own choice.
    pub duration_ns: Option<u64>,
    /// Packets simulated so far, for the lab's own speed.
    pub packets: u64,
    /// The rows so far.
    pub rows: Vec<Row>,
    /// The series so far.
    pub series: Vec<Series>,
    say: &'a mut dyn FnMut(&str) -> bool,
}

impl Bench<'_> {
    /// Reports the current run. False if it must end. To be called several times a second.
    pub fn goes_on(&mut self, run: &str) -> bool {
        (self.say)(run)
    }
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench(seed {}, {} packets)", self.seed, self.packets)
    }
}

/// Returns the experiment of that name.
///
/// # Errors
/// [`LabError::Experiment`]: there is none.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    let there = || all().iter().map(|experiment| experiment.name()).collect::<Vec<_>>().join(", ");
    let found = all().iter().find(|experiment| experiment.name() == name);
    found.copied().ok_or_else(|| LabError::Experiment { name: name.into(), there: there() })
}

/// Returns the parameters of `experiment` in `world`, as in its file.
///
/// # Errors
/// [`LabError::File`].
pub fn parameters_of(experiment: &dyn Experiment, world: World) -> Result<Parameters, LabError> {
    Parameters::read(experiment.name(), experiment.parameters(world))
}

/// Runs the experiment asked for. Tells `say` the current run several times a second; `say` returns false to
/// end it.
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

/// Returns the world in which `experiment` is to run.
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
