//! One direction, while it runs and once it is over.

use super::pass::{Activity, Counts};
use super::ring::RingDelays;
use super::way::Drops;
use super::{ForwardSettings, MakeQdisc};
use crate::metrics::Latency;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::counters::{Counter, QueueCounters};
use wharf_core::delay::{BANDS, Delayed, Delays, QueueDelay, add_all};
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::drops::drops_by_reason;
use wharf_core::pool::Audit;
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;

/// Most errors that are kept of ports of one end.
const ERRORS_MAX: usize = 8;

/// What tells of the packets that a way other than a sender has dropped.
#[derive(Clone)]
pub(super) struct Dropped(pub(super) Arc<Drops>);

impl std::fmt::Debug for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dropped")
    }
}

/// One direction: the receive sides of one end, and the queues of the other. A clone is another handle to the same direction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Direction {
    /// `a-b` if frames arrive at the first end, `b-a` if they arrive at the second; `p1`, `p2` and so on, one
    /// for each port of a switch.
    pub name: String,
    /// The end that frames come from.
    pub from: String,
    /// The end that they leave by: a switch's port has one for what arrives at it and what leaves by it.
    pub to: String,
    /// Its queues.
    pub queues: Vec<TxQueue>,
    /// True if the queues began with a byte queue limit.
    pub has_bql: bool,
    /// True if the device says when packets have left, as a byte queue limit wants it.
    pub can_limit: bool,
    /// Its receive sides, by queue.
    pub receivers: Vec<RxQueue>,
    pub(super) activity: Arc<Activity>,
    /// By receiver.
    pub(super) counts: Vec<Arc<Counts>>,
    /// By queue.
    pub(super) delays: Vec<Arc<Delays>>,
    pub(super) ring_delays: Vec<Arc<RingDelays>>,
    /// Arrivals leave by whatever end a router sends them to.
    pub(super) way: Option<Dropped>,
}

/// The result of a direction. Every received frame is accounted for:
/// `received - cut + pieces = accepted by the queues + dropped before them + returned`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The end that frames came from.
    pub from: String,
    /// The end that they left by.
    pub to: String,
    /// Its queues, shut down; their counters are final.
    pub queues: Vec<TxQueue>,
    /// True if the queues began with a byte queue limit.
    pub has_bql: bool,
    /// True if the device says when packets have left, as a byte queue limit wants it.
    pub can_limit: bool,
    /// Frames received.
    pub received: u64,
    /// Super-packets that were segmented before the queue.
    pub cut: u64,
    /// Segments of these that went on.
    pub pieces: u64,
    /// Frames that were received and came back unsent at the end, from before the queue and from within.
    pub returned: u64,
    /// Frames lost, by reason: at the receiving device, before the queue, within, and at the sending device.
    pub drops: BTreeMap<String, u64>,
    /// Time from the first frames received to the last, or to the last departure seen: see [`Direction::note_departures`].
    pub span_ns: u64,
    /// The same without pauses of a second and more in which nothing moved and nothing was inside. Rates are over this time.
    pub active_ns: u64,
    /// Time that packets waited in the discipline; those that passed an empty one by waited for 0 ns.
    pub queue_delay: Latency,
    /// By band, the time of those that the discipline held; without bands all are in the second, best
    /// effort's.
    pub queue_delay_by_band: [Latency; BANDS],
    /// Time that packets were in the device, by band; empty if it does not report departures.
    pub ring_delay_by_band: [Latency; BANDS],
    /// Those among them that ended with a stamp of the device's, and not when the frame came back.
    pub ring_delays_stamped: u64,
    /// Errors of the devices as they closed.
    pub errors: Vec<DeviceError>,
    /// The memory at the end, of all queues together.
    pub audit: Audit,
    counts: Vec<Arc<Counts>>,
    /// Drops at receive sides that were added up.
    earlier_drops: BTreeMap<String, u64>,
    /// Its receive sides, closed.
    receivers: Vec<RxQueue>,
    way: Option<Dropped>,
}

impl Direction {
    pub(super) fn new(name: &str, from: String, to: String) -> Self {
        Self {
            name: name.into(),
            from,
            to,
            queues: Vec::new(),
            has_bql: false,
            can_limit: false,
            receivers: Vec::new(),
            activity: Arc::default(),
            counts: Vec::new(),
            delays: Vec::new(),
            ring_delays: Vec::new(),
            way: None,
        }
    }

    /// Adds a queue of `device`, whose discipline notes `delays`. Returns the device, which notes its own.
    pub(super) fn add_queue(
        &mut self, device: AnyDevice, delays: &Arc<Delays>, settings: &ForwardSettings,
    ) -> AnyDevice {
        self.can_limit = device.as_tx().is_some_and(|device| device.info().has_real_completions());
        self.has_bql = self.can_limit && !settings.byte_limits.is_off();
        let ring_delays = Arc::<RingDelays>::default();
        let device = ring_delays.around(device);
        self.delays.push(delays.clone());
        self.ring_delays.push(ring_delays);
        device
    }

