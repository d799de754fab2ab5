//! `wharf receive`.

mod account;
mod live;
mod run;
mod table;

use crate::args::ReceiveArgs;
use crate::host;
use crate::outside::Outside;
use crate::sandbox::Sandbox;
use crate::signals::Signals;
use wharf_devices::spec::Direction;

/// Receives, prints the summary, and returns an error if anything went wrong.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    run::check(args)?;
    host::spare(args.host, &args.from, Direction::Receive)?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let outside = Outside::unseen("receive", &Signals::listen()?, args.json);
    let is_endless = args.count.is_none() && args.seconds.is_none();
    let outside = outside.watched(args.report.as_deref(), &args.watch, is_endless)?;
    let outcome = run::run(args, &sandbox, &outside)?;
    let (report, faults) = (&outcome.report, &outcome.faults);
    outside.conclude(report, &table::summary(&outcome), &report.common.verdict, faults)
}
