//! Prefetches of cache lines that another processor has.

/// Prefetches the cache line at `place`: a hint, for any address.
#[inline(always)]
pub fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads and writes nothing, and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Prefetches the cache line at `place` for a write: a hint, for any address.
// The instruction takes the address only, and accesses no memory.
#[allow(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub fn prefetch_to_write(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above. A processor without the instruction does nothing. (The intrinsic is this instruction
    // only if the target is known to have it; otherwise it fetches a line that cannot be written.)
    unsafe {
        core::arch::asm!("prefetchw [{place}]", place = in(reg) place, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
