//! Experiments: each has a file of parameters, and makes rows beside published ones.
//!
//! To add one: a file here with an [`Experiment`], its numbers in `scenarios/NAME.toml`, and a line in [`all`].

mod batching;
mod bench;
mod bql;
mod bulk;
mod drops;
mod effect;
mod error;
mod fairness;
mod hol;
pub(crate) mod host;
mod own;
mod pages;
pub mod parameters;
mod pcie;
pub mod published;
mod request;
pub(crate) mod row;
mod seeds;
mod settings;
pub mod sweep;
mod tx_napi;
mod veth;

pub use bench::{Bench, Experiment, Run, World};
pub use effect::{Effect, Judgement, SMALL_POINTS};
pub use error::LabError;
pub use own::OwnNumbers;
pub use parameters::{Allowed, Parameter, Parameters};
pub use request::{Report, Request};
pub use row::{Row, RowKind, Series};
pub use settings::Settings;
pub use wharf_plan::nics::Mark;

use published::Published;
use wharf_sim::RunError;

/// The host of 2014, which several experiments share.
const E5_2695V2: &str = include_str!("../machines/e5-2695v2.toml");

/// Returns all experiments.
pub fn all() -> &'static [Experiment] {
    &[
        batching::EXPERIMENT,
        bql::EXPERIMENT,
        bulk::EXPERIMENT,
        drops::EXPERIMENT,
        fairness::EXPERIMENT,
        hol::EXPERIMENT,
        pages::EXPERIMENT,
        pcie::EXPERIMENT,
        tx_napi::EXPERIMENT,
        veth::EXPERIMENT,
    ]
}

/// Returns the experiment of that name.
///
/// # Errors
/// [`LabError::Experiment`]: there is none.
pub fn named(name: &str) -> Result<&'static Experiment, LabError> {
    let there = || {
        let names = all().iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ");
        if name.contains('.') { names + "; a file is for wharf lab run" } else { names }
    };
    let found = all().iter().find(|experiment| experiment.name == name);
    found.ok_or_else(|| LabError::Experiment { name: name.into(), there: there() })
}

/// Returns the parameters of `experiment` in `world`, as in its file.
///
/// # Errors
/// [`LabError::World`], [`LabError::File`].
pub fn parameters_of(experiment: &Experiment, world: World) -> Result<Parameters, LabError> {
    Parameters::read_all(experiment.name, in_world(experiment, world)?.0)
}

/// Returns the parameters of the request: what it sets, and the numbers of its file.
fn parameters_for(request: &Request, experiment: &Experiment, world: World) -> Result<Parameters, LabError> {
    let mut parameters = parameters_of(experiment, world)?;
    request.set.iter().try_for_each(|assignment| parameters.set(assignment))?;
    request.own.iter().for_each(|own| own.put_into(&mut parameters));
    Ok(parameters)
}

/// Returns the file of parameters and the run of `experiment` in `world`.
fn in_world(experiment: &Experiment, world: World) -> Result<(&'static [&'static str], Run), LabError> {
    let found = experiment.worlds.iter().find(|part| part.0 == world).map(|part| (part.1, part.2));
    found.ok_or_else(|| {
        let mut there = experiment.worlds().iter().map(World::to_string).collect::<Vec<_>>().join(", ");
        if experiment.name == tx_napi::EXPERIMENT.name {
            there += "; on this machine it is bench/tx-napi.sh now";
        }
        LabError::World { experiment: experiment.name, world, there }
    })
}

/// Runs the experiment asked for, with each of its seeds; figures are medians over these. Tells `say` the current run several times a second; `say` returns false to
/// end it.
///
/// # Errors
/// [`LabError`]: no such experiment, world, key or value; or a run that broke a rule of the path.
pub fn run(request: &Request, say: &mut dyn FnMut(&str) -> bool) -> Result<Report, LabError> {
    let reports =
        request.each_seed().iter().map(|request| run_seed(request, say)).collect::<Result<_, _>>()?;
    Ok(Report::median_of(reports))
}

/// Runs the experiment with the request's first seed.
fn run_seed(request: &Request, say: &mut dyn FnMut(&str) -> bool) -> Result<Report, LabError> {
    let &Request { seed, ref threads, duration_ns, ref device, ref own, .. } = request;
    let experiment = request.experiment()?;
    let world = world_of(experiment, request)?;
    let parameters = parameters_for(request, experiment, world)?;
    let published =
        own.as_ref().map_or_else(|| Published::of(experiment), |own| Ok(own.published.clone()))?;
    let mut bench = Bench {
        world,
        parameters: &parameters,
        published: &published,
        seed,
        threads,
        duration_ns,
        device: device.as_ref(),
        packets: 0,
        rows: Vec::new(),
        series: Vec::new(),
        say,
    };
    let interrupted = match in_world(experiment, world)?.1(&mut bench) {
        Err(LabError::Run { source: RunError::Interrupted, .. } | LabError::Interrupted) => true,
        done => done.map(|()| false)?,
    };
    let Bench { packets, rows, series, .. } = bench;
    let (experiment, seeds, judgement) = (experiment.name, 1, Judgement::of(&rows, &parameters));
    let sources = published.sources();
    Ok(Report {
        experiment,
        world,
        seed,
        seeds,
        parameters,
        judgement,
        rows,
        series,
        interrupted,
        sources,
        packets,
    })
}

/// Returns the world in which `experiment` is to run.
fn world_of(experiment: &Experiment, request: &Request) -> Result<World, LabError> {
    let world = request.world.unwrap_or(experiment.worlds[0].0);
    in_world(experiment, world)?;
    if request.own.is_some() && world != experiment.worlds[0].0 {
        return Err(LabError::OwnWorld(experiment.worlds[0].0));
    }
    let is_host = !request.threads.is_empty() || request.duration_ns.is_some() || request.device.is_some();
    if is_host && world == World::Model {
        return Err(LabError::NotHost);
    }
    if request.device.is_some() && !experiment.has_device {
        return Err(LabError::Device(experiment.name));
    }
    Ok(world)
}
