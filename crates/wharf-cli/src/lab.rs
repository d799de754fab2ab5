//! `wharf lab`: experiments, in virtual time or on this machine.

mod pages;
mod run;
mod sweep;

use crate::args::{LabArgs, LabCommand, LabListArgs};
use crate::output::{print, print_json, table, text};
use comfy_table::CellAlignment;
use serde::Serialize;
use wharf_lab::experiment::{self, Experiment, ParameterKind, Report, Row, RowKind, World};

#[derive(Debug, Serialize)]
struct Listing {
    experiments: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    what: &'static str,
    worlds: &'static [World],
}

/// Lists or runs.
pub(crate) fn lab(args: &LabArgs) -> anyhow::Result<()> {
    match &args.what {
        LabCommand::List(args) => list(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Sweep(args) => sweep::sweep(args),
    }
}

fn list(args: &LabListArgs) -> anyhow::Result<()> {
    let entry = |experiment: &&dyn Experiment| Entry {
        name: experiment.name(),
        what: experiment.what(),
        worlds: experiment.worlds(),
    };
    let experiments: Vec<Entry> = experiment::all().iter().map(entry).collect();
    if args.json {
        return print_json(&Listing { experiments });
    }
    let mut lines = table(&["experiment", "worlds", "what it shows"]);
    lines.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Left));
    experiments.iter().for_each(|entry| {
        let worlds = entry.worlds.iter().map(World::to_string).collect::<Vec<_>>().join(", ");
        lines.add_row([entry.name, &worlds, entry.what]);
    });
    print(&text(&lines))
}

fn table_of(report: &Report) -> String {
    let mut lines = table(&["", "figure", "value", "published", "ratio", "kind", "unit"]);
    for at in [1, 5, 6] {
        if let Some(column) = lines.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for row in &report.rows {
        lines.add_row(cells(row));
    }
    let notes = report.rows.iter().filter_map(|row| row.note.as_ref().map(|note| (row, note)));
    let notes: String = notes.map(|(row, note)| format!("\n{} {}: {note}", row.label, row.metric)).collect();
    let title = format!("{}, world {}, seed {}", report.experiment, report.world, report.seed);
    let ended = if report.interrupted { "\n\nEnded by a signal." } else { "" };
    format!("{title}\n\n{}\n{notes}{}{ended}", text(&lines), parameters(report))
}

fn cells(row: &Row) -> [String; 7] {
    let number = |value: f64| format!("{value:.2}");
    let dash = || "-".to_string();
    let kind = match row.kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Measured => "measured",
    };
    [
        row.label.clone(),
        row.metric.to_string(),
        number(row.value),
        row.published.map_or_else(dash, number),
        row.published.map_or_else(dash, |published| number(row.value / published)),
        kind.to_string(),
        row.unit.to_string(),
    ]
}

/// What was fitted and what was set for this run; how many others there are.
fn parameters(report: &Report) -> String {
    let named = |wanted: ParameterKind, title: &str| {
        let found = report.parameters.iter().filter(|(_, parameter)| parameter.kind == wanted);
        let named: Vec<String> = found.map(|(key, parameter)| format!("{key}={}", parameter.value)).collect();
        if named.is_empty() { String::new() } else { format!("\n{title}: {}", named.join(", ")) }
    };
    let all = report.parameters.iter().count();
    format!(
        "{}{}\nAll {all} parameters with their sources: --json",
        named(ParameterKind::Fitted, "fitted"),
        named(ParameterKind::Set, "set")
    )
}
