//! Medians over seeds, with their spread.

use super::{Effect, Judgement, Report, Row};

impl Report {
    /// Returns the medians of reports that differ in their seeds. A row is that of the seed in the middle, with the
    /// spread over all; pictures are of the first seed.
    ///
    /// # Panics
    /// If there is no report.
    pub fn median_of(mut reports: Vec<Self>) -> Self {
        if reports.len() == 1 {
            return reports.remove(0);
        }
        let mut report = reports[0].clone();
        report.seeds = reports.len() as u32;
        report.packets = reports.iter().map(|one| one.packets).sum();
        report.interrupted = reports.iter().any(|one| one.interrupted);
        report.rows = report.rows.iter().map(|row| middle(row, &reports)).collect();
        report.judgement = Judgement::of(&report.rows, &report.parameters);
        report
    }
}

/// Returns the row of this name whose figure is in the middle. An even number of seeds has two; it is the greater.
fn middle(row: &Row, reports: &[Report]) -> Row {
    let is_it =
        |other: &&Row| other.label == row.label && other.metric == row.metric && other.device == row.device;
    let mut rows: Vec<&Row> = reports.iter().filter_map(|report| report.rows.iter().find(is_it)).collect();
    rows.sort_by(|a, b| a.value.total_cmp(&b.value));
    let effects: Vec<f64> = rows.iter().filter_map(|row| Some(row.effect?.value)).collect();
    let effect = row.effect.map(|effect: Effect| effect.of_seeds(effects));
    let spread = rows.first().zip(rows.last()).map(|(least, most)| [least.value, most.value]);
    Row { effect, spread, ..rows.get(rows.len() / 2).map_or(row, |row| *row).clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};

    #[test]
    fn figures_of_several_seeds_are_their_medians_in_any_order() {
        let set: Vec<String> =
            ["settle_ns=100000", "measure_ns=1000000"].iter().map(|set| set.to_string()).collect();
        let request = Request { name: "bulk".into(), set, seed: 5, seeds: 3, ..Request::default() };
        let whole = run(&request, &mut |_| true).unwrap();
        let mut each: Vec<Report> =
            request.each_seed().iter().map(|one| run(one, &mut |_| true).unwrap()).collect();
        assert_eq!((whole.seed, whole.seeds), (5, 3));
        for row in &whole.rows {
            let mut values: Vec<f64> = each.iter().map(|report| find(report, row).value).collect();
            values.sort_by(f64::total_cmp);
            assert_eq!((row.value, row.spread), (values[1], Some([values[0], values[2]])), "{row:?}");
        }
        each.reverse();
        let reversed = Report { seed: 5, series: whole.series.clone(), ..Report::median_of(each) };
        assert_eq!(reversed, whole);
    }

    fn find<'a>(report: &'a Report, row: &Row) -> &'a Row {
        report.rows.iter().find(|other| other.label == row.label && other.metric == row.metric).unwrap()
    }
}
