//! Grids of runs: every combination of some values of some parameters, in parallel.
//!
//! In world model each point is a pure function of its parameters, so points can be run on any machine, in
//! any order, and again.

use super::{LabError, Parameters, Report, Request, World, parameters_for, run, world_of};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// Most points of a grid.
pub const POINTS_MAX: usize = 1_000_000;

/// One run of a grid.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its number, from 0 on.
    pub number: usize,
    /// The request.
    pub request: Request,
}

/// The identity of a point among all others. The keys are a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The experiment.
    pub experiment: String,
    /// The world.
    pub world: World,
    /// The generator's seed.
    pub seed: u64,
    /// The parameters set.
    pub set: BTreeMap<String, u64>,
    /// A hash of all parameters, those not set included, and of the program's version.
    pub fingerprint: String,
}

/// An invalid grid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// An assignment that is no list.
    #[error("--set {0}: want KEY=VALUE,VALUE...")]
    Axis(String),
    /// A parameter given twice.
    #[error("--set {0} is given twice: put all its values into one")]
    Twice(String),
    /// Too many points.
    #[error("{0} points: a grid has {POINTS_MAX} at most")]
    TooMany(u128),
    /// A point that cannot be run.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// Returns all points of `axes` (`key=value,value...`) and `seeds`, the last axis fastest. Each names
/// existing parameters and allowed values.
///
/// # Errors
/// [`SweepError`].
pub fn grid(base: &Request, axes: &[String], seeds: &[u64]) -> Result<Vec<Point>, SweepError> {
    let (seeds, values) = (unique(seeds.iter().copied()), assignments(axes)?);
    let count = values.iter().map(|list| list.len() as u128).product::<u128>() * seeds.len() as u128;
    if count > POINTS_MAX as u128 {
        return Err(SweepError::TooMany(count));
    }
    let point = |(number, (set, seed))| Point { number, request: Request { set, seed, ..base.clone() } };
    // A parameter's allowed values depend on no other parameter: each value is checked once for all points.
    let single = values.iter().flatten().map(|value| vec![value.clone()]);
    for set in [Vec::new()].into_iter().chain(single) {
        point((0, (set, base.seed))).identity()?;
    }
    let mut sets: Vec<Vec<String>> = vec![Vec::new()];
    for axis in &values {
        let longer = |set: &Vec<String>| -> Vec<Vec<String>> {
            axis.iter().map(|one| set.iter().chain([one]).cloned().collect()).collect()
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    let requests = sets.into_iter().flat_map(|set| seeds.iter().map(move |&seed| (set.clone(), seed)));
    Ok(requests.enumerate().map(point).collect())
}

/// Returns `key=value` for each value of each axis, once.
fn assignments(axes: &[String]) -> Result<Vec<Vec<String>>, SweepError> {
    let mut keys: Vec<&str> = Vec::new();
    let mut values: Vec<Vec<String>> = Vec::new();
    for axis in axes {
        let (key, list) = axis.split_once('=').ok_or_else(|| SweepError::Axis(axis.clone()))?;
        if keys.contains(&key) {
            return Err(SweepError::Twice(key.into()));
        }
        let list: Vec<&str> = list.split(',').collect();
        if list.iter().any(|value| value.is_empty()) {
            return Err(SweepError::Axis(axis.clone()));
        }
        keys.push(key);
        // Compared as numbers, so that 1 and 01 are one; a text that is no number is refused with its point.
        let plain = |value: &str| value.parse::<u64>().map_or(value.to_string(), |number| number.to_string());
        values.push(unique(list.iter().map(|value| format!("{key}={}", plain(value)))));
    }
    Ok(values)
}

/// Returns each item once, at its first place.
fn unique<T: Clone + Ord>(list: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    list.filter(|one| seen.insert(one.clone())).collect()
}

impl Point {
    /// Returns its identity.
    ///
    /// # Errors
    /// [`LabError`]: no such experiment, world, parameter or value.
    pub fn identity(&self) -> Result<Identity, LabError> {
        let experiment = self.request.experiment()?;
        let world = world_of(experiment, &self.request)?;
        let parameters = parameters_for(&self.request, experiment, world)?;
        let mut set = BTreeMap::new();
        for assignment in &self.request.set {
            let (key, _) = assignment.split_once('=').unwrap_or((assignment, ""));
            set.insert(key.to_string(), parameters.get(key)?);
        }
        let fingerprint = fingerprint(&parameters, &self.request);
        Ok(Identity { experiment: experiment.name.into(), world, seed: self.request.seed, set, fingerprint })
    }
}

/// Returns FNV-1a, 64 bits, of all numbers by name and of the program's version.
fn fingerprint(parameters: &Parameters, request: &Request) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(env!("CARGO_PKG_VERSION"));
    parameters.iter().for_each(|(key, parameter)| add(&format!("{key}={}", parameter.value)));
    add(&format!("{:?} {:?}", request.threads, request.duration_ns));
    format!("{hash:016x}")
}

/// Runs `points` on `jobs` threads, the caller's among them, or on as many as there can be. Each report or error goes to `done`, one at a time, as it comes. `say` is
/// often told the current run, and returns false to end; runs under way then come as interrupted reports. No
/// run begins after `done` has returned false.
pub fn run_each<'a>(
    points: &'a [Point], jobs: usize, say: &(impl Fn(&str) -> bool + Sync),
    done: &mut (impl FnMut(&'a Point, Result<Report, LabError>) -> bool + Send),
) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(done);
    let work = || {
        // After the end a run that begins ends at once and reports that; `done` then ends the others.
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run(&point.request, &mut |what| say(what));
            let mut done = wharf_mem::lock(&done);
            if !done(point, result) {
                next.store(points.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let more = (1..jobs.min(points.len())).map(|_| Builder::new().spawn_scoped(scope, work));
        let _ = more.take_while(Result::is_ok).count();
        work();
    });
}
