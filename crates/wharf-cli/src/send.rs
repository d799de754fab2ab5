//! `wharf send`.

mod account;
mod judge;
mod plan;
mod run;
mod table;
mod traffic;

use crate::args::SendArgs;
use crate::host;
use crate::page::{Page, Words};
use crate::report::Report;
use crate::sandbox::Sandbox;
use crate::session::{Outcome, conclude};
use crate::signals::Signals;
use crate::watch::{Board, Watching};
use plan::Plan;
use serde_json::json;
use wharf::devices::registry::Registry;

/// Sends, prints the summary, and returns an error if anything went wrong.
pub(crate) fn send(args: &SendArgs, registry: &Registry) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let plan = Plan::new(args, registry, &signals)?;
    host::spare(args.host, &args.to, plan.direction())?;
    let sandbox = Sandbox::prepare(&args.sandbox)?;
    let page = Page::open(args.report.as_deref())?;
    let watching = Watching::start(&args.watch, "send", (args.json, plan.is_endless))?;
    let mut outcomes = Vec::new();
    for &batching in &plan.batchings {
        if outcomes.is_empty() || !signals.asked() {
            // A second run is one over memory: it opens nothing that takes a privilege.
            let sandbox = outcomes.is_empty().then_some(&sandbox);
            let outside = (&signals, &page, watching.board());
            outcomes.push(run::run(&plan, batching, sandbox, outside)?);
        }
    }
    drop(watching);
    let of_runs = outcomes.iter().flat_map(|outcome| outcome.faults.clone());
    let faults: Vec<String> = plan.faults().into_iter().chain(of_runs).collect();
    let summary = table::summary(&plan, &outcomes);
    let done = conclude(args.json, &whole(&outcomes), || summary.clone(), &faults);
    let verdicts = outcomes.iter().filter_map(|outcome| outcome.report.verdict.as_ref()).take(1).collect();
    let words = Words { command: "send", verdicts, summary: &summary, faults: &faults };
    let written = page.write(args.json, &words);
    done.and(written)
}

/// Runs once, as `args` say, and prints nothing.
pub(crate) fn run_once(
    args: &SendArgs, registry: &Registry, signals: &Signals,
) -> anyhow::Result<Outcome<Report>> {
    let plan = Plan::new(args, registry, signals)?;
    let batching = plan.batchings.first().copied().unwrap_or_default();
    let outside = (signals, &Page::none(), &Board::new("send"));
    let mut outcome = run::run(&plan, batching, None, outside)?;
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
