//! `Board`: the paths of a run, for the threads that watch it.

use super::change::{Change, Settings};
use super::snapshot::{BandDelay, PathCounters, QueueRow, Snapshot};
use crate::queues::sum;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wharf::counters::QueueCounters;
use wharf::metrics::{Measured, Metric, Walk};
use wharf::poller::PollerCounters;
use wharf::pool::PagePool;
use wharf::queue::TxQueue;
use wharf::rx::RxQueue;
use wharf_tools::drops::by_reason;
use wharf_tools::forward::{DelayMeter, Direction, MakeQdisc, QueueDelay};

/// Handles to the paths of a run. A clone is another handle to the same board.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    command: &'static str,
    began: Instant,
    paths: Mutex<Vec<Running>>,
    pollers: Mutex<Vec<Arc<PollerCounters>>>,
}

/// One direction of a run.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// Name: `a-b` and `b-a` of a forwarder, else the command's.
    pub(super) path: String,
    /// The end that frames arrive at.
    pub(super) from: Option<String>,
    /// The end that they leave by.
    pub(super) to: Option<String>,
    pub(super) queues: Vec<TxQueue>,
    pub(super) receivers: Vec<RxQueue>,
    pub(super) pools: Vec<PagePool>,
    /// The device says when packets have left, as far as is known: its queues can have a byte queue limit.
    pub(super) can_limit: bool,
    /// The direction of a forwarder.
    pub(super) direction: Option<Direction>,
    /// Of a sender that is to know its queue delay, one for each queue.
    meters: Vec<DelayMeter>,
    /// Its settings, if some may be changed.
    settings: Option<Arc<Mutex<Settings>>>,
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
        let texts = changed.map(|key| format!("{key}={}", self.after.get(key).unwrap_or(&off)));
        format!("{}: {}", self.path, texts.collect::<Vec<_>>().join(" "))
    }
}

impl Running {
    /// The queues of a sender.
    pub(crate) fn sending(
        to: &str, queues: &[TxQueue], has_bql: bool, settings: Settings, meters: Vec<DelayMeter>,
    ) -> Self {
        let pools = queues.first().map(|queue| queue.pool().clone()).into_iter().collect();
        let (path, to, queues) = ("send".into(), Some(to.into()), queues.to_vec());
        let can_limit = has_bql || settings.bql.is_off();
        let (from, receivers, settings) = (None, Vec::new(), Some(Arc::new(Mutex::new(settings))));
        Self { path, from, to, queues, receivers, pools, can_limit, direction: None, meters, settings }
    }

    /// The receive queue of a receiver, with memory of `pool`.
    pub(crate) fn receiving(from: &str, receiver: &RxQueue, pool: &PagePool) -> Self {
        let (path, from) = ("receive".into(), Some(from.into()));
        let (receivers, pools) = (vec![receiver.clone()], vec![pool.clone()]);
        let (to, queues, can_limit) = (None, Vec::new(), false);
        let (direction, meters, settings) = (None, Vec::new(), None);
        Self { path, from, to, queues, receivers, pools, can_limit, direction, meters, settings }
    }

    /// A direction of a forwarder.
    pub(crate) fn forwarding(direction: &Direction, settings: &Settings) -> Self {
        let mut pools: Vec<PagePool> = Vec::new();
        for pool in direction.queues.iter().map(TxQueue::pool) {
            if !pools.iter().any(|other| other.region().number() == pool.region().number()) {
                pools.push(pool.clone());
            }
        }
        Self {
            path: direction.name.into(),
            from: Some(direction.from.clone()),
            to: Some(direction.to.clone()),
            queues: direction.queues.clone(),
            receivers: direction.receivers.clone(),
            pools,
            can_limit: direction.has_bql || settings.bql.is_off(),
            direction: Some(direction.clone()),
            meters: Vec::new(),
            settings: Some(Arc::new(Mutex::new(settings.clone()))),
        }
    }

    /// True if the queues have a byte queue limit now.
    fn has_limit(&self) -> bool {
        self.can_limit && self.settings().is_some_and(|settings| !settings.bql.is_off())
    }

