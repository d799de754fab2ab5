//! `wharf forward`.

mod account;
mod judge;
mod link;
mod live;
pub(crate) mod policy;
mod run;
mod sampled;
mod table;
mod tell;

use crate::args::ForwardArgs;
use crate::page::{Page, Words};
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;
use crate::watch::Watching;

/// Forwards, prints the summary, and returns an error if anything went wrong.
pub(crate) fn forward(args: &ForwardArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let page = Page::open(args.report.as_deref())?;
    let watching = Watching::start(&args.watch, "forward", (args.json, true))?;
    let outcome = run::run(args, &sandbox, (&signals, &page, watching.board()))?;
    drop(watching);
    let summary = table::summary(&outcome);
    let done = conclude(args.json, &outcome.report, || summary.clone(), &outcome.faults);
    let verdicts =
        outcome.report.directions.iter().filter_map(|direction| direction.common.verdict.as_ref()).collect();
    let words = Words { command: "forward", verdicts, summary: &summary, faults: &outcome.faults };
    let written = page.write(args.json, &words);
    done.and(written)
}
