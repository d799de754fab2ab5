//! `wharf receive`.

mod account;
mod run;
mod table;

use crate::args::ReceiveArgs;
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;
use crate::watch::Watching;

/// Receives, prints the summary, and returns an error if anything went wrong.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let is_endless = args.count.is_none() && args.seconds.is_none();
    let watching = Watching::start(&args.watch, "receive", (args.json, is_endless))?;
    let outcome = run::run(args, &sandbox, &signals, watching.board())?;
    drop(watching);
    conclude(args.json, &outcome.report, || table::summary(&outcome), &outcome.faults)
}
