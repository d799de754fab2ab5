//! What can go wrong with an experiment.

use super::{Allowed, World};
use wharf_sim::RunError;

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
    /// Threads were given to what has its own.
    #[error("{0} has its own threads, whatever it runs: leave --threads out")]
    Threads(&'static str),
    /// A change of a parameter without a value.
    #[error("--set {0}: want KEY=VALUE")]
    Assignment(String),
    /// A parameter changed twice.
    #[error("--set {0} is given twice")]
    Twice(String),
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
        source: RunError,
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
}

impl LabError {
    /// Whether it was the asking that was wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            LabError::Experiment { .. }
                | LabError::World { .. }
                | LabError::NotHost
                | LabError::Threads(_)
                | LabError::Assignment(_)
                | LabError::Twice(_)
                | LabError::Key { .. }
                | LabError::Value { .. }
        )
    }
}
