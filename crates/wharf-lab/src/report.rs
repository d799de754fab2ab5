//! A page of reports: tables, pictures, parameters and commands; one file of HTML that opens without a
//! network.

mod chart;
mod dots;
mod page;

pub use wharf_plan::picture::ChartError;

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

/// Returns all files: `report.html` with everything in it, and each picture by itself.
///
/// # Errors
/// [`ChartError`]: a picture could not be drawn.
pub fn files(sections: &[Section], machine: &Machine) -> Result<Vec<File>, ChartError> {
    let mut pictures = Vec::new();
    for section in sections {
        pictures.push(chart::pictures(&section.report)?);
    }
    let html = page::page(sections, &pictures, machine);
    let mut files = vec![File { name: "report.html".into(), text: html }];
    files
        .extend(pictures.into_iter().flatten().map(|picture| File { name: picture.file, text: picture.svg }));
    Ok(files)
}
