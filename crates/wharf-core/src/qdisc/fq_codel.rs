//! `fq_codel`: flow queues with controlled delay (RFC 8290; `net/sched/sch_fq_codel.c`).
//!
//! Assumptions: the clock is exact to a part of the target; [`Qdisc::dequeue`] is called when the device can
//! take a packet. Goal: a flow that sends little is not delayed by flows that send much, which share the rate
//! evenly; a flow that keeps a queue gets its packets marked, or dropped, until the queue lasts no longer
//! than the target (`codel`).
//!
//! Packets go into one of `flows` queues by the hash of their flow. Queues take turns by deficit round robin,
//! a quantum each; a queue that was empty goes before those that were not, for one quantum. A super-packet
//! counts the bytes of all its segments, as `qdisc_pkt_len` does.

use super::buffers::{ALL, HALF};
use super::codel::{CoDel, CoDelCall, CoDelCounts, CoDelOptions, Standstill};
use super::flow_list::{Flow, FlowList, On};
use super::registry::{Order, QUEUE_PACKETS_MAX, QdiscKind, QdiscSetup, QdiscSpec};
use super::slab::{FrameList, NONE, Slab, Timed};
use super::store::move_within;
use super::{Backpressure, Limit, Qdisc, QdiscContext, WhenFull};
use crate::options::Key;
use std::iter::successors;
use std::time::Duration;
use wharf_mem::{Batch, Frame, Region};
use wharf_packet::index_of;

/// The reason of frames dropped because the limit is reached.
pub const OVERLIMIT: &str = "overlimit";
/// Most packets dropped from the flow with the most bytes at a time (`drop_batch_size`).
const DROP_BATCH: u64 = 64;
/// The least quantum, as in the kernel: with less, a flow in debt for a super-packet is passed thousands of
/// times.
const QUANTUM_BYTES_MIN: u32 = 256;
const TARGET_MAX: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Most queues, as in the kernel.
pub const FLOWS_MAX: u32 = 65_536;

/// `fq_codel` of a registry.
pub(super) const KIND: QdiscKind = QdiscKind {
    name: "fq_codel",
    usage: "fq_codel[:key=value,...]",
    summary: "flow queues with controlled delay",
    takes_limit: false,
    order: Order::Flow,
    keys: &[
        Key::time("target", TARGET_MAX, "5ms", "delay that a queue may keep; a tenth of interval"),
        Key::time("interval", INTERVAL_MAX, "100ms", "longest round trip of the flows"),
        Key::number(
            "limit",
            1..=QUEUE_PACKETS_MAX as u64,
            "1 to 1048576 packets",
            "10240",
            "packets in all queues",
        ),
        Key::number("memory_limit", 1..=1 << 40, "1 to 1t bytes", "32m", "bytes in all queues"),
        Key::number(
            "flows",
            1..=FLOWS_MAX as u64,
            "1 to 65536 queues",
            "1024",
            "queues that flows are hashed into",
        ),
        Key::number(
            "quantum",
            QUANTUM_BYTES_MIN as u64..=1 << 20,
            "256 to 1m bytes",
            "1514",
            "bytes that a queue sends in its turn",
        ),
        Key::on_off("ecn", "mark ECN-capable packets in place of dropping them"),
    ],
    packets: |spec| FqCodelOptions::of(spec, QdiscSetup::default()).limit_packets,
    build: |spec, setup| Box::new(FqCodel::new(FqCodelOptions::of(spec, setup))),
};

impl FqCodelOptions {
    fn of(spec: &QdiscSpec, setup: QdiscSetup) -> Self {
        let (options, default) = (spec.options(), Self::default());
        let number = |key, default| options.number(key).unwrap_or(default);
        Self {
            target: options.time("target").unwrap_or(default.target),
            interval: options.time("interval").unwrap_or(default.interval),
            limit_packets: number("limit", default.limit_packets as u64) as usize,
            memory_limit_bytes: number("memory_limit", default.memory_limit_bytes),
            flows: number("flows", default.flows.into()) as u32,
            quantum_bytes: number("quantum", default.quantum_bytes.into()) as u32,
            ecn: options.is_on("ecn"),
            when_full: setup.when_full,
            seed: setup.seed,
        }
    }
}

/// The options of an [`FqCodel`]; the defaults are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodelOptions {
    /// The delay that a queue may keep, at most 1 s.
    pub target: Duration,
    /// The time in which a queue must have been below the target: about the longest round trip of its flows,
    /// at most 10 s.
    pub interval: Duration,
    /// Packets that all queues together take, from 1 to [`QUEUE_PACKETS_MAX`].
    pub limit_packets: usize,
    /// Bytes that all queues together take, at least 1.
    pub memory_limit_bytes: u64,
    /// The number of queues, from 1 to [`FLOWS_MAX`].
    pub flows: u32,
    /// Bytes that a queue may send in its turn, at least 256.
    pub quantum_bytes: u32,
    /// True if ECN-capable packets are marked in place of dropped (RFC 3168).
    pub ecn: bool,
    /// Effect of the limits.
    pub when_full: WhenFull,
    /// Perturbs the hash, so that a sender cannot tell which flows share a queue.
    pub seed: u64,
}

