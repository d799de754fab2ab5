//! Progress on standard error; nothing when that is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One line that says how far it is.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(what());
            self.0.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
