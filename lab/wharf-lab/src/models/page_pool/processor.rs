//! A processor: each step of its cache's state machine, and the step's time.

use super::{Costs, Machine, Setup};
use crate::comparators::page_policy::{AnyCache, Place, Wanted};
use std::collections::VecDeque;
use wharf_core::pool::PageCounters;
use wharf_mem::{Batch, Frame};
use wharf_sim::engine::cpu::{Cpu, Mode, Tick};
use wharf_sim::engine::lock::{HandedOver, LockKind, SpinLock};
use wharf_sim::engine::{Agenda, Random, take_due};
use wharf_sim::nic::simple::{Departed, wire_bytes};

/// Bytes of a packet; the length matters to no step.
const PACKET_BYTES: u32 = 64;
/// The time until a channel that found no page looks again.
const AGAIN_NS: u64 = 1000;

/// The step that ends at a processor's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It holds no packet.
    Ready,
    /// A packet is received.
    Received,
    /// A packet is read.
    Read,
    /// It wants the lock of a place.
    Wants(Place),
    /// It has that lock.
    Has(Place),
    /// It is done with that place.
    Leaves(Place),
}

#[derive(Debug)]
pub(super) struct Processor {
    pub(super) cpu: Cpu,
    pub(super) cache: AnyCache,
    phase: Phase,
    /// True if it has no event until it is woken.
    idle: bool,
    /// The frame at hand.
    hand: Batch,
    /// A channel's stream of the burst, and the rest of the burst.
    stream: Option<usize>,
    burst_left: u32,
    /// An application's packets to read, and packets of slow streams that wait to be freed, with the times.
    backlog: VecDeque<(u64, Frame)>,
    slow: VecDeque<(u64, Frame)>,
}

impl Processor {
    pub(super) fn new(cache: AnyCache, is_channel: bool) -> Self {
        Self {
            cpu: Cpu::new(Tick { every_ns: 0, cost_ns: 0 }, 0),
            cache,
            phase: Phase::Ready,
            idle: !is_channel,
            hand: Batch::new(1),
            stream: None,
            burst_left: 0,
            backlog: VecDeque::new(),
            slow: VecDeque::new(),
        }
    }
}

