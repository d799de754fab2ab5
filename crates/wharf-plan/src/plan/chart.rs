//! A plan as a picture: SVG, and a page around it that opens without a network.

use super::{Outcome, Part, Plan, Question, SweepRow};
use crate::escaped;
use crate::picture::{self, Area, ChartError, Drawn};
use plotters::prelude::*;
use std::fmt::Write as _;

/// Pixels.
const SIZE: (u32, u32) = (900, 520);

/// Most labels along the sizes.
const X_LABELS: usize = 11;

/// Returns the colour of a part.
const fn colour(part: Part) -> RGBColor {
    match part {
        Part::Wire => RGBColor(90, 90, 90),
        Part::BusToNic => RGBColor(31, 119, 180),
        Part::BusToHost => RGBColor(214, 39, 40),
        Part::Tags => RGBColor(148, 103, 189),
        Part::DescriptorFetch => RGBColor(140, 86, 75),
        Part::Doorbells => RGBColor(227, 119, 194),
        Part::Cpu => RGBColor(44, 160, 44),
        Part::Memory => RGBColor(188, 189, 34),
    }
}

/// A line of a chart.
struct Line {
    name: &'static str,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// Draws bits a second on the wire over sizes: the limit of each part, the outcome, and the outcome with all
/// features. Parts far above the outcome are left out.
///
/// # Errors
/// [`ChartError`], with the drawing library's message; also for an empty sweep.
pub fn svg(plan: &Plan, question: &Question, rows: &[SweepRow]) -> Result<String, ChartError> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Err(ChartError("there are no sizes to draw".into()));
    };
    let overhead = plan.nic.wire_overhead_bytes.value as f64;
    let gbps = move |size: u32, pps: u64| pps as f64 * (f64::from(size) + overhead) * 8.0 / 1e9;
    let most =
        rows.iter().map(|row| gbps(row.size, row.outcome.pps.max(row.together_pps))).fold(0.1, f64::max);
    let lines = lines(rows, &gbps);
    let way = question.direction.name();
    let title = format!("{} on {}, {} cores, {way}", plan.nic.name, plan.link, question.cores);
    let sizes = f64::from(first.size)..f64::from(last.size.max(first.size + 1));
    picture::svg(SIZE, |area| draw(area, &title, sizes, most * 1.4, &lines))
}

fn lines(rows: &[SweepRow], gbps: &dyn Fn(u32, u64) -> f64) -> Vec<Line> {
    let points = |of: &dyn Fn(&SweepRow) -> Option<u64>| -> Vec<(f64, f64)> {
        let all = rows.iter().filter_map(|row| Some((f64::from(row.size), gbps(row.size, of(row)?))));
        let mut points: Vec<(f64, f64)> = all.collect();
        // One point is no line: it is drawn level.
        if let [(size, gbps)] = points[..] {
            points.push((size + 1.0, gbps));
        }
        points
    };
    let near = |outcome: &Outcome, part| outcome.limit(part).is_some_and(|pps| pps / 2 < outcome.pps);
    let parts = Part::ALL.into_iter().filter(|&part| rows.iter().any(|row| near(&row.outcome, part)));
    let together = points(&|row| Some(row.together_pps));
    let come_out = points(&|row| Some(row.outcome.pps));
    // Wide lines first: the binding limit lies on them.
    let mut lines = vec![
        Line { name: "with all features", colour: RGBColor(255, 200, 120), width: 9, points: together },
        Line { name: "comes out", colour: RGBColor(200, 200, 200), width: 9, points: come_out },
    ];
    lines.extend(parts.map(|part| {
        let points = points(&|row| row.outcome.limit(part));
        Line { name: part.words(), colour: colour(part), width: 2, points }
    }));
    lines
}

fn draw(area: &Area<'_>, title: &str, sizes: std::ops::Range<f64>, top: f64, lines: &[Line]) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(sizes, 0.0..top)?;
    // Sizes are whole: a narrow picture has a label for each.
    let labels = chart.plotting_area().get_x_range();
    let labels = ((labels.end - labels.start) as usize + 1).min(X_LABELS);
    let mut mesh = chart.configure_mesh();
    let whole = |value: &f64| format!("{value:.0}");
    mesh.x_desc("bytes of a frame")
        .y_desc("Gbit/s on the wire")
        .x_labels(labels)
        .x_label_formatter(&whole)
        .light_line_style(WHITE)
        .draw()?;
    for line in lines {
        let style = line.colour.stroke_width(line.width);
        // Points above the picture are left out, not drawn along its edge.
        let inside: Vec<(f64, f64)> = line.points.iter().filter(|point| point.1 <= top).copied().collect();
        let drawn = chart.draw_series(LineSeries::new(inside, style))?.label(line.name);
        drawn.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    Ok(())
}

/// Returns a page with the picture inside, the answer in words, and `table` as it was printed.
pub fn page(plan: &Plan, svg: &str, table: &str) -> String {
    let mut page = String::new();
    let title = escaped(&format!("{} on {}", plan.nic.name, plan.link));
    let style =
        "body{font-family:sans-serif;max-width:960px;margin:2em auto;padding:0 1em}pre{overflow-x:auto}";
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{style}</style></head>\n<body><h1>{title}</h1>\n<p>{}</p>\n{svg}\n<pre>{}</pre>\n</body></html>\n",
        escaped(&plan.answer.words),
        escaped(table),
    );
    page
}
