//! Pictures: what came out over what was published, and lines over time.

use crate::experiment::{Report, Row, RowKind, Series};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Pixels.
const WIDTH: u32 = 760;
const LINES_HEIGHT: u32 = 380;
/// Of the picture of ratios: a row, what is around them, the labels' part of the width at most, and that of a letter.
const ROW_HEIGHT: u32 = 20;
const AROUND_HEIGHT: u32 = 84;
const LABELS_WIDTH: i32 = 450;
const LETTER_WIDTH: i32 = 7;
/// Letters of a label at most.
const LABEL_LETTERS: usize = 64;
/// A tenth and ten times are the ends of the scale.
const DECADES: f64 = 1.0;
/// Colours of lines, which can be told apart on white and on dark, and without red and green.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(130, 130, 130),
    RGBColor(178, 143, 0),
];

/// What goes wrong with a picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct ChartError(String);

/// One picture.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) svg: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// All pictures of a report.
pub(super) fn pictures(report: &Report) -> Result<Vec<Picture>, ChartError> {
    let name = format!("{}-{}", report.experiment, report.world);
    let mut all = Vec::new();
    let beside: Vec<&Row> = report.rows.iter().filter(|row| row.published.is_some()).collect();
    if !beside.is_empty() {
        let height = beside.len() as u32 * ROW_HEIGHT + AROUND_HEIGHT;
        let svg = drawn(height, |area| ratios(area, &beside))?;
        let title = format!("{}: ours, as a multiple of what was published", report.experiment);
        all.push(Picture { file: format!("{name}-published.svg"), title, svg });
    }
    let mut charts: Vec<&str> = Vec::new();
    for series in &report.series {
        if !charts.contains(&series.chart.as_str()) {
            charts.push(&series.chart);
        }
    }
    for (number, chart) in charts.iter().enumerate() {
        let lines: Vec<&Series> = report.series.iter().filter(|series| series.chart == **chart).collect();
        let svg = drawn(LINES_HEIGHT, |area| plot(area, &lines))?;
        let title = format!("{}: {chart}", report.experiment);
        all.push(Picture { file: format!("{name}-{}.svg", number + 1), title, svg });
    }
    Ok(all)
}

fn drawn(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ChartError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    let done = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area));
    done.and_then(|()| area.present().map_err(Into::into)).map_err(|error| ChartError(error.to_string()))?;
    drop(area);
    Ok(text)
}

/// The kinds of rows, with their colours.
const KINDS: [(RowKind, &str, RGBColor); 3] = [
    (RowKind::Fitted, "fitted", COLOURS[4]),
    (RowKind::Predicted, "predicted", COLOURS[0]),
    (RowKind::Measured, "measured", COLOURS[1]),
];

fn style(size: i32, to: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(to, VPos::Center))
}

/// Lines down the picture of ratios, with what they stand for below them.
fn scale(area: &Area<'_>, x_of: &dyn Fn(f64) -> i32, top: i32, height: i32) -> Drawn {
    for (ratio, label) in
        [(0.1, "1/10"), (0.2, "1/5"), (0.5, "1/2"), (1.0, "1"), (2.0, "2"), (5.0, "5"), (10.0, "10")]
    {
        let (x, grey) = (x_of(ratio), RGBColor(190, 190, 190));
        let strong = if ratio == 1.0 { 2 } else { 1 };
        area.draw(&PathElement::new([(x, top), (x, top + height)], grey.stroke_width(strong)))?;
        area.draw(&Text::new(label, (x, top + height + 12), style(12, HPos::Center)))?;
    }
    Ok(())
}

/// What the colours stand for, above them.
fn legend(area: &Area<'_>, left: i32) -> Drawn {
    for (at, (_, name, colour)) in KINDS.iter().enumerate() {
        let x = left + at as i32 * 110;
        area.draw(&Circle::new((x + 6, 16), 5, colour.filled()))?;
        area.draw(&Text::new(*name, (x + 16, 16), style(13, HPos::Left)))?;
    }
    Ok(())
}

