//! Progress on standard error, if that is a terminal.

use crate::plain::plain;
use crate::verbosity::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two changes of the line.
const EVERY: Duration = Duration::from_millis(200);

/// The line that is shown now, if one is: other output goes above it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes to standard error by `write` with the line of progress out of the way, which is then drawn again below.
pub(crate) fn above<R>(write: impl FnOnce() -> R) -> R {
    // A write that waits for the reader of a pipe holds no lock.
    let shown = wharf_mem::lock(&SHOWN).clone();
    match shown.filter(|bar| !bar.is_hidden()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Returns standard error, which shows nothing where it is no terminal, or nothing with `--quiet`.
fn target() -> ProgressDrawTarget {
    if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// One line of progress, cut to the width of the terminal.
pub struct Progress {
    bar: ProgressBar,
    said: Cell<Option<Instant>>,
}

impl Progress {
    /// Begins a line on standard error, which shows nothing where that is no terminal.
    pub fn begin() -> Self {
        let bar = ProgressBar::with_draw_target(None, target());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        *wharf_mem::lock(&SHOWN) = Some(bar.clone());
        Self { bar, said: Cell::new(None) }
    }

    /// True if a terminal shows it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Puts `what` on the line, at most five times a second.
    pub fn say(&self, what: impl FnOnce() -> String) {
        let is_due = self.said.get().is_none_or(|said| said.elapsed() >= EVERY);
        if is_due && !self.bar.is_hidden() {
            self.said.set(Some(Instant::now()));
            self.bar.set_message(plain(&what()).into_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *wharf_mem::lock(&SHOWN) = None;
        self.bar.finish_and_clear();
    }
}
