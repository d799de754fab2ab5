//! The picture: a title, a box for each direction, and the keys.

use super::plot::Plot;
use super::state::{DirectionSeries, State};
use crate::output::{bit_rate, grouped, packet_rate, time};
use crate::plain::plain;
use crate::report::counts_text;
use crate::watch::snapshot::PathCounters;
use crate::watch::text::{delays, device_texts, queue_texts};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Wrap};

/// Columns from which on two directions stand side by side.
const WIDE: u16 = 140;
/// Fewest lines of a plot: its name, and one of its curve.
const PLOT_LINES_MIN: u16 = 2;
/// Lines of a plot that goes before the settings.
const PLOT_LINES: u16 = 4;
/// Lines from which on there is a plot of the delay, too.
const TWO_PLOTS_LINES: u16 = 8;
const HELP: &str = "\
q, Esc, Ctrl-C  quit
p               pause: the picture stays, the run goes on
left, right     the run before, and the next
?, h            this help, and back

Rates are over the last interval (--interval), counts since the run began.
received, sent  packets of this direction
backlog         packets that wait; those in the device; the byte queue limit
dropped         packets lost, by reason: `wharf explain REASON` says why
waited          time in the discipline, over the last interval, by band
processor       of all threads; 100 % is all of one. Its time for each packet
peak            the highest value since this view began

`wharf explain WORD` explains each word. `wharf show PID` prints all counters.";

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]);
    let [title, middle, keys] = rows.areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(shown(headline(state)).style(bold), title);
    if state.has_help {
        frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }).block(Block::bordered()), middle);
    } else {
        directions(frame, state, middle);
    }
    let other = match state.place {
        (at, all) if all > 1 => format!("   arrows: other runs (this is {at} of {all})"),
        _ => String::new(),
    };
    frame.render_widget(Line::raw(format!("q quit   p pause   ? help{other}")), keys);
}

fn directions(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let paths = &state.snapshot.paths;
    let boxes = vec![Constraint::Fill(1); paths.len()];
    let layout = if area.width >= WIDE { Layout::horizontal(boxes) } else { Layout::vertical(boxes) };
    let none = DirectionSeries::default();
    for (number, (path, area)) in paths.iter().zip(layout.split(area).iter()).enumerate() {
        let series = state.series.get(number).unwrap_or(&none);
        direction(frame, path, series, state.snapshot.rates_over_s, *area);
    }
}

fn headline(state: &State) -> String {
    let snapshot = &state.snapshot;
    let text = match state {
        State { has_ended: true, .. } => "ended".into(),
        State { is_silent: true, .. } => "does not answer".into(),
        State { is_paused: true, .. } => "paused".into(),
        _ if snapshot.paths.is_empty() => "its devices are not open yet".into(),
        _ => snapshot.runtime.text(),
    };
    format!("wharf {}, process {}, {:.0} s: {text}", snapshot.command, snapshot.pid, snapshot.time_s)
}

/// Returns a line that a terminal does not obey: names come from outside.
fn shown(text: String) -> Line<'static> {
    Line::raw(plain(&text).into_owned())
}

/// Draws one direction: figures, and below them the rate over time, and the delay where there is room.
fn direction(frame: &mut Frame<'_>, path: &PathCounters, series: &DirectionSeries, step_s: f64, area: Rect) {
    let block = Block::bordered().title(shown(format!(" {}: {} ", path.path, path.ends())));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let (mut lines, width) = (lines(path, inside.width.into()), inside.width.into());
    let settings = wrapped("settings", path.settings_texts(), width);
    if lines.len() + settings.len() + usize::from(PLOT_LINES) <= inside.height.into() {
        lines.extend(settings.into_iter().map(shown));
    }
    let text_lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let text_lines = text_lines.min(inside.height.saturating_sub(PLOT_LINES_MIN));
    let rows = Layout::vertical([Constraint::Length(text_lines), Constraint::Fill(1)]);
    let [figures, plots] = rows.areas(inside);
    frame.render_widget(Paragraph::new(lines), figures);
    let (name, unit): (_, fn(u64) -> String) = match &path.to {
        Some(_) => ("sent per second", |bits| bit_rate(bits as f64)),
        None => ("received per second", |packets| packet_rate(packets as f64)),
    };
    let rate = Plot { name, series: &series.rate, unit, step_s };
    let waited = Plot { name: "waited, p99", series: &series.waited, unit: time, step_s };
    if plots.height < TWO_PLOTS_LINES || waited.series.peak == 0 {
        return rate.draw(frame, plots);
    }
    let [first, second] = Layout::vertical([Constraint::Fill(1); 2]).areas(plots);
    rate.draw(frame, first);
    waited.draw(frame, second);
}