/// A dot for each row, on a scale of a tenth to ten times.
fn ratios(area: &Area<'_>, rows: &[&Row]) -> Drawn {
    let (width, height) = (WIDTH as i32 - 24, rows.len() as i32 * ROW_HEIGHT as i32);
    let labels: Vec<String> =
        rows.iter().map(|row| shortened(&format!("{} {}", row.of(), row.metric))).collect();
    let letters = labels.iter().map(|label| label.chars().count() as i32).max().unwrap_or(0);
    let (left, top) = ((letters * LETTER_WIDTH + 16).min(LABELS_WIDTH), 34);
    let x_of = |ratio: f64| {
        let part = (ratio.max(1e-9).log10().clamp(-DECADES, DECADES) + DECADES) / (2.0 * DECADES);
        left + (part * f64::from(width - left)) as i32
    };
    scale(area, &x_of, top, height)?;
    for (at, (row, label)) in rows.iter().zip(labels).enumerate() {
        let y = top + at as i32 * ROW_HEIGHT as i32 + ROW_HEIGHT as i32 / 2;
        area.draw(&Text::new(label, (left - 12, y), style(12, HPos::Right)))?;
        // Where nothing was published to divide by, equal is 1 and all else is off the scale.
        let ratio = match row.published {
            Some(published) if published != 0.0 => row.value / published,
            Some(_) if row.value == 0.0 => 1.0,
            _ => f64::INFINITY,
        };
        let colour =
            KINDS.iter().find(|(kind, ..)| *kind == row.kind).map_or(BLACK, |&(_, _, colour)| colour);
        let x = x_of(ratio);
        area.draw(&PathElement::new([(x_of(1.0), y), (x, y)], colour.stroke_width(2)))?;
        area.draw(&Circle::new((x, y), 5, colour.filled()))?;
    }
    legend(area, left)?;
    let axis = "times what was published (a tenth, ten times: or beyond)";
    area.draw(&Text::new(axis, ((left + width) / 2, top + height + 34), style(13, HPos::Center)))?;
    Ok(())
}

fn shortened(label: &str) -> String {
    let letters = label.chars().count();
    if letters <= LABEL_LETTERS {
        return label.into();
    }
    let head: String = label.chars().take(LABEL_LETTERS / 2 - 1).collect();
    let tail: String = label.chars().skip(letters - LABEL_LETTERS / 2).collect();
    format!("{head}\u{2026}{tail}")
}

/// Mesh, lines and legend of a chart, whatever its scales.
macro_rules! finish {
    ($chart:ident, $lines:ident) => {
        let (x, y) = $lines.first().map_or(("", ""), |line| (line.x, line.y));
        $chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .x_labels(9)
            .y_labels(7)
            .axis_desc_style(("sans-serif", 14))
            .label_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(190, 190, 190))
            .y_label_formatter(&|value| short(*value))
            .x_label_formatter(&|value| short(*value))
            .draw()?;
        for (line, colour) in $lines.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            let drawn = $chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let drawn = drawn.label(line.line.as_str());
            drawn.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        $chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(("sans-serif", 13))
            .background_style(WHITE)
            .border_style(RGBColor(190, 190, 190))
            .draw()?;
    };
}

/// A number on an axis.
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

/// Lines over the same scale.
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
    // Figures that differ a thousandfold want a scale by powers.
    let powers = y_least > 0.0 && y_most / y_least > 50.0;
    let (x_least, x_most) = if x_least < x_most { (x_least, x_most) } else { (x_least - 0.5, x_most + 0.5) };
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).margin_right(20).x_label_area_size(40).y_label_area_size(70);
    if powers {
        let range = (y_least * 0.8..y_most * 4.0).log_scale();
        let mut chart = builder.build_cartesian_2d(x_least..x_most, range)?;
        finish!(chart, lines);
    } else {
        let bottom = if y_least < y_most * 0.6 { y_least.min(0.0) } else { y_least * 0.96 };
        let most = if y_most > bottom { y_most + (y_most - bottom) * 0.3 } else { bottom + 1.0 };
        let mut chart = builder.build_cartesian_2d(x_least..x_most, bottom..most)?;
        finish!(chart, lines);
    }
    Ok(())
}
