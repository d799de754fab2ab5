//! A plan as a picture.

use super::{Outcome, Part, Plan, Question, SweepRow};
use wharf_page::picture::{Axis, Chart, ChartError, Line};

/// The picture's top, as a multiple of the highest outcome: limits far above it are left out.
const TOP: f64 = 1.4;

/// Draws bits a second on the wire over sizes: the limit of each part, the outcome, and the outcome with all
/// features.
///
/// # Errors
/// [`ChartError`], with the drawing library's message; also for an empty sweep.
pub fn svg(plan: &Plan, question: &Question, rows: &[SweepRow]) -> Result<String, ChartError> {
    if rows.is_empty() {
        return Err(ChartError("there are no sizes to draw".into()));
    }
    let overhead = plan.nic.wire_overhead_bytes.value as f64;
    let gbps = move |size: u32, pps: u64| pps as f64 * (f64::from(size) + overhead) * 8.0 / 1e9;
    let way = question.direction.name();
    Chart {
        title: format!("{} on {}, {} cores, {way}", plan.nic.name, plan.link, question.cores),
        x: Axis::values("frame, bytes"),
        y: Axis::from_zero("rate on the wire, Gbit/s"),
        lines: lines(rows, &gbps),
    }
    .svg()
}

fn lines(rows: &[SweepRow], gbps: &dyn Fn(u32, u64) -> f64) -> Vec<Line> {
    let most =
        rows.iter().map(|row| gbps(row.size, row.outcome.pps.max(row.together_pps))).fold(0.1, f64::max);
    let points = |of: &dyn Fn(&SweepRow) -> Option<u64>| -> Vec<(f64, f64)> {
        let all = rows.iter().filter_map(|row| Some((f64::from(row.size), gbps(row.size, of(row)?))));
        // Points above the picture are left out, not drawn along its edge.
        let mut points: Vec<(f64, f64)> = all.filter(|point| point.1 <= most * TOP).collect();
        // One point is no line: it is drawn level.
        if let [(size, gbps)] = points[..] {
            points.push((size + 1.0, gbps));
        }
        points
    };
    let near = |outcome: &Outcome, part| outcome.limit(part).is_some_and(|pps| pps / 2 < outcome.pps);
    let parts = Part::ALL.into_iter().filter(|&part| rows.iter().any(|row| near(&row.outcome, part)));
    let line = |name: &str, dashed, points| Line { name: name.into(), points, dashed };
    let mut lines = vec![
        line("as it is", false, points(&|row| Some(row.outcome.pps))),
        line("with all features", false, points(&|row| Some(row.together_pps))),
    ];
    lines.extend(parts.map(|part| line(part.words(), true, points(&|row| row.outcome.limit(part)))));
    lines.retain(|line| !line.points.is_empty());
    lines
}
