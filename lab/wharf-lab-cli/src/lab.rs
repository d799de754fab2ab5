//! `wharf lab`: experiments, in virtual time or on this machine.

mod effects;
mod list;
mod pages;
mod run;
mod scenario;
mod sweep;

pub(crate) use list::help_of_experiment;

use crate::args::{LabArgs, LabCommand};
use comfy_table::{CellAlignment, Table};
use wharf_cli::fold::{folded, terminal_columns, wrap_last};
use wharf_cli::output::{table, text, wrapped};
use wharf_lab::experiment::{Effect, Mark, Report, Row, RowKind};
use wharf_lab::report::{Score, Section};

/// Runs a `wharf lab` command.
pub(crate) fn lab(args: &LabArgs) -> anyhow::Result<()> {
    match &args.what {
        LabCommand::List(args) => list::list(args),
        LabCommand::Run(args) if scenario::is_file(&args.name) => scenario::run_file(args),
        LabCommand::Run(args) => run::run(args, None),
        LabCommand::Sweep(args) => sweep::sweep(args),
        LabCommand::Compare(args) => scenario::compare(args),
        LabCommand::Calibrate(args) => scenario::calibrate(args),
    }
}

/// Returns the score of each experiment, and of all.
fn scores(sections: &[Section]) -> String {
    let mut lines = wrapped(&["experiment", "score", "what it shows"]);
    for section in sections {
        let judgement = section.report.judgement.words();
        let effects = if judgement.is_empty() { judgement } else { format!("; {judgement}") };
        let score = format!("{}{effects}", Score::of(&section.report.rows).words());
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
    let title = title(report);
    let ended = if report.interrupted { "\n\nEnded by a signal." } else { "" };
    let notes = folded(&format!("{notes}{}", parameters(report)));
    format!("{title}\n\n{lines}\n{notes}{by_thread}{ended}")
}

/// Returns the run in words, its skill and the number of its parameters.
fn title(report: &Report) -> String {
    let seeds = match report.seeds {
        0 | 1 => format!("seed {}", report.seed),
        count => format!("medians of {count} seeds from {} on", report.seed),
    };
    let lines = [
        format!("{}, world {}, {seeds}", report.experiment, report.world),
        folded(&report.judgement.words()),
        folded(&report.judgement.parameters()),
    ];
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns a row for each figure, behind its label or without.
fn figures(report: &Report, has_labels: bool) -> Table {
    let has_devices = report.rows.iter().any(|row| row.device.is_some());
    // The column of devices is hidden if all runs were by one.
    let has_effects = report.rows.iter().any(|row| row.effect.is_some());
    let has_spread = report.rows.iter().any(|row| row.spread.is_some());
    let shown = |at: usize| match at {
        LABEL => has_labels,
        DEVICE => has_devices,
        SPREAD => has_spread,
        EFFECT..=EFFECT_ERROR => has_effects,
        _ => true,
    };
    let heads: Vec<&str> =
        HEADS.into_iter().enumerate().filter(|&(at, _)| shown(at)).map(|(_, head)| head).collect();
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

const HEADS: [&str; 12] = [
    "",
    "device",
    "figure",
    "value",
    "spread",
    "published",
    "ratio",
    "effect",
    "published effect",
    "error",
    "kind",
    "unit",
];
/// The columns of labels, devices, spreads and effects.
const LABEL: usize = 0;
const DEVICE: usize = 1;
const SPREAD: usize = 4;
const EFFECT: usize = 7;
const EFFECT_ERROR: usize = 9;

fn cells(row: &Row) -> [String; 12] {
    let number = |value: f64| format!("{value:.2}");
    let dash = || "-".to_string();
    let change =
        |of: fn(&Effect) -> f64| row.effect.map_or_else(dash, |effect| format!("{:+.1}", of(&effect)));
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
        row.spread.map_or_else(dash, |[least, most]| format!("{least:.2}..{most:.2}")),
        row.published.map_or_else(dash, number),
        // A difference has no multiple; its residual in points is in the note.
        row.published
            .filter(|&published| published != 0.0 && !row.in_points)
            .map_or_else(dash, |published| number(row.value / published)),
        change(|effect| effect.value),
        change(|effect| effect.published),
        change(|effect| effect.error),
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
            assert_eq!(cells(&row)[5..7], shown);
        }
    }

    #[test]
    fn a_difference_has_no_ratio() {
        let row = Row::new("tcp_rr", ("p50_by_napi", "percent"), 46_000_000, RowKind::Predicted);
        let row = row.beside_in_points(-13.6);
        assert_eq!(
            cells(&row.clone().is_effect())[3..10],
            ["46.00", "-", "-13.60", "-", "+46.0", "-13.6", "+59.6"]
        );
        assert_eq!(row.note.as_deref(), Some("+59.6 points from what was published"));
    }
}
