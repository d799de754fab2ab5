//! `ReturnRings`: the rings by which completed frames return to their senders.

use wharf_core::engine::Sink;
use wharf_core::pool::PagePool;
use wharf_mem::Batch;
use wharf_mem::return_ring::{ReturnConsumer, ReturnProducer};

/// A ring for each sender, by its place.
pub(super) struct ReturnRings {
    rings: Vec<Option<ReturnProducer>>,
    pool: PagePool,
}

impl ReturnRings {
    pub(super) fn new(pool: PagePool) -> Self {
        Self { rings: Vec::new(), pool }
    }

    /// Adds the ring of the next sender. All rings together hold at most half of the pool's frames.
    pub(super) fn add(&mut self, ring: ReturnProducer) {
        self.rings.push(Some(ring));
        let share = self.pool.frames() / 2 / self.rings.len() as u32;
        self.rings.iter_mut().flatten().for_each(|ring| ring.set_limit(share));
    }

    /// Removes the ring of the sender at `place`, which has left `out`, and gives its frames back to the
    /// pool.
    pub(super) fn remove(&mut self, place: usize, mut out: ReturnConsumer) {
        self.rings[place] = None;
        let mut free = Vec::new();
        out.pop(&mut free, usize::MAX);
        self.pool.settle(&mut free);
    }
}

impl Sink for ReturnRings {
    fn recycle(&mut self, done: &mut Batch) {
        while let Some(first) = done.frames().first() {
            let (place, (count, _)) = (usize::from(first.sender()), done.run_of_sender());
            let ring = self.rings.get_mut(place).and_then(Option::as_mut);
            let pushed = ring.map_or(0, |ring| ring.push(done, count));
            if pushed < count {
                let mut rest = Batch::new(count - pushed);
                rest.append(done, count - pushed);
                let given = self.pool.give_back(&mut rest);
                debug_assert!(given.is_ok(), "senders check the pool");
            }
        }
    }
}
