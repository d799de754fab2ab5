//! `Outside`: what a run of `send`, `receive` or `forward` shows while it goes on, and prints at its end.

use crate::args::WatchArgs;
use crate::output::{print, print_json};
use crate::page::Page;
use crate::signals::Signals;
use crate::verdict::Verdict;
use crate::watch::{Board, Watching};
use anyhow::anyhow;
use serde::Serialize;
use std::path::Path;

/// The signals that end a run, the page of `--report`, and the board of counters.
pub(crate) struct Outside {
    pub(crate) signals: Signals,
    pub(crate) page: Page,
    pub(crate) board: Board,
    command: &'static str,
    json: bool,
    watching: Option<Watching>,
}

impl Outside {
    /// Returns that of a run of `command` which nobody watches.
    pub(crate) fn unseen(command: &'static str, signals: &Signals, json: bool) -> Self {
        let (signals, page, board) = (signals.clone(), Page::none(), Board::new(command));
        Self { signals, page, board, command, json, watching: None }
    }

    /// Opens the page in `report`, and begins the watch over the run, before its devices are open. A run that
    /// `is_endless` has a control socket by default.
    pub(crate) fn watched(
        self, report: Option<&Path>, args: &WatchArgs, is_endless: bool,
    ) -> anyhow::Result<Self> {
        let page = Page::open(report)?;
        let watching = Some(Watching::start(args, &self.board, self.json, is_endless)?);
        Ok(Self { page, watching, ..self })
    }

    /// Ends the watch, prints `report` as JSON, or the summary, and writes the page.
    /// Returns the faults as one error.
    pub(crate) fn conclude<'a>(
        self, report: &impl Serialize, summary: &str, verdicts: impl IntoIterator<Item = &'a Verdict>,
        faults: &[String],
    ) -> anyhow::Result<()> {
        drop(self.watching);
        let printed = if self.json { print_json(report) } else { print(summary.trim_end()) };
        let done = printed.and_then(|()| match faults {
            [] => Ok(()),
            faults => Err(anyhow!(faults.join("; "))),
        });
        let answers = verdicts.into_iter().flat_map(|verdict| &verdict.text);
        let lines = answers.map(|line| ("answer", line)).chain(faults.iter().map(|fault| ("bad", fault)));
        done.and(self.page.write(self.command, self.json, lines, summary))
    }
}
