//! The scorecard that `lab run --report` prints in place of all figures: a line for each experiment, and the name of the page.

use crate::output::{table, text};
use comfy_table::CellAlignment;
use std::path::Path;
use wharf_lab::experiment::{Row, RowKind};
use wharf_lab::report::Section;

/// Returns the scorecard of a page in `folder`.
pub(super) fn scorecard(sections: &[Section], folder: &Path) -> String {
    let mut lines = table(&[
        "experiment",
        "world",
        "figures",
        "published",
        "fitted",
        "predicted",
        "measured",
        "not reproduced",
    ]);
    lines.column_iter_mut().take(2).for_each(|column| column.set_cell_alignment(CellAlignment::Left));
    for report in sections.iter().map(|section| &section.report) {
        let counts = counts(&report.rows).map(|count| count.to_string());
        lines.add_row([report.experiment.to_string(), report.world.to_string()].into_iter().chain(counts));
    }
    let is_cut = |section: &Section| section.report.interrupted;
    let ended = if sections.iter().any(is_cut) { "\n\nEnded by a signal." } else { "" };
    format!("{}{ended}\n\nwritten: {}", text(&lines), folder.join("report.html").display())
}

/// Returns the number of figures, of those with a published one, of those by kind, and of those marked as not reproduced.
fn counts(rows: &[Row]) -> [usize; 6] {
    let published = || rows.iter().filter(|row| row.published.is_some());
    let of = |kind| published().filter(|row| row.kind == kind).count();
    let is_missed = |row: &&Row| row.note.as_ref().is_some_and(|note| note.contains("not reproduced"));
    [
        rows.len(),
        published().count(),
        of(RowKind::Fitted),
        of(RowKind::Predicted),
        of(RowKind::Measured),
        published().filter(is_missed).count(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_counted_by_kind_and_by_whether_they_are_reproduced() {
        let row = |value, kind| Row::new("tx", ("rate", "Mpps"), value, kind);
        let rows = [
            row(1_000_000, RowKind::Fitted).beside(1.0),
            row(1_000_000, RowKind::Predicted).beside(1.1),
            row(1_000_000, RowKind::Predicted).beside(9.0),
            row(1_000_000, RowKind::Predicted),
        ];
        assert_eq!(counts(&rows), [4, 3, 1, 2, 0, 1]);
    }
}
