//! The NIC: packets leave one after the other at the wire's rate; interrupts report them.

use super::Setup;
use std::collections::VecDeque;
use wharf_sim::engine::{Random, take_due};

/// Bytes around each frame on the wire, checksum included.
const AROUND_BYTES: u64 = 24;
const FRAME_BYTES_MIN: u64 = 60;

/// A packet on its way out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    /// The buffer of its super-packet.
    pub(super) index: u32,
    /// Bytes for the byte limit.
    pub(super) bytes: u32,
    pub(super) descriptors: u32,
    /// True if it is, or holds, the last packet of its super-packet.
    pub(super) last: bool,
    /// Packets on the wire: more than one with TSO.
    pub(super) packets: u32,
}

/// The ring, the wire and the interrupt timer.
#[derive(Debug, Default)]
pub(super) struct Nic {
    wire_ps_per_byte: u64,
    fetch_ns: u64,
    wire_free_ps: u64,
    descriptors_max: u32,
    pub(super) descriptors: u32,
    /// Packets written by the driver; the doorbell follows.
    pub(super) owed: VecDeque<Packet>,
    /// Packets with the times at which they leave.
    on_wire: VecDeque<(u64, Packet)>,
    gap_ns: u64,
    last_interrupt_ns: u64,
    pub(super) masked: bool,
    pub(super) packets: u64,
}

impl Nic {
    pub(super) fn new(wire_ps_per_byte: u64, fetch_ns: u64, descriptors_max: u32, gap_ns: u64) -> Self {
        Self { wire_ps_per_byte, fetch_ns, descriptors_max, gap_ns, ..Self::default() }
    }

    /// True if the driver may write `descriptors` more.
    pub(super) fn has_room(&self, descriptors: u32) -> bool {
        self.descriptors + descriptors <= self.descriptors_max
    }

    /// Writes a packet.
    pub(super) fn write(&mut self, packet: Packet) {
        self.descriptors += packet.descriptors;
        self.owed.push_back(packet);
    }

    /// Sends the packets written, and tells `departs` the time of each.
    pub(super) fn doorbell(&mut self, now_ns: u64, departs: &mut impl FnMut(u64, &Packet)) {
        let at_wire_ps = (now_ns + self.fetch_ns) * 1000;
        while let Some(packet) = self.owed.pop_front() {
            let around = u64::from(packet.packets) * AROUND_BYTES;
            let bytes = u64::from(packet.bytes).max(FRAME_BYTES_MIN) + around;
            self.wire_free_ps = self.wire_free_ps.max(at_wire_ps) + bytes * self.wire_ps_per_byte;
            self.packets += u64::from(packet.packets);
            let at_ns = self.wire_free_ps / 1000;
            departs(at_ns, &packet);
            self.on_wire.push_back((at_ns, packet));
        }
    }

    /// Returns the next packet that has left by `now_ns`, as the driver finds it.
    pub(super) fn next_left(&mut self, now_ns: u64) -> Option<Packet> {
        let packet = take_due(&mut self.on_wire, now_ns)?;
        self.descriptors -= packet.descriptors;
        Some(packet)
    }

    /// Returns the time of the next interrupt, if answers come at `answer_ns`.
    pub(super) fn interrupt_at_ns(&self, answer_ns: Option<u64>) -> Option<u64> {
        let left_ns = self.on_wire.front().map(|&(at_ns, _)| at_ns);
        let event_ns = left_ns.into_iter().chain(answer_ns).min()?;
        (!self.masked).then_some(event_ns.max(self.last_interrupt_ns + self.gap_ns))
    }

    pub(super) fn interrupts(&mut self, now_ns: u64) {
        (self.last_interrupt_ns, self.masked) = (now_ns, true);
    }

    /// True if no packet is inside.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty() && self.on_wire.is_empty()
    }
}

/// The other host. It sees packets at its NIC's interrupts, which under load come at fixed times, by its own
/// clock.
#[derive(Debug)]
pub(super) struct FarHost {
    period_ps: u64,
    phase_ps: u64,
}

impl FarHost {
    pub(super) fn new(setup: &Setup, random: &mut Random) -> Self {
        // Its clock is fast or slow by this, as quartz is.
        let (gap_ns, drift_ppm) = (setup.interrupt_gap_ns.max(1), setup.far_drift_ppm);
        let period_ps =
            gap_ns * 1000 + gap_ns * random.below(2 * drift_ppm + 1) / 1000 - gap_ns * drift_ppm / 1000;
        Self { period_ps, phase_ps: random.below(period_ps) }
    }

    /// Returns the time of its first interrupt after an arrival at `at_ns`.
    pub(super) fn interrupt_after_ns(&self, at_ns: u64) -> u64 {
        let since_ps = at_ns * 1000 + self.period_ps - self.phase_ps;
        let periods = since_ps.div_ceil(self.period_ps);
        (periods * self.period_ps + self.phase_ps - self.period_ps).div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_looks_at_fixed_times() {
        let far = FarHost { period_ps: 125_000_000, phase_ps: 5_000_000 };
        let seen = [0, 5_000, 5_001, 130_000, 300_000].map(|at_ns| far.interrupt_after_ns(at_ns));
        assert_eq!(seen, [5_000, 5_000, 130_000, 130_000, 380_000]);
    }
}
