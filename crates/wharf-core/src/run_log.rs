//! `RunLog`: what a sender did as the owner of its queue: how long, for whom. For comparisons of owner policies.
//!
//! QuotaKind on request only ([`crate::tx::queue::QueueBuilder::log_runs`]), since it reads a clock twice per run.

use crate::counters::Counter;
use crate::histogram::Histogram;
use crate::tx::owner::Owner;
use crate::tx::queue::Shared;

/// The runs of one sender; written by its thread, read by anybody.
#[derive(Debug)]
pub struct RunLog {
    place: usize,
    /// Runs: each from becoming the owner to leaving, or to offering the queue to others.
    pub runs: Counter,
    /// Frames that the device took in them, whoever sent them.
    pub packets: Counter,
    /// Frames that it took over from other senders.
    pub for_others: Counter,
    /// Frames of the longest run.
    pub longest_packets: Counter,
    /// How long they lasted, in nanoseconds.
    pub time_ns: Histogram,
}

impl RunLog {
    pub(crate) fn new(place: usize) -> Self {
        let (runs, packets, for_others) = (Counter::default(), Counter::default(), Counter::default());
        let (longest_packets, time_ns) = (Counter::default(), Histogram::new());
        Self { place, runs, packets, for_others, longest_packets, time_ns }
    }

    /// Which lane is the sender's own.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Notes one run.
    pub(crate) fn note(&self, packets: u64, for_others: u64, longest_packets: u32, ns: u64) {
        self.runs.add(1);
        self.packets.add(packets);
        self.for_others.add(for_others);
        self.longest_packets.set(self.longest_packets.get().max(longest_packets.into()));
        self.time_ns.record(ns);
    }
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Logged<'a> {
    pub(crate) log: &'a RunLog,
    began_ns: u64,
    /// At its beginning: frames handed to the device in this turn, accepted by the queue, taken out of the own lane.
    packets: u64,
    accepted: u64,
    accepted_to: u64,
    own: u32,
    /// Taken out of the own lane since, and sent past it.
    own_taken: u32,
    own_passed: u64,
}

impl<'a> Logged<'a> {
    #[cold]
    pub(crate) fn begin(log: &'a RunLog, shared: &Shared, owner: &Owner, own: u32) -> Self {
        let (packets, accepted) = (owner.packets(), shared.counters.accepted.get());
        let (began_ns, accepted_to, own_taken, own_passed) = (now_ns(shared), accepted, 0, 0);
        Self { log, began_ns, packets, accepted, accepted_to, own, own_taken, own_passed }
    }

    #[cold]
    pub(crate) fn passed_own(&mut self, packets: usize) {
        self.own_passed += packets as u64;
    }

    #[cold]
    pub(crate) fn note(&mut self, own: u32, shared: &Shared) {
        self.own_taken = own.wrapping_sub(self.own);
        self.accepted_to = shared.counters.accepted.get();
    }

    #[cold]
    pub(crate) fn end(&self, shared: &Shared, owner: &Owner) {
        let own = u64::from(self.own_taken) + self.own_passed;
        let for_others = (self.accepted_to - self.accepted).saturating_sub(own);
        let (packets, ns) = (owner.packets() - self.packets, now_ns(shared).saturating_sub(self.began_ns));
        self.log.note(packets, for_others, owner.longest_packets(), ns);
    }
}

fn now_ns(shared: &Shared) -> u64 {
    shared.log_clock.as_ref().map_or(0, |clock| clock.now_ns())
}
