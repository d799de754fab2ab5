//! `Ledger`: a row per buffer, with one store when it is taken and one when it returns.
//!
//! A row is 0 while its buffer is free; else it has the cache that took the buffer (12 bits, from 1) and the time (52
//! bits of microseconds: 142 years). A thread that frees another's buffer reads its cache off the row. The place of a
//! frame (lane, qdisc, device) is not in the row: an audit asks the holders, which have tables. A store per hand-over
//! would cost every packet for the sake of a rare question.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const CACHE_SHIFT: u32 = 52;
const SINCE_MASK: u64 = (1 << CACHE_SHIFT) - 1;
/// Most caches that a row can name.
pub(crate) const CACHES_MAX: usize = (1 << 12) - 2;
/// The row's cache number for frames that no cache took.
pub(crate) const NO_CACHE: usize = CACHES_MAX;

#[derive(Debug)]
pub(crate) struct Ledger {
    rows: Box<[AtomicU64]>,
}

impl Ledger {
    pub(crate) fn new(frames: u32) -> Self {
        Self { rows: (0..frames).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the row of frames that `cache` takes at `now_ns`.
    pub(crate) fn stamp(cache: usize, now_ns: u64) -> u64 {
        ((cache as u64 + 1) << CACHE_SHIFT) | ((now_ns / 1000) & SINCE_MASK)
    }

    pub(crate) fn taken(&self, index: u32, cache: usize, now_ns: u64) {
        self.write(index, Self::stamp(cache, now_ns));
    }

    #[inline(always)]
    pub(crate) fn write(&self, index: u32, stamp: u64) {
        // Within bounds: the region makes the indices, and has as many buffers.
        self.rows[index as usize].store(stamp, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn freed(&self, index: u32) {
        self.write(index, 0);
    }

    /// Returns the cache that took the frame; [`NO_CACHE`] for none, and for a free frame.
    pub(crate) fn cache_of(&self, index: u32) -> usize {
        match self.rows.get(index as usize).map_or(0, |row| row.load(Relaxed)) {
            0 => NO_CACHE,
            row => (row >> CACHE_SHIFT) as usize - 1,
        }
    }

    /// True if `cache` took the frame.
    #[inline(always)]
    pub(crate) fn is_of(&self, index: u32, cache: usize) -> bool {
        self.rows.get(index as usize).is_some_and(|row| row.load(Relaxed) >> CACHE_SHIFT == cache as u64 + 1)
    }

    /// Returns the number of frames in use by cache, up to [`NO_CACHE`].
    pub(crate) fn count_by_cache(&self) -> Vec<u64> {
        let mut counts = vec![0; CACHES_MAX + 1];
        for row in self.rows.iter().map(|row| row.load(Relaxed)).filter(|&row| row != 0) {
            counts[((row >> CACHE_SHIFT) as usize - 1).min(NO_CACHE)] += 1;
        }
        counts
    }

    pub(crate) fn audit(&self, now_ns: u64, name: impl Fn(usize) -> Option<String>) -> Audit {
        let held = self.rows.iter().enumerate().filter_map(|(index, row)| {
            let row = row.load(Relaxed);
            let taken_by = match (row >> CACHE_SHIFT) as usize {
                0 => return None,
                cache => name(cache - 1).unwrap_or_else(|| "the pool".into()),
            };
            let age = Duration::from_micros((now_ns / 1000).saturating_sub(row & SINCE_MASK));
            Some(Held { index: index as u32, taken_by, age, place: None })
        });
        Audit { frames: self.rows.len() as u32, held: held.collect(), going_home: 0 }
    }
}

/// The place where an audit found a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// Published by a sender, not yet seen by the owner.
    Lane,
    /// In the queueing discipline.
    Qdisc,
    /// In the requeue slot: dequeued, and not taken by the device yet.
    Requeue,
    /// In the device, or in the `Segmenter` before it.
    Device,
}

/// A frame in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Index of the buffer.
    pub index: u32,
    /// Name of the cache that took it.
    pub taken_by: String,
    /// Time since it was taken.
    pub age: Duration,
    /// The place where it was found; `None` if no holder lists it: the user has it, or it is lost.
    pub place: Option<Holder>,
}

/// The result of an audit: the frames in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Frames of the pool.
    pub frames: u32,
    /// Frames that have not returned to their cache.
    #[doc(hidden)]
    pub held: Vec<Held>,
    /// The number of those that are free, in return rings for living senders to fetch.
    pub going_home: usize,
}

impl Audit {
    /// Notes the place where frame `index` was found.
    #[doc(hidden)]
    pub fn found(&mut self, index: u32, place: Holder) {
        if let Ok(at) = self.held.binary_search_by_key(&index, |held| held.index) {
            self.held[at].place = Some(place);
        }
    }

    /// Notes that the device holds `count` frames that it cannot show, such as those on their way to a wire's other end. They
    /// are named if nobody else can have those without a place.
    pub(crate) fn found_hidden(&mut self, count: usize) {
        let unplaced = || self.held.iter().filter(|held| held.place.is_none());
        if self.going_home == 0 && unplaced().count() <= count {
            let held = self.held.iter_mut().filter(|held| held.place.is_none());
            held.for_each(|held| held.place = Some(Holder::Device));
        }
    }

    /// Returns the number of frames in use.
    pub fn out(&self) -> usize {
        self.held.len().saturating_sub(self.going_home)
    }
}

impl fmt::Display for Audit {
    /// Writes one line: the frames in use, by holder, with the greatest age. No ledger tells the free frames in return rings
    /// from those that a user has: beside such frames, the line does not say which cache took those of the user.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} frames out", self.out(), self.frames)?;
        if self.going_home > 0 {
            write!(f, "; {} free, for their senders to fetch", self.going_home)?;
        }
        let (mut groups, mut going_home): (Vec<(String, usize, Duration)>, _) = (Vec::new(), self.going_home);
        for held in &self.held {
            if held.place.is_none() && going_home > 0 {
                going_home -= 1;
                continue;
            }
            let place =
                held.place.map_or_else(|| "user".to_string(), |place| format!("{place:?}").to_lowercase());
            let is_known = held.place.is_some() || self.going_home == 0;
            let key = if is_known { format!("{place} (taken by {})", held.taken_by) } else { place };
            match groups.iter_mut().find(|group| group.0 == key) {
                Some(group) => (group.1, group.2) = (group.1 + 1, group.2.max(held.age)),
                None => groups.push((key, 1, held.age)),
            }
        }
        for (key, count, age) in groups {
            write!(f, "; {count} with {key}, the oldest for {age:.1?}")?;
        }
        Ok(())
    }
}
