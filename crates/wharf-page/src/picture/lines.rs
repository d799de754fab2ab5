//! Lines over a scale, with the legend above them.

use super::{Area, COLOURS, ChartError, Drawn, GRID, TEXT, WIDTH, style, svg};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// The height of the lines with their axes.
const PLOT_HEIGHT: u32 = 290;
/// The legend: the height of a row, the width of a letter, and that of the line before a name with its spaces.
const LEGEND_ROW: i32 = 22;
const LEGEND_LETTER: i32 = 8;
const LEGEND_LINE: i32 = 40;
const LEGEND_LEFT: i32 = 14;
/// Most letters of a name in the legend.
const LEGEND_LETTERS: usize = 44;
/// The width of a line, and the extra width for each line that lies on it: three quarters of this many points
/// are within a hundredth of the picture.
const LINE_WIDTH: u32 = 2;
const LINE_BELOW: u32 = 3;
const LINES_BELOW: usize = 2;
const LOOKED_AT: usize = 200;
/// A change in percent is shown on a scale at least up to this.
const CHANGE_PERCENT: f64 = 5.0;
/// Figures that differ by more than this factor get a logarithmic scale.
const LOG_FACTOR: f64 = 50.0;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Values as they are; the vertical axis becomes logarithmic if they differ much.
    Values,
    /// Values as they are, from 0 to this one, or to the highest.
    FromZero(f64),
    /// Values are powers of this number, which the labels show.
    PowersOf(u32),
    /// Values are changes around 0.
    Changes,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its quantity, with its unit.
    pub name: String,
    /// Its scale.
    pub scale: Scale,
}

/// A line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
    /// True for figures of others, or for limits.
    pub dashed: bool,
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The title above it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, those below others first.
    pub lines: Vec<Line>,
}

impl Chart {
    /// Draws the lines over the same scale, beneath a legend of their names.
    ///
    /// # Errors
    /// [`ChartError`], with the drawing library's message.
    pub fn svg(&self) -> Result<String, ChartError> {
        let places = legend_places(&self.lines);
        let rows = places.iter().map(|place| place.1 + 1).max().unwrap_or(0);
        let legend_height = (rows * LEGEND_ROW) as u32;
        svg(&self.title, legend_height + PLOT_HEIGHT, |area| {
            let (above, below) = area.split_vertically(legend_height);
            self.legend(&above, &places)?;
            self.plot(&below)
        })
    }

    fn legend(&self, area: &Area<'_>, places: &[(i32, i32)]) -> Drawn {
        for ((line, &(x, row)), at) in self.lines.iter().zip(places).zip(0..) {
            let y = row * LEGEND_ROW + LEGEND_ROW / 2;
            let colour = COLOURS[at % COLOURS.len()];
            // A dash is half a line.
            for from in if line.dashed { vec![x, x + 14] } else { vec![x] } {
                let to = if line.dashed { from + 9 } else { x + 23 };
                area.draw(&PathElement::new([(from, y), (to, y)], colour.stroke_width(3)))?;
            }
            let name = shortened(&line.name, LEGEND_LETTERS);
            area.draw(&Text::new(name, (x + 29, y), style(TEXT, HPos::Left)))?;
        }
        Ok(())
    }

