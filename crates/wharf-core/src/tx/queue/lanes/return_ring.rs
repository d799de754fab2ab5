//! `LaneReturnRing`: the owner's end of a sender's return ring, with the reservation that bounds it.

use crate::pool::{PagePool, QuotaKind, Reservation};
use wharf_mem::Batch;
use wharf_mem::return_ring::ReturnProducer;

/// A return ring that holds at most the frames reserved for it.
pub(crate) struct LaneReturnRing {
    ring: ReturnProducer,
    reservation: Reservation,
}

impl LaneReturnRing {
    /// Makes a ring without a limit but its capacity. `Lanes` sets one ([`LaneReturnRing::limit`]) as it adds
    /// the lane, before any frame.
    pub(crate) fn new(ring: ReturnProducer, pool: &PagePool) -> Self {
        Self { ring, reservation: Reservation::new(pool, QuotaKind::ReturnRings) }
    }

    /// Sets the limit to a `share` of the pool, as far as the quota allows.
    pub(super) fn limit(&mut self, share: usize) {
        // Frames that lie in the ring already are out of reach.
        self.reservation.ask(share.max(self.ring.waiting().min(self.reservation.frames())));
        self.ring.set_limit(self.reservation.frames().min(share) as u32);
    }

    /// Takes up to `count` frames from the front of `done`. Returns their number.
    #[inline(always)]
    pub(super) fn push(&mut self, done: &mut Batch, count: usize) -> usize {
        self.ring.push(done, count)
    }

    /// Returns the number of buffers that the sender has yet to fetch.
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.waiting()
    }
}
