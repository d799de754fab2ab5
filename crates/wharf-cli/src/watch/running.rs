//! `Running`: one direction of a run: its queues, its counters and its settings, which may be changed.

use super::change::{Change, MakeQdisc, Settings, qdisc_text};
use super::device::DeviceRow;
use super::snapshot::{BandDelay, Identity, PathCounters, QueueRow, bands};
use crate::args::WhenFull;
use crate::counts::Counts;
use crate::forward::policy::own_when_full;
use crate::queues::sum;
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::{Arc, Mutex};
use wharf::forward::Direction;
use wharf::metrics::Latency;
use wharf::qdisc::QdiscSpec;
use wharf::queue::TxQueue;
use wharf_core::counters::{QueueCounters, Tally};
use wharf_core::delay::{BANDS, DelayMeter};
use wharf_core::device::PATIENCE;
use wharf_core::drops::drops_by_reason;
use wharf_core::metrics::{Measured, Metric, Walk};
use wharf_core::pool::PagePool;
use wharf_core::rx::RxQueue;

/// One direction of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    /// Name: `a-b` and `b-a` of a forwarder, else the command's.
    pub(super) path: String,
    /// Number of the run, from 2 on, where one process makes several.
    pub(super) run: Option<u32>,
    /// The end that frames arrive at.
    pub(super) from: Option<String>,
    /// The end that they leave by.
    pub(super) to: Option<String>,
    pub(super) queues: Vec<TxQueue>,
    pub(super) receivers: Vec<RxQueue>,
    pub(super) pools: Vec<PagePool>,
    /// The device reports completions: its queues can have a byte queue limit.
    pub(super) can_limit: bool,
    /// The direction of a forwarder.
    pub(super) direction: Option<Direction>,
    /// Of a sender that is to know its queue delay, one for each queue.
    meters: Vec<DelayMeter>,
    /// Calls to the device of a receiver that gave frames.
    batches: Option<Arc<Tally>>,
    /// A number that no other run, and no other port of the same name, has.
    pub(super) identity: Identity,
    /// Its settings, if some may be changed.
    settings: Option<Arc<Mutex<Settings>>>,
}

impl Running {
    /// The queues of a sender.
    pub(crate) fn sending(
        to: &str, queues: &[TxQueue], can_limit: bool, settings: Settings, meters: Vec<DelayMeter>,
    ) -> Self {
        let pools = queues.first().map(|queue| queue.pool().clone()).into_iter().collect();
        let (path, to, queues) = ("send".into(), Some(to.into()), queues.to_vec());
        let settings = Some(Arc::new(Mutex::new(settings)));
        Self { path, to, queues, pools, can_limit, meters, settings, ..Self::default() }
    }

    /// Makes it that of run `number`, from 1 on.
    pub(crate) fn of_run(self, number: usize) -> Self {
        Self { run: Some(number as u32).filter(|number| *number > 1), ..self }
    }

    /// The receive queue of a receiver, with memory of `pool`.
    pub(crate) fn receiving(from: &str, receiver: &RxQueue, pool: &PagePool, batches: &Arc<Tally>) -> Self {
        let (path, from, batches) = ("receive".into(), Some(from.into()), Some(batches.clone()));
        let (receivers, pools) = (vec![receiver.clone()], vec![pool.clone()]);
        Self { path, from, receivers, pools, batches, ..Self::default() }
    }

    /// A direction of a forwarder.
    pub(crate) fn forwarding(direction: &Direction, settings: &Settings) -> Self {
        let mut pools: Vec<PagePool> = Vec::new();
        for pool in direction.queues.iter().map(TxQueue::pool) {
            if !pools.iter().any(|other| other.region().number() == pool.region().number()) {
                pools.push(pool.clone());
            }
        }
        let device = direction.queues.first().and_then(DeviceRow::of);
        let link = device.filter(DeviceRow::has_line).map(|_| true);
        let settings = Settings { link, ..settings.clone() };
        Self {
            path: direction.name.clone(),
            from: Some(direction.from.clone()),
            to: Some(direction.to.clone()),
            queues: direction.queues.clone(),
            receivers: direction.receivers.clone(),
            pools,
            can_limit: direction.can_limit,
            direction: Some(direction.clone()),
            settings: Some(Arc::new(Mutex::new(settings))),
            ..Self::default()
        }
    }

    /// True if the queues have a byte queue limit now.
    pub(crate) fn has_limit(&self) -> bool {
        self.can_limit && self.settings().is_some_and(|settings| !settings.bql.is_off())
    }

