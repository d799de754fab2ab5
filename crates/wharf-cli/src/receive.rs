//! `wharf receive`.

mod account;
mod live;
mod run;
mod table;

use crate::args::ReceiveArgs;
use crate::host;
use crate::page::{Page, Words};
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;
use crate::watch::Watching;
use wharf::devices::spec::Direction;

/// Receives, prints the summary, and returns an error if anything went wrong.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    run::check(args)?;
    host::spare(args.host, &args.from, Direction::Receive)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let page = Page::open(args.report.as_deref())?;
    let is_endless = args.count.is_none() && args.seconds.is_none();
    let watching = Watching::start(&args.watch, "receive", (args.json, is_endless))?;
    let outcome = run::run(args, &sandbox, (&signals, &page, watching.board()))?;
    drop(watching);
    let summary = table::summary(&outcome);
    let done = conclude(args.json, &outcome.report, || summary.clone(), &outcome.faults);
    let verdicts = outcome.report.common.verdict.iter().collect();
    let words = Words { command: "receive", verdicts, summary: &summary, faults: &outcome.faults };
    let written = page.write(args.json, &words);
    done.and(written)
}
