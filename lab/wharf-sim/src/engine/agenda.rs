//! `Agenda`: the events, ordered by time, then by the order of scheduling.
//!
//! A tournament tree: a leaf per slot, and in each inner node the earlier of its two children. Scheduling is
//! one walk to the root without a branch that depends on the data. For 12 to 128 slots an event takes about
//! 0.6 of its time on a binary heap (`cargo run --release -p wharf-sim --example agenda_speed` measures
//! both).

/// Bits of a key, from the top: time 64, sequence 52, slot 12.
type Key = u128;

const SLOT_BITS: u32 = 12;
const SLOT_MASK: Key = (1 << SLOT_BITS) - 1;
const TIME_SHIFT: u32 = 64;
const NEVER: Key = Key::MAX;

/// Most slots of an agenda.
pub const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// Events in order of (time, sequence), at most one per slot.
#[derive(Debug, Clone)]
pub struct Agenda {
    /// Node 1 is the root; the children of node n are 2n and 2n + 1; the leaves come last.
    nodes: Vec<Key>,
    leaves: usize,
    sequence: u64,
    /// The slot whose event is being handled. It is still in the tree, so that one walk moves it instead of
    /// two.
    acting: Option<usize>,
}

impl Agenda {
    /// Creates an empty agenda for `slots` slots, numbered from 0; at most [`SLOTS_MAX`].
    pub fn new(slots: usize) -> Self {
        let leaves = slots.clamp(2, SLOTS_MAX).next_power_of_two();
        Self { nodes: vec![NEVER; 2 * leaves], leaves, sequence: 0, acting: None }
    }

    /// Schedules `slot` at `at_ns` only. Of equal times, the one scheduled first comes first.
    #[inline]
    pub fn set(&mut self, slot: usize, at_ns: u64) {
        if self.acting == Some(slot) {
            self.acting = None;
        }
        let sequence = Key::from(self.sequence);
        self.sequence += 1;
        self.put(slot, Key::from(at_ns) << TIME_SHIFT | sequence << SLOT_BITS | slot as Key);
    }

    /// Works like [`Agenda::set`], unless `slot` is due at that time or earlier.
    #[inline]
    pub fn set_no_later(&mut self, slot: usize, at_ns: u64) {
        if self.due_ns(slot).is_none_or(|due_ns| due_ns > at_ns) {
            self.set(slot, at_ns);
        }
    }

    /// Cancels the event of `slot`.
    pub fn clear(&mut self, slot: usize) {
        if self.acting == Some(slot) {
            self.acting = None;
        }
        self.put(slot, NEVER);
    }

    /// Returns the time of the event of `slot`.
    #[inline]
    pub fn due_ns(&self, slot: usize) -> Option<u64> {
        let key = self.nodes[self.leaves + slot];
        (key != NEVER && self.acting != Some(slot)).then_some((key >> TIME_SHIFT) as u64)
    }

    /// Takes the next event if it is before `until_ns`. Returns its time and slot.
    #[inline]
    pub fn take_before(&mut self, until_ns: u64) -> Option<(u64, usize)> {
        if let Some(slot) = self.acting.take() {
            self.put(slot, NEVER);
        }
        let first = self.nodes[1];
        let (at_ns, slot) = ((first >> TIME_SHIFT) as u64, (first & SLOT_MASK) as usize);
        if first == NEVER || at_ns >= until_ns {
            return None;
        }
        self.acting = Some(slot);
        Some((at_ns, slot))
    }

    #[inline]
    fn put(&mut self, slot: usize, key: Key) {
        let mut node = self.leaves + slot;
        self.nodes[node] = key;
        while node > 1 {
            let pair = node & !1;
            node >>= 1;
            self.nodes[node] = self.nodes[pair].min(self.nodes[pair + 1]);
        }
    }
}
