//! `wharf send`.

mod account;
mod plan;
mod run;
mod table;
mod traffic;

use crate::args::SendArgs;
use crate::output;
use crate::report::{BatchingOff, Compare, Report};
use crate::signals::Signals;
use account::Outcome;
use anyhow::anyhow;
use plan::Plan;
use wharf::devices::registry::Registry;

/// Sends, prints the summary, and returns an error if anything went wrong.
pub(crate) fn send(args: &SendArgs, registry: &Registry) -> anyhow::Result<()> {
    let plan = Plan::new(args, registry)?;
    let signals = Signals::listen()?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for &batching in &plan.batchings {
        if outcomes.is_empty() || !signals.asked() {
            outcomes.push(run::run(&plan, batching, &signals)?);
        }
    }
    match args.json {
        true => output::print_json(&whole(&outcomes))?,
        false => output::print(table::summary(&plan, &outcomes).trim_end())?,
    }
    let faults: Vec<String> = outcomes.into_iter().flat_map(|outcome| outcome.faults).collect();
    if faults.is_empty() { Ok(()) } else { Err(anyhow!(faults.join("; "))) }
}

/// Returns the first run's report, with the figures of the second one for comparison.
fn whole(outcomes: &[Outcome]) -> Option<Report> {
    let mut report = outcomes.first()?.report.clone();
    report.compare = outcomes.get(1).map(|off| {
        let Report { mpps, packets_per_doorbell, .. } = off.report;
        Compare { batching_off: BatchingOff { mpps, packets_per_doorbell } }
    });
    Some(report)
}
