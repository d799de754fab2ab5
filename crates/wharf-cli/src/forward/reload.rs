//! `Reload`: a running forwarder and its configuration file, read again on SIGHUP.
//!
//! A file with a mistake changes nothing. Settings that may change under traffic are those of `wharf set`; the file's are in force
//! afterwards, whatever `wharf set` had made of them. An option that takes a restart is one line, and the run goes on with what it had.

use super::policy::Policy;
use super::settings::check;
use crate::args::ForwardArgs;
use crate::config::{Origin, Source};
use crate::output::{complain, note, warn, with_causes};
use crate::signals::Signals;
use crate::watch::{Board, Settings};
use wharf_tools::trace::TraceFile;

/// Options that may change while the run goes on, by long name.
const LIVE: [&str; 8] = ["rate", "bucket", "bql", "batch", "qdisc", "set", "small-queues", "when-full"];

/// Those of a switch as well: ports are plugged and unplugged.
const ENDS: [&str; 5] = ["a", "b", "ports", "vlan", "take-host"];

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

    /// Reads the file again, and says what became of it. Returns the options, with the ends that the file has
    /// now, unless it has a mistake.
    pub(super) fn reload(&self, signals: &Signals, board: &Board) -> Option<Box<ForwardArgs>> {
        let source = self.started.source.as_ref()?;
        self.reopen_mirror();
        match self.read(source, signals, board) {
            Ok((args, lines)) => {
                let what = if lines.is_empty() { "no setting changes".into() } else { lines.join("; ") };
                note(&format!("{}: read again: {what}", source.path()));
                Some(args)
            }
            Err(errors) => {
                errors.iter().for_each(|error| complain(&format!("{error}; no setting changes")));
                None
            }
        }
    }

    /// Returns the options, and a line for each direction whose settings have changed.
    fn read(
        &self, started: &Source, signals: &Signals, board: &Board,
    ) -> Result<(Box<ForwardArgs>, Vec<String>), Vec<String>> {
        let mut args = self.origin.reload(signals)?;
        let Some(source) = args.source.take() else { return Ok((args, Vec::new())) };
        let placed = |error: &str| vec![source.placed(error)];
        check(&args, board.qdiscs()).map_err(|error| placed(&with_causes(&error)))?;
        let is_switch = !self.started.ports.is_empty();
        if is_switch == args.ports.is_empty() {
            return Err(placed("a switch has three ends and more: that takes a restart"));
        }
        if !is_switch {
            // These decide on the default discipline, and stay.
            (args.a, args.b) = (self.started.a.clone(), self.started.b.clone());
        }
        let policy = Policy::of(&args).map_err(|error| placed(&with_causes(&error)))?;
        let wanted = Settings::of_forwarder(&args, &policy);
        let lines = board.adopt(&wanted, &args.set).map_err(|error| placed(&error))?;
        if !lines.is_empty() {
            wanted.standing_queue().iter().for_each(|what| warn(what));
        }
        let is_live = |name: &str| LIVE.contains(&name) || is_switch && ENDS.contains(&name);
        for name in source.changed_since(started).filter(|name| !is_live(name)) {
            let place = source.place_of(name);
            warn(&format!("{place}: {name}: takes a restart; the run goes on with what it had"));
        }
        Ok((args, lines))
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
