//! Figures beside published ones, a dot for each: as multiples, or for differences both in percent.

use crate::experiment::{Row, RowKind};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use wharf_page::picture::{self, Area, COLOURS, ChartError, Drawn, GRID, TEXT, shortened, style};

/// Pixels. A row's label is above its dots, so that both fit a small screen.
const ACROSS: (i32, i32) = (24, 416);
const ROW_HEIGHT: i32 = 40;
const LABEL_Y: i32 = 11;
const DOTS_Y: i32 = 28;
/// Space above the rows, and above and below.
const TOP: i32 = 32;
const AROUND_HEIGHT: i32 = 90;
const RADIUS: i32 = 5;
/// Most letters of a label.
const LABEL_LETTERS: usize = 52;
/// The scale of multiples ends at a tenth and at ten times.
const DECADES: f64 = 1.0;

/// The kinds of rows, with their colours.
const KINDS: [(RowKind, &str, RGBColor); 3] = [
    (RowKind::Fitted, "fitted", COLOURS[4]),
    (RowKind::Predicted, "predicted", COLOURS[0]),
    (RowKind::Measured, "measured", COLOURS[1]),
];

/// Returns the picture of rows whose residuals are all in points, or all in percent. The beginning that all labels share
/// is in the title, `experiment, beginning: title`.
pub(super) fn svg(experiment: &str, title: &str, rows: &[&Row]) -> Result<String, ChartError> {
    let shared = shared_beginning(rows);
    let of = if shared.is_empty() { String::new() } else { format!(", {}", shared.trim_end_matches('/')) };
    let height = (rows.len() as i32 * ROW_HEIGHT + AROUND_HEIGHT) as u32;
    picture::svg(&format!("{experiment}{of}: {title}"), height, |area| draw(area, rows, shared))
}

/// Returns the parts that all labels begin with.
fn shared_beginning<'a>(rows: &[&'a Row]) -> &'a str {
    let Some(first) = rows.first().map(|row| row.label.as_str()) else { return "" };
    let ends = first.match_indices('/').map(|(at, _)| &first[..=at]);
    ends.take_while(|beginning| rows.iter().all(|row| row.label.starts_with(beginning))).last().unwrap_or("")
}

fn draw(area: &Area<'_>, rows: &[&Row], shared: &str) -> Drawn {
    let scale = Scale::of(rows);
    scale.draw(area, rows.len() as i32)?;
    for (at, row) in rows.iter().enumerate() {
        let top = TOP + at as i32 * ROW_HEIGHT;
        let of = row.of();
        let of = of.strip_prefix(shared).unwrap_or(&of);
        let label = shortened(&format!("{of} {}", row.metric), LABEL_LETTERS);
        area.draw(&Text::new(label, (ACROSS.0, top + LABEL_Y), style(TEXT, HPos::Left)))?;
        let y = top + DOTS_Y;
        let colour =
            KINDS.iter().find(|(kind, ..)| *kind == row.kind).map_or(BLACK, |&(_, _, colour)| colour);
        let (theirs, ours) = scale.of_row(row);
        let [theirs, ours] = [theirs, ours].map(|value| scale.x_of(value));
        area.draw(&PathElement::new([(theirs, y), (ours, y)], colour.stroke_width(2)))?;
        if row.in_points {
            area.draw(&Circle::new((theirs, y), RADIUS, WHITE.filled()))?;
            area.draw(&Circle::new((theirs, y), RADIUS, colour.stroke_width(2)))?;
        }
        area.draw(&Circle::new((ours, y), RADIUS, colour.filled()))?;
    }
    legend(area)
}

/// The scale across the picture.
enum Scale {
    /// Ours over theirs, logarithmic.
    Multiples,
    /// Both in percent, from the first to the second, with a line at every third.
    Points(f64, f64, f64),
}

