//! `Plot`: a curve with its name, its axes with units, and its peak.

use super::state::Series;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

/// Columns of the labels of the axis on the left.
const LABEL_COLUMNS: u16 = 15;
/// Lines from which on there is an axis of time.
const TIMED_LINES: u16 = 4;

/// See the module.
pub(super) struct Plot<'a> {
    pub(super) name: &'a str,
    pub(super) series: &'a Series,
    /// Returns a value with its unit.
    pub(super) unit: fn(u64) -> String,
    /// Time between two values.
    pub(super) step_s: f64,
}

impl Plot<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let timed = u16::from(area.height >= TIMED_LINES);
        let rows = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(timed)]);
        let [caption, curve, times] = rows.areas(area);
        let columns = Layout::horizontal([Constraint::Length(LABEL_COLUMNS), Constraint::Fill(1)]);
        let ([labels, curve], [_, times]) = (columns.areas(curve), columns.areas(times));
        let values: Vec<u64> = self.series.values.iter().copied().take(curve.width.into()).collect();
        let top = values.iter().copied().max().unwrap_or(0);
        let peak = (self.unit)(self.series.peak);
        frame.render_widget(Line::raw(format!("{}, peak {peak}", self.name)), caption);
        let mut label = vec![Line::raw(format!("{} |", (self.unit)(top)))];
        label.resize(usize::from(curve.height).max(2) - 1, Line::raw("|"));
        if curve.height > 1 {
            label.push(Line::raw("0 |"));
        }
        frame.render_widget(Paragraph::new(label).alignment(Alignment::Right), labels);
        let span_s = f64::from(curve.width) * self.step_s;
        let data = Sparkline::default().direction(RenderDirection::RightToLeft).max(top.max(1)).data(values);
        frame.render_widget(data, curve);
        frame.render_widget(Line::raw(format!("{span_s:.0} s ago")), times);
        frame.render_widget(Line::raw("now").alignment(Alignment::Right), times);
    }
}
