//! `Lines`: lines on standard error that are not repeated at once.

use crate::output;
use std::time::{Duration, Instant};

/// Time before the same line is printed again: both sides of a device, or every frame, may meet the same.
const AGAIN: Duration = Duration::from_secs(1);

/// Lines, each with the time at which it was last printed.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    told: Vec<(String, Instant)>,
}

impl Lines {
    /// Prints a line on standard error, unless it was printed a moment ago.
    pub(crate) fn tell(&mut self, line: &str) {
        if output::is_verbose(2) || self.is_new(line, Instant::now()) {
            output::warn(line);
        }
    }

    fn is_new(&mut self, line: &str, now: Instant) -> bool {
        self.told.retain(|(_, told)| now.duration_since(*told) < AGAIN);
        if self.told.iter().any(|(told, _)| told == line) {
            return false;
        }
        self.told.push((line.to_string(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_repeated_only_after_a_while_and_another_at_once() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        assert!(lines.is_new("down", now) && !lines.is_new("down", now));
        assert!(lines.is_new("too long", now));
        assert!(!lines.is_new("down", now + AGAIN / 2) && lines.is_new("down", now + AGAIN));
    }
}
