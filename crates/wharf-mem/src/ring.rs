//! The ring under lanes and return rings: one producer, one consumer, u32 indices that count up and wrap.
//!
//! Slots between `head` and `tail` belong to the consumer, the others to the producer.
//! - (A) The producer's release store of `tail` pairs with (B), the consumer's acquire load: the slots'
//!   contents.
//! - (C) The consumer's release store of `head` pairs with (D), the producer's acquire load: the slots were
//!   read.
//!
//! The turn to access a slot is a type, made here alone: [`FreeSlot`] is written and [`FilledSlot`] read, in
//! `share.rs`.
#![forbid(unsafe_code)]

use crate::share::Slot;
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering};
use crossbeam_utils::CachePadded;

struct Ring<T> {
    slots: Box<[Slot<T>]>,
    tail: CachePadded<AtomicU32>,
    head: CachePadded<Head>,
    producer_gone: AtomicBool,
}

/// The consumer's words, on one cache line.
struct Head {
    index: AtomicU32,
    /// A number for the producer, beside the index.
    note: AtomicU32,
}

/// Proof that a slot is the producer's alone: it may be written once.
pub(crate) struct FreeSlot<'a, T>(&'a Slot<T>);

impl<T> FreeSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot<T> {
        self.0
    }
}

/// Proof that a slot is the consumer's alone, and was written.
pub(crate) struct FilledSlot<'a, T>(&'a Slot<T>);

impl<T> FilledSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot<T> {
        self.0
    }
}

/// The producer's end.
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: u32,
    head_seen: u32,
    /// The most slots that may be full at a time, at most the capacity.
    limit: u32,
}

/// The consumer's end.
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: u32,
    tail_seen: u32,
}

/// Makes a ring of `capacity` slots, a power of two, whose indices begin at `start`.
pub(crate) fn ring<T: Copy + Default>(capacity: u32, start: u32) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "a ring's capacity is a power of two, not {capacity}");
    let ring = Arc::new(Ring {
        slots: (0..capacity).map(|_| Slot::new(T::default())).collect(),
        tail: CachePadded::new(AtomicU32::new(start)),
        head: CachePadded::new(Head { index: AtomicU32::new(start), note: AtomicU32::new(start) }),
        producer_gone: AtomicBool::new(false),
    });
    let consumer = Consumer { ring: ring.clone(), head: start, tail_seen: start };
    (Producer { ring, tail: start, head_seen: start, limit: capacity }, consumer)
}

impl<T: Copy> Ring<T> {
    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline(always)]
    fn slot(&self, at: u32) -> &Slot<T> {
        &self.slots[(at & (self.capacity() - 1)) as usize]
    }

    /// Returns the `count` slots from index `at` on: two runs, as the slots may wrap.
    #[inline(always)]
    fn slots(&self, at: u32, count: usize) -> (&[Slot<T>], &[Slot<T>]) {
        let place = (at & (self.capacity() - 1)) as usize;
        let first = count.min(self.slots.len() - place);
        (&self.slots[place..place + first], &self.slots[..count - first])
    }
}

impl<T: Copy> Producer<T> {
    /// Returns the number of slots that may be written now: at least `want`, if there are so many.
    #[inline(always)]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        let room = self.limit.saturating_sub(self.tail.wrapping_sub(self.head_seen));
        if room as usize >= want {
            return room as usize;
        }
        self.head_seen = self.ring.head.index.load(Ordering::Acquire); // (D)
        self.limit.saturating_sub(self.tail.wrapping_sub(self.head_seen)) as usize
    }

    /// Returns the consumer's note.
    pub(crate) fn note(&self) -> u32 {
        self.ring.head.note.load(Ordering::Relaxed)
    }

    /// Lets at most `slots` slots be full at a time; the capacity is the upper bound.
    pub(crate) fn set_limit(&mut self, slots: u32) {
        self.limit = slots.min(self.ring.capacity());
    }

    /// Turns elements of `from` into slots, as many as there is room for, and publishes them. Returns their
    /// number.
    #[inline(always)]
    pub(crate) fn push<F>(&mut self, from: &[F], slot: impl Fn(&F) -> T) -> usize {
        let count = self.room(from.len()).min(from.len());
        if let [one] = &from[..count] {
            // A quiet path sends bursts of one: they skip the set-up of two loops.
            return usize::from(self.push_one(|| slot(one)));
        }
        let (first, second) = self.ring.slots(self.tail, count);
        let (from_first, from_second) = from[..count].split_at(first.len());
        for (slots, from) in [(first, from_first), (second, from_second)] {
            // `room` says that these slots are the producer's.
            slots.iter().map(FreeSlot).zip(from).for_each(|(free, from)| free.put(slot(from)));
        }
        self.publish(count);
        count
    }

    /// Does as [`Producer::push`] for one slot, and returns true if there was room.
    #[inline(always)]
    pub(crate) fn push_one(&mut self, slot: impl FnOnce() -> T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // `room` says that this slot is the producer's.
        FreeSlot(self.ring.slot(self.tail)).put(slot());
        self.publish(1);
        true
    }

    #[inline(always)]
    fn publish(&mut self, count: usize) {
        if count == 0 {
            return; // a line that the other side reads is not written for nothing
        }
        self.tail = self.tail.wrapping_add(count as u32);
        self.ring.tail.store(self.tail, Ordering::Release); // (A)
    }

    /// True if the consumer has taken all that was published.
    #[inline(always)]
    pub(crate) fn drained(&mut self) -> bool {
        self.room(self.limit as usize) == self.limit as usize
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity() as usize
    }

    /// Returns the number of slots published and not taken yet.
    pub(crate) fn waiting(&mut self) -> usize {
        self.head_seen = self.ring.head.index.load(Ordering::Acquire); // (D)
        self.tail.wrapping_sub(self.head_seen) as usize
    }
}

