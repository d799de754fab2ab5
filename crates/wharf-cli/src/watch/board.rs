//! `Board`: the paths of a run, for the threads that watch it.

use super::change::{Change, Settings, setting_text};
use super::minute::Minute;
use super::running::Running;
use super::runtime::Runtime;
use super::snapshot::{BandDelay, PathCounters, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
#[cfg(feature = "metrics")]
use std::time::SystemTime;
use wharf::qdisc::QdiscRegistry;
#[cfg(feature = "metrics")]
use wharf_core::metrics::Walk;
use wharf_core::poller::PollerCounters;

/// Handles to the paths of a run. A clone is another handle to the same board.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    command: &'static str,
    /// The disciplines that a change may name.
    qdiscs: OnceLock<QdiscRegistry>,
    began: Instant,
    #[cfg(feature = "metrics")]
    began_at: SystemTime,
    paths: Mutex<Vec<Running>>,
    pollers: Mutex<Vec<Arc<PollerCounters>>>,
    minute: Mutex<Minute>,
}

/// A direction whose settings were changed.
#[derive(Debug)]
pub(super) struct Changed {
    path: String,
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
}

impl Changed {
    /// Returns the settings that are others now, as `wharf set` takes them.
    fn line(&self) -> String {
        let off = "off".to_string();
        let keys: BTreeSet<&String> = self.before.keys().chain(self.after.keys()).collect();
        let changed = keys.into_iter().filter(|key| self.before.get(*key) != self.after.get(*key));
        let texts = changed.map(|key| setting_text(key, self.after.get(key).unwrap_or(&off)));
        format!("{}: {}", self.path, texts.collect::<Vec<_>>().join(" "))
    }
}

/// Returns those of `changes` that are of this path, or of all.
fn own(path: &Running, changes: &[(Option<&str>, Change)]) -> Vec<Change> {
    let own = changes.iter().filter(|(name, _)| name.is_none_or(|name| path.is_named(name)));
    own.map(|(_, change)| change.clone()).collect()
}

impl Board {
    /// Makes an empty one for the run of `command`.
    pub(crate) fn new(command: &'static str) -> Self {
        Self(Arc::new(Shared {
            command,
            qdiscs: OnceLock::new(),
            began: Instant::now(),
            #[cfg(feature = "metrics")]
            began_at: SystemTime::now(),
            paths: Mutex::default(),
            pollers: Mutex::default(),
            minute: Mutex::default(),
        }))
    }

    /// Has changes name a discipline of the program's: without, they name those of `wharf`.
    pub(crate) fn know(&self, qdiscs: &QdiscRegistry) {
        _ = self.0.qdiscs.set(qdiscs.clone());
    }

    /// Returns the disciplines that a change may name.
    pub(crate) fn qdiscs(&self) -> &QdiscRegistry {
        self.0.qdiscs.get_or_init(QdiscRegistry::default)
    }

    /// Shows these paths from now on.
    pub(crate) fn put(&self, paths: Vec<Running>) {
        *self.paths() = paths;
    }

    /// Shows these pollers, too.
    pub(crate) fn put_pollers(&self, pollers: impl IntoIterator<Item = Arc<PollerCounters>>) {
        *self.pollers() = pollers.into_iter().collect();
    }

    /// When the run began, seconds since 1970.
    #[cfg(feature = "metrics")]
    pub(super) fn began_s(&self) -> f64 {
        self.0.began_at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
    }