    /// True if `name` is that of the path, or of the device that it leaves by.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.path == name || self.to.as_deref() == Some(name)
    }

    /// Returns the settings in force, if some may be changed.
    pub(crate) fn settings(&self) -> Option<Settings> {
        Some(wharf_mem::lock(self.settings.as_ref()?).clone())
    }

    /// Makes the changes, with the settings that [`Running::check`] has returned for them.
    pub(super) fn apply(&self, changes: &[Change], settings: Settings) {
        self.put_in_force(&settings, changes);
        if let Some(now) = &self.settings {
            *wharf_mem::lock(now) = settings;
        }
    }

    /// Returns the packets lost so far, by reason.
    pub(super) fn drops(&self) -> BTreeMap<String, u64> {
        match &self.direction {
            Some(direction) => direction.drops(),
            None => {
                let mut all = drops_by_reason(&self.queues, &self.receivers);
                all.retain(|_, count| *count > 0);
                all
            }
        }
    }

    /// Returns the time that packets waited in the discipline, if that is known: a forwarder always knows it.
    pub(crate) fn delay_by_band(&self) -> [Latency; BANDS] {
        match &self.direction {
            Some(direction) => direction.queue_delay_by_band(),
            None => DelayMeter::sum(&self.meters, 0).by_band,
        }
    }

    /// Puts what `make` makes in the place of each queue's discipline.
    pub(super) fn set_qdisc(&self, make: &MakeQdisc) {
        if let Some(direction) = &self.direction {
            return direction.set_qdisc(make);
        }
        for (at, queue) in self.queues.iter().enumerate() {
            let (qdisc, pool) = (make(queue.pool()), queue.pool());
            queue.set_qdisc(DelayMeter::around(self.meters.get(at), qdisc, pool));
        }
    }

    pub(super) fn counters(&self) -> PathCounters {
        let (queues, settings) = (&self.queues, self.settings());
        let delays = bands(self.delay_by_band());
        let has_limit = self.has_limit();
        let row = |queue| QueueRow { counts: Counts::of(queue, has_limit), ..QueueRow::default() };
        let rows: Vec<QueueRow> = queues.iter().map(row).collect();
        let returned = self.direction.as_ref().map(Direction::returned);
        let received_packets = self.receivers.iter().map(RxQueue::received).sum();
        let received_bytes = self.receivers.iter().map(RxQueue::received_bytes).sum();
        let counts = match &self.batches {
            // As the summary has them.
            Some(batches) => Counts {
                packets: received_packets,
                bytes: received_bytes,
                batches: batches.get(),
                ..Counts::default()
            },
            None => Counts::sum(rows.iter().map(|row| row.counts), returned),
        };
        PathCounters {
            path: self.path.clone(),
            run: self.run,
            identity: Some(self.identity.clone()),
            from: self.from.clone(),
            to: self.to.clone(),
            received_packets,
            received_bytes,
            counts,
            backlog_packets: sum(queues, QueueCounters::backlog_packets),
            device_packets: queues.iter().map(|queue| queue.counters().device_frames().0).sum(),
            frames_out: self.pools.iter().map(frames_out).sum(),
            drops: self.drops(),
            queues: rows,
            device: self.device(),
            delay_ns_by_band: BandDelay::of(delays.clone()),
            delays,
            warning: settings.as_ref().and_then(|settings| self.warning(settings)),
            settings: settings.as_ref().map(Settings::texts).unwrap_or_default(),
            ..PathCounters::default()
        }
    }

    /// Returns the long queue that `settings` let stand, in the discipline or in the device.
    fn warning(&self, settings: &Settings) -> Option<String> {
        let standing = self.direction.as_ref().and_then(|_| settings.standing_queue());
        standing.or_else(|| settings.full_ring().filter(|_| self.can_limit))
    }

    /// Returns the figures of the device that it leaves by, if that has any of its own.
    pub(super) fn device(&self) -> Option<DeviceRow> {
        self.queues.first().and_then(DeviceRow::of)
    }

    /// Returns the settings with `change`, if this direction can have them.
    fn with(&self, mut settings: Settings, change: &Change) -> Result<Settings, String> {
        match change {
            Change::Rate(_) | Change::Burst(_) if self.direction.is_none() => {
                return Err("rate, burst: only a forwarder has a rate to change".into());
            }
            Change::Rate(rate) => {
                settings.rate_changes += u32::from(settings.rate != *rate);
                settings.rate = *rate;
                settings.burst = settings.burst.filter(|_| rate.is_some());
            }
            Change::Burst(_) if settings.rate.is_none() => {
                return Err("burst: there is no rate: set rate=RATE with it".into());
            }
            Change::Burst(bytes) => settings.burst = *bytes,
            Change::Bql(_) if !self.can_limit => {
                return Err(
                    "bql: the device does not say when packets have left, so it has no byte limit".into()
                );
            }
            Change::Bql(bounds) => settings.bql = *bounds,
            Change::Batching(batching) => settings.batching = *batching,
            Change::Qdisc(qdisc) => {
                if settings.when_full_follows && settings.when_full != WhenFull::Wait {
                    settings.when_full = own_when_full(qdisc);
                }
                settings.qdisc = self.fitted(&settings, qdisc);
            }
            Change::Link(_) if settings.link.is_none() => {
                return Err(
                    "link: only that of a vhost-user socket can be taken down, and not of fd=N".into()
                );
            }
            Change::Link(is_up) => settings.link = Some(*is_up),
            Change::SmallQueues(small_queues) => settings.small_queues = *small_queues,
            Change::WhenFull(WhenFull::DropTail) if self.direction.is_none() && self.queues.len() > 1 => {
                return Err("when-full: drop-tail is for one queue, and this run has several".into());
            }
            Change::WhenFull(when_full) => {
                (settings.when_full, settings.when_full_follows) = (*when_full, false);
                settings.qdisc = self.fitted(&settings, &settings.qdisc);
            }
            Change::WhenFullFollows(follows) => settings.when_full_follows = *follows,
        }
        Ok(settings)
    }

    /// Checks that `changes` can be made together, in any order. Returns the settings with them.
    pub(super) fn check(&self, changes: &[Change]) -> Result<Settings, String> {
        let settings =
            self.with_all(self.settings().ok_or("a receiver has no setting that can be changed")?, changes)?;
        let (packets, room) = (settings.limited_qdisc().packets(), self.room_packets());
        match packets > room {
            true => Err(format!(
                "qdisc: it holds {packets} packets, and this run has memory for {room}: name a limit, or start with more --frames"
            )),
            false => Ok(settings),
        }
    }

    /// Returns these settings with `changes`, in any order, if this direction can have them.
    pub(super) fn with_all(&self, before: Settings, changes: &[Change]) -> Result<Settings, String> {
        // The limit of a discipline depends on these.
        let (first, others): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| matches!(change, Change::Rate(_) | Change::WhenFull(_)));
        let all = || first.iter().chain(&others);
        let is_twice =
            |change: &Change| all().filter(|other| discriminant(**other) == discriminant(change)).count() > 1;
        if let Some(change) = all().find(|change| is_twice(change)) {
            return Err(format!("{}: is given twice for {}", change.key(), self.path));
        }
        all().try_fold(before, |settings, change| self.with(settings, change))
    }

    /// Returns the discipline `qdisc`; one without a limit gets one that memory can hold.
    pub(super) fn fitted(&self, settings: &Settings, qdisc: &QdiscSpec) -> QdiscSpec {
        let room = self.room_packets();
        if settings.is_short() || qdisc.packets() <= room {
            return qdisc.clone();
        }
        // A limit may be of each band.
        let limited = (1..=8).map(|bands| qdisc.clone().or_limit(room / bands));
        limited.into_iter().find(|limited| limited.packets() <= room).unwrap_or_else(|| qdisc.clone())
    }

    /// Puts into force what `changes` have changed in these settings.
    fn put_in_force(&self, settings: &Settings, changes: &[Change]) {
        let is_any = |which: fn(&Change) -> bool| changes.iter().any(which);
        if is_any(|change| matches!(change, Change::Bql(_))) {
            self.queues.iter().for_each(|queue| queue.set_byte_limits(settings.bql));
        }
        if is_any(|change| matches!(change, Change::Batching(_))) {
            self.queues.iter().for_each(|queue| queue.set_batching(settings.batching));
        }
        if is_any(|change| matches!(change, Change::SmallQueues(_))) {
            self.queues.iter().for_each(|queue| queue.set_small_queues(settings.small_queues.0));
        }
        if let Some(is_up) = settings.link.filter(|_| is_any(|change| matches!(change, Change::Link(_)))) {
            self.queues.iter().for_each(|queue| queue.set_line(is_up));
        }
        if is_any(|change| matches!(change, Change::WhenFull(_) | Change::Qdisc(_))) {
            self.queues.iter().for_each(|queue| {
                queue.set_drop_tail(settings.when_full == WhenFull::DropTail);
                queue.set_patience((settings.when_full != WhenFull::Wait).then_some(PATIENCE));
            });
        }
        let has_rate = is_any(|change| matches!(change, Change::Rate(_) | Change::Burst(_)));
        let before = self.settings();
        let had_rate = before.as_ref().is_some_and(|before| before.rate.is_some());
        // A discipline drops its oldest packets or it does not, for as long as it lives.
        let limit = |settings: &Settings| {
            (qdisc_text(&settings.limited_qdisc()), settings.when_full == WhenFull::DropHead)
        };
        let is_other = is_any(|change| matches!(change, Change::Qdisc(_)))
            || before.is_some_and(|before| limit(&before) != limit(settings));
        match settings.bucket().filter(|_| had_rate && !is_other) {
            // The bucket stays, and all that waits behind it.
            Some(rate) if has_rate => self.queues.iter().for_each(|queue| queue.set_rate(rate)),
            Some(_) => {}
            None if has_rate || is_other => self.set_qdisc(&settings.make_qdisc()),
            None => {}
        }
    }

    /// Returns the packets that a discipline may hold: the other half of the memory is for arrivals and
    /// devices.
    fn room_packets(&self) -> usize {
        self.queues.iter().map(|queue| queue.pool().frames() as usize / 2).min().unwrap_or(0)
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
