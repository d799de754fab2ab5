//! `wharf lab`: experiments, in virtual time or on this machine.

mod list;
mod pages;
mod run;
mod sweep;

pub(crate) use list::help_of_experiment;

use crate::args::{LabArgs, LabCommand};
use crate::output::{table, text, wrapped};
use comfy_table::CellAlignment;
use wharf_lab::experiment::{Mark, Report, Row, RowKind};
use wharf_lab::report::{Score, Section};

/// Runs a `wharf lab` command.
pub(crate) fn lab(args: &LabArgs) -> anyhow::Result<()> {
    match &args.what {
        LabCommand::List(args) => list::list(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Sweep(args) => sweep::sweep(args),
    }
}

/// Returns the score of each experiment, and of all.
fn scores(sections: &[Section]) -> String {
    let mut lines = wrapped(&["experiment", "score", "what it shows"]);
    for section in sections {
        let score = Score::of(&section.report.rows).words();
        let ended = if section.report.interrupted { "; ended by a signal" } else { "" };
        lines.add_row([section.report.experiment, &format!("{score}{ended}"), section.what]);
    }
    let all: Score = sections.iter().map(|section| Score::of(&section.report.rows)).sum();
    format!("{}\n\n{}", text(&lines), all.words())
}

fn table_of(report: &Report) -> String {
    let has_devices = report.rows.iter().any(|row| row.device.is_some());
    // Hidden if all runs were by one device.
    let shown = |at: usize| at != DEVICE || has_devices;
    let heads = ["", "device", "figure", "value", "published", "ratio", "kind", "unit"];
    let heads: Vec<&str> =
        heads.into_iter().enumerate().filter(|&(at, _)| shown(at)).map(|(_, head)| head).collect();
    let mut lines = table(&heads);
    for (column, head) in lines.column_iter_mut().zip(&heads) {
        if ["device", "figure", "kind", "unit"].contains(head) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for row in &report.rows {
        lines.add_row(cells(row).into_iter().enumerate().filter(|&(at, _)| shown(at)).map(|(_, cell)| cell));
    }
    let notes = report.rows.iter().filter_map(|row| row.note.as_ref().map(|note| (row, note)));
    let notes: String = notes.map(|(row, note)| format!("\n{} {}: {note}", row.of(), row.metric)).collect();
    let by_thread = report.rows.iter().any(|row| !row.by_thread.is_empty());
    let by_thread = if by_thread { "\nFigures of each thread or CPU: --json" } else { "" };
    let title = format!("{}, world {}, seed {}", report.experiment, report.world, report.seed);
    let ended = if report.interrupted { "\n\nEnded by a signal." } else { "" };
    format!("{title}\n\n{}\n{notes}{}{by_thread}{ended}", text(&lines), parameters(report))
}

/// The column of devices.
const DEVICE: usize = 1;

fn cells(row: &Row) -> [String; 8] {
    let number = |value: f64| format!("{value:.2}");
    let dash = || "-".to_string();
    let kind = match row.kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Measured => "measured",
    };
    [
        row.label.clone(),
        row.device.clone().unwrap_or_default(),
        row.metric.to_string(),
        number(row.value),
        row.published.map_or_else(dash, number),
        // A difference has no multiple; its residual in points is in the note.
        row.published
            .filter(|&published| published != 0.0 && !row.in_points)
            .map_or_else(dash, |published| number(row.value / published)),
        kind.to_string(),
        row.unit.to_string(),
    ]
}

/// Returns the fitted parameters, those set for this run, and the number of others, in words.
fn parameters(report: &Report) -> String {
    let named = |wanted: Mark, title: &str| {
        let found = report.parameters.iter().filter(|(_, parameter)| parameter.kind == wanted);
        let named: Vec<String> = found.map(|(key, parameter)| format!("{key}={}", parameter.value)).collect();
        if named.is_empty() { String::new() } else { format!("\n{title}: {}", named.join(", ")) }
    };
    let all = report.parameters.iter().count();
    format!(
        "{}{}\nAll {all} parameters with their sources: --json, or wharf lab list {}",
        named(Mark::Fitted, "fitted"),
        named(Mark::Set, "set"),
        report.experiment
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_0_has_no_ratio() {
        let mut row = Row::new("root-lock/jiffy/threads=1", ("drop_share", "percent"), 0, RowKind::Predicted);
        for (published, shown) in
            [(None, ["-", "-"]), (Some(0.0), ["0.00", "-"]), (Some(2.0), ["2.00", "0.00"])]
        {
            row.published = published;
            assert_eq!(cells(&row)[4..6], shown);
        }
    }

    #[test]
    fn a_difference_has_no_ratio() {
        let row = Row::new("tcp_rr", ("p50_by_napi", "percent"), 46_000_000, RowKind::Predicted);
        let row = row.beside_in_points(-13.6);
        assert_eq!(cells(&row)[3..6], ["46.00", "-13.60", "-"]);
        assert_eq!(row.note.as_deref(), Some("+59.6 points from what was published"));
    }
}
