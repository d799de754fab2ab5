//! `LaneReturnRing`: the owner's end of the ring that a sender's frames go home by, and how much may lie in it.

use crate::pool::{PagePool, QuotaKind, Reservation};
use wharf_mem::Batch;
use wharf_mem::return_ring::ReturnProducer;

/// A sender's home, as the owner sees it.
pub(crate) struct LaneReturnRing {
    ring: ReturnProducer,
    reservation: Reservation,
}

impl LaneReturnRing {
    /// Nothing goes into it before [`LaneReturnRing::limit`].
    pub(crate) fn new(ring: ReturnProducer, pool: &PagePool) -> Self {
        Self { ring, reservation: Reservation::new(pool, QuotaKind::ReturnRings) }
    }

    /// Lets a `share` of the pool lie in it, as far as that is to be had.
    pub(super) fn limit(&mut self, share: usize) {
        // What lies there already is out of reach.
        self.reservation.ask(share.max(self.ring.waiting().min(self.reservation.frames())));
        self.ring.set_limit(self.reservation.frames().min(share) as u32);
    }

    /// The first `count` frames of `done`, as many as it may hold; how many.
    #[inline(always)]
    pub(super) fn push(&mut self, done: &mut Batch, count: usize) -> usize {
        self.ring.push(done, count)
    }

    /// Buffers in it that its sender has not fetched yet.
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.waiting()
    }
}
