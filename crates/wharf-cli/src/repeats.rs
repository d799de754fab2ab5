//! `Lines`: lines on standard error that do not flood it. A line that comes again and again, but for its
//! numbers, is printed three times, then counted: the count is printed once the line comes no more, each
//! hour, and at the end of the run.

use crate::output::{self, grouped_on_stderr};
use crate::verbosity;
use std::time::{Duration, Instant};

/// Time before the same line is printed again: both sides of a device, or every frame, may meet the same.
const AGAIN: Duration = Duration::from_secs(1);
/// Times that a line is printed before it is counted.
const TIMES: u32 = 3;
/// Time without a line after which it has ended: longer than the pause between two attempts to open a device.
const ENDS: Duration = Duration::from_secs(30);
/// Time between two counts of a line that does not end.
const COUNTED: Duration = Duration::from_secs(3600);

/// Lines that have come of late.
#[derive(Debug)]
pub(crate) struct Lines {
    again: Duration,
    told: Vec<Told>,
}

/// A line, or several that differ in their numbers.
#[derive(Debug)]
struct Told {
    shape: String,
    /// The line that came last.
    line: String,
    /// The line that was printed last, and when.
    printed: (String, Instant),
    times: u32,
    came: Instant,
    /// Lines since the last one, or the last count, that was printed.
    counted: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self { again: AGAIN, told: Vec::new() }
    }
}

impl Lines {
    /// Makes one for lines that are news each time, however soon they come again.
    pub(crate) fn of_news() -> Self {
        Self { again: Duration::ZERO, told: Vec::new() }
    }

    /// Prints a line on standard error, unless it was printed a moment ago, or several times.
    pub(crate) fn tell(&mut self, line: &str) {
        if verbosity::is_verbose(2) {
            return output::warn(line);
        }
        let now = Instant::now();
        self.look_at(now);
        self.shown(line, now).iter().for_each(|line| output::warn(line));
    }

    /// Prints the counts that are due.
    pub(crate) fn look(&mut self) {
        self.look_at(Instant::now());
    }

    /// Prints all counts: the run ends.
    pub(crate) fn end(&mut self) {
        let now = Instant::now();
        self.told.drain(..).filter_map(|mut told| told.count(now)).for_each(|line| output::warn(&line));
    }

    fn look_at(&mut self, now: Instant) {
        self.due(now).iter().for_each(|line| output::warn(line));
    }

    /// Returns what is printed of a line.
    fn shown(&mut self, line: &str, now: Instant) -> Option<String> {
        let shape = shape(line);
        let Some(told) = self.told.iter_mut().find(|told| told.shape == shape) else {
            let printed = (line.to_string(), now);
            let told = Told { shape, line: line.into(), printed, times: 1, came: now, counted: 0 };
            self.told.push(told);
            return Some(line.into());
        };
        told.came = now;
        if told.times == TIMES {
            told.counted += 1;
            told.line = line.into();
            return None;
        }
        if told.printed.0 == line && now.duration_since(told.printed.1) < self.again {
            return None;
        }
        told.times += 1;
        told.printed = (line.into(), now);
        told.line = line.into();
        let is_last = told.times == TIMES;
        Some(if is_last { format!("{line} (counted from here on, not printed)") } else { line.into() })
    }

    /// Returns the counts that are due, and forgets lines that have ended.
    fn due(&mut self, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        self.told.retain_mut(|told| {
            let has_ended = now.duration_since(told.came) >= ENDS;
            if has_ended || now.duration_since(told.printed.1) >= COUNTED {
                due.extend(told.count(now));
            }
            !has_ended
        });
        due
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end();
    }
}

impl Told {
    /// Returns the count, if there is one, and begins another.
    fn count(&mut self, now: Instant) -> Option<String> {
        let count = std::mem::take(&mut self.counted);
        let since = std::mem::replace(&mut self.printed.1, now);
        let seconds = self.came.duration_since(since).as_secs_f64();
        let times = if count == 1 { "time" } else { "times" };
        let line = &self.line;
        (count > 0).then(|| format!("{line} ({} {times} more in {seconds:.0} s)", grouped_on_stderr(count)))
    }
}

/// Returns the line without its numbers.
fn shape(line: &str) -> String {
    let mut words: Vec<&str> =
        line.split_whitespace().map(|word| if is_number(word) { "#" } else { word }).collect();
    words.dedup_by(|word, before| *word == "#" && *before == "#");
    words.join(" ")
}

/// True for a number, with the signs around it: the name of an interface is none.
fn is_number(word: &str) -> bool {
    let digits = word.trim_matches(|sign: char| !sign.is_alphanumeric());
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    digits.starts_with(|first: char| first.is_ascii_hexdigit())
        && digits.contains(|digit: char| digit.is_ascii_digit())
        && digits.chars().all(|digit| digit.is_ascii_hexdigit() || matches!(digit, '.' | ','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_repeated_only_after_a_while_and_another_at_once() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let mut is_new = |line, at| lines.shown(line, at).is_some();
        assert!(is_new("down", now) && !is_new("down", now));
        assert!(is_new("too long", now));
        assert!(!is_new("down", now + AGAIN / 2) && is_new("down", now + AGAIN));
    }

    #[test]
    fn a_line_that_does_not_end_is_printed_three_times_and_counted_each_hour() {
        let (mut lines, began) = (Lines::of_news(), Instant::now());
        let mut printed = Vec::new();
        for step in 0..86_400_u64 {
            let now = began + Duration::from_secs(step);
            printed.extend(lines.due(now));
            printed.extend(lines.shown("virtio-user:s: slot 60000 is beyond its ring of 256", now));
            printed.extend(
                lines.shown(&format!("virtio-user:s: open again after {}.{} s", step % 4, step % 10), now),
            );
        }
        assert_eq!(printed.len(), 2 * 3 + 2 * 23, "{printed:?}");
        assert!(printed[4].ends_with("256 (counted from here on, not printed)"), "{printed:?}");
        let hour = format!("256 ({} times more in 3599 s)", grouped_on_stderr(3599));
        assert!(printed[6].ends_with(&hour), "{}", printed[6]);
        std::mem::forget(lines);
    }

    #[test]
    fn the_count_is_printed_once_the_line_has_ended_and_it_begins_anew() {
        let (mut lines, began) = (Lines::of_news(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let shown: Vec<bool> = (0..5).map(|step| lines.shown("gone", at(step)).is_some()).collect();
        assert_eq!(shown, [true, true, true, false, false]);
        assert!(lines.due(at(33)).is_empty());
        assert_eq!(lines.due(at(34)), ["gone (2 times more in 2 s)"]);
        assert_eq!(lines.shown("gone", at(34)), Some("gone".into()));
        assert!(lines.due(at(64)).is_empty() && lines.told.is_empty(), "a line that was not counted");
    }

    #[test]
    fn lines_of_other_devices_and_words_are_others() {
        let same = |one, other| shape(one) == shape(other);
        assert!(same("x: 12 of 3 (7)", "x: 9 of 4,5 (0x1f)") && same("lost 2\u{202f}520", "lost 9"));
        assert!(!same("eth0: down", "eth1: down") && !same("x: no room", "x: no rooms"));
        assert!(!same("x: add", "x: dead"), "no digit");
    }
}
