//! The slice of a thread under the fair scheduler: `sched_setattr(2)`, `sched_runtime` (Linux 6.12; ignored before).

use std::mem::{size_of, zeroed};

/// The shortest slice that the kernel grants (`__setparam_fair`, `kernel/sched/syscalls.c`).
const SLICE_NS: u64 = 100_000;

/// Asks for the shortest slice, so that the calling thread runs soon after it is woken, also beside busy ones: an earlier
/// deadline in place of a larger share of the processor. It needs no privilege. A thread of a real-time policy keeps its
/// own, and a kernel that refuses changes nothing.
pub fn shorten() {
    // SAFETY: `sched_attr` is plain numbers, for which zero is a valid value; the kernel reads and writes `size` bytes.
    unsafe {
        let mut attr: libc::sched_attr = zeroed();
        let size = size_of::<libc::sched_attr>() as libc::c_uint;
        let found = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0);
        if found == 0 && attr.sched_policy == libc::SCHED_OTHER as u32 {
            attr.sched_runtime = SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0);
        }
    }
}
