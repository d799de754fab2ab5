//! The transmit ring: the owner of each buffer, and the notifications asked for. Indices are those of the
//! specification, and wrap.

use std::collections::VecDeque;
use wharf_sim::flows::tcp::Piece;

/// The contents of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Piece(Piece),
    Datagram,
    Question,
    Ack,
}

/// A packet of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) flow: usize,
    pub(super) content: Content,
    pub(super) bytes: u32,
    pub(super) sent_ns: u64,
}

/// Descriptors that must be free for the queue not to stop: `2 + MAX_SKB_FRAGS`.
const SPARE: u16 = 19;

/// A split virtqueue with the event index, as far as it matters to the model.
#[derive(Debug)]
pub(super) struct Ring {
    size: u16,
    available: u16,
    used: u16,
    freed: u16,
    /// The `used` index at which the driver wants an interrupt; `None` for no interrupt.
    used_event: Option<u16>,
    /// Packets made available and not taken yet.
    waiting: VecDeque<Packet>,
    done: VecDeque<Packet>,
}

impl Ring {
    /// Creates a ring. Indices begin near their end, so that every run wraps them.
    pub(super) fn new(size: u16) -> Self {
        let start = u16::MAX - 100;
        let (waiting, done) = (VecDeque::new(), VecDeque::new());
        Self { size, available: start, used: start, freed: start, used_event: None, waiting, done }
    }

    pub(super) fn add(&mut self, packet: Packet) {
        self.available = self.available.wrapping_add(1);
        self.waiting.push_back(packet);
    }

    /// Returns the number of packets not freed yet.
    pub(super) fn in_flight(&self) -> u16 {
        self.available.wrapping_sub(self.freed)
    }

    /// True if a packet in the greatest number of pieces might not fit.
    pub(super) fn is_full(&self) -> bool {
        self.size < self.in_flight() + SPARE
    }

    pub(super) fn first(&self) -> Option<Packet> {
        self.waiting.front().copied()
    }

    /// Marks the first packet as used. True if that needs an interrupt.
    pub(super) fn use_first(&mut self) -> bool {
        let Some(packet) = self.waiting.pop_front() else { return false };
        self.done.push_back(packet);
        let old = self.used;
        self.used = old.wrapping_add(1);
        let passed = |event: u16| self.used.wrapping_sub(event).wrapping_sub(1) < self.used.wrapping_sub(old);
        self.used_event.is_some_and(passed)
    }

    pub(super) fn free_one(&mut self) -> Option<Packet> {
        let packet = self.done.pop_front()?;
        self.freed = self.freed.wrapping_add(1);
        Some(packet)
    }

    pub(super) fn disable_interrupt(&mut self) {
        self.used_event = None;
    }

    /// Asks for an interrupt at the next used packet. False if one is used already.
    pub(super) fn enable_interrupt(&mut self) -> bool {
        self.used_event = Some(self.freed);
        self.done.is_empty()
    }

    /// Asks for an interrupt after 3/4 of the packets in flight. False if more have been used.
    pub(super) fn enable_delayed(&mut self) -> bool {
        let delay = (u32::from(self.in_flight()) * 3 / 4) as u16;
        self.used_event = Some(self.freed.wrapping_add(delay));
        self.done.len() <= usize::from(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_interrupt_comes_once_after_three_quarters() {
        let mut ring = Ring::new(256);
        let packet = Packet { flow: 0, content: Content::Ack, bytes: 66, sent_ns: 0 };
        for _ in 0..40 {
            (0..8).for_each(|_| ring.add(packet));
            assert!(ring.enable_delayed() && !ring.is_full());
            let told: Vec<bool> = (0..8).map(|_| ring.use_first()).collect();
            assert_eq!(told, [false, false, false, false, false, false, true, false]);
            assert!(!ring.enable_delayed() && !ring.enable_interrupt(), "all eight wait to be freed");
            assert_eq!(std::iter::from_fn(|| ring.free_one()).count(), 8);
            assert!(ring.enable_interrupt() && ring.in_flight() == 0);
        }
    }
}