impl Machine {
    #[inline]
    pub(super) fn processor_acts(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].phase {
            Phase::Ready if self.is_channel(at) => self.receive(at, now_ns, agenda),
            Phase::Ready => self.read(at, now_ns, agenda),
            Phase::Received => self.received(at, now_ns, agenda),
            Phase::Read => self.has_read(at, now_ns, agenda),
            Phase::Wants(place) => self.want(at, place, now_ns, agenda),
            Phase::Has(place) => self.visit(at, place, now_ns, agenda),
            Phase::Leaves(place) => self.leave(at, place, now_ns, agenda),
        }
    }

    pub(super) fn is_channel(&self, at: usize) -> bool {
        at < self.setup.channels
    }

    fn mode(&self, at: usize) -> Mode {
        if self.is_channel(at) { Mode::Soft } else { Mode::System }
    }

    /// Lets processor `at` work, and then be in `phase`.
    fn work(&mut self, at: usize, now_ns: u64, work_ns: u64, phase: Phase, agenda: &mut Agenda) {
        let mode = self.mode(at);
        let processor = &mut self.processors[at];
        processor.phase = phase;
        let done_ns = processor.cpu.work(now_ns, work_ns, mode);
        agenda.set(at, done_ns);
    }

    /// Takes a page for a channel's next packet.
    fn receive(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(stream) = self.next_stream(at, now_ns) else {
            self.processors[at].idle = true;
            return;
        };
        let Setup { costs, time, .. } = self.setup;
        let Processor { cache, hand, .. } = &mut self.processors[at];
        let before = cache.counters();
        let wanted = Wanted { sender: stream as u16, len_bytes: PACKET_BYTES };
        // The only error is a length too long, and this one fits.
        let taken = cache.take_here(hand, 1, wanted).unwrap_or(0);
        let page_ns = page_ns(&costs, &before, &cache.counters());
        if taken == 0 {
            let source = cache.source();
            return self.work(at, now_ns, page_ns, Phase::Wants(source), agenda);
        }
        self.note_taken(at, stream);
        let receive_ns = self.random.around(costs.receive_ns, time.jitter_permille);
        self.work(at, now_ns, page_ns + receive_ns, Phase::Received, agenda);
    }

    fn note_taken(&mut self, at: usize, stream: usize) {
        let processor = &mut self.processors[at];
        processor.burst_left -= 1;
        self.inside[stream] += 1;
        if let Some(frame) = processor.hand.frames().first() {
            let was_out = std::mem::replace(&mut self.out[frame.index() as usize], true);
            if was_out {
                self.doubled = Some(frame.index());
            }
            self.witness.enters(stream, frame.index());
        }
    }

    /// Returns the stream of the next packet: that of the burst, or any with an open window.
    fn next_stream(&mut self, at: usize, now_ns: u64) -> Option<usize> {
        if self.setup.time.is_over(now_ns) {
            return None;
        }
        let is_open = |stream: &usize| self.inside[*stream] < self.setup.window_packets;
        let processor = &mut self.processors[at];
        if let Some(stream) = processor.stream.filter(|stream| processor.burst_left > 0 && is_open(stream)) {
            return Some(stream);
        }
        let of_channel = self.setup.streams.saturating_sub(at).div_ceil(self.setup.channels);
        let first = self.random.below(of_channel as u64) as usize;
        let streams = (0..of_channel).map(|n| at + (first + n) % of_channel * self.setup.channels);
        processor.stream = streams.into_iter().find(is_open);
        processor.burst_left = self.setup.burst_packets;
        processor.stream
    }

    /// Puts a channel's packet into the backlog of the application's processor, and goes on with the next.
    fn received(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if let Some(frame) = self.processors[at].hand.pop() {
            let to = self.setup.application_of(usize::from(frame.sender()));
            let there_ns = self.there_ns(now_ns);
            self.processors[to].backlog.push_back((there_ns, frame));
            self.wake(to, there_ns, agenda);
        }
        self.processors[at].phase = Phase::Ready;
        self.receive(at, now_ns, agenda);
    }

    /// Returns when a packet that is sent now has passed the wire.
    fn there_ns(&mut self, now_ns: u64) -> u64 {
        let Some(each_ps) =
            (wire_bytes(PACKET_BYTES) * 8 * 1_000_000_000_000).checked_div(self.setup.wire_bits_per_s)
        else {
            return now_ns;
        };
        self.wire_free_ps = self.wire_free_ps.max(u128::from(now_ns) * 1000) + u128::from(each_ps);
        (self.wire_free_ps / 1000) as u64
    }

    fn wake(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if std::mem::take(&mut self.processors[at].idle) {
            agenda.set(at, now_ns + self.setup.costs.wake_ns);
        }
    }

    /// Frees the packets that slow streams are done with, reads a packet, or waits.
    fn read(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        processor.idle = false;
        if let Some(frame) = take_due(&mut processor.slow, now_ns) {
            return self.free(at, frame, now_ns, agenda);
        }
        if let Some(frame) = take_due(&mut processor.backlog, now_ns) {
            // There is room for one, and it is empty.
            let _ = processor.hand.push(frame);
            let read_ns = self.random.around(self.setup.costs.read_ns, self.setup.time.jitter_permille);
            return self.work(at, now_ns, read_ns, Phase::Read, agenda);
        }
        processor.idle = processor.backlog.is_empty();
        let due_ns = [&processor.slow, &processor.backlog]
            .into_iter()
            .filter_map(|waiting| waiting.front())
            .map(|of| of.0);
        if let Some(due_ns) = due_ns.min() {
            agenda.set(at, due_ns);
        }
    }

    /// Handles a packet that an application has read.
    fn has_read(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.processors[at].phase = Phase::Ready;
        let Some(frame) = self.processors[at].hand.pop() else { return };
        self.witness.leaves(&Departed { index: frame.index(), len_bytes: PACKET_BYTES, at_ns: now_ns });
        if usize::from(frame.sender()) < self.setup.slow_streams {
            let until_ns = now_ns + self.setup.slow_ns;
            self.processors[at].slow.push_back((until_ns, frame));
            return self.read(at, now_ns, agenda);
        }
        self.free(at, frame, now_ns, agenda);
    }

    /// Frees an application's page. The stream's window opens by one.
    fn free(&mut self, at: usize, frame: Frame, now_ns: u64, agenda: &mut Agenda) {
        let stream = usize::from(frame.sender());
        self.inside[stream] -= 1;
        self.out[frame.index() as usize] = false;
        let costs = self.setup.costs;
        let processor = &mut self.processors[at];
        let before = processor.cache.counters();
        // There is room for one, and it is empty; the frame is of this pool.
        let _ = processor.hand.push(frame);
        let _ = processor.cache.give_here(&mut processor.hand);
        let page_ns = page_ns(&costs, &before, &processor.cache.counters());
        self.wake(self.setup.channel_of(stream), now_ns, agenda);
        self.bring_surplus(at, now_ns, page_ns, agenda);
    }

    fn bring_surplus(&mut self, at: usize, now_ns: u64, work_ns: u64, agenda: &mut Agenda) {
        let phase = self.processors[at].cache.surplus().map_or(Phase::Ready, Phase::Wants);
        self.work(at, now_ns, work_ns, phase, agenda);
    }

    fn want(&mut self, at: usize, place: Place, now_ns: u64, agenda: &mut Agenda) {
        // A processor that spins has no event until it gets the lock.
        if let Some(taking_ns) = self.places.acquire(place, at, now_ns) {
            self.work(at, now_ns, taking_ns, Phase::Has(place), agenda);
        }
    }

    /// Does the policy's work at a place, under its lock.
    fn visit(&mut self, at: usize, place: Place, now_ns: u64, agenda: &mut Agenda) {
        let is_channel = self.is_channel(at);
        let cache = &mut self.processors[at].cache;
        let moved = if is_channel { cache.fetch(1) } else { cache.bring() };
        let held_ns = self.places.held_ns(place, moved);
        let none_ns = if is_channel && moved == 0 { AGAIN_NS } else { 0 };
        self.work(at, now_ns, held_ns + none_ns, Phase::Leaves(place), agenda);
    }

    fn leave(&mut self, at: usize, place: Place, now_ns: u64, agenda: &mut Agenda) {
        if let Some(handed) = self.places.release(place, now_ns, &mut self.random) {
            self.hand_over(handed, place, agenda);
        }
        if self.is_channel(at) {
            self.processors[at].phase = Phase::Ready;
            return self.receive(at, now_ns, agenda);
        }
        self.bring_surplus(at, now_ns, 0, agenda);
    }

    fn hand_over(
        &mut self, HandedOver { cpu, since_ns, at_ns }: HandedOver, place: Place, agenda: &mut Agenda,
    ) {
        let mode = self.mode(cpu);
        let next = &mut self.processors[cpu];
        next.cpu.spun(since_ns, at_ns, mode);
        next.phase = Phase::Has(place);
        agenda.set(cpu, at_ns);
    }
}

