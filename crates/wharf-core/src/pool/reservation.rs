//! Grants: what a place that only one thread can reach may keep of the pool for itself.
//!
//! Assumption: whoever has some may stop for good, and then what it has is out of everybody's reach. Goal: so little lies in such
//! places, all together, that those who wait for memory always have their turns with the rest. A share that each reckons for
//! itself, from how many there are, does not do that: shares are large while there are few, and who stops then keeps
//! its own (a half, a quarter, a sixth ... of what may be kept: their sum has no bound).
//!
//! So the places of a kind draw on one *budget*, a quarter of the pool. A grant is raised on slow paths, up to a fair share, by
//! half of what the budget has left at most: something is left for who comes next. It is lowered as soon as its holder comes by and
//! has more than its share, which is less the more there are; and it ends with its holder.

use super::PagePool;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaKind {
    /// Stacks of caches; as many once more may lie in stashes, less than a stack's grant in each.
    CacheStacks,
    /// Return rings.
    ReturnRings,
}

/// What may still be granted to places of one kind, frames. Below 0 where some have what they must have.
#[derive(Debug)]
pub(super) struct Quota(AtomicIsize);

impl Quota {
    /// Of a pool with so many frames.
    pub(super) fn new(frames: u32) -> Self {
        Self(AtomicIsize::new(frames as isize / 4))
    }

    /// Takes half of what is left, at most `most`; how many.
    fn draw(&self, most: usize) -> usize {
        let drawn = |left: isize| most.min(left.max(0).unsigned_abs().div_ceil(2));
        let draw = |left| (drawn(left) > 0).then(|| left - drawn(left) as isize);
        self.0.fetch_update(Relaxed, Relaxed, draw).map_or(0, drawn)
    }

    fn add(&self, frames: isize) {
        self.0.fetch_add(frames, Relaxed);
    }
}

/// What one place may keep.
#[derive(Debug)]
pub(crate) struct Reservation {
    pool: PagePool,
    kind: QuotaKind,
    frames: usize,
}

impl Reservation {
    /// Of nothing yet.
    pub(crate) fn new(pool: &PagePool, kind: QuotaKind) -> Self {
        Self { pool: pool.clone(), kind, frames: 0 }
    }

    #[inline(always)]
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Comes down to `wanted`, or up to it as far as the budget allows.
    pub(crate) fn ask(&mut self, wanted: usize) {
        if wanted > self.frames {
            self.frames += self.quota().draw(wanted - self.frames);
        } else {
            self.set(wanted);
        }
    }

    /// As [`Reservation::ask`], and has `least` in any case.
    pub(crate) fn ask_for_at_least(&mut self, least: usize, wanted: usize) {
        self.ask(wanted.max(least));
        if self.frames < least {
            self.set(least);
        }
    }

    /// Has `frames`, whatever the budget.
    pub(crate) fn set(&mut self, frames: usize) {
        if frames != self.frames {
            self.quota().add(self.frames as isize - frames as isize);
            self.frames = frames;
        }
    }

    fn quota(&self) -> &Quota {
        match self.kind {
            QuotaKind::CacheStacks => &self.pool.shared.on_stacks,
            QuotaKind::ReturnRings => &self.pool.shared.in_return_rings,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: u32) -> PagePool {
        PagePool::builder().frames(frames).huge_pages(false).build().unwrap()
    }

    #[test]
    fn whoever_comes_when_all_have_a_quarter_at_most_and_everybody_something() {
        let pool = pool(1024);
        let mut reservations = Vec::new();
        for _ in 0..8 {
            let mut reservation = Reservation::new(&pool, QuotaKind::CacheStacks);
            reservation.ask(usize::MAX);
            reservations.push(reservation);
        }
        let frames: Vec<usize> = reservations.iter().map(Reservation::frames).collect();
        assert_eq!(frames, [128, 64, 32, 16, 8, 4, 2, 1]);
        reservations.iter_mut().for_each(|reservation| reservation.ask(usize::MAX));
        assert_eq!(reservations.iter().map(Reservation::frames).sum::<usize>(), 256);
        let mut other = Reservation::new(&pool, QuotaKind::ReturnRings);
        other.ask(100);
        assert_eq!(other.frames(), 100, "each kind has its own");
        drop(reservations);
        assert_eq!(pool.shared.on_stacks.0.load(Relaxed), 256);
    }

    #[test]
    fn what_must_be_is_granted_and_paid_for_by_those_who_come_later() {
        let pool = pool(16);
        let [mut must, mut may] = [(); 2].map(|()| Reservation::new(&pool, QuotaKind::CacheStacks));
        must.ask_for_at_least(6, 1);
        may.ask(1);
        assert_eq!((must.frames(), may.frames()), (6, 0));
        must.set(0);
        may.ask(3);
        assert_eq!(may.frames(), 2);
    }
}