impl<T> Producer<T> {
    /// Announces that nothing more will be pushed.
    pub(crate) fn abandon(&mut self) {
        self.ring.producer_gone.store(true, Ordering::Release);
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity() as usize
    }

    /// Returns the number of slots that are full now: at least `want`, if there are so many. Reads the
    /// producer's index only if fewer than `want` are known.
    #[inline(always)]
    pub(crate) fn ready(&mut self, want: usize) -> usize {
        let ready = self.tail_seen.wrapping_sub(self.head) as usize;
        if ready >= want { ready } else { self.ready_now() }
    }

    /// Does as [`Consumer::ready`], and always reads the producer's index.
    #[inline(always)]
    pub(crate) fn ready_now(&mut self) -> usize {
        self.tail_seen = self.ring.tail.load(Ordering::Acquire); // (B)
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// Reads the next `to.len()` slots, which `ready` has counted, turns them into values, and frees them.
    #[inline(always)]
    pub(crate) fn pop_to<V>(&mut self, to: &mut [V], mut value: impl FnMut(T) -> V) {
        if let ([one], true) = (&mut *to, self.tail_seen != self.head) {
            *one = value(FilledSlot(self.ring.slot(self.head)).get());
            return self.release(1);
        }
        let (first, second) = self.next_slots(to.len());
        let (to_first, to_second) = to.split_at_mut(first.len());
        for (slots, to) in [(first, to_first), (second, to_second)] {
            slots.iter().map(FilledSlot).zip(to).for_each(|(filled, to)| *to = value(filled.get()));
        }
        self.release(to.len());
    }

    /// Shows the next `count` slots, which `ready` has counted.
    #[inline(always)]
    pub(crate) fn look(&self, count: usize, mut see: impl FnMut(T)) {
        let (first, second) = self.next_slots(count);
        for slots in [first, second] {
            slots.iter().map(FilledSlot).for_each(|filled| see(filled.get()));
        }
    }

    /// Does as [`Consumer::pop_to`], and pushes `count` values onto a stack.
    #[inline(always)]
    pub(crate) fn pop_onto<V>(&mut self, to: &mut Vec<V>, count: usize, mut value: impl FnMut(T) -> V) {
        let (first, second) = self.next_slots(count);
        for slots in [first, second] {
            to.extend(slots.iter().map(FilledSlot).map(|filled| value(filled.get())));
        }
        self.release(count);
    }

    /// Returns the next `count` slots: (B) made them the consumer's, and the producer wrote them before (A).
    #[inline(always)]
    fn next_slots(&self, count: usize) -> (&[Slot<T>], &[Slot<T>]) {
        assert!(count <= self.tail_seen.wrapping_sub(self.head) as usize);
        self.ring.slots(self.head, count)
    }

    #[inline(always)]
    fn release(&mut self, count: usize) {
        if count == 0 {
            return; // as in `publish`: an empty poll writes nothing
        }
        self.head = self.head.wrapping_add(count as u32);
        self.ring.head.index.store(self.head, Ordering::Release); // (C)
    }

    /// Adds `n` to the note for the producer: a sum that wraps, and orders nothing else.
    #[inline(always)]
    pub(crate) fn add_to_note(&self, n: u32) {
        let note = &self.ring.head.note;
        note.store(note.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Returns the note: see [`Producer::note`].
    pub(crate) fn note(&self) -> u32 {
        self.ring.head.note.load(Ordering::Relaxed)
    }

    /// Returns the index of the next slot.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// True if the producer is gone. Slots that it published before are still full.
    pub(crate) fn producer_gone(&self) -> bool {
        self.ring.producer_gone.load(Ordering::Acquire)
    }
}
