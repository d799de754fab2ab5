//! A request to run an experiment, and its report.

use super::{Parameters, Row, Series, World};
use serde::Serialize;

/// The report of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: &'static str,
    /// The world in which it ran.
    pub world: World,
    /// The generator's seed.
    pub seed: u64,
    /// All parameters.
    pub parameters: Parameters,
    /// The rows.
    pub rows: Vec<Row>,
    /// The series of pictures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// True if it was ended early: there are fewer rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Packets simulated for it, a measure of the lab's speed. Not a result.
    #[serde(skip)]
    pub packets: u64,
}

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The experiment's name.
    pub name: String,
    /// Parameters to set: `key=value`.
    pub set: Vec<String>,
    /// The generator's seed.
    pub seed: u64,
    /// The world; `None` for the experiment's first.
    pub world: Option<World>,
    /// World host: numbers of threads, with a run for each; empty for the experiment's own choice.
    pub threads: Vec<u32>,
    /// World host: time to measure each point; `None` for the experiment's own choice.
    pub duration_ns: Option<u64>,
}

impl Request {
    /// Returns the command line of the same request.
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
