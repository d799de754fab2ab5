//! `wharf lab run --effects`: published changes beside ours, and the mean error of those that nothing was fitted to.

use comfy_table::CellAlignment;
use wharf_cli::output::{table, text};
use wharf_lab::experiment::{Effect, Report, RowKind};
use wharf_lab::report::Section;

/// Returns a row for each effect, then one for each experiment, and one for all.
pub(super) fn effects(sections: &[Section]) -> String {
    let mut lines = table(&["experiment", "run", "figure", "published effect", "ours", "error", "kind"]);
    let mut sums = table(&["experiment", "predicted effects", "mean error", "\"nothing changes\"", "skill"]);
    for column in [0, 1, 2, 6] {
        if let Some(column) = lines.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    let mut all = Vec::new();
    for Section { report, .. } in sections {
        for row in &report.rows {
            let Some(Effect { published, value, error, .. }) = row.effect else { continue };
            let kind = if row.kind == RowKind::Fitted { "fitted" } else { "predicted" };
            let numbers = [published, value, error].map(|points| format!("{points:+.1}"));
            let words = [report.experiment.into(), row.of(), row.metric.into()];
            lines.add_row(words.into_iter().chain(numbers).chain([kind.into()]));
        }
        let predicted = predicted(report);
        if !predicted.is_empty() {
            sums.add_row(sum(report.experiment, &predicted));
        }
        all.extend(predicted);
    }
    sums.add_row(sum("all", &all));
    format!(
        "{}\n\nErrors in points, over effects that nothing was fitted to:\n\n{}",
        text(&lines),
        text(&sums)
    )
}

fn predicted(report: &Report) -> Vec<Effect> {
    report.rows.iter().filter(|row| row.kind != RowKind::Fitted).filter_map(|row| row.effect).collect()
}

fn sum(name: &str, effects: &[Effect]) -> [String; 5] {
    let mean = |of: fn(&Effect) -> f64| effects.iter().map(of).sum::<f64>() / effects.len().max(1) as f64;
    let (error, null) = (mean(|effect| effect.error.abs()), mean(|effect| effect.published.abs()));
    let skill = if null > 0.0 { format!("{:.2}", 1.0 - error / null) } else { "-".into() };
    [name.into(), effects.len().to_string(), format!("{error:.1}"), format!("{null:.1}"), skill]
}
