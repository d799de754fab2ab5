//! Clocks in nanoseconds. The monotonic ones share an unspecified origin.

/// Returns `CLOCK_MONOTONIC`, exact, in nanoseconds. A read takes about 20 ns where the time stamp counter is
/// slow, as in virtual machines.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns `CLOCK_MONOTONIC_COARSE`: the time of the last timer tick, 1 to 10 ms old, in nanoseconds. A read
/// takes about 3 ns.
#[inline]
pub fn coarse_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Returns `CLOCK_REALTIME`, nanoseconds since 1970: for time stamps in captures.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns `CLOCK_TAI`, nanoseconds: the clock of the kernel's stamps of frames that it has sent.
pub fn tai_ns() -> u64 {
    read(libc::CLOCK_TAI)
}

/// Returns the processor's time stamp counter in its own ticks, for profiles of a few nanoseconds. Without a
/// counter: nanoseconds.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc reads a register and has no precondition.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    monotonic_ns()
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result. These clocks exist on every Linux that Wharf runs on.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
