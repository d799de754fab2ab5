//! An asymmetric fence: nearly free on the side that runs often, a system call on the side that rarely does.
//!
//! A sender that publishes a packet and then looks whether the owner sleeps needs a full fence between the
//! two, or both may miss the other. At 20 cycles a packet that is the sender's largest single cost, so the
//! owner, which falls asleep rarely, pays for both: membarrier(2) puts a fence into every running thread.
//! Where the kernel has no membarrier both sides use an ordinary fence.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

// linux/membarrier.h; not in libc 0.2.
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

static EXPEDITED: OnceLock<bool> = OnceLock::new();

/// The side that runs often. Pairs with [`heavy`].
#[inline(always)]
pub fn light() {
    if EXPEDITED.get() == Some(&true) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The side that runs rarely. Pairs with [`light`].
pub fn heavy() {
    fence(Ordering::SeqCst);
    if expedited() && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        unreachable!("membarrier(2) answered registration, then refused the command");
    }
}

/// Registers the process for the fast form and says whether the kernel has it. Call it before the first
/// [`light`] that should be cheap; until then `light` is an ordinary full fence, which pairs with any `heavy`.
pub fn expedited() -> bool {
    *EXPEDITED.get_or_init(|| membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

fn membarrier(command: libc::c_long) -> bool {
    // SAFETY: membarrier takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0 as libc::c_long, 0 as libc::c_long) == 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_sides_run() {
        super::light();
        super::heavy();
        super::light();
    }
}
