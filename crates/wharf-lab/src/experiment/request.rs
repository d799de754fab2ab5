//! What is asked for, and what came of it.

use super::{Parameters, Row, Series, World};
use serde::Serialize;

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
