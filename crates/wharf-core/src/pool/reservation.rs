//! `Reservation`: the buffers that a place which only one thread can reach may keep.
//!
//! Assumption: that thread may stop for good, with its buffers out of reach. Goal: all such places together hold so
//! few that waiters are always served from the rest. Shares computed from the present number of caches do not ensure
//! that: they are large while there are few caches, and each cache that stops keeps its own (a half, a quarter, a
//! sixth ... of the total: their sum has no bound).
//!
//! So the places of a kind draw on one *quota*, a quarter of the pool. A reservation is raised on slow paths, up to a
//! fair share, by at most half of the quota left, so that later ones find some. It is lowered when its holder next
//! looks and has more than its share, and it ends with its holder.

use super::PagePool;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// The kinds of places, with a quota each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaKind {
    /// Stacks of caches. Each stash may hold as many buffers again, less one.
    CacheStacks,
    /// Return rings.
    ReturnRings,
}

/// Frames left of one kind's quota. Below 0 if some places have more than their part because they must.
#[derive(Debug)]
pub(super) struct Quota(AtomicIsize);

impl Quota {
    /// Makes the quota of a pool with `frames`.
    pub(super) fn new(frames: u32) -> Self {
        Self(AtomicIsize::new(frames as isize / 4))
    }

    /// Takes half of the frames left, at most `most`. Returns their number.
    fn draw(&self, most: usize) -> usize {
        let drawn = |left: isize| most.min(left.max(0).unsigned_abs().div_ceil(2));
        let draw = |left| (drawn(left) > 0).then(|| left - drawn(left) as isize);
        #[allow(
            deprecated,
            reason = "its other name, `try_update`, is younger than the oldest Rust that builds this"
        )]
        self.0.fetch_update(Relaxed, Relaxed, draw).map_or(0, drawn)
    }

    fn add(&self, frames: isize) {
        self.0.fetch_add(frames, Relaxed);
    }
}

/// The frames that one place may keep.
#[derive(Debug)]
pub(crate) struct Reservation {
    pool: PagePool,
    kind: QuotaKind,
    frames: usize,
}

impl Reservation {
    /// Makes a reservation of 0 frames.
    pub(crate) fn new(pool: &PagePool, kind: QuotaKind) -> Self {
        Self { pool: pool.clone(), kind, frames: 0 }
    }

    #[inline(always)]
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Lowers it to `wanted`, or raises it towards that as far as the quota allows.
    pub(crate) fn ask(&mut self, wanted: usize) {
        if wanted > self.frames {
            self.frames += self.quota().draw(wanted - self.frames);
        } else {
            self.set(wanted);
        }
    }

    /// Works like [`Reservation::ask`], but reserves `least` in any case.
    pub(crate) fn ask_for_at_least(&mut self, least: usize, wanted: usize) {
        self.ask(wanted.max(least));
        if self.frames < least {
            self.set(least);
        }
    }

    /// Reserves `frames`, whatever the quota.
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
    fn all_reservations_together_take_a_quarter_and_each_gets_some() {
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
    fn forced_reservation_lowers_later_ones() {
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
