//! Pictures: figures beside published ones, and lines over time or over a parameter, with words for each.

use super::dots;
use crate::experiment::{Report, Row, Series};
use wharf_page::picture::{Axis, Chart, ChartError, Line, Scale};

/// Most rows of a picture of dots: more are drawn by group, a picture each.
const DOTS_ROWS: usize = 12;

/// One picture.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

/// Returns all pictures of a report: lines first.
pub(super) fn pictures(report: &Report) -> Result<Vec<Picture>, ChartError> {
    let name = format!("{}-{}", report.experiment, report.world);
    let mut all = Vec::new();
    let mut charts: Vec<&str> = Vec::new();
    for series in &report.series {
        if !charts.contains(&series.chart.as_str()) {
            charts.push(&series.chart);
        }
    }
    for (number, chart) in charts.iter().enumerate() {
        let lines: Vec<&Series> = report.series.iter().filter(|series| series.chart == **chart).collect();
        let svg = chart_of(report.experiment, chart, &lines).svg()?;
        let caption = caption(report.experiment, chart);
        all.push(Picture { file: format!("{name}-{}.svg", number + 1), caption, svg });
    }
    let (points, multiples): (Vec<&Row>, Vec<&Row>) =
        report.rows.iter().filter(|row| row.published.is_some()).partition(|row| row.in_points);
    for (rows, file, title, caption) in [
        (
            multiples,
            "published",
            "ours, as a multiple of what was published",
            "Each dot is a figure; at 1 it is the published one. The farther a dot from the thick line, the farther the figure is off.",
        ),
        (
            points,
            "differences",
            "differences in percent, ours and published",
            "A filled dot is ours, a hollow one is the published difference; the line between them is what we are off.",
        ),
    ] {
        for (group, rows) in groups(rows) {
            let svg = dots::svg(report.experiment, title, &rows)?;
            let group = group.map(|group| format!("-{group}")).unwrap_or_default();
            all.push(Picture { file: format!("{name}-{file}{group}.svg"), caption: caption.into(), svg });
        }
    }
    Ok(all)
}

/// Groups rows by the first part of their labels, if they are too many for a picture.
fn groups(rows: Vec<&Row>) -> Vec<(Option<&str>, Vec<&Row>)> {
    let mut all: Vec<(Option<&str>, Vec<&Row>)> = Vec::new();
    let are_many = rows.len() > DOTS_ROWS;
    for row in rows {
        let group = are_many.then(|| row.label.split('/').next().unwrap_or(&row.label));
        match all.iter_mut().find(|there| there.0 == group) {
            Some(there) => there.1.push(row),
            None => all.push((group, vec![row])),
        }
    }
    all
}

fn chart_of(experiment: &str, chart: &str, series: &[&Series]) -> Chart {
    let (x, y) = series.first().map_or(("", ""), |series| (series.x, series.y));
    let line = |series: &&Series| Line {
        name: series.line.clone(),
        points: series.points.clone(),
        dashed: series.line.ends_with("published"),
    };
    Chart {
        title: format!("{experiment}: {chart}"),
        x: axis(x, chart),
        y: axis(y, chart),
        lines: series.iter().map(line).collect(),
    }
}

/// Returns the axis of a quantity of `chart`: its name with its unit, and its scale.
fn axis(quantity: &str, chart: &str) -> Axis {
    let (name, scale) = match quantity {
        "s" => ("time, s".into(), Scale::Values),
        "percent" => ("change of bandwidth, %".into(), Scale::Changes),
        "message, power of two of bytes" => ("message, bytes".into(), Scale::PowersOf(2)),
        "flows, power of ten" => ("flows".into(), Scale::PowersOf(10)),
        unit => {
            let names =
                [("delay", "delay"), ("limit", "byte limit"), ("rate", "rate"), ("p50", "median latency")];
            let name = names.iter().find(|name| chart.contains(name.0)).map_or("value", |name| name.1);
            (format!("{name}, {unit}"), Scale::Values)
        }
    };
    Axis { name, scale }
}

/// Returns the caption of a chart of lines.
fn caption(experiment: &str, chart: &str) -> String {
    match (experiment, chart) {
        ("bql", "byte limit over time") => {
            "The limit that the queue has learnt: large for a fast wire, and small soon after the wire gets slow."
        }
        ("bql", _) => {
            "The wire goes from 10 Gbit/s to 1 Gbit/s and 100 Mbit/s, and back. Without a byte limit a packet of the priority \
             band waits behind a full ring; with one the NIC holds no more than the wire needs."
        }
        ("hol", _) => "The delay of the priority band while bulk traffic fills the wire, with and without bulk dequeue.",
        ("batching", _) => "The change of bandwidth by handing several packets to the driver at once, over the size of messages.",
        ("tx-napi", _) => {
            "Buffers are freed at the next transmit (upstream), by a timer, or when polled for (napi); dashed lines are the published figures."
        }
        _ => "The figures of the table below, as lines.",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::RowKind;

    #[test]
    fn many_rows_are_drawn_by_group() {
        let row = |at: usize| {
            Row::new(&format!("test{}/flows={at}", at % 3), ("rate", "Mbit/s"), 0, RowKind::Predicted)
        };
        let rows: Vec<Row> = (0..30).map(row).collect();
        let by_group = groups(rows.iter().collect());
        assert_eq!(
            by_group.iter().map(|group| group.0).collect::<Vec<_>>(),
            [Some("test0"), Some("test1"), Some("test2")]
        );
        assert!(by_group.iter().all(|group| group.1.len() == 10));
        let few = groups(rows[..12].iter().collect());
        assert_eq!((few.len(), few[0].0, few[0].1.len()), (1, None, 12));
    }

    #[test]
    fn axes_have_a_name_and_a_unit() {
        let named = |quantity, chart| axis(quantity, chart).name;
        assert_eq!(named("s", ""), "time, s");
        assert_eq!(named("ms", "10g: delay of the priority band"), "delay, ms");
        assert_eq!(named("kB", "byte limit over time"), "byte limit, kB");
        assert_eq!(named("us", "tcp_rr: p50 over flows"), "median latency, us");
        assert_eq!(axis("flows, power of ten", "").scale, Scale::PowersOf(10));
    }
}
