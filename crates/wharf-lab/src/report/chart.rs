//! Pictures: figures beside published ones, and lines over time.

use super::dots;
use crate::experiment::{Report, Row, Series};
use plotters::prelude::*;
use wharf_plan::escaped;
use wharf_plan::picture::{self, Area, ChartError, Drawn};

/// Pixels: narrow enough for a small screen.
pub(super) const WIDTH: u32 = 480;
const LINES_HEIGHT: u32 = 380;
/// The width of the lines, and the part of it that a legend takes per letter, and for the rest.
const LINES_ACROSS: f64 = 386.0;
const LEGEND_LETTER: f64 = 7.5;
const LEGEND_SIDES: f64 = 56.0;
/// The height of the lines, and the part of it that a line of the legend takes, and its frame.
const LINES_ROOM: f64 = 320.0;
const LEGEND_LINE: f64 = 21.0;
const LEGEND_FRAME: f64 = 22.0;
/// The width of a line, and the extra width for each line that lies on it: three quarters of this many points
/// are within a hundredth of the picture.
const LINE_WIDTH: u32 = 2;
const LINE_BELOW: u32 = 3;
const LINES_BELOW: usize = 2;
const LOOKED_AT: usize = 200;
/// A change in percent is shown on a scale at least up to this.
const CHANGE_PERCENT: f64 = 5.0;
/// Colours of lines that differ on white and on dark, and without red and green.
pub(super) const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(130, 130, 130),
    RGBColor(178, 143, 0),
];

/// One picture.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// Returns all pictures of a report.
pub(super) fn pictures(report: &Report) -> Result<Vec<Picture>, ChartError> {
    let name = format!("{}-{}", report.experiment, report.world);
    let mut all = Vec::new();
    let (points, ratios): (Vec<&Row>, Vec<&Row>) =
        report.rows.iter().filter(|row| row.published.is_some()).partition(|row| row.in_points);
    for (rows, file, what) in [
        (ratios, "published", "ours, as a multiple of what was published"),
        (points, "differences", "differences, ours (filled) and published (hollow)"),
    ] {
        if !rows.is_empty() {
            let title = format!("{}: {what}", report.experiment);
            let svg = drawn(&title, (WIDTH, dots::height(&rows)), |area| dots::draw(area, &rows))?;
            all.push(Picture { file: format!("{name}-{file}.svg"), title, svg });
        }
    }
    let mut charts: Vec<&str> = Vec::new();
    for series in &report.series {
        if !charts.contains(&series.chart.as_str()) {
            charts.push(&series.chart);
        }
    }
    for (number, chart) in charts.iter().enumerate() {
        let lines: Vec<&Series> = report.series.iter().filter(|series| series.chart == **chart).collect();
        let title = format!("{}: {chart}", report.experiment);
        let svg = drawn(&title, (WIDTH, LINES_HEIGHT), |area| plot(area, &lines))?;
        all.push(Picture { file: format!("{name}-{}.svg", number + 1), title, svg });
    }
    Ok(all)
}

/// Returns a picture with a title, for readers who do not see it.
fn drawn(title: &str, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ChartError> {
    let text = picture::svg(size, draw)?;
    let titled = format!("\n<title>{}</title>\n", escaped(title));
    Ok(text.replacen("<svg ", "<svg role=\"img\" ", 1).replacen('\n', &titled, 1))
}

/// Draws mesh, lines and legend of a chart with any scales.
macro_rules! finish {
    ($chart:ident, $lines:ident, $widths:ident, $corner:ident) => {
        let (x, y) = $lines.first().map_or(("", ""), |line| (line.x, line.y));
        $chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .x_labels(8)
            .y_labels(7)
            .axis_desc_style(("sans-serif", 14))
            .label_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(190, 190, 190))
            .y_label_formatter(&|value| short(*value))
            .x_label_formatter(&|value| short(*value))
            .draw()?;
        for ((line, width), colour) in $lines.iter().zip($widths).zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(width);
            let drawn = $chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let drawn = drawn.label(line.line.as_str());
            drawn.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        $chart
            .configure_series_labels()
            .position($corner)
            .label_font(("sans-serif", 13))
            .background_style(WHITE)
            .border_style(RGBColor(190, 190, 190))
            .draw()?;
    };
}

