//! Checks generated packets by generating them again.

use super::super::{Generator, Latencies, stamp_of};
use super::{Arrival, Check, Clocks, Findings, Verify, first_difference};
use wharf_core::qdisc::Order;
use wharf_packet::{Ecn, ecn, mark_ce};

/// Makes each packet anew from the sequence number and the time that it carries, and compares.
#[derive(Debug)]
pub struct StampCheck {
    generators: Vec<Generator>,
    /// By sender, and by flow where only that order is kept, the place expected next.
    next: Vec<Vec<u64>>,
    again: Vec<u8>,
    findings: Findings,
}

impl StampCheck {
    /// Checks packets of these generators, one per sender, in the order of senders.
    pub fn new(generators: Vec<Generator>) -> Self {
        Self::keeping(generators, Order::All)
    }

    /// Checks packets that pass a queue which keeps `order`.
    pub fn keeping(generators: Vec<Generator>, order: Order) -> Self {
        // Packets of one sender are of one band.
        let flows = |generator: &Generator| if order == Order::Flow { generator.flows().max(1) } else { 1 };
        let next = generators.iter().map(|generator| vec![0; flows(generator) as usize]).collect();
        let findings = Findings { latencies: Some(Latencies::default()), ..Findings::default() };
        Self { generators, next, again: Vec::new(), findings }
    }

    /// Compares `frame` with packet `number` of `sender`. Returns true if they are equal.
    #[inline]
    fn compare(&mut self, frame: &[u8], sender: usize, number: u64, time_ns: u64) -> bool {
        let generator = &self.generators[sender];
        self.again.resize(generator.len_of(number) as usize, 0);
        generator.write_packet(&mut self.again, number, time_ns);
        if self.again == frame {
            return true;
        }
        if ecn(frame) == Some(Ecn::Ce) && mark_ce(&mut self.again) && self.again == frame {
            // A queue on the way has marked it.
            return true;
        }
        let byte = first_difference(&self.again, frame);
        self.findings.fail(1, || format!("sender {sender}: packet {number} differs from byte {byte} on"));
        false
    }

    #[cold]
    fn out_of_order(&mut self, sender: usize, number: u64, (place, expected): (u64, u64)) {
        match place.checked_sub(expected) {
            Some(lost) => {
                self.findings.lose(lost, || format!("sender {sender}: {lost} lost before packet {number}"))
            }
            None => {
                self.findings.fail(1, || format!("sender {sender}: packet {number} came after {expected}"))
            }
        }
    }
}

impl Check for StampCheck {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        self.findings.received(frame);
        let payload_at = self.generators.first().map_or(0, Generator::payload_at);
        let stamp = frame.get(payload_at..).and_then(stamp_of);
        let Some(stamp) = stamp.filter(|stamp| usize::from(stamp.sender) < self.next.len()) else {
            return self.findings.fail(1, || "a frame without the stamp of a sender".into());
        };
        let sender = usize::from(stamp.sender);
        let (flow, place) = match self.next[sender].len() {
            1 => (0, stamp.number),
            _ => self.generators[sender].place_in_flow(stamp.number),
        };
        if !self.compare(frame, sender, stamp.number, stamp.time_ns) {
            // A wrong packet's own numbers cannot be trusted, unless they are the expected ones.
            let next = &mut self.next[sender][flow as usize];
            *next += u64::from(place == *next);
            return;
        }
        let expected = std::mem::replace(&mut self.next[sender][flow as usize], place + 1);
        if place != expected {
            self.out_of_order(sender, stamp.number, (place, expected));
            let next = &mut self.next[sender][flow as usize];
            *next = expected.max(*next);
        }
        if let Some(latencies) = &mut self.findings.latencies {
            latencies.record(self.generators[sender].tos(), at.monotonic_ns.saturating_sub(stamp.time_ns));
        }
    }

    fn clocks(&self) -> Clocks {
        Clocks::Monotonic
    }
}

impl Verify for StampCheck {
    fn findings(&self) -> &Findings {
        &self.findings
    }
}
