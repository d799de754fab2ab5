//! Errors of experiments.

use super::{Allowed, World};
use wharf_sim::RunError;

/// An error of an experiment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No such experiment.
    #[error("there is no experiment {name:?}: there are {there}")]
    Experiment {
        /// The name asked for.
        name: String,
        /// The experiments there are.
        there: String,
    },
    /// The experiment does not run in that world.
    #[error("{experiment} does not run in world {world}: it runs in {there}")]
    World {
        /// The experiment.
        experiment: &'static str,
        /// The world asked for.
        world: World,
        /// Its worlds.
        there: String,
    },
    /// Threads, seconds or a device were given for virtual time.
    #[error(
        "threads and seconds are for --world host, as is a device: in world model, --set changes parameters"
    )]
    NotHost,
    /// A file has the numbers of another world.
    #[error("the file has the numbers of world {0}: leave --world out")]
    OwnWorld(World),
    /// A device was given to an experiment with a device of its own.
    #[error("{0} has its own devices: leave --to out")]
    Device(&'static str),
    /// An assignment without a value.
    #[error("--set {0}: want KEY=VALUE")]
    Assignment(String),
    /// A parameter was assigned twice.
    #[error("--set {0} is given twice")]
    Twice(String),
    /// No such parameter.
    #[error("{experiment} has no parameter {key:?}: it has {there}")]
    Key {
        /// The experiment.
        experiment: String,
        /// The key asked for.
        key: String,
        /// Its parameters.
        there: String,
    },
    /// A value that is not allowed.
    #[error("{key} of {value:?} cannot be: want {allowed}")]
    Value {
        /// The parameter.
        key: String,
        /// The value asked for.
        value: String,
        /// The allowed values.
        allowed: Allowed,
    },
    /// An invalid file of parameters or of published figures.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// The fault.
        what: String,
    },
    /// A rule of the path was broken in a run.
    #[error("{run}: {source}")]
    Run {
        /// The run.
        run: String,
        /// The rule.
        source: RunError,
    },
    /// A failure on this machine, or a rule of the path broken there.
    #[error("{run}: {what}")]
    Host {
        /// The run.
        run: String,
        /// The fault.
        what: String,
    },
    /// The caller ended it; not an error to show.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// Creates the error of a file that is no TOML, or lacks a key, with the line.
    pub(crate) fn of_toml(file: &str, error: &toml::de::Error, text: &str) -> Self {
        let message = error.message().lines().next().unwrap_or("no TOML").trim();
        let what = match error.span() {
            Some(span) => {
                format!("line {}: {message}", text[..span.start.min(text.len())].lines().count().max(1))
            }
            None => message.to_string(),
        };
        Self::File { file: file.into(), what }
    }

    /// True if the caller ended the run.
    pub fn is_interruption(&self) -> bool {
        matches!(self, LabError::Interrupted | LabError::Run { source: RunError::Interrupted, .. })
    }

    /// True if the request was wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            LabError::Experiment { .. }
                | LabError::World { .. }
                | LabError::NotHost
                | LabError::OwnWorld(_)
                | LabError::Device(_)
                | LabError::Assignment(_)
                | LabError::Twice(_)
                | LabError::Key { .. }
                | LabError::Value { .. }
        )
    }
}