/// Returns the time of taking or giving a page without any lock, by the cache's counts meanwhile.
fn page_ns(costs: &Costs, before: &PageCounters, after: &PageCounters) -> u64 {
    let misses = after.misses - before.misses;
    let hits = after.looks - before.looks - misses;
    costs.page_ns + misses * costs.look_miss_ns + hits * costs.look_hit_ns
}

#[derive(Debug)]
pub(super) struct Places {
    /// The depot's lock, then one per mailbox.
    locks: Vec<SpinLock>,
    costs: Costs,
}

impl Places {
    /// Creates a mailbox for each processor: caches are numbered as they are made, one per processor.
    pub(super) fn new(cpus: usize, costs: Costs) -> Self {
        // Queued spin locks serve in order, and each spinner waits on a line of its own.
        let locks = (0..=cpus).map(|_| SpinLock::new(LockKind::Ticket, costs.lock)).collect();
        Self { locks, costs }
    }

    fn number(place: Place) -> usize {
        match place {
            Place::Depot => 0,
            Place::Mailbox(cache) => 1 + cache,
        }
    }

    /// Works like [`SpinLock::acquire`].
    pub(super) fn acquire(&mut self, place: Place, cpu: usize, now_ns: u64) -> Option<u64> {
        self.locks[Self::number(place)].acquire(cpu, now_ns)
    }

    /// Works like [`SpinLock::release`].
    pub(super) fn release(&mut self, place: Place, now_ns: u64, random: &mut Random) -> Option<HandedOver> {
        self.locks[Self::number(place)].release(now_ns, random)
    }

    /// Returns the time of moving `moved` pages there or from there.
    pub(super) fn held_ns(&self, place: Place, moved: usize) -> u64 {
        let each_ps = match place {
            Place::Depot => self.costs.depot_page_ps,
            Place::Mailbox(_) => self.costs.mail_frame_ps,
        };
        moved as u64 * each_ps / 1000
    }
}
