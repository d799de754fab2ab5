//! `wharf receive`.

mod account;
mod live;
mod run;
mod table;

use crate::args::ReceiveArgs;
use crate::page::{Page, Words};
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;

/// Receives, prints the summary, and returns an error if anything went wrong.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let page = Page::open(args.report.as_deref())?;
    let outcome = run::run(args, &sandbox, &signals, &page)?;
    let summary = table::summary(&outcome);
    let done = conclude(args.json, &outcome.report, || summary.clone(), &outcome.faults);
    let verdicts = outcome.report.common.verdict.iter().collect();
    let words = Words { command: "receive", verdicts, summary: &summary, faults: &outcome.faults };
    let written = page.write(args.json, &words);
    done.and(written)
}