    /// The command that runs.
    #[cfg(feature = "metrics")]
    pub(super) fn command(&self) -> &'static str {
        self.0.command
    }

    pub(super) fn pollers(&self) -> MutexGuard<'_, Vec<Arc<PollerCounters>>> {
        wharf_mem::lock(&self.0.pollers)
    }

    #[cfg(feature = "metrics")]
    /// Has the pollers of receive queues note the counters of their devices. Returns false if there is none.
    pub(super) fn ask_devices(&self) -> bool {
        let paths = self.paths().clone();
        let receivers = || paths.iter().flat_map(|path| &path.receivers);
        for receiver in receivers() {
            // A walk asks for them, and shows those of the poll before.
            receiver.measured().upgrade().inspect(|part| part.measure(&mut Walk::new(&mut |_| ())));
            receiver.call_poller().wake();
        }
        receivers().next().is_some()
    }

    pub(super) fn paths(&self) -> MutexGuard<'_, Vec<Running>> {
        wharf_mem::lock(&self.0.paths)
    }

    /// Makes the changes that `of` has for each direction: all of them, or none. Returns the directions that have some, with their
    /// settings before and after.
    fn change(&self, of: impl Fn(&Running) -> Result<Vec<Change>, String>) -> Result<Vec<Changed>, String> {
        // Two clients do not change settings at the same time.
        let paths = self.paths();
        let mut checked = Vec::new();
        for path in paths.iter() {
            let changes = of(path)?;
            if !changes.is_empty() {
                let settings = path.check(&changes)?;
                checked.push((path, changes, settings));
            }
        }
        let made = checked.into_iter().map(|(path, changes, settings)| {
            let [before, after] =
                [path.settings().as_ref(), Some(&settings)].map(|one| one.map(Settings::texts));
            path.apply(&changes, settings);
            Changed {
                path: path.path.clone(),
                before: before.unwrap_or_default(),
                after: after.unwrap_or_default(),
            }
        });
        Ok(made.collect())
    }

    /// The names of the directions.
    pub(crate) fn names(&self) -> Vec<String> {
        self.paths().iter().map(|path| path.path.clone()).collect()
    }

    /// The names of the devices that they leave by.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.paths().iter().filter_map(|path| path.to.clone()).collect()
    }

    /// Makes the changes, each `KEY=VALUE` or `PATH.KEY=VALUE`: all of them, or none.
    pub(crate) fn set(&self, texts: &[String]) -> Result<(), String> {
        let (names, devices) = (self.names(), self.devices());
        if !texts.is_empty() && names.is_empty() {
            return Err("the devices are not open yet".into());
        }
        Change::check_all(texts, &names, &devices, self.qdiscs())?;
        let changes = Change::parse_all(texts, self.qdiscs())?;
        self.change(|path| Ok(own(path, &changes))).map(drop)
    }

    /// Puts the settings `wanted`, with the changes `set`, into force in all directions, or in none: what is in
    /// force already stays untouched. Returns a line for each direction that had others.
    pub(crate) fn adopt(&self, wanted: &Settings, set: &[String]) -> Result<Vec<String>, String> {
        let set = Change::parse_all(set, self.qdiscs()).map_err(|error| format!("--set {error}"))?;
        let changes = |path: &Running| {
            let Some(now) = path.settings() else { return Ok(Vec::new()) };
            // A device without a byte limit has none to change.
            let bql = if path.can_limit { wanted.bql } else { now.bql };
            let (qdisc, link) = (path.fitted(wanted, &wanted.qdisc), now.link.map(|_| true));
            let fitted = Settings { qdisc, bql, link, ..wanted.clone() };
            let settings = path.with_all(fitted, &own(path, &set));
            Ok(settings.map_err(|error| format!("--set {error}"))?.changes_from(&now))
        };
        Ok(self
            .change(changes)?
            .iter()
            .filter(|changed| changed.before != changed.after)
            .map(Changed::line)
            .collect())
    }

    /// Returns the counters so far; no path before the devices are open.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let paths = self.paths().clone();
        let minute = wharf_mem::lock(&self.0.minute);
        let counters = |path: &Running| {
            let counters = path.counters();
            let since = minute.since(counters.identity.as_ref(), &counters.delays);
            PathCounters { minute_delay_ns_by_band: BandDelay::of(since), ..counters }
        };
        Snapshot {
            pid: std::process::id(),
            command: self.0.command.into(),
            time_s: self.0.began.elapsed().as_secs_f64(),
            rates_over_s: 0.0,
            runtime: Runtime::now(),
            paths: paths.iter().map(counters).collect(),
        }
    }

    /// Notes the delays so far, each [`EVERY`](super::minute::EVERY).
    pub(super) fn note_minute(&self) {
        let paths = self.paths().clone();
        wharf_mem::lock(&self.0.minute).note(&paths);
    }
}
