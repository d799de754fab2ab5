//! `Records`: a table in shared memory, of records of two words each; what is where is checked once, the index each time.

use super::View;
use crate::line::prefetch_to_write;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// One record: where its words are does not depend on who the peer is.
#[repr(C, align(16))]
struct Record([AtomicU64; 2]);

const _: () = assert!(size_of::<Record>() == Records::RECORD_BYTES);

/// All of a [`View`] as records of 16 bytes.
#[derive(Debug, Clone)]
pub struct Records {
    view: View,
    count: usize,
}

impl Records {
    /// Bytes of a record, and how it is aligned.
    pub const RECORD_BYTES: usize = 16;

    /// The whole records of `view`; `None` where it does not begin at a multiple of 16 bytes.
    pub fn new(view: View) -> Option<Self> {
        let count = view.len_bytes() / Self::RECORD_BYTES;
        view.is_aligned(align_of::<Record>()).then_some(Self { view, count })
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Its bytes.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Both words of record `index`, in the machine's order, relaxed.
    ///
    /// # Panics
    /// Beyond the last one, as all of these.
    #[inline(always)]
    pub fn load(&self, index: usize) -> [u64; 2] {
        let Record([first, second]) = self.record(index);
        [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)]
    }

    /// The first word, relaxed.
    #[inline(always)]
    pub fn load_first(&self, index: usize) -> u64 {
        self.record(index).0[0].load(Ordering::Relaxed)
    }

    /// The second word: what the peer wrote before it released this is seen after.
    #[inline(always)]
    pub fn load_second_acquire(&self, index: usize) -> u64 {
        self.record(index).0[1].load(Ordering::Acquire)
    }

    /// Writes the first word, relaxed.
    #[inline(always)]
    pub fn store_first(&self, index: usize, word: u64) {
        self.record(index).0[0].store(word, Ordering::Relaxed);
    }

    /// Writes the second word, relaxed.
    #[inline(always)]
    pub fn store_second(&self, index: usize, word: u64) {
        self.record(index).0[1].store(word, Ordering::Relaxed);
    }

    /// Writes the second word: whoever acquires it sees all that was written before.
    #[inline(always)]
    pub fn store_second_release(&self, index: usize, word: u64) {
        self.record(index).0[1].store(word, Ordering::Release);
    }

    /// Writes the last two bytes, as [`Records::store_second_release`] all of the second word.
    #[inline(always)]
    pub fn store_last_u16_release(&self, index: usize, value: u16) {
        let last = std::ptr::from_ref(self.record(index)).cast::<AtomicU16>().wrapping_add(7);
        // SAFETY: the last of the eight pairs of bytes of a record, which is aligned and borrowed; an atomic may be any bits.
        unsafe { &*last }.store(value, Ordering::Release);
    }

    /// Has the line of record `index` brought to this processor, if there is such a record: a hint.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        if index < self.count {
            self.view.prefetch(index * Self::RECORD_BYTES);
        }
    }

    /// Has the line of record `index` brought to this processor, to be written, if there is such a record: a hint.
    #[inline(always)]
    pub fn prefetch_to_write(&self, index: usize) {
        if index < self.count {
            let record = self.view.start.cast::<Record>().as_ptr().wrapping_add(index);
            prefetch_to_write(record.cast());
        }
    }

    #[inline(always)]
    fn record(&self, index: usize) -> &Record {
        assert!(index < self.count);
        // SAFETY: so many records lie within the view.
        let record = unsafe { self.view.start.cast::<Record>().add(index) };
        // SAFETY: aligned, as its view begins aligned; within the mapping, which lives as long as `self`. Atomics may be any
        // bits; the peer, whose accesses are its own, has its own mapping of them.
        unsafe { record.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Area, View};
    use super::Records;
    use crate::mapping::Mapping;
    use std::sync::Arc;

    fn area() -> Arc<Area> {
        Arc::new(Area::new(Mapping::shared_small_pages(4096).unwrap()))
    }

    #[test]
    fn words_lie_where_the_view_has_them() {
        let view = View::new(&area(), 32, 40).unwrap();
        let records = Records::new(view.clone()).unwrap();
        assert_eq!(records.count(), 2, "half a record is none");
        records.store_first(1, 0x0102);
        records.store_second_release(1, u64::MAX);
        records.store_last_u16_release(1, 0);
        assert_eq!((view.load_u64(16), view.load_u16(30), view.load_u16(28)), (0x0102, 0, u16::MAX));
        records.store_second(1, 7);
        assert_eq!(records.load(1), [0x0102, 7]);
        assert_eq!((records.load_first(1), records.load_second_acquire(1)), (0x0102, 7));
        assert_eq!(records.load(0), [0, 0]);
    }

    #[test]
    #[should_panic(expected = "index < self.count")]
    fn beyond_the_last_one() {
        Records::new(View::new(&area(), 0, 64).unwrap()).unwrap().load(4);
    }

    #[test]
    fn what_is_not_aligned_is_refused() {
        assert!(Records::new(View::new(&area(), 8, 64).unwrap()).is_none());
    }
}