    /// Returns the settings in force, if some may be changed.
    pub(crate) fn settings(&self) -> Option<Settings> {
        Some(self.settings.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Checks that `changes` can be made together, and returns the settings that there would be then.
    pub(super) fn check(&self, changes: &[Change]) -> Result<Settings, String> {
        let before = self.settings().ok_or("nothing of a receiver can be changed")?;
        before.with_all(changes, self)
    }

    /// Makes the changes, with the settings that [`Running::check`] has returned for them.
    pub(super) fn apply(&self, changes: &[Change], settings: Settings) {
        settings.put_in_force(changes, self);
        if let Some(now) = &self.settings {
            *now.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        }
    }

    /// Returns the packets lost so far, by reason.
    fn drops(&self) -> BTreeMap<String, u64> {
        match &self.direction {
            Some(direction) => direction.drops(),
            None => {
                let mut all = by_reason(&self.queues, &self.receivers);
                all.retain(|_, count| *count > 0);
                all
            }
        }
    }

    /// Returns the packets that came back unsent.
    fn returned(&self) -> u64 {
        match &self.direction {
            Some(direction) => direction.returned(),
            None => sum(&self.queues, |all| all.returned.get()),
        }
    }

    /// Returns the time that packets waited in the discipline, if that is known: a forwarder always knows it.
    pub(crate) fn delay(&self) -> QueueDelay {
        match &self.direction {
            Some(direction) => direction.queue_delay(),
            None if self.meters.is_empty() => QueueDelay::default(),
            None => DelayMeter::sum(&self.meters, sum(&self.queues, |all| all.packets.get())),
        }
    }

    /// Puts what `make` makes in the place of each queue's discipline.
    pub(super) fn set_qdisc(&self, make: &MakeQdisc) {
        if let Some(direction) = &self.direction {
            return direction.set_qdisc(make);
        }
        for (at, queue) in self.queues.iter().enumerate() {
            let (qdisc, pool) = (make(queue.pool()), queue.pool());
            queue.set_qdisc(match self.meters.get(at) {
                Some(meter) => meter.around(qdisc, pool),
                None => qdisc,
            });
        }
    }

    fn counters(&self) -> PathCounters {
        let queues = &self.queues;
        let delay = self.delay();
        let failed_bytes = sum(queues, |all| all.failed_bytes.get());
        let bytes = sum(queues, |all| all.bytes.get());
        PathCounters {
            path: self.path.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            received_packets: self.receivers.iter().map(RxQueue::received).sum(),
            received_bytes: self.receivers.iter().map(RxQueue::received_bytes).sum(),
            packets: sum(queues, |all| all.packets.get()),
            bytes,
            sent: sum(queues, QueueCounters::sent_packets),
            sent_bytes: bytes.saturating_sub(failed_bytes),
            failed: sum(queues, QueueCounters::lost_packets),
            returned: self.returned(),
            batches: sum(queues, |all| all.batches.get()),
            doorbells: sum(queues, |all| all.doorbells.get()),
            requeues: sum(queues, |all| all.requeues.get()),
            backlog_packets: sum(queues, QueueCounters::backlog_packets),
            device_packets: queues.iter().map(|queue| queue.counters().device_frames().0).sum(),
            limit_bytes: if self.has_limit() { sum(queues, |all| all.bql_limit_bytes.get()) } else { 0 },
            frames_out: self.pools.iter().map(frames_out).sum(),
            drops: self.drops(),
            queues: queues.iter().map(|queue| QueueRow::of(queue.counters())).collect(),
            delay_ns_by_band: BandDelay::of(delay.by_band.clone()),
            delay,
            settings: self.settings().as_ref().map(Settings::texts).unwrap_or_default(),
            ..PathCounters::default()
        }
    }
}

/// Returns the frames of a pool that are in use, and those on their way back.
fn frames_out(pool: &PagePool) -> u64 {
    let mut out = 0;
    let mut see = |metric: &Metric<'_>| {
        if metric.name == "wharf_pool_held_frames" {
            out += metric.value;
        }
    };
    pool.measure(&mut Walk::new(&mut see));
    out
}

impl Board {
    /// Makes an empty one for the run of `command`.
    pub(crate) fn new(command: &'static str) -> Self {
        Self(Arc::new(Shared {
            command,
            began: Instant::now(),
            paths: Mutex::default(),
            pollers: Mutex::default(),
        }))
    }

    /// Shows these paths from now on.
    pub(crate) fn put(&self, paths: Vec<Running>) {
        *self.paths() = paths;
    }

    /// Shows these pollers, too.
    pub(crate) fn put_pollers<'a>(&self, pollers: impl IntoIterator<Item = &'a Arc<PollerCounters>>) {
        *self.pollers() = pollers.into_iter().cloned().collect();
    }

    /// The command that runs.
    #[cfg(feature = "metrics")]
    pub(super) fn command(&self) -> &'static str {
        self.0.command
    }

    pub(super) fn pollers(&self) -> MutexGuard<'_, Vec<Arc<PollerCounters>>> {
        self.0.pollers.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.0.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the changes that `of` has for each direction: all of them, or none. Returns the directions that have some, with their
    /// settings before and after.
    pub(super) fn change(&self, of: impl Fn(&Running) -> Vec<Change>) -> Result<Vec<Changed>, String> {
        // Two clients do not change settings at the same time.
        let paths = self.paths();
        let mut checked = Vec::new();
        for path in paths.iter() {
            let changes = of(path);
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

    /// Puts the settings `wanted` into force in all directions, or in none. Returns a line for each direction that had others.
    pub(crate) fn adopt(&self, wanted: &Settings) -> Result<Vec<String>, String> {
        let changes = |path: &Running| path.settings().map_or(Vec::new(), |now| wanted.changes_from(&now));
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
        Snapshot {
            pid: std::process::id(),
            command: self.0.command.into(),
            time_s: self.0.began.elapsed().as_secs_f64(),
            rates_over_s: 0.0,
            paths: paths.iter().map(Running::counters).collect(),
        }
    }
}
