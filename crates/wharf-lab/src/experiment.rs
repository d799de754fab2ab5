//! Experiments: each has a file of parameters, and makes rows beside published ones.
//!
//! To add one: a file here that implements [`Experiment`], its parameters in `parameters/NAME.toml`, and a line in
//! [`all`].

mod batching;
mod bql;
mod bulk;
mod drops;
mod fairness;
mod hol;
mod host;
mod pages;
pub mod parameters;
mod pcie;
pub mod published;
pub mod sweep;
mod tx_napi;

pub use parameters::{Allowed, Parameter, ParameterKind, Parameters};

use crate::kernel::Fault;
use crate::nic::machine::MachineFault;
use serde::Serialize;

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

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No such experiment.
    #[error("there is no experiment {name:?}: there are {there}")]
    Experiment {
        /// What was asked for.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// It does not run there.
    #[error("{experiment} does not run in world {world}: it runs in {there}")]
    World {
        /// Which experiment.
        experiment: &'static str,
        /// Where it was to run.
        world: World,
        /// Where it can.
        there: String,
    },
    /// Threads and seconds were given for virtual time.
    #[error("threads and seconds are for --world host: in world model, --set changes parameters")]
    NotHost,
    /// No such parameter.
    #[error("{experiment} has no parameter {key:?}: it has {there}")]
    Key {
        /// Which experiment.
        experiment: String,
        /// What was asked for.
        key: String,
        /// Those that there are.
        there: String,
    },
    /// A value that cannot be.
    #[error("{key} of {value:?} cannot be: want {allowed}")]
    Value {
        /// Which parameter.
        key: String,
        /// What was asked for.
        value: String,
        /// What is allowed.
        allowed: Allowed,
    },
    /// A file of parameters or of published figures that is not as it should be.
    #[error("{file}: {what}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A rule of the path was broken in a run.
    #[error("{run}: {source}")]
    Run {
        /// Which run.
        run: String,
        /// What.
        source: Fault,
    },
    /// Something went wrong on this machine, or a rule of the path was broken there.
    #[error("{run}: {what}")]
    Host {
        /// Which run.
        run: String,
        /// What.
        what: String,
    },
    /// It was to end early: not an error to be shown.
    #[error("interrupted")]
    Interrupted,
    /// A rule of a NIC, or of a machine around one, was broken in a run.
    #[error("{run}: {source}")]
    Machine {
        /// Which run.
        run: String,
        /// What.
        source: MachineFault,
    },
}

impl LabError {
    /// Whether it was the asking that was wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            LabError::Experiment { .. }
                | LabError::World { .. }
                | LabError::NotHost
                | LabError::Key { .. }
                | LabError::Value { .. }
        )
    }
}

/// What a row's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A parameter was chosen so that it comes out; all are as they are in the file.
    Fitted,
    /// It follows from parameters chosen for other rows, or set for this run.
    Predicted,
    /// It was measured on a real machine.
    Measured,
}

/// One figure. The keys are a promise: they are added to, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Of what.
    pub label: String,
    /// By which device, as one is named on the command line, where the same was run by several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Which figure.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What was published; `None` where nothing was.
    pub published: Option<f64>,
    /// What came out.
    pub value: f64,
    /// What kind of figure that is.
    pub kind: RowKind,
    /// What is to be said about it.
    pub note: Option<String>,
    /// Where it is of several threads: the figure of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<f64>,
}

impl Row {
    /// A figure of `millionths`.
    pub fn new(
        label: &str, (metric, unit): (&'static str, &'static str), millionths: i64, kind: RowKind,
    ) -> Self {
        let value = millionths as f64 / 1e6;
        let (device, published, note, by_thread) = (None, None, None, Vec::new());
        Self { label: label.to_string(), device, metric, unit, published, value, kind, note, by_thread }
    }

    /// With the figure of each thread.
    #[must_use]
    pub fn by_thread(mut self, figures: Vec<f64>) -> Self {
        self.by_thread = figures;
        self
    }

