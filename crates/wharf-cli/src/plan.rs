//! `wharf plan`: what a server can carry, and what stops it.

mod from;
mod table;

use crate::args::PlanArgs;
use crate::output::{print, print_json};
use crate::usage;
use anyhow::Context;
use from::{Asked, From};
use serde::Serialize;
use std::path::Path;
use wharf_lab::nics::{Choice, Description, Mark};
use wharf_lab::pcie::Link;
use wharf_lab::plan::{Load, Plan, Question, Report, Sweep, SweepRow, chart, plan, sweep};

/// Frames unless told otherwise: the smallest, where everything per packet shows.
const SIZE: u32 = 64;
const CORES: u32 = 12;
/// The NIC unless told otherwise.
const NIC: &str = "cx5";

/// The report, and what the interface said.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Null without --from.
    from: Option<&'a From>,
}

/// Works out a plan.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let (description, question, from) = asked(args)?;
    let plan = plan(&description, &question).map_err(usage)?;
    let rows = match (args.sweep, &args.report) {
        (Some(sizes), _) => sweep(&description, &question, &sizes).map_err(usage)?,
        (None, Some(_)) => sweep(&description, &question, &Sweep::DEFAULT).map_err(usage)?,
        (None, None) => Vec::new(),
    };
    let shown = if args.sweep.is_some() { &rows[..] } else { &[] };
    let mut table = table::table_of(&plan, &question, shown);
    if let Some(from) = &from {
        table = format!("{}\n\n{table}", from.words());
    }
    if let Some(folder) = &args.report {
        write_report(folder, &plan, &question, &rows, &table)?;
    }
    if args.json {
        let report = &Report::new(&plan, &question, shown);
        return print_json(&Printed { report, from: from.as_ref() });
    }
    print(&table)
}

/// The NIC, the question, and the interface that they come from if they do.
fn asked(args: &PlanArgs) -> anyhow::Result<(Description, Question, Option<From>)> {
    let Some(name) = &args.from else {
        let description = description(args.nic.as_deref().unwrap_or(NIC))?;
        let question = question(args, &description, args.link, Choice::default());
        return Ok((description, question, None));
    };
    let own = args.nic.as_deref().map(description).transpose()?;
    let Asked { from, description, link, choice } = from::ask(args, name, own)?;
    let question = question(args, &description, link, choice);
    Ok((description, question, Some(from)))
}

/// The description of this name, or in this file.
fn description(name: &str) -> anyhow::Result<Description> {
    if let Some(built_in) = Description::built_in(name) {
        return Ok(built_in?);
    }
    let text = std::fs::read_to_string(name).with_context(|| {
        let names: Vec<&str> = Description::names().collect();
        format!("--nic {name}: no such file, and none of {}", names.join(", "))
    });
    Description::parse(name, &text.map_err(|error| usage(crate::output::with_causes(&error)))?).map_err(usage)
}

/// The question; what the command line says goes before `link` and `choice`, which were read.
fn question(args: &PlanArgs, description: &Description, link: Option<Link>, choice: Choice) -> Question {
    let defaults = description.defaults();
    let load = match (&args.size, args.imix) {
        (Some(load), _) => load.clone(),
        (None, true) => Load::imix(),
        (None, false) => Load::one_size(defaults.size.unwrap_or(SIZE)),
    };
    let given =
        |(key, value): &(String, String)| (key.clone(), value.clone(), Mark::Given, "--set".to_string());
    let mut choice = choice;
    choice.features.extend(args.feature.iter().cloned());
    choice.sets.extend(args.set.iter().map(given));
    Question {
        load,
        cores: args.cores.or(defaults.cores).unwrap_or(CORES),
        direction: args.direction.into(),
        target: args.target,
        link,
        choice,
    }
}

/// `plan.svg`, and `plan.html` with it inside.
fn write_report(
    folder: &Path, plan: &Plan, question: &Question, rows: &[SweepRow], table: &str,
) -> anyhow::Result<()> {
    let svg = chart::svg(plan, question, rows)?;
    let page = chart::page(plan, &svg, table);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in [("plan.svg", &svg), ("plan.html", &page)] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
