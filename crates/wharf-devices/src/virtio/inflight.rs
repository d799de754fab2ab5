//! `InflightTable`: what a front end keeps of a virtqueue for the back end that comes next (QEMU,
//! docs/interop/vhost-user.rst, "Inflight I/O tracking").
//!
//! The devices here use the buffers of a batch together and in order, so they record none as in flight: what
//! they popped and did not use is popped again. The position is a split ring's used index. A packed ring does
//! not always show it ([`super::packed`], `resume`), so it is recorded here, before and after each batch that
//! is published. Buffers that another back end left in flight come first.

use super::{Layout, Place, RingError};
use wharf_sys::shared::View;

/// Alignment of each virtqueue's table, which DPDK and QEMU agree upon.
const ALIGN_BYTES: usize = 64;
const VERSION: u16 = 1;
/// Offsets in the head of either layout.
const VERSION_AT: usize = 8;
const SIZE_AT: usize = 10;
/// Split: the last buffer of the batch that was used last, and the used index.
const BATCH_AT: usize = 12;
const USED_AT: usize = 14;
/// Packed: both free heads, and both positions in one word.
const FREE_AT: usize = 12;
const POSITIONS_AT: usize = 16;
/// Byte of that word, of no meaning to others: the batch between the positions is all that was in flight.
const GIVES_BACK: usize = 6;

/// A packed ring's position: index and wrap counter.
pub(super) type Position = (u16, bool);

/// The table of one virtqueue.
#[derive(Debug, Clone)]
pub struct InflightTable {
    view: View,
    layout: Layout,
    size: u16,
}

impl InflightTable {
    /// Returns the bytes of a table for a ring of `size`, with its alignment.
    pub fn len_bytes(layout: Layout, size: u16) -> usize {
        let [head, state] = Self::shape(layout);
        (head + state * usize::from(size)).next_multiple_of(ALIGN_BYTES)
    }

    /// Returns the bytes of the head, and of the state of a descriptor.
    fn shape(layout: Layout) -> [usize; 2] {
        match layout {
            Layout::Split => [16, 16],
            Layout::Packed => [32, 32],
        }
    }

    /// Takes the table in `view` for the ring at `place`; a table of zeros is new.
    ///
    /// # Errors
    /// [`RingError::Inflight`] if it is too short, or of another ring.
    pub fn of(view: &View, place: &Place) -> Result<Self, RingError> {
        let (layout, size) = (place.layout(), place.size());
        let fits = view.len_bytes() >= Self::len_bytes(layout, size) && view.is_aligned(size_of::<u64>());
        let seen = if fits { [VERSION_AT, SIZE_AT].map(|at| view.load_u16(at)) } else { [u16::MAX; 2] };
        match seen {
            [0, _] => {}
            [VERSION, found] if found == size => {}
            [version, found] => return Err(RingError::Inflight { version, found, size }),
        }
        Ok(Self { view: view.clone(), layout, size })
    }

    fn is_new(&self) -> bool {
        self.view.load_u16(VERSION_AT) == 0
    }

    /// Returns the offset of the state of descriptor `index`.
    fn state(&self, index: u16) -> usize {
        let [head, state] = Self::shape(self.layout);
        // A peer may write any index.
        head + state * usize::from(index % self.size)
    }

    /// Returns the descriptors whose buffers are in flight, in the order in which they were taken.
    fn in_flight(&self) -> Vec<u16> {
        // The flag has one byte, and padding follows.
        let is_in_flight = |index: &u16| self.view.load_u16(self.state(*index)).to_ne_bytes()[0] == 1;
        let mut left: Vec<u16> = (0..self.size).filter(is_in_flight).collect();
        // A peer may write a counter meanwhile: each is read once.
        left.sort_by_cached_key(|&index| self.view.load_u64(self.state(index) + 8));
        left
    }

    fn forget(&self, index: u16) {
        self.view.store_u16(self.state(index), 0);
    }

    /// Begins to record a split ring, whose used index is `used`. Returns the first descriptors of buffers
    /// that another back end left in flight, the first one last.
    pub(super) fn resume_split(&self, used: u16) -> Vec<u16> {
        if self.is_new() {
            self.begin(&[]);
        }
        self.settle(used.wrapping_sub(self.view.load_u16(USED_AT)).min(self.size), used);
        let mut left = self.in_flight();
        left.reverse();
        left
    }

    /// Records the buffer of descriptor `head` in the batch that is published next.
    pub(super) fn link(&self, head: u16) {
        self.view.store_u16(self.state(head) + 6, self.view.load_u16(BATCH_AT));
        self.view.store_u16(BATCH_AT, head);
    }

    /// Records that the batch up to index `used` is published: its last `linked` buffers are not in flight.
    pub(super) fn settle(&self, linked: u16, used: u16) {
        let mut head = self.view.load_u16(BATCH_AT);
        for _ in 0..linked {
            self.forget(head);
            head = self.view.load_u16(self.state(head) + 6);
        }
        self.view.store_u16_release(USED_AT, used);
    }

    /// Returns a packed ring's position, and each buffer that another back end left in flight: its id and its
    /// descriptors. `None` if the table is new. `is_used` looks whether the device has used the descriptor at
    /// a position.
    pub(super) fn resume_packed(
        &self, is_used: impl Fn(Position) -> bool,
    ) -> Option<(Position, Vec<(u16, u16)>)> {
        if self.is_new() {
            return None;
        }
        let word = self.view.load_u64(POSITIONS_AT).to_ne_bytes();
        let index = |at: usize| u16::from_ne_bytes([word[at], word[at + 1]]) % self.size;
        let [now, before] = [(index(0), word[4] != 0), (index(2), word[5] != 0)];
        // The end came between the two records of a batch: it was published, or it was not.
        let is_shown = now == before || is_used(before);
        let position = if is_shown { now } else { before };
        let of = |index| {
            let state = self.state(index);
            (self.view.load_u16(state + 16), self.view.load_u16(state + 6))
        };
        let left = if is_shown && word[GIVES_BACK] != 0 { Vec::new() } else { self.in_flight() };
        Some((position, left.into_iter().map(of).collect()))
    }

    /// Begins to record a packed ring at `position`: none is in flight.
    pub(super) fn begin_packed(&self, position: Position) {
        (0..self.size).for_each(|index| {
            self.forget(index);
            self.view.store_u16(self.state(index) + 2, index.wrapping_add(1));
        });
        self.record(position, position, false);
        self.begin(&[FREE_AT, FREE_AT + 2]);
    }

    fn begin(&self, cleared: &[usize]) {
        cleared.iter().for_each(|&at| self.view.store_u16(at, 0));
        self.view.store_u16(SIZE_AT, self.size);
        self.view.store_u16_release(VERSION_AT, VERSION);
    }

    /// Records a packed ring's position `now`, and the one `before` the batch that is being published; the
    /// same once it is. One store: whenever the process ends, both are of one time. With `gives_back` the
    /// batch is all that was in flight.
    #[inline(always)]
    pub(super) fn record(&self, now: Position, before: Position, gives_back: bool) {
        let ([a, b], [c, d]) = (now.0.to_ne_bytes(), before.0.to_ne_bytes());
        let word = [a, b, c, d, now.1.into(), before.1.into(), gives_back.into(), 0];
        self.view.store_u64_release(POSITIONS_AT, u64::from_ne_bytes(word));
    }
}
