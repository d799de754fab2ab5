//! A page of reports: tables, pictures, parameters and commands; one file of HTML that opens without a
//! network.

mod charts;
mod dots;
mod page;
mod score;

pub use score::Score;
pub use wharf_page::picture::ChartError;

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

/// A section with its pictures.
struct Shown<'a> {
    section: &'a Section,
    pictures: Vec<charts::Picture>,
}

/// Returns all files: `report.html` with everything in it, and each picture by itself.
///
/// # Errors
/// [`ChartError`]: a picture could not be drawn.
pub fn files(sections: &[Section], machine: &Machine) -> Result<Vec<File>, ChartError> {
    let mut shown = Vec::new();
    for section in sections {
        let pictures = charts::pictures(&section.report)?;
        shown.push(Shown { section, pictures });
    }
    shown.sort_by_key(|one| one.section.report.experiment != FIRST);
    let html = page::page(&shown, machine);
    let pictures = shown.into_iter().flat_map(|one| one.pictures);
    let pictures = pictures.map(|picture| File { name: picture.file, text: picture.svg });
    Ok([File { name: REPORT.into(), text: html }].into_iter().chain(pictures).collect())
}
