//! `edt`: each packet at its earliest time of departure (`SO_TXTIME`; the kernel's `sch_fq.c` and
//! `sch_etf.c`).
//!
//! Assumptions: senders set times ([`Packet::depart_at_ns`](crate::pool::Packet::depart_at_ns)) by the
//! clock of the queue; the queue is run again when [`Qdisc::next_event_ns`] says so. Goal: packets leave in
//! order of their times, each as soon as its time has come, those of one time in order of arrival, those
//! without one at once. What has expired when its turn comes is dropped.
//!
//! The packets are in a binary heap of a fixed size, so that a packet costs the logarithm of their number.

use super::buffers::{ALL, Buffers, HALF};
use super::fq_codel::FLOWS_MAX;
use super::registry::{Order, QUEUE_PACKETS_MAX, QdiscKind, QdiscSetup, QdiscSpec};
use super::store::move_within;
use super::{Backpressure, DROP_HEAD, Limit, OVERLIMIT, Qdisc, QdiscContext, WhenFull};
use crate::options::Key;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;
use wharf_mem::{Batch, Frame, Region, Times};
use wharf_packet::index_of;

/// The reason of packets that had expired when their turn came.
pub const EXPIRED: &str = "expired";
/// The reason of packets whose time of departure is beyond the horizon.
pub const HORIZON: &str = "horizon";
/// The reason of packets of a flow that has as many as it may.
pub const FLOW_FULL: &str = "flow-full";

const HORIZON_MAX: Duration = Duration::from_secs(3600);

/// `edt` of a registry.
pub(super) const KIND: QdiscKind = QdiscKind {
    name: "edt",
    usage: "edt[:key=value,...]",
    summary: "packets at their times of departure",
    takes_limit: false,
    order: Order::All,
    keys: &[
        Key::time(
            "horizon",
            HORIZON_MAX,
            "10s",
            "longest time until a departure; packets beyond are dropped",
        ),
        Key::number("limit", 1..=QUEUE_PACKETS_MAX as u64, "1 to 1048576 packets", "10000", "packets in all"),
        Key::number(
            "flow-limit",
            1..=QUEUE_PACKETS_MAX as u64,
            "1 to 1048576 packets",
            "none",
            "packets of one flow; those beyond are dropped",
        ),
        Key::number(
            "flows",
            1..=FLOWS_MAX as u64,
            "1 to 65536 counts",
            "1024",
            "counts that flows are hashed into, for flow-limit",
        ),
    ],
    packets: |spec| EdtOptions::of(spec, QdiscSetup::default()).limit_packets,
    build: |spec, setup| Box::new(Edt::new(EdtOptions::of(spec, setup))),
};

/// The options of an [`Edt`]; the defaults are those of the kernel's `fq`, but for the limit of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdtOptions {
    /// The longest time until a departure, at most an hour: a packet beyond is dropped.
    pub horizon: Duration,
    /// Packets that it takes in all, from 1 to [`QUEUE_PACKETS_MAX`].
    pub limit_packets: usize,
    /// Packets that it takes of one flow, at least 1: those beyond are dropped. Without it flows are not told
    /// apart.
    pub flow_limit_packets: Option<u32>,
    /// The number of counts that flows are hashed into, from 1 to [`FLOWS_MAX`]; those in one share a limit.
    pub flows: u32,
    /// Effect of the limit in all.
    pub when_full: WhenFull,
    /// Perturbs the hash.
    pub seed: u64,
}

impl Default for EdtOptions {
    fn default() -> Self {
        Self {
            horizon: Duration::from_secs(10),
            limit_packets: 10_000,
            flow_limit_packets: None,
            flows: 1024,
            when_full: WhenFull::Wait,
            seed: 0,
        }
    }
}

impl EdtOptions {
    fn of(spec: &QdiscSpec, setup: QdiscSetup) -> Self {
        let (options, default) = (spec.options(), Self::default());
        let packets = |key| options.number(key).map(|packets| packets as u32);
        Self {
            horizon: options.time("horizon").unwrap_or(default.horizon),
            limit_packets: packets("limit").map_or(default.limit_packets, |packets| packets as usize),
            flow_limit_packets: packets("flow-limit"),
            flows: packets("flows").unwrap_or(default.flows),
            when_full: setup.when_full,
            seed: setup.seed,
        }
    }
}

/// A packet that waits, with its place in the order: departure, then arrival.
#[derive(Debug)]
struct Waiting {
    depart_ns: u64,
    arrival: u64,
    expire_ns: u64,
    flow: u32,
    frame: Frame,
}

/// The earliest is the greatest: the heap gives that one first.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.depart_ns, other.arrival).cmp(&(self.depart_ns, self.arrival))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// Packets at their times of departure.
///
/// ```
/// # use wharf_core as wharf;
/// use std::time::Duration;
/// use wharf::qdisc::{Edt, EdtOptions, Qdisc, QdiscRegistry, QdiscSetup};
///
/// let horizon = Duration::from_secs(2);
/// let options = EdtOptions { horizon, flow_limit_packets: Some(100), ..EdtOptions::default() };
/// assert_eq!(Edt::new(options).next_event_ns(), None);
/// // The same by name, as the command has it.
/// let edt = QdiscRegistry::default().parse("edt:horizon=2s,flow-limit=100")?.build(QdiscSetup::default());
/// assert_eq!(edt.name(), "edt");
/// # Ok::<(), wharf_core::options::OptionError>(())
/// ```
#[derive(Debug)]
pub struct Edt {
    options: EdtOptions,
    heap: BinaryHeap<Waiting>,
    /// Packets that fit: the limit, and one lane per sender.
    capacity: usize,
    buffers: Buffers,
    /// Packets inside by flow; empty without a limit of a flow.
    flows: Box<[u32]>,
    arrivals: u64,
    /// The longest time by which a packet left after its own.
    late_ns_max: u64,
}