impl Default for FqCodelOptions {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit_packets: 10_240,
            memory_limit_bytes: 32 << 20,
            flows: 1024,
            quantum_bytes: 1514,
            ecn: true,
            when_full: WhenFull::Wait,
            seed: 0,
        }
    }
}

/// Flow queues with controlled delay.
#[derive(Debug)]
pub struct FqCodel {
    options: FqCodelOptions,
    flows: Vec<Flow>,
    new: FlowList,
    old: FlowList,
    slab: Slab,
    counts: CoDelCounts,
    overlimit_drops: u64,
    standstill: Standstill,
    /// Times that a queue which was on no list got a packet.
    new_flows: u64,
}

impl FqCodel {
    /// An empty one. Values out of bounds are moved to the nearest bound.
    pub fn new(mut options: FqCodelOptions) -> Self {
        options.limit_packets = options.limit_packets.clamp(1, QUEUE_PACKETS_MAX);
        options.memory_limit_bytes = options.memory_limit_bytes.max(1);
        options.quantum_bytes = options.quantum_bytes.max(QUANTUM_BYTES_MIN);
        options.target = options.target.min(TARGET_MAX);
        options.interval = options.interval.min(INTERVAL_MAX);
        options.flows = options.flows.clamp(1, FLOWS_MAX);
        let idle =
            Flow { packets: FrameList::EMPTY, codel: CoDel::default(), deficit: 0, on: On::None, next: NONE };
        Self {
            options,
            flows: vec![idle; options.flows as usize],
            new: FlowList::EMPTY,
            old: FlowList::EMPTY,
            slab: Slab::with_capacity(options.limit_packets),
            counts: CoDelCounts::default(),
            overlimit_drops: 0,
            standstill: Standstill::new(options.interval, options.when_full),
            new_flows: 0,
        }
    }

    fn put(&mut self, cx: &mut QdiscContext<'_>, frame: Frame) {
        let hash = cx.flow_hash(&frame, self.options.seed);
        let at = index_of(hash, self.options.flows);
        let (enqueued_ns, wire_bytes) = (cx.arrived_ns(&frame), cx.wire_bytes(&frame));
        let flow = &mut self.flows[at as usize];
        if flow.packets.is_empty() {
            // Its turn may not have come since: nothing leaves an empty discipline, nor a flow in debt.
            flow.codel.ran_empty();
        }
        self.slab.push(&mut flow.packets, Timed { frame, enqueued_ns, wire_bytes });
        if flow.on == On::None {
            (flow.on, flow.deficit) = (On::New, self.options.quantum_bytes.into());
            self.new.push(&mut self.flows, at);
            self.new_flows += 1;
        }
    }

    /// Takes the next packet: RFC 8290, section 4.2.
    fn next(&mut self, cx: &mut QdiscContext<'_>) -> Option<Frame> {
        let FqCodelOptions { target, interval, ecn, quantum_bytes, .. } = self.options;
        // Both are bounded by seconds.
        let [target_ns, interval_ns] = [target, interval].map(|time| time.as_nanos() as u64);
        loop {
            let is_new = self.new.head != NONE;
            let at = if is_new { self.new.head } else { self.old.head };
            let flow = self.flows.get_mut(at as usize)?;
            if flow.deficit <= 0 {
                flow.deficit += i64::from(quantum_bytes);
                self.move_to_old(is_new);
                continue;
            }
            let options = CoDelOptions { target_ns, interval_ns, ecn };
            let (counts, slab, list) = (&mut self.counts, &mut self.slab, &mut flow.packets);
            let fresh_ns = self.standstill.fresh_ns;
            let mut call = CoDelCall { cx, options, counts, slab, list, fresh_ns };
            if let Some(timed) = flow.codel.dequeue(&mut call) {
                flow.deficit -= timed.wire_bytes as i64;
                return Some(timed.frame);
            }
            // A new flow that has emptied waits a turn of the old ones, or it could starve them.
            if is_new && self.old.head != NONE {
                self.move_to_old(true);
            } else {
                self.take_off(is_new);
            }
        }
    }

    /// Takes a packet of the next flow, whatever its time.
    fn next_in_turn(&mut self) -> Option<Frame> {
        loop {
            let is_new = self.new.head != NONE;
            let at = if is_new { self.new.head } else { self.old.head };
            let flow = self.flows.get_mut(at as usize)?;
            if let Some(timed) = self.slab.pop(&mut flow.packets) {
                self.move_to_old(is_new);
                return Some(timed.frame);
            }
            self.take_off(is_new);
        }
    }

    /// Takes the first flow of a list off it.
    fn take_off(&mut self, is_new: bool) -> Option<u32> {
        let at = if is_new { &mut self.new } else { &mut self.old }.pop(&self.flows)?;
        self.flows[at as usize].on = On::None;
        Some(at)
    }

