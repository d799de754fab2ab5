//! A request to run an experiment, and its report.

use super::published::Source;
use super::{Experiment, Judgement, LabError, OwnNumbers, Parameters, Row, Series, World, named};
use serde::Serialize;
use wharf_devices::spec::DeviceSpec;

/// The report of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: &'static str,
    /// The world in which it ran.
    pub world: World,
    /// The generator's seed.
    pub seed: u64,
    /// The number of seeds, from that one on, if the figures are medians over several.
    #[serde(skip_serializing_if = "is_one")]
    pub seeds: u32,
    /// All parameters.
    pub parameters: Parameters,
    /// The skill against "nothing changes", and the number of parameters by kind.
    pub judgement: Judgement,
    /// The rows.
    pub rows: Vec<Row>,
    /// The series of pictures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// True if it was ended early: there are fewer rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The sources of what stands beside its figures.
    #[serde(skip)]
    pub sources: Vec<Source>,
    /// Packets simulated for it, a measure of the lab's speed. Not a result.
    #[serde(skip)]
    pub packets: u64,
}

fn is_one(seeds: &u32) -> bool {
    *seeds <= 1
}

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The experiment's name, or that of the file with `own` numbers.
    pub name: String,
    /// Numbers in place of the experiment's own.
    pub own: Option<OwnNumbers>,
    /// Parameters to set: `key=value`.
    pub set: Vec<String>,
    /// The generator's seed.
    pub seed: u64,
    /// The number of seeds, from that one on; 0 counts as 1.
    pub seeds: u32,
    /// The world; `None` for the experiment's first.
    pub world: Option<World>,
    /// World host: numbers of threads, with a run for each; empty for the experiment's own choice.
    pub threads: Vec<u32>,
    /// World host: time to measure each point; `None` for the experiment's own choice.
    pub duration_ns: Option<u64>,
    /// World host: the device; `None` for the experiment's own choice.
    pub device: Option<DeviceSpec>,
}

impl Request {
    /// Returns the experiment.
    ///
    /// # Errors
    /// [`LabError::Experiment`]: there is none of that name.
    pub fn experiment(&self) -> Result<&'static Experiment, LabError> {
        self.own.as_ref().map_or_else(|| named(&self.name), |own| Ok(own.experiment))
    }

    /// Returns a request for each seed.
    pub fn each_seed(&self) -> Vec<Self> {
        let seed = |at: u32| Self { seed: self.seed.wrapping_add(at.into()), seeds: 1, ..self.clone() };
        (0..self.seeds.max(1)).map(seed).collect()
    }

    /// Returns the command line of the same request.
    pub fn command(&self) -> String {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let name = if self.name.chars().all(is_plain) {
            self.name.clone()
        } else {
            format!("'{}'", self.name.replace('\'', "'\\''"))
        };
        let mut words = format!("wharf lab run {name}");
        let mut add = |word: String| {
            words.push(' ');
            words.push_str(&word);
        };
        self.world.iter().for_each(|world| add(format!("--world {world}")));
        add(format!("--seed {}", self.seed));
        if !is_one(&self.seeds) {
            add(format!("--seeds {}", self.seeds));
        }
        self.set.iter().for_each(|set| add(format!("--set {set}")));
        if !self.threads.is_empty() {
            let threads: Vec<String> = self.threads.iter().map(u32::to_string).collect();
            add(format!("--threads {}", threads.join(",")));
        }
        self.duration_ns.iter().for_each(|&ns| add(format!("--seconds {}", ns as f64 / 1e9)));
        self.device.iter().for_each(|device| add(format!("--to {device}")));
        words
    }
}
