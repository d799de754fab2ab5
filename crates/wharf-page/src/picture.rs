//! Pictures: SVG that the drawing library writes into a text. Each has a title, follows the reader's light or
//! dark theme, and is drawn for a column of a page: its text stays legible on a telephone.

mod lines;

pub use lines::{Axis, Chart, Line, Scale, shortened};

use crate::escaped;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The width of every picture, in pixels of its own.
pub const WIDTH: u32 = 440;

/// The size of all text but titles: at least 10 pixels where the picture is 360 pixels wide.
pub const TEXT: u32 = 16;

/// The size of a title, and the height of its line.
const TITLE: u32 = 18;
const TITLE_LINE: u32 = 21;
/// Most letters of a title's line.
const TITLE_LETTERS: usize = 50;
/// Space above the title.
const TITLE_TOP: u32 = 8;

/// Colours of lines that differ without red and green.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(130, 130, 130),
    RGBColor(178, 143, 0),
    RGBColor(86, 180, 233),
    RGBColor(148, 103, 189),
];

/// The colour of lines behind figures.
pub const GRID: RGBColor = RGBColor(190, 190, 190);

/// The colours of a dark theme: the ground, text, grid, and the one colour that is too dark on it.
const DARK: &str = "<style>@media screen and (prefers-color-scheme:dark){\
svg [fill=\"#FFFFFF\"]{fill:#161616}svg [fill=\"#000000\"]{fill:#E6E6E6}svg [stroke=\"#000000\"]{stroke:#E6E6E6}\
svg [stroke=\"#BEBEBE\"]{stroke:#484848}svg [fill=\"#0072B2\"]{fill:#3D9BE0}svg [stroke=\"#0072B2\"]{stroke:#3D9BE0}\
}</style>";

/// An error of the drawing library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct ChartError(pub String);

/// The area of a picture.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The result of drawing on it.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Returns a picture with `title` above an area of [`WIDTH`] and `height`, on which `draw` draws.
///
/// # Errors
/// [`ChartError`], with the drawing library's message.
pub fn svg(title: &str, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ChartError> {
    let title_lines = broken(title, TITLE_LETTERS);
    let head = TITLE_TOP + TITLE_LINE * title_lines.len() as u32;
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (WIDTH, head + height)).into_drawing_area();
    let drawn = || -> Drawn {
        root.fill(&WHITE)?;
        let (above, below) = root.split_vertically(head);
        for (at, line) in title_lines.iter().enumerate() {
            let y = TITLE_TOP + TITLE_LINE * at as u32 + TITLE_LINE / 2;
            above.draw(&Text::new(
                line.as_str(),
                (WIDTH as i32 / 2, y as i32),
                style(TITLE, HPos::Center),
            ))?;
        }
        draw(&below)?;
        Ok(root.present()?)
    };
    drawn().map_err(|error| ChartError(error.to_string()))?;
    drop(root);
    let head = format!("\n<title>{}</title>{DARK}\n", escaped(title));
    Ok(text.replacen("<svg ", "<svg role=\"img\" ", 1).replacen('\n', &head, 1))
}

/// Returns the style of text that is anchored in the middle of its height.
pub fn style(size: u32, to: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(to, VPos::Center))
}

/// Breaks `text` between words into lines of at most `letters`.
fn broken(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            *line = word.into();
        } else if line.chars().count() + 1 + word.chars().count() <= letters {
            *line = format!("{line} {word}");
        } else {
            lines.push(word.into());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_title_and_a_dark_theme() {
        let title = "Delay of packets of the first band & the limit that the queue has learnt";
        let picture = svg(title, 100, |_| Ok(())).unwrap();
        assert!(picture.starts_with("<svg role=\"img\" width=\"440\" height=\"150\""), "{picture}");
        assert!(picture.contains("<title>Delay of packets of the first band &amp; the"), "{picture}");
        // Each colour that the dark theme replaces is written as the drawing library writes it.
        for part in ["[fill=\"#FFFFFF\"]", " fill=\"#FFFFFF\"", " fill=\"#000000\""] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert_eq!(broken(title, TITLE_LETTERS).len(), 2, "a line for each 50 letters");
    }
}