/// Returns the figures, most important first: a low terminal shows the first lines.
fn lines(path: &PathCounters, width: usize) -> Vec<Line<'static>> {
    let rates = &path.rates;
    let mut rows = Vec::new();
    if path.from.is_some() {
        let (rate, all) = (packet_rate(rates.received_pps), grouped(path.received_packets));
        rows.push(format!("received  {rate:<14} {all} in all"));
    }
    if path.to.is_some() {
        let (packets, bits) = (packet_rate(rates.sent_pps), bit_rate(rates.sent_bps));
        rows.push(format!("sent      {packets:<14} {bits:<14} {} in all", grouped(path.counts.sent)));
        let (waiting, device) = (grouped(path.backlog_packets), grouped(path.device_packets));
        let limit = path.counts.limit_text(", limit ");
        rows.push(format!("backlog   {waiting} packets, in the device {device}{limit}"));
    }
    let (rate, all) = (packet_rate(rates.dropped_pps), grouped(path.dropped()));
    let reasons = counts_text(&path.drops);
    let dropped =
        std::iter::once(format!("{rate:<14} {all} in all")).chain(reasons.lines().map(String::from));
    rows.extend(wrapped("dropped", dropped, width));
    let waited = delays(&path.recent_delay_ns_by_band);
    rows.extend(wrapped("waited", waited.lines().map(String::from), width));
    rows.extend(wrapped("queues", queue_texts(path).into_iter(), width));
    rows.extend(wrapped("device", device_texts(path).into_iter(), width));
    rows.into_iter().map(shown).collect()
}

/// Returns `words` behind a name, in lines of at most `width`.
fn wrapped(name: &str, words: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + word.chars().count() <= width => {
                *line = format!("{line}  {word}");
            }
            Some(_) => lines.push(format!("{:10}{word}", "")),
            None => lines.push(format!("{name:10}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::watch::snapshot::BandDelay;
    use crate::watch::snapshot::{Rates, Snapshot};
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
                "29.9 kpps",
                "12345678901 in all",
                "20.0 Mbit/s",
                "limit 7620 B",
                "overlimit 9876543210",
                "link-down 2520",
                "band 2: p50 1.3 ms, p99 9.0 ms",
                "q quit",
                "? help",
                "sent per second, peak 20.0 Mbit/s",
                "20.0 Mbit/s |",
            ] {
                assert!(drawn.contains(what), "{width}x{height}: {what}:\n{drawn}");
            }
            assert!(drawn.contains('\u{2588}'), "a sparkline: {drawn}");
        }
    }

    #[test]
    fn a_large_terminal_has_axes_and_the_delay_over_time() {
        let drawn = drawn(200, 50);
        for what in ["waited, p99, peak 9.0 ms", "9.0 ms |", " 0 |", "s ago", "now"] {
            assert!(drawn.contains(what), "{what}:\n{drawn}");
        }
    }

    #[test]
    fn names_turn_no_line_around() {
        let mut state = State::default();
        let paths = vec![path("\u{202e}a-b")];
        state.add(Snapshot { command: "\u{1b}[31mforward".into(), paths, ..Snapshot::default() });
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &state)).unwrap();
        let drawn = terminal.backend().to_string();
        assert!(drawn.contains("\\u{1b}[31mforward") && drawn.contains("\\u{202e}a-b"), "{drawn}");
    }

    #[test]
    fn help_takes_the_place_of_the_picture() {
        let mut state = State::at((2, 3));
        state.has_help = true;
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &state)).unwrap();
        let drawn = terminal.backend().to_string();
        assert!(drawn.contains("the highest value since") && drawn.contains("this is 2 of 3"), "{drawn}");
    }

    #[test]
    fn small_terminals_do_no_harm() {
        for (width, height) in [(1, 1), (10, 3), (80, 5), (500, 200)] {
            drawn(width, height);
        }
    }
}
