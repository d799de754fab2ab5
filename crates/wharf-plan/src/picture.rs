//! Pictures: SVG that the drawing library writes into a text.

use plotters::coord::Shift;
use plotters::prelude::*;

/// An error of the drawing library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct ChartError(pub(crate) String);

/// The area of a picture.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The result of drawing on it.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Returns what `draw` draws on a white ground of `size` pixels.
///
/// # Errors
/// [`ChartError`], with the drawing library's message.
pub fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ChartError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let done = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area));
    done.and_then(|()| area.present().map_err(Into::into)).map_err(|error| ChartError(error.to_string()))?;
    drop(area);
    Ok(text)
}