    /// Returns the frames lost so far, by reason. It asks the devices, so it is not for every packet.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        drops(&self.queues, &self.receivers, &self.counts, self.way.as_ref())
    }

    /// Returns the packets that came back unsent so far: at the end, those that waited to be sent among them.
    pub fn returned(&self) -> u64 {
        returned(&self.queues, &self.counts)
    }

    /// Puts what `make` makes in the place of each queue's discipline, under traffic: see [`TxQueue::set_qdisc`].
    pub fn set_qdisc(&self, make: &MakeQdisc) {
        for (queue, delays) in self.queues.iter().zip(&self.delays) {
            let pool = queue.pool();
            queue.set_qdisc(Box::new(Delayed::new(make(pool), pool.frames(), delays.clone())));
        }
    }

    /// Returns the time that packets have waited in the discipline so far, by band as in
    /// [`Summary::queue_delay_by_band`]. A frame that leaves meanwhile may not be entered.
    pub fn queue_delay_by_band(&self) -> [Latency; BANDS] {
        QueueDelay::of(self.delays.iter().map(|one| &**one), 0).by_band
    }

    /// Returns the reason if nothing can leave by it for good: the device that it leaves by is gone.
    pub fn gone(&self) -> Option<String> {
        self.queues.iter().find_map(|queue| queue.counters().gone_error()).map(str::to_string)
    }

    /// Notes departures since the last call. Frames that a discipline holds back leave long after they came, and belong to the time that
    /// a rate is over. The supervising thread calls it now and then.
    pub fn note_departures(&self) {
        let (mut packets, mut is_inside) = (0, false);
        for counters in self.queues.iter().map(TxQueue::counters) {
            packets += counters.packets.get();
            is_inside |= counters.accepted.get() > counters.gone();
        }
        self.activity.departed(packets, is_inside);
    }

    /// True if nothing will arrive any more, and all arrivals have left.
    pub(super) fn is_over(&self) -> bool {
        let is_in =
            self.receivers.iter().all(RxQueue::has_ended) && sum(&self.counts, |counts| &counts.waiting) == 0;
        is_in && self.queues.iter().all(|queue| queue.drain_until(0))
    }

    /// Sends frames inside until `deadline_ns` of the host's clock. The rest comes back.
    pub(super) fn drain(&self, deadline_ns: u64) {
        self.note_departures();
        self.queues.iter().for_each(|queue| _ = queue.drain_until(deadline_ns));
        self.note_departures();
    }

    /// Closes the receive side, once nothing polls it. The queues are still to be shut down.
    pub(super) fn close(self) -> Summary {
        let Self {
            from,
            to,
            queues,
            has_bql,
            can_limit,
            receivers,
            activity,
            counts,
            delays,
            ring_delays,
            way,
            ..
        } = self;
        let packets = queues.iter().map(|queue| queue.counters().packets.get()).sum();
        let closed = receivers.iter().flat_map(|receiver| [receiver.take_error(), receiver.close().err()]);
        let errors = closed.flatten().collect();
        let QueueDelay { all: queue_delay, by_band: queue_delay_by_band, .. } =
            QueueDelay::of(delays.iter().map(|one| &**one), packets);
        Summary {
            from,
            to,
            queue_delay,
            queue_delay_by_band,
            ring_delay_by_band: RingDelays::sum(ring_delays.iter().map(|one| &**one)),
            ring_delays_stamped: ring_delays.iter().map(|one| one.stamped()).sum(),
            queues,
            has_bql,
            can_limit,
            errors,
            received: receivers.iter().map(RxQueue::received).sum(),
            cut: sum(&counts, |counts| &counts.cut),
            pieces: sum(&counts, |counts| &counts.pieces),
            returned: 0,
            drops: BTreeMap::new(),
            span_ns: activity.span_ns(),
            active_ns: activity.active_ns(),
            audit: Audit::default(),
            counts,
            earlier_drops: BTreeMap::new(),
            receivers,
            way,
        }
    }
}

impl Summary {
    /// Returns it as that of an end `name`.
    pub(super) fn named(self, name: &str) -> Self {
        Self { from: name.into(), to: name.into(), ..self }
    }

