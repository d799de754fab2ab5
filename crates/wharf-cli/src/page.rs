//! `--report DIR` of `send`, `receive` and `forward`: a page with pictures of the run over time.
//!
//! Assumptions: the thread that watches over the run calls [`Page::look`] often, and reads counters that other threads write.
//! Goal: the threads that move packets do nothing more with a report than without one. The page is one file, opened before the
//! run gives up its privileges.

mod pictures;
mod samples;

use crate::files;
use crate::machine;
use crate::output::print;
use crate::watch::Board;
use anyhow::Context;
use samples::Samples;
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use wharf_page::{escaped, marked};
use wharf_tools::traffic::Latency;

/// The name of the page in its folder.
const NAME: &str = "report.html";

/// The page of a run; without a folder it costs a comparison per look.
pub(crate) struct Page(Option<Open>);

struct Open {
    path: PathBuf,
    file: File,
    command: String,
    facts: Vec<(String, String)>,
    samples: RefCell<Samples>,
}

impl Page {
    /// Makes the page in `folder`, if a report is asked for: an error about it must come before the run.
    pub(crate) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(Self::none()) };
        files::make_folder(folder)?;
        let path = folder.join(NAME);
        let file = files::create_page(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let command = files::command_line("DIR");
        let facts = machine::facts(&command);
        Ok(Self(Some(Open { path, file, command, facts, samples: RefCell::default() })))
    }

    /// Returns one that is not asked for.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Begins a run, whose time starts now. Its lines are called `name`, those of a forwarder after their ends.
    pub(crate) fn begin(&self, name: Option<&str>) {
        if let Some(open) = &self.0 {
            open.samples.borrow_mut().begin(name);
        }
    }

    /// Takes a sample of what is on `board` if one is due.
    pub(crate) fn look(&self, board: &Board) {
        if let Some(open) = &self.0 {
            open.samples.borrow_mut().look(board);
        }
    }

    /// Takes the last sample of a run.
    pub(crate) fn end(&self, board: &Board) {
        if let Some(open) = &self.0 {
            open.samples.borrow_mut().take(board);
        }
    }

    /// Adds the delays of a whole run, as a line called `name`.
    pub(crate) fn add_delays(&self, name: &str, delay: &Latency) {
        if let Some(open) = &self.0 {
            open.samples.borrow_mut().add_spread(name, delay);
        }
    }

    /// Writes it, if it was asked for, and prints its name, unless `json` is printed. `lines` are the
    /// verdicts and faults, each with its class.
    pub(crate) fn write<'a>(
        self, command: &str, json: bool, lines: impl Iterator<Item = (&'static str, &'a String)>,
        summary: &str,
    ) -> anyhow::Result<()> {
        let Some(mut open) = self.0 else { return Ok(()) };
        let text = open.text(command, lines, summary)?;
        let shown = open.path.display();
        // A fifo has no length.
        let _ = open.file.set_len(0);
        open.file.write_all(text.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
        if json { Ok(()) } else { print(&format!("\nwritten: {shown}")) }
    }
}

impl Open {
    fn text<'a>(
        &self, command: &str, lines: impl Iterator<Item = (&'static str, &'a String)>, summary: &str,
    ) -> anyhow::Result<String> {
        let samples = self.samples.borrow();
        let mut body = String::new();
        for (class, line) in lines {
            body += &format!("<p class=\"{class}\">{}</p>\n", marked(line));
        }
        body += &format!("<p class=\"dim\">Made by <code>{}</code></p>\n", escaped(&self.command));
        body += "<div class=\"pictures\">";
        for (chart, caption) in pictures::charts(&samples) {
            body += &wharf_page::figure(&chart.svg()?, &caption, None, None);
        }
        body += "</div>\n";
        if samples.are_few() {
            body += "<p class=\"dim\">The run was too short for pictures over time: there is a sample every 100 ms.</p>\n";
        }
        body += &format!("<h2>Summary</h2>\n<pre>{}</pre>\n", escaped(summary));
        let facts = self.facts.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        body += &format!("<h2>This run</h2>\n{}", wharf_page::facts(facts));
        Ok(wharf_page::document(&format!("wharf {}", command), &body))
    }
}
