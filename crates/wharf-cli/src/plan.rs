//! `wharf plan`: what a server can carry, and what stops it.

mod table;

use crate::args::PlanArgs;
use crate::output::{print, print_json};
use crate::usage;
use anyhow::Context;
use std::path::Path;
use wharf_lab::nics::{Choice, Description, Mark};
use wharf_lab::plan::{Load, Plan, Question, Report, Sweep, SweepRow, chart, plan, sweep};

/// Frames unless told otherwise: the smallest, where everything per packet shows.
const SIZE: u32 = 64;
const CORES: u32 = 12;

/// Works out a plan.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let description = description(args)?;
    let question = question(args, &description);
    let plan = plan(&description, &question).map_err(usage)?;
    let rows = match (args.sweep, &args.report) {
        (Some(sizes), _) => sweep(&description, &question, &sizes).map_err(usage)?,
        (None, Some(_)) => sweep(&description, &question, &Sweep::DEFAULT).map_err(usage)?,
        (None, None) => Vec::new(),
    };
    let shown = if args.sweep.is_some() { &rows[..] } else { &[] };
    let table = table::table_of(&plan, &question, shown);
    if let Some(folder) = &args.report {
        write_report(folder, &plan, &question, &rows, &table)?;
    }
    if args.json {
        return print_json(&Report::new(&plan, &question, shown));
    }
    print(&table)
}

/// The description that is asked for.
fn description(args: &PlanArgs) -> anyhow::Result<Description> {
    let name = args.nic.as_deref().unwrap_or("cx5");
    if let Some(built_in) = Description::built_in(name) {
        return Ok(built_in?);
    }
    let text = std::fs::read_to_string(name).with_context(|| {
        let names: Vec<&str> = Description::names().collect();
        format!("--nic {name}: no such file, and none of {}", names.join(", "))
    });
    Description::parse(name, &text.map_err(|error| usage(crate::output::with_causes(&error)))?).map_err(usage)
}

fn question(args: &PlanArgs, description: &Description) -> Question {
    let defaults = description.defaults();
    let load = match (&args.size, args.imix) {
        (Some(load), _) => load.clone(),
        (None, true) => Load::imix(),
        (None, false) => Load::one_size(defaults.size.unwrap_or(SIZE)),
    };
    let given =
        |(key, value): &(String, String)| (key.clone(), value.clone(), Mark::Given, "--set".to_string());
    Question {
        load,
        cores: args.cores.or(defaults.cores).unwrap_or(CORES),
        direction: args.direction.into(),
        target: args.target,
        link: args.link,
        choice: Choice {
            features: args.feature.iter().cloned().collect(),
            sets: args.set.iter().map(given).collect(),
        },
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