    /// Adds what another port has counted, before the audit: of that, nothing but sums and times is left.
    pub(super) fn add(&mut self, mut later: Self) {
        self.queues.iter().chain(&later.queues).for_each(TxQueue::poll);
        // A queue whose device may have frames still counts on: it is kept.
        let is_final = |queue: &TxQueue| queue.counters().accepted.get() == queue.counters().gone();
        for (at, queue) in later.queues.drain(..).enumerate() {
            match self.queues.get(at).filter(|first| is_final(first) && is_final(&queue)) {
                Some(first) => first.absorb(&queue),
                None => self.queues.push(queue),
            }
        }
        let more = later.counts.split_off(self.counts.len().min(later.counts.len()));
        self.counts.iter().zip(&later.counts).for_each(|(counts, other)| counts.absorb(other));
        self.counts.extend(more);
        let at_device = drops(&[], &later.receivers, &[], None).into_iter();
        at_device.for_each(|(reason, count)| *self.earlier_drops.entry(reason).or_default() += count);
        self.received += later.received;
        self.cut += later.cut;
        self.pieces += later.pieces;
        self.span_ns += later.span_ns;
        self.active_ns += later.active_ns;
        self.queue_delay.add(&later.queue_delay);
        add_all(&mut self.queue_delay_by_band, &later.queue_delay_by_band);
        add_all(&mut self.ring_delay_by_band, &later.ring_delay_by_band);
        self.ring_delays_stamped += later.ring_delays_stamped;
        self.errors.extend(later.errors);
        self.errors.truncate(ERRORS_MAX);
    }

    /// Takes the audit, once the queues of all that share the memory are shut down.
    pub(super) fn settle(&mut self) {
        self.queues.iter().for_each(TxQueue::poll);
        let mut pools = Vec::new();
        for queue in &self.queues {
            let pool = queue.pool().region().number();
            if !pools.contains(&pool) {
                pools.push(pool);
                let Audit { frames, held, going_home } = queue.audit();
                self.audit.frames += frames;
                self.audit.held.extend(held);
                self.audit.going_home += going_home;
            }
        }
        self.counts.iter().for_each(|counts| counts.settle());
        self.returned = returned(&self.queues, &self.counts);
        self.drops = drops(&self.queues, &self.receivers, &self.counts, self.way.as_ref());
        let earlier = self.earlier_drops.iter();
        earlier.for_each(|(reason, count)| *self.drops.entry(reason.clone()).or_default() += count);
    }

    /// Returns a line if received frames are neither sent, dropped nor returned. A router accounts for its
    /// own.
    pub fn missing(&self) -> Option<String> {
        if self.way.is_some() { None } else { Self::missing_of(std::slice::from_ref(self)) }
    }

    /// Works like [`Summary::missing`], for all ports of a switch, whose floods are copies.
    pub fn missing_of(all: &[Self]) -> Option<String> {
        let total = |count: fn(&Self) -> u64| all.iter().map(count).sum::<u64>();
        let (received, cut, pieces) =
            (total(|one| one.received), total(|one| one.cut), total(|one| one.pieces));
        let copies = total(|one| sum(&one.counts, |counts| &counts.copies));
        let sent = total(|one| one.total(|counters| &counters.sent));
        let failed = total(|one| one.total(|counters| &counters.failed));
        let freed = |one: &Self| {
            one.counts.iter().flat_map(|counts| counts.unsent()).map(|(_, freed)| freed).sum::<u64>()
        };
        let before = total(|one| at_senders(&one.queues)) + total(freed);
        let returned = total(|one| one.returned);
        (received + pieces + copies != cut + sent + failed + before + returned).then(|| {
            format!(
                "the account does not add up: {received} packets received and {copies} copied, of which {cut} were cut into {pieces}, but {sent} sent, {failed} failed, {before} dropped before the queue and {returned} returned"
            )
        })
    }

    /// Returns a sum over the queues.
    fn total(&self, count: impl Fn(&QueueCounters) -> &Counter) -> u64 {
        self.queues.iter().map(|queue| count(queue.counters()).get()).sum()
    }
}

fn sum(counts: &[Arc<Counts>], count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
    counts.iter().map(|counts| count(counts).load(Relaxed)).sum()
}

fn returned(queues: &[TxQueue], counts: &[Arc<Counts>]) -> u64 {
    let of_queues: u64 = queues.iter().map(|queue| queue.counters().returned.get()).sum();
    of_queues + sum(counts, |counts| &counts.returned)
}

/// Returns drops at the receiving device, before the queues, within them, and at the sending device.
fn drops(
    queues: &[TxQueue], receivers: &[RxQueue], counts: &[Arc<Counts>], way: Option<&Dropped>,
) -> BTreeMap<String, u64> {
    let mut drops = drops_by_reason(queues, receivers);
    if way.is_none() {
        // What a handler has left at the end is returned: see `returned`.
        drops.remove("receiver-gone");
    }
    let mut see = |reason: &str, count: u64| *drops.entry(reason.into()).or_default() += count;
    way.iter().for_each(|way| way.0(&mut see));
    counts.iter().flat_map(|counts| counts.unsent()).for_each(|(word, packets)| see(word, packets));
    drops.retain(|_, count| *count > 0);
    drops
}

fn at_senders(queues: &[TxQueue]) -> u64 {
    queues.iter().map(|queue| queue.sender_totals().drops.get()).sum()
}
