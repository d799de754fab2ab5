//! Lines of memory that another processor has: to be asked for before they are needed.

/// Has the line at `place` brought to this processor: a hint, whatever the address.
#[inline(always)]
pub fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads and writes nothing and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has the line at `place` brought to this processor, to be written: a hint, whatever the address.
// The address is all that it takes: it reads and writes no memory.
#[allow(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub fn prefetch_to_write(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads and writes nothing and cannot fault; a processor that does not know it does nothing. (The intrinsic is
    // this instruction only where the target is known to have it, and else takes a copy that cannot be written.)
    unsafe {
        core::arch::asm!("prefetchw [{place}]", place = in(reg) place, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
