//! `wharf lab`: experiments, in virtual time or on this machine.

mod list;
mod pages;
mod run;
mod sweep;

pub(crate) use list::help_of_experiment;

use crate::args::{LabArgs, LabCommand};
use crate::fold::{folded, terminal_columns, wrap_last};
use crate::output::{table, text, wrapped};
use comfy_table::{CellAlignment, Table};
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
    let (wide, columns) = (text(&figures(report, true)), terminal_columns());
    let fits = columns.is_none_or(|columns| wide.lines().all(|line| line.chars().count() <= columns.into()));
    let lines = if fits { wide } else { under_labels(report) };
    let notes = report.rows.iter().filter_map(|row| row.note.as_ref().map(|note| (row, note)));
    let notes: String = notes.map(|(row, note)| format!("\n{} {}: {note}", row.of(), row.metric)).collect();
    let by_thread = report.rows.iter().any(|row| !row.by_thread.is_empty());
    let by_thread = if by_thread { "\nFigures of each thread or CPU: --json" } else { "" };
    let title = format!("{}, world {}, seed {}", report.experiment, report.world, report.seed);
    let ended = if report.interrupted { "\n\nEnded by a signal." } else { "" };
    let notes = folded(&format!("{notes}{}", parameters(report)));
    format!("{title}\n\n{lines}\n{notes}{by_thread}{ended}")
}

/// Returns a row for each figure, behind its label or without.
fn figures(report: &Report, has_labels: bool) -> Table {
    let has_devices = report.rows.iter().any(|row| row.device.is_some());
    // The column of devices is hidden if all runs were by one.
    let shown = |at: usize| (at != DEVICE || has_devices) && (at != LABEL || has_labels);
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
    lines
}

/// Returns the rows for a narrow terminal.
fn under_labels(report: &Report) -> String {
    let mut lines = figures(report, false);
    wrap_last(&mut lines);
    interleaved(&text(&lines), report.rows.iter().map(|row| row.label.as_str()))
}

/// Puts each label on a line of its own above its rows in `table`. A line of that begins with a blank goes on with the row above.
fn interleaved<'a>(table: &str, mut labels: impl Iterator<Item = &'a str>) -> String {
    let (mut last, mut all) = (None, Vec::new());
    for (at, line) in table.lines().enumerate() {
        if at > 0 && !line.starts_with(' ') {
            let label = labels.next();
            all.extend(label.filter(|_| label != last).map(folded));
            last = label;
        }
        all.push(line.to_string());
    }
    all.join("\n")
}

/// The columns of labels and of devices.
const LABEL: usize = 0;
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
    fn a_label_stands_once_above_its_figures() {
        let table = "figure  unit\nmpps    Mpps\ngain    percent of\n        the rate\nmpps    Mpps";
        let shown = interleaved(table, ["tx/on", "tx/on", "tx/off"].into_iter());
        let first: Vec<&str> = shown.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(first, ["figure", "tx/on", "mpps", "gain", "", "tx/off", "mpps"]);
    }

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
