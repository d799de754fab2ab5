//! `wharf send`.

mod account;
mod captured;
mod ends;
mod judge;
mod plan;
mod run;
mod sending;
mod table;
mod traffic;

use crate::Registries;
use crate::args::SendArgs;
use crate::host;
use crate::outside::Outside;
use crate::report::Report;
use crate::sandbox::Sandbox;
use crate::session::Outcome;
use crate::signals::Signals;
use plan::Plan;
use serde_json::json;
use wharf_devices::registry::Registry;

/// Sends, prints the summary, and returns an error if anything went wrong.
pub(crate) fn send(args: &SendArgs, registries: &Registries) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let plan = Plan::new(args, &registries.devices, &signals)?;
    host::spare(args.host, &args.to, plan.direction())?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let outside = Outside::unseen("send", &signals, args.json);
    outside.board.know(&registries.qdiscs);
    let outside = outside.watched(args.report.as_deref(), &args.watch, plan.is_endless)?;
    let mut outcomes = Vec::new();
    for &batching in &plan.batchings {
        if outcomes.is_empty() || !signals.asked() {
            // A second run is one over memory: it opens nothing that takes a privilege.
            let sandbox = outcomes.is_empty().then_some(&sandbox);
            outcomes.push(run::run(&plan, batching, outcomes.len() + 1, sandbox, &outside)?);
        }
    }
    let of_runs = outcomes.iter().flat_map(|outcome| outcome.faults.clone());
    let faults: Vec<String> = plan.faults().into_iter().chain(of_runs).collect();
    let summary = table::summary(&plan, &outcomes);
    let verdict = outcomes.iter().find_map(|outcome| outcome.report.verdict.as_ref());
    outside.conclude(&whole(&outcomes), &summary, verdict, &faults)
}

/// Runs once, as `args` say, and prints nothing.
pub(crate) fn run_once(
    args: &SendArgs, registry: &Registry, signals: &Signals,
) -> anyhow::Result<Outcome<Report>> {
    let plan = Plan::new(args, registry, signals)?;
    let batching = plan.batchings.first().copied().unwrap_or_default();
    let mut outcome = run::run(&plan, batching, 1, None, &Outside::unseen("send", signals, false))?;
    outcome.faults.extend(plan.faults());
    Ok(outcome)
}

/// Returns the first run's report, with the figures of the second one for comparison.
fn whole(outcomes: &[Outcome<Report>]) -> Option<Report> {
    let compare = outcomes.get(1).map(|off| {
        let Report { mpps, packets_per_doorbell, .. } = off.report;
        json!({ "batching_off": { "mpps": mpps, "packets_per_doorbell": packets_per_doorbell } })
    });
    Some(Report { compare, ..outcomes.first()?.report.clone() })
}
