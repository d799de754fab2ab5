//! `wharf receive`.

mod account;
mod live;
mod run;
mod table;

use crate::args::ReceiveArgs;
use crate::sandbox::Sandbox;
use crate::session::conclude;
use crate::signals::Signals;

/// Receives, prints the summary, and returns an error if anything went wrong.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    run::check(args)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = Signals::listen()?;
    let outcome = run::run(args, &sandbox, &signals)?;
    conclude(args.json, &outcome.report, || table::summary(&outcome), &outcome.faults)
}
