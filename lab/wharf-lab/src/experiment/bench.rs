//! The contract of an experiment, and the settings of its runs.

use super::published::Published;
use super::{LabError, Parameters, Row, Series};
use serde::Serialize;
use wharf_devices::spec::DeviceSpec;
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

/// A run of an experiment, row by row.
pub type Run = fn(&mut Bench<'_>) -> Result<(), LabError>;

/// An experiment of the lab.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its one-line description.
    pub what: &'static str,
    /// True if the device in world host can be chosen.
    pub has_device: bool,
    /// The worlds in which it can run, the default first, each with its files of parameters and its run. The first file
    /// of the first world is its scenario. A machine's file that several experiments share comes after the experiment's own.
    pub worlds: &'static [(World, &'static [&'static str], Run)],
}

impl Experiment {
    /// Returns the worlds in which it can run, the default first.
    pub fn worlds(&self) -> Vec<World> {
        self.worlds.iter().map(|&(world, ..)| world).collect()
    }

    /// Returns its scenario: the numbers of its first world, and what was published.
    pub fn scenario(&self) -> &'static str {
        self.worlds[0].1[0]
    }
}

/// The settings of a run, and its reports so far.
pub struct Bench<'a> {
    /// The world: one of the experiment's.
    pub world: World,
    /// The parameters.
    pub parameters: &'a Parameters,
    /// The published figures.
    pub published: &'a Published,
    /// The generator's seed.
    pub seed: u64,
    /// World host: numbers of threads, with a run for each; empty for the experiment's own choice.
    pub threads: &'a [u32],
    /// World host: time to measure each point; `None` for the experiment's own choice.
    pub duration_ns: Option<u64>,
    /// World host: the device; `None` for the experiment's own choice.
    pub device: Option<&'a DeviceSpec>,
    /// Packets simulated so far, for the lab's own speed.
    pub packets: u64,
    /// The rows so far.
    pub rows: Vec<Row>,
    /// The series so far.
    pub series: Vec<Series>,
    pub(super) say: &'a mut dyn FnMut(&str) -> bool,
}

impl Bench<'_> {
    /// Reports the current run. False if it must end. To be called several times a second.
    pub fn goes_on(&mut self, run: &str) -> bool {
        (self.say)(run)
    }

    /// Runs a model; `run` names it.
    ///
    /// # Errors
    /// [`LabError::Run`]: the model found a rule broken, or the run must end.
    pub(super) fn model<T>(
        &mut self, run: &str, model: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, RunError>,
    ) -> Result<T, LabError> {
        model(&mut || self.goes_on(run)).map_err(|source| LabError::Run { run: run.into(), source })
    }

    /// Runs a model as often as the parameter `runs` says, with a setup for the seed of each run.
    ///
    /// # Errors
    /// As of `setup` and of [`Bench::model`].
    pub(super) fn runs<S, T>(
        &mut self, label: &str, setup: impl Fn(u64) -> Result<S, LabError>,
        model: impl Fn(S, &mut dyn FnMut() -> bool) -> Result<T, RunError>,
    ) -> Result<Vec<T>, LabError> {
        let runs = self.parameters.get("runs")?;
        let one = |number: u64| {
            let setup = setup(self.seed.wrapping_mul(1000).wrapping_add(number))?;
            self.model(&format!("{label}, run {} of {runs}", number + 1), |goes_on| model(setup, goes_on))
        };
        (0..runs).map(one).collect()
    }
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench(seed {}, {} packets)", self.seed, self.packets)
    }
}
