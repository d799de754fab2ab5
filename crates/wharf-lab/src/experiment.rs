//! Experiments: each has a file of parameters, and makes rows beside published ones.
//!
//! To add one: a file here that implements [`Experiment`], its parameters in `parameters/NAME.toml`, and a
//! line in [`all`].

mod batching;
mod bench;
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
mod settings;
pub mod sweep;
mod tx_napi;

pub use bench::{Bench, Experiment, World};
pub use error::LabError;
pub use parameters::{Allowed, Parameter, Parameters};
pub use request::{Report, Request};
pub use row::{Row, RowKind, Series};
pub use settings::Settings;
pub use wharf_plan::nics::Mark;

use wharf_sim::RunError;

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
