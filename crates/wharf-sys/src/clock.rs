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

/// Returns `format` with its conversions of `strftime(3)` done, by the local time of `seconds` since 1970;
/// `None` if that is empty, or longer than a path may be.
pub fn local_time(format: &str, seconds: u64) -> Option<String> {
    let format = std::ffi::CString::new(format).ok()?;
    let (seconds, mut bytes) = (libc::time_t::try_from(seconds).ok()?, vec![0u8; libc::PATH_MAX as usize]);
    let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are of valid places. The call fills `parts` unless it returns null.
    let parts = unsafe {
        if libc::localtime_r(&seconds, parts.as_mut_ptr()).is_null() {
            return None;
        }
        parts.assume_init()
    };
    // SAFETY: `bytes` has room for the bytes that are named; `format` ends with a null byte; `parts` is set.
    let len = unsafe { libc::strftime(bytes.as_mut_ptr().cast(), bytes.len(), format.as_ptr(), &parts) };
    bytes.truncate(len);
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
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
