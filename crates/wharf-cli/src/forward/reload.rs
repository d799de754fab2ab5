//! `Reload`: a running forwarder and its configuration file, read again on SIGHUP.
//!
//! A file with a mistake changes nothing. Settings that may change under traffic are those of `wharf set`; the file's are in force
//! afterwards, whatever `wharf set` had made of them. An option that takes a restart is one line, and the run goes on with what it had.

use super::policy::{Policy, check};
use crate::args::ForwardArgs;
use crate::config::{Origin, Source};
use crate::output::{complain, note, warn, with_causes};
use crate::signals::Signals;
use crate::watch::{Board, Settings};
use wharf_tools::trace::TraceFile;

/// Options that may change while the run goes on, by long name.
const LIVE: [&str; 7] = ["rate", "bucket", "bql", "batch", "qdisc", "small-queues", "when-full"];

/// See the module.
#[derive(Debug)]
pub(super) struct Reload<'a> {
    origin: Origin<'a>,
    /// The options that the run began with.
    started: &'a ForwardArgs,
    mirror: Option<&'a TraceFile>,
}

impl<'a> Reload<'a> {
    /// Makes one for a run that began with `started`, and writes `mirror`.
    pub(super) fn new(origin: Origin<'a>, started: &'a ForwardArgs, mirror: Option<&'a TraceFile>) -> Self {
        Self { origin, started, mirror }
    }

    /// Reads the file again, and says what became of it.
    pub(super) fn reload(&self, signals: &Signals, board: &Board) {
        let Some(source) = &self.started.source else { return };
        self.reopen_mirror();
        match self.read(source, signals, board) {
            Ok(lines) => {
                let what = if lines.is_empty() { "no setting changes".into() } else { lines.join("; ") };
                note(&format!("{}: read again: {what}", source.path()));
            }
            Err(errors) => {
                errors.iter().for_each(|error| complain(&format!("{error}; no setting changes")));
            }
        }
    }

    /// Returns a line for each direction whose settings have changed.
    fn read(&self, started: &Source, signals: &Signals, board: &Board) -> Result<Vec<String>, Vec<String>> {
        let mut args = self.origin.reload(signals)?;
        let Some(source) = args.source.take() else { return Ok(Vec::new()) };
        let placed = |error: &str| vec![source.placed(error)];
        check(&args).map_err(|error| placed(&with_causes(&error)))?;
        // These decide on the default discipline, and stay.
        (args.a, args.b) = (self.started.a.clone(), self.started.b.clone());
        let policy = Policy::of(&args).map_err(|error| placed(&with_causes(&error)))?;
        let wanted = Settings::of_forwarder(&args, &policy);
        let lines = board.adopt(&wanted).map_err(|error| placed(&error))?;
        if !lines.is_empty() {
            wanted.standing_queue().iter().for_each(|what| warn(what));
        }
        for name in source.changed_since(started).filter(|name| !LIVE.contains(name)) {
            let place = source.place_of(name);
            warn(&format!("{place}: {name}: takes a restart; the run goes on with what it had"));
        }
        Ok(lines)
    }

    /// Goes on in a new file where `logrotate(8)` has moved the mirror.
    fn reopen_mirror(&self) {
        let Some((file, path)) = self.mirror.zip(self.started.mirror.as_deref()) else { return };
        match file.reopen(path) {
            Ok(true) => note(&format!("--mirror {}: goes on in a new file", path.display())),
            Ok(false) => {}
            Err(error) => warn(&format!("{error}; the mirror goes on in the file before")),
        }
    }
}
