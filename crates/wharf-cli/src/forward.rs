//! `wharf forward`.

mod account;
mod judge;
mod live;
mod manage;
pub(crate) mod policy;
mod ports;
mod reload;
mod routed;
mod run;
mod settings;
mod table;
mod tell;

use crate::args::ForwardArgs;
use crate::config::Origin;
use crate::host;
use crate::output::{note, with_causes};
use crate::outside::Outside;
use crate::sandbox::Sandbox;
use crate::signals::Signals;
use crate::usage;
use wharf::forward::Forward;

/// Forwards, prints the summary, and returns an error if anything went wrong.
pub(crate) fn forward(args: &ForwardArgs, origin: Origin<'_>) -> anyhow::Result<()> {
    settings::check(args, &origin.registries.qdiscs).map_err(|error| placed(args, error))?;
    if let (true, Some(source)) = (args.check, &args.source) {
        note(&format!("{}: no mistake in it", source.path()));
        return Ok(());
    }
    for (end, spec) in args.ends().into_iter().enumerate() {
        let spared = host::spare(args.host, spec, Forward::direction_at(end, spec.kind()));
        spared.map_err(|error| placed(args, error))?;
    }
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let signals = if args.config.is_some() { Signals::listen_with_reload() } else { Signals::listen() }?;
    let outside = Outside::unseen("forward", &signals, args.json);
    outside.board.know(&origin.registries.qdiscs);
    let outside = outside.watched(args.report.as_deref(), &args.watch, true)?;
    let outcome = run::run(args, &sandbox, origin, &outside)?;
    let (report, faults) = (&outcome.report, &outcome.faults);
    let verdicts = report.directions.iter().filter_map(|direction| direction.common.verdict.as_ref());
    outside.conclude(report, &table::summary(&outcome), verdicts, faults)
}

/// Puts the place in the configuration file before an error about an option.
fn placed(args: &ForwardArgs, error: anyhow::Error) -> anyhow::Error {
    match &args.source {
        Some(source) => usage(source.placed(&with_causes(&error))),
        None => error,
    }
}