/// Returns a number for an axis.
fn short(value: f64) -> String {
    let text = match value.abs() {
        1000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let cut = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    cut.into()
}

/// Draws lines over the same scale.
fn plot(area: &Area<'_>, lines: &[&Series]) -> Drawn {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let ends = |of: fn((f64, f64)) -> f64| {
        points().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    };
    let ((x_least, x_most), (y_least, y_most)) = (ends(|point| point.0), ends(|point| point.1));
    if !(x_least.is_finite() && y_most.is_finite()) {
        return Ok(());
    }
    // Figures that differ a thousandfold need a logarithmic scale; changes in percent are around 0.
    let is_change = lines.first().is_some_and(|line| line.y == "percent");
    let y_most = if is_change { y_most.max(CHANGE_PERCENT) } else { y_most };
    let powers = !is_change && y_least > 0.0 && y_most / y_least > 50.0;
    let (x_least, x_most) = if x_least < x_most { (x_least, x_most) } else { (x_least - 0.5, x_most + 0.5) };
    let (corner, below) = legend_corner(lines, x_least, x_most);
    let bottom = match y_least < y_most * 0.6 {
        _ if powers => y_least * 0.8,
        true => y_least.min(0.0),
        false => y_least * 0.96,
    };
    let widths = widths(lines, (bottom, y_most), powers);
    let mut builder = ChartBuilder::on(area);
    builder.margin(8).margin_right(16).x_label_area_size(40).y_label_area_size(64);
    if powers {
        let top = top_of(bottom.ln(), y_most.ln(), below.ln(), lines.len()).exp();
        let mut chart = builder.build_cartesian_2d(x_least..x_most, (bottom..top).log_scale())?;
        finish!(chart, lines, widths, corner);
    } else {
        let top = if y_most > bottom { top_of(bottom, y_most, below, lines.len()) } else { bottom + 1.0 };
        let mut chart = builder.build_cartesian_2d(x_least..x_most, bottom..top)?;
        finish!(chart, lines, widths, corner);
    }
    Ok(())
}

/// Returns the width of each line: the more of the later lines lie on it, the wider it is, so that all can be
/// seen.
fn widths(lines: &[&Series], (least, most): (f64, f64), powers: bool) -> Vec<u32> {
    let height = |y: f64| if powers { y.ln() } else { y };
    let near = (height(most) - height(least)) / 100.0;
    let lies_on = |line: &Series, later: &Series| {
        let points: Vec<_> = line.points.iter().step_by(line.points.len() / LOOKED_AT + 1).collect();
        let is_near = |&&&(x, y): &&&(f64, f64)| {
            at(&later.points, x).is_some_and(|there| (height(there) - height(y)).abs() <= near)
        };
        points.iter().filter(is_near).count() * 4 >= points.len() * 3
    };
    let later = |(number, line): (usize, &&Series)| {
        let on = lines[number + 1..].iter().filter(|later| lies_on(line, later)).count();
        LINE_WIDTH + LINE_BELOW * on.min(LINES_BELOW) as u32
    };
    lines.iter().enumerate().map(later).collect()
}

/// Returns the upper corner in which lines are lower, and their highest point below it.
fn legend_corner(lines: &[&Series], x_least: f64, x_most: f64) -> (SeriesLabelPosition, f64) {
    let letters = lines.iter().map(|line| line.line.chars().count()).max().unwrap_or(0) as f64;
    let part = (letters * LEGEND_LETTER + LEGEND_SIDES) / LINES_ACROSS;
    let width = (x_most - x_least) * part.min(1.0);
    // A line has a point at each end of the part, which it may only cross.
    let highest = |from: f64, to: f64| {
        let reached = lines.iter().flat_map(|line| {
            let ends = [from, to].map(|x| at(&line.points, x));
            let inside = line.points.iter().filter(|point| (from..=to).contains(&point.0));
            inside.map(|point| point.1).chain(ends.into_iter().flatten()).collect::<Vec<_>>()
        });
        reached.fold(f64::NEG_INFINITY, f64::max)
    };
    let (left, right) = (highest(x_least, x_least + width), highest(x_most - width, x_most));
    if left < right {
        (SeriesLabelPosition::UpperLeft, left)
    } else {
        (SeriesLabelPosition::UpperRight, right)
    }
}

/// Returns the value at `x` of a line through `points`, in order.
fn at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let pair = points.windows(2).find(|pair| pair[0].0 <= x && x <= pair[1].0)?;
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    Some(if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y0.max(y1) })
}

/// Returns the top of a scale that begins at `bottom`. The legend of `lines` lines lies above `below`, and
/// `most` is within.
fn top_of(bottom: f64, most: f64, below: f64, lines: usize) -> f64 {
    let legend = (lines as f64 * LEGEND_LINE + LEGEND_FRAME) / LINES_ROOM;
    let above_legend = bottom + (below - bottom) / (1.0 - legend.min(0.7));
    above_legend.max(most + (most - bottom) * 0.08)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Series {
        Series { chart: "c".into(), line: "l".into(), x: "s", y: "ms", points: points.to_vec() }
    }

    #[test]
    fn a_line_below_others_is_wider_so_that_both_are_seen() {
        let flat = line(&[(0.0, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]);
        let almost = line(&[(0.0, 2.0), (1.0, 2.001), (2.0, 2.0), (3.0, 3.0)]);
        let apart = line(&[(0.0, 1.0), (3.0, 1.5)]);
        let one_on_two = LINE_WIDTH + LINE_BELOW;
        let ends = (1.0, 3.0);
        for powers in [false, true] {
            assert_eq!(widths(&[&flat, &almost, &apart], ends, powers), [one_on_two, LINE_WIDTH, LINE_WIDTH]);
            assert_eq!(widths(&[&apart, &almost, &flat], ends, powers)[1], one_on_two);
            assert_eq!(widths(&[&flat; 6], ends, powers)[0], LINE_WIDTH + 2 * LINE_BELOW, "and no wider");
            assert_eq!(widths(&[&flat, &apart], ends, powers), [LINE_WIDTH; 2]);
        }
    }
}
