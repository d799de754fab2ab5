//! Progress on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two changes of the line.
const EVERY: Duration = Duration::from_millis(200);

/// One line of progress.
pub(crate) struct Progress {
    bar: ProgressBar,
    said: Cell<Option<Instant>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self { bar, said: Cell::new(None) }
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        let is_due = self.said.get().is_none_or(|said| said.elapsed() >= EVERY);
        if is_due && !self.bar.is_hidden() {
            self.said.set(Some(Instant::now()));
            self.bar.set_message(what());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
