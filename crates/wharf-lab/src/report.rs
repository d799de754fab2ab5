//! A page of reports: tables, pictures, parameters and commands; one file of HTML that opens without a
//! network.

mod charts;
mod dots;
mod page;
mod score;

pub use score::Score;
pub use wharf_plan::picture::ChartError;

use crate::experiment::published::{self, Source};
use crate::experiment::{LabError, Report};

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

/// A file of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name without a folder.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// The name of the page.
pub const REPORT: &str = "report.html";

/// The experiment whose picture opens a page.
const FIRST: &str = "bql";

/// An error of [`files`].
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A picture could not be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// The sources of published figures could not be read.
    #[error(transparent)]
    Sources(#[from] LabError),
}

/// A section with its pictures, and the sources of what stands beside its figures.
struct Shown<'a> {
    section: &'a Section,
    pictures: Vec<charts::Picture>,
    sources: Vec<Source>,
}

/// Returns all files: `report.html` with everything in it, and each picture by itself.
///
/// # Errors
/// [`ReportError`]: a picture could not be drawn.
pub fn files(sections: &[Section], machine: &Machine) -> Result<Vec<File>, ReportError> {
    let mut shown = Vec::new();
    for section in sections {
        let pictures = charts::pictures(&section.report)?;
        let sources = published::sources(section.report.experiment)?;
        shown.push(Shown { section, pictures, sources });
    }
    shown.sort_by_key(|one| one.section.report.experiment != FIRST);
    let html = page::page(&shown, machine);
    let pictures = shown.into_iter().flat_map(|one| one.pictures);
    let pictures = pictures.map(|picture| File { name: picture.file, text: picture.svg });
    Ok([File { name: REPORT.into(), text: html }].into_iter().chain(pictures).collect())
}