impl Edt {
    /// An empty one. Values out of bounds are moved to the nearest bound.
    pub fn new(mut options: EdtOptions) -> Self {
        options.horizon = options.horizon.min(HORIZON_MAX);
        options.limit_packets = options.limit_packets.clamp(1, QUEUE_PACKETS_MAX);
        options.flow_limit_packets = options.flow_limit_packets.map(|packets| packets.max(1));
        options.flows = options.flows.clamp(1, FLOWS_MAX);
        let flows = options.flow_limit_packets.map_or(0, |_| options.flows);
        Self {
            options,
            heap: BinaryHeap::with_capacity(options.limit_packets),
            capacity: options.limit_packets,
            buffers: Buffers::default(),
            flows: vec![0; flows as usize].into_boxed_slice(),
            arrivals: 0,
            late_ns_max: 0,
        }
    }

    fn put(&mut self, cx: &mut QdiscContext<'_>, frame: Frame) {
        let (now_ns, Times { depart_ns, expire_ns }) = (cx.now_ns(), cx.times(&frame));
        let depart_ns = if depart_ns == 0 { now_ns } else { depart_ns };
        // Bounded by an hour.
        if depart_ns > now_ns.saturating_add(self.options.horizon.as_nanos() as u64) {
            return cx.drop(frame, HORIZON);
        }
        let mut flow = 0;
        if let Some(limit) = self.options.flow_limit_packets {
            flow = index_of(cx.flow_hash(&frame, self.options.seed), self.options.flows);
            if self.flows[flow as usize] >= limit {
                return cx.drop(frame, FLOW_FULL);
            }
            self.flows[flow as usize] += 1;
        }
        self.buffers.enter(frame.len_bytes());
        self.heap.push(Waiting { depart_ns, arrival: self.arrivals, expire_ns, flow, frame });
        self.arrivals += 1;
    }

    /// Takes the packet that is first, if its time has come at `now_ns`.
    fn take(&mut self, now_ns: u64) -> Option<Waiting> {
        if self.heap.peek()?.depart_ns > now_ns {
            return None;
        }
        let waiting = self.heap.pop()?;
        self.buffers.leave(waiting.frame.len_bytes());
        if let Some(inside) = self.flows.get_mut(waiting.flow as usize) {
            *inside -= 1;
        }
        Some(waiting)
    }

    /// Returns the reason to drop if it holds more than its limit, or than its part of the memory.
    fn is_over(&self) -> Option<&'static str> {
        match self.heap.len() > self.options.limit_packets {
            true => Some(DROP_HEAD),
            false => (self.buffers.eighths(self.heap.len()) > ALL).then_some(OVERLIMIT),
        }
    }
}

impl Qdisc for Edt {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn reserve(&mut self, frames: usize) {
        self.capacity += frames;
        self.heap.reserve_exact(self.capacity - self.heap.len());
    }

    fn storage(&self) -> usize {
        self.capacity - self.heap.len()
    }

    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch) {
        while self.storage() > 0 {
            let Some(frame) = from.pop() else { return };
            self.put(cx, frame);
        }
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        if self.heap.is_empty() {
            return;
        }
        let now_ns = cx.now_ns();
        move_within(to, limit, || {
            loop {
                let Waiting { depart_ns, expire_ns, frame, .. } = self.take(now_ns)?;
                if expire_ns == 0 || expire_ns > now_ns {
                    self.late_ns_max = self.late_ns_max.max(now_ns - depart_ns);
                    return Some(frame);
                }
                cx.drop(frame, EXPIRED);
            }
        });
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn backpressure(&self) -> Backpressure {
        let (len, limit) = (self.heap.len(), self.options.limit_packets);
        match self.options.when_full {
            WhenFull::DropHead => Backpressure::of_dropping(self.is_over().is_some()),
            WhenFull::Wait => match self.buffers.eighths(len) {
                eighths if eighths > ALL => Backpressure::of_all(0, false),
                eighths => {
                    Backpressure::of_all(limit.saturating_sub(len), len <= limit / 2 && eighths <= HALF)
                }
            },
        }
    }

    fn when_full(&self) -> WhenFull {
        self.options.when_full
    }

    fn bound_memory(&mut self, region: &Region) {
        self.buffers.bound(region);
    }

    /// Drops those that would leave first: they are the oldest, if all wait for the same time.
    fn trim(&mut self, cx: &mut QdiscContext<'_>) {
        while let Some(reason) = self.is_over().filter(|_| self.options.when_full == WhenFull::DropHead) {
            let Some(first) = self.take(u64::MAX) else { return };
            cx.drop(first.frame, reason);
        }
    }

    fn purge(&mut self, to: &mut Batch) {
        to.fill_by(|| Some(self.take(u64::MAX)?.frame));
    }

    fn drops_expired(&self) -> bool {
        true
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.heap.peek().map(|first| first.depart_ns)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.heap.iter().for_each(|waiting| see(&waiting.frame));
    }

    fn stats(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("backlog_packets", self.heap.len() as u64);
        see("late_ns_max", self.late_ns_max);
    }
}
