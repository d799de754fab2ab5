//! `wharf forward`.

mod account;
mod link;
mod live;
pub(crate) mod policy;
mod run;
mod table;
mod tell;

use crate::args::ForwardArgs;
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;
use crate::watch::Watching;

/// Forwards, prints the summary, and returns an error if anything went wrong.
pub(crate) fn forward(args: &ForwardArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let watching = Watching::start(&args.watch, "forward", (args.json, true))?;
    let outcome = run::run(args, &sandbox, &signals, watching.board())?;
    drop(watching);
    conclude(args.json, &outcome.report, || table::summary(&outcome), &outcome.faults)
}
