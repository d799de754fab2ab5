//! `Bar`: the registers of an adapter, words of 4 bytes in memory that the adapter answers for.

use std::sync::atomic::{Ordering, fence};
use wharf_sys::call::Pages;

/// A base address region, mapped. An access outside of it, or not at a multiple of 4, reads [`Bar::NOTHING`] and writes
/// nothing.
#[derive(Debug)]
pub struct Bar(pub(super) Pages);

impl Bar {
    /// The word that the bus reads where no adapter answers: it has been removed.
    pub const NOTHING: u32 = u32::MAX;

    /// Returns the bytes of the region.
    pub fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Reads the register at byte `at`, little-endian.
    #[inline]
    pub fn read(&self, at: u32) -> u32 {
        let Some(place) = self.place(at) else { return Self::NOTHING };
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned. Each register is a word. A read may
        // change the adapter's state, not this process's memory.
        let word = u32::from_le(unsafe { place.read_volatile() });
        fence(Ordering::Acquire);
        word
    }

    /// Writes the register at byte `at`, little-endian, after all earlier writes to memory.
    #[inline]
    pub fn write(&self, at: u32, value: u32) {
        before_a_register();
        if let Some(place) = self.place(at) {
            // SAFETY: as in `read`. The adapter then accesses memory that is mapped for it alone, which no reference
            // points to while it is lent: see the text of `wharf_mem::Region`.
            unsafe { place.write_volatile(value.to_le()) };
        }
    }

    #[inline(always)]
    fn place(&self, at: u32) -> Option<*mut u32> {
        let at = at as usize;
        let is_inside = at.is_multiple_of(4) && at.checked_add(4)? <= self.0.len_bytes();
        is_inside.then(|| self.0.place(at, 4).cast::<u32>().as_ptr())
    }
}

/// Orders writes to memory before a write to a register. x86 keeps that order by itself (Intel SDM, volume 3, "Memory
/// Ordering"), so that the compiler's is enough.
#[inline(always)]
fn before_a_register() {
    fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier for all observers of the outer domain, the adapter among them; it changes nothing else.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_outside_reads_nothing_and_writes_nothing() {
        let pages = Pages::map(None, 0, 4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).unwrap();
        let bar = Bar(pages);
        bar.write(4092, 7);
        assert_eq!([bar.read(4092), bar.read(4088)], [7, 0]);
        for at in [4096, 4094, 1, u32::MAX, u32::MAX - 3] {
            bar.write(at, 9);
            assert_eq!(bar.read(at), Bar::NOTHING, "{at}");
        }
        assert_eq!(bar.read(4092), 7);
    }
}