    fn plot(&self, area: &Area<'_>) -> Drawn {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let ends = |of: fn((f64, f64)) -> f64| {
            points().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            })
        };
        let ((x_least, x_most), (y_least, y_most)) = (ends(|point| point.0), ends(|point| point.1));
        if !(x_least.is_finite() && y_most.is_finite()) {
            return Ok(());
        }
        let (x_least, x_most) = match self.x.scale {
            Scale::FromZero(end) => (0.0, x_most.max(end)),
            _ => (x_least, x_most),
        };
        let is_change = self.y.scale == Scale::Changes;
        let is_from_zero = matches!(self.y.scale, Scale::FromZero(_));
        let y_most = if is_change { y_most.max(CHANGE_PERCENT) } else { y_most };
        let log = !is_change && !is_from_zero && y_least > 0.0 && y_most / y_least > LOG_FACTOR;
        let x = if x_least < x_most { x_least..x_most } else { x_least - 0.5..x_most + 0.5 };
        let bottom = match is_from_zero || y_least < y_most * 0.6 {
            _ if log => y_least * 0.8,
            true => y_least.min(0.0),
            false => y_least * 0.96,
        };
        let widths = widths(&self.lines, (bottom, y_most), log);
        let mut builder = ChartBuilder::on(area);
        builder.margin(6).margin_right(34).x_label_area_size(48).y_label_area_size(72);
        if log {
            let chart = builder.build_cartesian_2d(x, (bottom..y_most * 1.25).log_scale())?;
            self.draw(chart, &widths)
        } else {
            let top = if y_most > bottom { y_most + (y_most - bottom) * 0.06 } else { bottom + 1.0 };
            let chart = builder.build_cartesian_2d(x, bottom..top)?;
            self.draw(chart, &widths)
        }
    }

    /// Draws mesh and lines of a chart with any scales.
    fn draw<'a, Y>(
        &self, mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Y>>, widths: &[u32],
    ) -> Drawn
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(self.x.name.as_str())
            .y_desc(self.y.name.as_str())
            .x_labels(6)
            .y_labels(6)
            .axis_desc_style(("sans-serif", TEXT))
            .label_style(("sans-serif", TEXT))
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .x_label_formatter(&|value| self.x.label(*value))
            .y_label_formatter(&|value| self.y.label(*value))
            .draw()?;
        for ((line, &width), colour) in self.lines.iter().zip(widths).zip(COLOURS.iter().cycle()) {
            let (points, style) = (line.points.iter().copied(), colour.stroke_width(width));
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
        Ok(())
    }
}

impl Axis {
    /// Creates an axis of values as they are.
    pub fn values(name: &str) -> Self {
        Self { name: name.into(), scale: Scale::Values }
    }

    /// Creates an axis of values from 0 on.
    pub fn from_zero(name: &str) -> Self {
        Self { name: name.into(), scale: Scale::FromZero(0.0) }
    }

    fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Values | Scale::FromZero(_) | Scale::Changes => short(value),
            // Between two powers there is no mark.
            Scale::PowersOf(_) if value.fract() != 0.0 => String::new(),
            Scale::PowersOf(base) => short(f64::from(base).powf(value)),
        }
    }
}

/// Returns the place of each line's name: pixels from the left, and the row.
fn legend_places(lines: &[Line]) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (LEGEND_LEFT, 0);
    let place = |line: &Line| {
        let letters = line.name.chars().count().min(LEGEND_LETTERS) as i32;
        let width = letters * LEGEND_LETTER + LEGEND_LINE;
        if x > LEGEND_LEFT && x + width > WIDTH as i32 {
            (x, row) = (LEGEND_LEFT, row + 1);
        }
        let here = (x, row);
        x += width;
        here
    };
    lines.iter().map(place).collect()
}

/// Returns `text`, or its head and tail if it has more than `letters`.
pub fn shortened(text: &str, letters: usize) -> String {
    let all = text.chars().count();
    if all <= letters {
        return text.into();
    }
    let head: String = text.chars().take(letters / 2 - 1).collect();
    let tail: String = text.chars().skip(all - letters / 2).collect();
    format!("{head}\u{2026}{tail}")
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
    let cut = if cut == "-0" { "0" } else { cut };
    // Thousands are set apart where there are more than four digits.
    let digits = cut.trim_start_matches('-').len();
    match value.abs() {
        10_000.0.. if !cut.contains('.') => {
            let (sign, cut) = cut.split_at(cut.len() - digits);
            let groups: Vec<&str> =
                cut.as_bytes().rchunks(3).filter_map(|part| std::str::from_utf8(part).ok()).collect();
            format!("{sign}{}", groups.into_iter().rev().collect::<Vec<_>>().join(" "))
        }
        _ => cut.into(),
    }
}

