//! The picture: a title, a box for each direction, and the keys.

use super::state::State;
use crate::output::grouped;
use crate::watch::snapshot::PathCounters;
use crate::watch::text::scaled;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, RenderDirection, Sparkline};
use std::collections::VecDeque;

/// Columns from which on two directions stand side by side.
const WIDE: u16 = 140;
/// Most lines of a sparkline.
const SPARK_LINES_MAX: u16 = 8;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]);
    let [title, middle, keys] = rows.areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(headline(state), bold), title);
    let paths = &state.snapshot.paths;
    let boxes = vec![Constraint::Fill(1); paths.len()];
    let layout = if middle.width >= WIDE { Layout::horizontal(boxes) } else { Layout::vertical(boxes) };
    let none = VecDeque::new();
    for (number, (path, area)) in paths.iter().zip(layout.split(middle).iter()).enumerate() {
        direction(frame, path, state.rates.get(number).unwrap_or(&none), *area);
    }
    frame.render_widget(Line::raw("q quit   p pause   arrows: other runs"), keys);
}

fn headline(state: &State) -> String {
    let snapshot = &state.snapshot;
    let state = match state {
        State { has_ended: true, .. } => ": ended",
        State { is_silent: true, .. } => ": does not answer",
        State { is_paused: true, .. } => ": paused",
        _ if snapshot.paths.is_empty() => ": its devices are not open yet",
        _ => "",
    };
    format!("wharf {}, process {}, {:.0} s{state}", snapshot.command, snapshot.pid, snapshot.time_s)
}

/// Draws one direction: figures, and the rate over time below.
fn direction(frame: &mut Frame<'_>, path: &PathCounters, rates: &VecDeque<u64>, area: Rect) {
    let block = Block::bordered().title(format!(" {}: {} ", path.path, path.ends()));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let lines = lines(path, inside.width.into());
    let text_lines = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(inside.height.saturating_sub(1));
    let rows = Layout::vertical([Constraint::Length(text_lines), Constraint::Max(SPARK_LINES_MAX)]);
    let [figures, spark] = rows.areas(inside);
    frame.render_widget(Paragraph::new(lines), figures);
    let rates = rates.iter().copied().take(spark.width.into());
    let spark_line =
        Sparkline::default().direction(RenderDirection::RightToLeft).data(rates.collect::<Vec<_>>());
    frame.render_widget(spark_line, spark);
}

/// Returns the figures, most important first: a low terminal shows the first lines.
fn lines(path: &PathCounters, width: usize) -> Vec<Line<'static>> {
    let rates = &path.rates;
    let mut rows = Vec::new();
    if path.from.is_some() {
        rows.push(format!(
            "received  {:<14} {} in all",
            scaled(rates.received_pps, "pps"),
            grouped(path.received_packets)
        ));
    }
    if path.to.is_some() {
        let (packets, bits) = (scaled(rates.sent_pps, "pps"), scaled(rates.sent_bps, "bit/s"));
        rows.push(format!("sent      {packets:<14} {bits:<14} {} in all", grouped(path.counts.sent)));
        let limit = path.counts.limit_text(", limit ");
        rows.push(format!(
            "backlog   {} packets, in the device {}{limit}",
            grouped(path.backlog_packets),
            grouped(path.device_packets)
        ));
    }
    rows.push(format!(
        "dropped   {:<14} {} in all",
        scaled(rates.dropped_pps, "pps"),
        grouped(path.dropped())
    ));
    let reasons = path.drops.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count)));
    rows.extend(wrapped(reasons, width));
    rows.extend(path.recent_delay_ns_by_band.iter().map(|delay| format!("waited    {delay}")));
    rows.extend(wrapped(path.settings_texts(), width));
    rows.into_iter().map(Line::raw).collect()
}

/// Returns `words` in indented lines of at most `width`.
fn wrapped(words: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    const INDENT: &str = "         ";
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + word.len() <= width => *line = format!("{line}  {word}"),
            _ => lines.push(format!("{INDENT} {word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::watch::snapshot::Rates;
    use crate::watch::snapshot::{BandDelay, Snapshot};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn path(name: &str) -> PathCounters {
        let rates =
            Rates { received_pps: 29_900.0, sent_pps: 2_500.0, sent_bps: 20e6, dropped_pps: 27_400.0 };
        let delay = |band| BandDelay { band, p50: 1_300_000, p99: 9_000_000 };
        PathCounters {
            path: name.into(),
            from: Some("packet:eth0".into()),
            to: Some("packet:eth1".into()),
            received_packets: 12_345_678_901,
            counts: Counts { sent: 1_234_567_890, limit_bytes: 7620, ..Counts::default() },
            backlog_packets: 82,
            drops: [("overlimit".to_string(), 9_876_543_210), ("link-down".into(), 2520)].into(),
            recent_delay_ns_by_band: (0..3).map(delay).collect(),
            settings: [
                ("rate".to_string(), "20000000bit".to_string()),
                ("qdisc".into(), "prio:limit=82".into()),
            ]
            .into(),
            rates,
            ..PathCounters::default()
        }
    }

    /// Draws two directions on a terminal of this size.
    fn drawn(width: u16, height: u16) -> String {
        let mut state = State::default();
        for _ in 0..3 {
            let paths = vec![path("a-b"), path("b-a")];
            state.add(Snapshot {
                time_s: 4.0,
                pid: 4711,
                command: "forward".into(),
                paths,
                ..Snapshot::default()
            });
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn all_figures_fit_small_and_large_terminals() {
        for (width, height) in [(80, 24), (200, 50)] {
            // Digits are grouped where the test runs on a terminal.
            let drawn = drawn(width, height).replace('\u{202f}', "");
            for what in [
                "wharf forward, process 4711, 4 s",
                "a-b: packet:eth0 to packet:eth1",
                "b-a: packet:eth0 to packet:eth1",
                "29.90 kpps",
                "12345678901 in all",
                "20 Mbit/s",
                "limit 7620 B",
                "overlimit 9876543210",
                "link-down 2520",
                "band 2: p50 1.3 ms, p99 9.0 ms",
                "q quit",
            ] {
                assert!(drawn.contains(what), "{width}x{height}: {what}:\n{drawn}");
            }
            assert!(drawn.contains('\u{2588}'), "a sparkline: {drawn}");
        }
    }

    #[test]
    fn small_terminals_do_no_harm() {
        for (width, height) in [(1, 1), (10, 3), (80, 5), (500, 200)] {
            drawn(width, height);
        }
    }
}
