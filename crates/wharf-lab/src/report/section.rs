//! The input of a page: reports, and the machine that ran them.

use crate::experiment::Report;

/// A report, and its request.
#[derive(Debug, Clone)]
pub struct Section {
    /// The report.
    pub report: Report,
    /// The experiment's one-line description.
    pub what: &'static str,
    /// The command line that makes it again.
    pub command: String,
}

/// The machine that ran it.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Names and values, in the order in which they are shown.
    pub facts: Vec<(String, String)>,
}