    /// Moves the first flow of a list to the end of the old ones.
    fn move_to_old(&mut self, is_new: bool) {
        if let Some(at) = self.take_off(is_new) {
            self.old.push(&mut self.flows, at);
            self.flows[at as usize].on = On::Old;
        }
    }

    /// Returns the flow with the most bytes; while super-packets take too much memory, with the most of that.
    /// A flow that has packets is on one of the lists, where few are: all flows would be a look at 100 kB.
    /// Packets of no bytes count as well, or a flow without packets could be the fattest.
    fn fattest(&self) -> Option<usize> {
        let flow = |at: u32| self.flows.get(at as usize).map(|flow| (at as usize, flow));
        let of_list = |list: &FlowList| successors(flow(list.head), |(_, before)| flow(before.next));
        let all = of_list(&self.new).chain(of_list(&self.old));
        let is_memory = self.is_over_memory();
        let further = |flow: &Flow| if is_memory { flow.packets.further() } else { 0 };
        let by_size = |(at, flow): &(usize, &Flow)| {
            (further(flow), flow.packets.bytes(), !flow.packets.is_empty(), *at)
        };
        all.max_by_key(by_size).map(|(at, _)| at)
    }

    fn is_over(&self) -> bool {
        let FqCodelOptions { limit_packets, memory_limit_bytes, .. } = self.options;
        let slab = &self.slab;
        slab.len() > limit_packets || slab.bytes() > memory_limit_bytes || self.is_over_memory()
    }

    /// Returns the eighths of the memory that it may take.
    fn memory_eighths(&self) -> usize {
        self.slab.buffers.eighths(self.slab.len())
    }

    fn is_over_memory(&self) -> bool {
        self.memory_eighths() > ALL
    }
}

impl Qdisc for FqCodel {
    fn name(&self) -> &'static str {
        "fq_codel"
    }

    fn reserve(&mut self, frames: usize) {
        self.slab.reserve(frames);
    }

    fn storage(&self) -> usize {
        self.slab.storage()
    }

    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch) {
        for _ in 0..self.slab.storage() {
            let Some(frame) = from.pop() else { return };
            self.put(cx, frame);
        }
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        if self.slab.len() == 0 {
            return;
        }
        self.standstill.note(cx);
        move_within(to, limit, || self.next(cx));
    }

    fn len(&self) -> usize {
        self.slab.len()
    }

    fn backpressure(&self) -> Backpressure {
        let FqCodelOptions { limit_packets, memory_limit_bytes, when_full, .. } = self.options;
        let (len, bytes) = (self.slab.len(), self.slab.bytes());
        match when_full {
            WhenFull::DropHead => Backpressure::of_dropping(self.is_over()),
            WhenFull::Wait => {
                let eighths = self.memory_eighths();
                if bytes >= memory_limit_bytes || eighths > ALL {
                    return Backpressure::of_all(0, false);
                }
                let is_short = len <= limit_packets / 2 && bytes <= memory_limit_bytes / 2;
                Backpressure::of_all(limit_packets.saturating_sub(len), is_short && eighths <= HALF)
            }
        }
    }

    fn when_full(&self) -> WhenFull {
        self.options.when_full
    }

    fn bound_memory(&mut self, region: &Region) {
        self.slab.buffers.bound(region);
    }

    /// Drops from the head of the flow with the most bytes, up to half of them at a time (`fq_codel_drop`).
    fn trim(&mut self, cx: &mut QdiscContext<'_>) {
        while self.options.when_full == WhenFull::DropHead && self.is_over() {
            let Some(fattest) = self.fattest().map(|at| &mut self.flows[at]) else { return };
            let (mut dropped, threshold) = (0, fattest.packets.bytes() / 2);
            while dropped < DROP_BATCH && (dropped == 0 || fattest.packets.bytes() > threshold) {
                let Some(timed) = self.slab.pop(&mut fattest.packets) else { break };
                cx.drop(timed.frame, OVERLIMIT);
                dropped += 1;
            }
            if dropped == 0 {
                return;
            }
            self.overlimit_drops += dropped;
            // CoDel is to signal more strongly, too.
            fattest.codel.count = fattest.codel.count.saturating_add(dropped as u32);
        }
    }

    /// A packet of each flow in turn: what a smaller discipline then has no room for is the end of the longest.
    fn purge(&mut self, to: &mut Batch) {
        to.fill_by(|| self.next_in_turn());
    }

    fn can_bypass(&self) -> bool {
        true
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.slab.visit(see);
    }

    fn stats(&self, see: &mut dyn FnMut(&'static str, u64)) {
        let CoDelCounts { marked, drops, delay_ns_max } = self.counts;
        see("marked", marked);
        see("codel_drops", drops);
        see("overlimit_drops", self.overlimit_drops);
        see("new_flows", self.new_flows);
        see("flows", self.flows.iter().filter(|flow| !flow.packets.is_empty()).count() as u64);
        see("backlog_packets", self.slab.len() as u64);
        see("backlog_bytes", self.slab.bytes());
        see("delay_ns_max", delay_ns_max);
    }
}
