//! `drop-head`: a discipline around another one. What is too much pushes out what has waited longest.
//!
//! Senders never wait for it, only for the owner to empty their lanes. For traffic whose newest packets matter most.
//! The owner drops, before it leaves: what the device took meanwhile has left, and is not in the way any more.

use super::Qdisc;
use wharf_mem::{Batch, Frame};

/// Why frames fail that newer ones have pushed out.
pub const DROP_HEAD: &str = "drop-head";

/// A discipline that can say which of its frames are too many.
pub trait Trim: Qdisc {
    /// Moves the oldest frames of each band that is beyond its limit to the back of `to`, until none is or `to` is
    /// full; how many.
    fn trim(&mut self, to: &mut Batch) -> usize;
}

/// `Q` that keeps the newest frames of each band, up to its limit.
#[derive(Debug)]
pub struct DropHead<Q>(Q);

impl<Q: Trim> DropHead<Q> {
    /// Around an empty discipline.
    pub fn new(qdisc: Q) -> Self {
        Self(qdisc)
    }
}

// Whatever is not said here would be the default's answer, not that of what is inside.
#[deny(clippy::missing_trait_methods)]
impl<Q: Trim> Qdisc for DropHead<Q> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn enqueue(&mut self, from: &mut Batch) {
        self.0.enqueue(from);
    }

    fn storage(&self) -> usize {
        self.0.storage()
    }

    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize {
        self.0.dequeue(to, packets, bytes)
    }

    fn give_up(&mut self, to: &mut Batch) -> usize {
        self.0.give_up(to)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Always some: there is no limit that a sender would have to wait at.
    fn room(&self, _band: u8) -> usize {
        usize::MAX
    }

    fn has_drained(&self, _band: u8) -> bool {
        true
    }

    fn full_bands(&self) -> u32 {
        self.0.full_bands()
    }

    fn shed(&mut self, to: &mut Batch) -> Option<usize> {
        Some(self.0.trim(to))
    }

    fn can_bypass(&self) -> bool {
        self.0.can_bypass()
    }

    fn uses_bands(&self) -> bool {
        self.0.uses_bands()
    }

    fn reserve(&mut self, frames: usize) {
        self.0.reserve(frames);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.0.next_event_ns()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.0.visit(see);
    }
}