/// Returns the width of each line: the more of the later lines lie on it, the wider it is, so that all can be
/// seen.
fn widths(lines: &[Line], (least, most): (f64, f64), log: bool) -> Vec<u32> {
    let height = |y: f64| if log { y.ln() } else { y };
    let near = (height(most) - height(least)) / 100.0;
    let lies_on = |line: &Line, later: &Line| {
        let points: Vec<_> = line.points.iter().step_by(line.points.len() / LOOKED_AT + 1).collect();
        let is_near = |&&&(x, y): &&&(f64, f64)| {
            at(&later.points, x).is_some_and(|there| (height(there) - height(y)).abs() <= near)
        };
        points.iter().filter(is_near).count() * 4 >= points.len() * 3
    };
    let later = |(number, line): (usize, &Line)| {
        let on = lines[number + 1..].iter().filter(|later| lies_on(line, later)).count();
        LINE_WIDTH + LINE_BELOW * on.min(LINES_BELOW) as u32
    };
    lines.iter().enumerate().map(later).collect()
}

/// Returns the value at `x` of a line through `points`, in order.
fn at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.partition_point(|point| point.0 < x);
    let (&(x0, y0), &(x1, y1)) = (points.get(after.saturating_sub(1))?, points.get(after)?);
    match x1 > x0 {
        true => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        false => (x == x1).then_some(y1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        Line { name: "l".into(), points: points.to_vec(), dashed: false }
    }

    #[test]
    fn a_line_below_others_is_wider_so_that_both_are_seen() {
        let flat = line(&[(0.0, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]);
        let almost = line(&[(0.0, 2.0), (1.0, 2.001), (2.0, 2.0), (3.0, 3.0)]);
        let apart = line(&[(0.0, 1.0), (3.0, 1.5)]);
        let one_on_two = LINE_WIDTH + LINE_BELOW;
        let ends = (1.0, 3.0);
        let of =
            |lines: &[&Line], log| widths(&lines.iter().copied().cloned().collect::<Vec<_>>(), ends, log);
        for log in [false, true] {
            assert_eq!(of(&[&flat, &almost, &apart], log), [one_on_two, LINE_WIDTH, LINE_WIDTH]);
            assert_eq!(of(&[&apart, &almost, &flat], log)[1], one_on_two);
            assert_eq!(of(&[&flat; 6], log)[0], LINE_WIDTH + 2 * LINE_BELOW, "and no wider");
            assert_eq!(of(&[&flat, &apart], log), [LINE_WIDTH; 2]);
        }
    }

    #[test]
    fn labels_are_short_and_powers_are_shown_as_values() {
        assert_eq!(
            [0.0, 0.25, 12.5, 1500.0, 42_000.0, -1e6].map(short),
            ["0", "0.25", "12.5", "1500", "42 000", "-1 000 000"]
        );
        let bytes = Axis { name: "message, bytes".into(), scale: Scale::PowersOf(2) };
        assert_eq!([5.0, 14.0, 7.5].map(|value| bytes.label(value)), ["32", "16 384", ""]);
    }

    #[test]
    fn names_of_the_legend_stay_inside_the_picture() {
        let lines: Vec<Line> =
            ["upstream, published", "upstream", "napi, published", "napi", "a timer of 100 us"]
                .map(|name| Line { name: name.into(), points: vec![(0.0, 1.0), (1.0, 2.0)], dashed: false })
                .to_vec();
        let places = legend_places(&lines);
        assert!(places.last().unwrap().1 >= 1, "several rows: {places:?}");
        for (&(x, _), line) in places.iter().zip(&lines) {
            assert!(x + line.name.len() as i32 * LEGEND_LETTER + LEGEND_LINE <= WIDTH as i32, "{places:?}");
        }
    }
}