impl Scale {
    fn of(rows: &[&Row]) -> Self {
        if !rows.iter().any(|row| row.in_points) {
            return Self::Multiples;
        }
        let values = rows.iter().flat_map(|row| [row.value, row.published.unwrap_or(row.value)]);
        let (least, most) =
            values.fold((0.0_f64, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let every = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
        let every = every.into_iter().find(|every| (most - least) / every <= 8.0).unwrap_or(1000.0);
        Self::Points((least / every).floor() * every, (most / every).ceil().max(1.0) * every, every)
    }

    /// Returns the places of the published figure and of ours.
    fn of_row(&self, row: &Row) -> (f64, f64) {
        match (self, row.published) {
            (Self::Points(..), published) => (published.unwrap_or(row.value), row.value),
            (Self::Multiples, Some(published)) if published != 0.0 => (1.0, row.value / published),
            // If 0 was published, an equal figure is 1 and any other is off the scale.
            (Self::Multiples, _) => (1.0, if row.value == 0.0 { 1.0 } else { f64::INFINITY }),
        }
    }

    fn x_of(&self, value: f64) -> i32 {
        let part = match self {
            Self::Multiples => (value.max(1e-9).log10().clamp(-DECADES, DECADES) + DECADES) / (2.0 * DECADES),
            Self::Points(least, most, _) => (value - least) / (most - least),
        };
        ACROSS.0 + (part * f64::from(ACROSS.1 - ACROSS.0)) as i32
    }

    /// Returns the places of vertical lines, and their labels.
    fn marks(&self) -> Vec<(f64, String)> {
        match *self {
            Self::Multiples => {
                let named = [
                    (0.1, "1/10"),
                    (0.2, "1/5"),
                    (0.5, "1/2"),
                    (1.0, "1"),
                    (2.0, "2"),
                    (5.0, "5"),
                    (10.0, "10"),
                ];
                named.map(|(ratio, name)| (ratio, name.to_string())).to_vec()
            }
            Self::Points(least, most, every) => {
                let count = ((most - least) / every).round() as u32;
                (0..=count)
                    .map(|n| least + f64::from(n) * every)
                    .map(|value| (value, format!("{value}")))
                    .collect()
            }
        }
    }

    /// Returns the line of agreement.
    fn origin(&self) -> f64 {
        if matches!(self, Self::Multiples) { 1.0 } else { 0.0 }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Multiples => "times what was published (at the ends: or beyond)",
            Self::Points(..) => "difference, %",
        }
    }

    /// Draws its marks below `rows` rows, and lines behind their dots.
    fn draw(&self, area: &Area<'_>, rows: i32) -> Drawn {
        let height = rows * ROW_HEIGHT;
        for (value, name) in self.marks() {
            let x = self.x_of(value);
            let width = if value == self.origin() { 2 } else { 1 };
            for y in (0..rows).map(|row| TOP + row * ROW_HEIGHT + DOTS_Y) {
                let line = [(x, y - RADIUS - 3), (x, y + RADIUS + 3)];
                area.draw(&PathElement::new(line, GRID.stroke_width(width)))?;
            }
            area.draw(&Text::new(name, (x, TOP + height + 14), style(TEXT, HPos::Center)))?;
        }
        let middle = (ACROSS.0 + ACROSS.1) / 2;
        area.draw(&Text::new(self.name(), (middle, TOP + height + 38), style(TEXT, HPos::Center)))?;
        Ok(())
    }
}

/// Draws the legend of colours at the top.
fn legend(area: &Area<'_>) -> Drawn {
    for (at, (_, name, colour)) in KINDS.iter().enumerate() {
        let x = ACROSS.0 + at as i32 * 120;
        area.draw(&Circle::new((x + 6, 16), RADIUS, colour.filled()))?;
        area.draw(&Text::new(*name, (x + 18, 16), style(TEXT, HPos::Left)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_leave_out_what_all_begin_with() {
        let row =
            |label: &str| Row::new(label, ("rate", "Mbit/s"), 1_000_000, RowKind::Predicted).beside(2.0);
        let rows = ["tcp/flows=1/on", "tcp/flows=1/off", "tcp/flows=10/on"].map(row);
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(shared_beginning(&rows), "tcp/");
        assert_eq!(shared_beginning(&rows[..2]), "tcp/flows=1/");
        assert_eq!(shared_beginning(&[rows[0], &row("udp/flows=1")]), "");
        let svg = svg("tx-napi", "ours", &rows).unwrap();
        assert!(
            svg.contains("<title>tx-napi, tcp: ours</title>") && svg.contains("\nflows=10/on rate\n"),
            "{svg}"
        );
    }
}