    /// Of a run by that device.
    #[must_use]
    pub fn by_device(mut self, device: &str) -> Self {
        self.device = Some(device.into());
        self
    }

    /// What it is of, with the device where there are several.
    pub fn of(&self) -> String {
        match &self.device {
            Some(device) => format!("{} by {device}", self.label),
            None => self.label.clone(),
        }
    }

    /// Beside what was published. What a prediction is off by is noted; by more than a factor of two, it is marked as
    /// not reproduced.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Self {
        self.published = Some(published);
        if self.kind != RowKind::Predicted {
            return self;
        }
        let off = percent_off(self.value, published);
        if self.value >= published / 2.0 && self.value <= published * 2.0 {
            return self.saying(&format!("{off} from what was published"));
        }
        self.saying(&format!("not reproduced: off by more than a factor of 2 ({off})"))
    }

    /// Beside `published`, where the sources can be read as anything from `least` to `most`. Whether a prediction lies
    /// among the readings is noted, or what it is off by.
    #[must_use]
    pub fn read_as(mut self, published: f64, least: f64, most: f64) -> Self {
        let nearest = self.value.clamp(least, most);
        let place = if nearest == self.value {
            format!("within what can be read, {least} to {most}")
        } else {
            format!("outside what can be read, {least} to {most}, by {}", percent_off(self.value, nearest))
        };
        self.published = Some(published);
        let off = percent_off(self.value, published);
        self.saying(&format!("{off} from what was published; {place}"))
    }

    /// With `what` said about it, too.
    #[must_use]
    pub fn saying(mut self, what: &str) -> Self {
        self.note = Some(match self.note {
            Some(note) => format!("{note}; {what}"),
            None => what.into(),
        });
        self
    }
}

/// By how much `value` is off `published`.
fn percent_off(value: f64, published: f64) -> String {
    if published == 0.0 {
        return format!("{value:+.1} where there was 0");
    }
    format!("{:+.1} %", (value / published - 1.0) * 100.0)
}

/// A line of a picture. The keys are a promise, as those of [`Row`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Which picture it belongs to.
    pub chart: String,
    /// What the line is of.
    pub line: String,
    /// What its points are over, and what they show, with units.
    pub x: &'static str,
    /// What they show.
    pub y: &'static str,
    /// Its points.
    pub points: Vec<(f64, f64)>,
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

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: &'static str,
    /// Where it ran.
    pub world: World,
    /// The generator's seed.
    pub seed: u64,
    /// All parameters.
    pub parameters: Parameters,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is to be drawn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// It was not to go on: there are fewer rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Packets that were simulated for it: what the lab's speed is reckoned by. Not a result.
    #[serde(skip)]
    pub packets: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Which experiment.
    pub name: String,
    /// `key=value`: parameters to change.
    pub set: Vec<String>,
    /// The generator's seed.
    pub seed: u64,
    /// Where to run; `None` for the experiment's first world.
    pub world: Option<World>,
    /// World host: how many threads, a run for each; empty for the experiment's own choice.
    pub threads: Vec<u32>,
    /// World host: how long to measure each point; `None` for the experiment's own choice.
    pub duration_ns: Option<u64>,
}

impl Request {
    /// The command line that asks for the same.
    pub fn command(&self) -> String {
        let mut words = format!("wharf lab run {}", self.name);
        let mut add = |word: String| {
            words.push(' ');
            words.push_str(&word);
        };
        self.world.iter().for_each(|world| add(format!("--world {world}")));
        add(format!("--seed {}", self.seed));
        self.set.iter().for_each(|set| add(format!("--set {set}")));
        if !self.threads.is_empty() {
            let threads: Vec<String> = self.threads.iter().map(u32::to_string).collect();
            add(format!("--threads {}", threads.join(",")));
        }
        self.duration_ns.iter().for_each(|&ns| add(format!("--seconds {}", ns as f64 / 1e9)));
        words
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
        Err(LabError::Run { source: Fault::Interrupted, .. } | LabError::Interrupted) => true,
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
    if is_host && world == World::Model { Err(LabError::NotHost) } else { Ok(world) }
}
