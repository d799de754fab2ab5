//! The owner word: RUNNING, a few notices, and a ready bit per lane.
//!
//! Its goals: one owner at a time, no packet left in an idle path, no lock, and one cache line shared per
//! burst.
//!
//! - A sender publishes its lane's tail, then swaps 0 for RUNNING. If that fails, it sets RUNNING and its
//!   lane's bit at once. If RUNNING was clear before, the sender is the owner; otherwise the owner will find
//!   the bit.
//! - The owner clears bits *before* it reads the tails that they announce.
//! - The owner leaves by swapping RUNNING for 0. That fails if a bit was set since: then it looks again.
//! - An owner out of quota, with a poller as its successor, clears RUNNING alone and leaves the bits to the
//!   poller.
//! - An owner out of quota without a successor sets OFFERED and clears RUNNING. The next thread that claims
//!   is the owner, and clears OFFERED like any notice. The old owner *stands by* until it sees that, or
//!   claims again itself. At no moment is there work in a cell that has neither an owner nor a thread bound
//!   to claim it.
//! - A sole sender holds the cell's bias. While the word is BIASED and nothing else, that sender enters and
//!   leaves by a flag of its own. A thread that claims then sets RUNNING, clears BIASED, and waits until the
//!   flag is clear.
//! - A reserved cell has no owner but pollers: a sender sets its bit without RUNNING. The first bit that is set while no
//!   owner is there wakes a poller, which claims the cell as any thread does.
//! - Waiters and control messages use the same word: the notices WAIT and CONTROL.
#![forbid(unsafe_code)]

/// The cell has an owner.
pub const RUNNING: u64 = 1 << 63;
/// A sender waits for space, or asks the owner to look at it.
pub const WAIT: u64 = 1 << 62;
/// A control message (a new lane, a changed setting) is pending.
pub const CONTROL: u64 = 1 << 61;
/// The owner stays for good and polls the tails: senders set no bits.
pub const DEDICATED: u64 = 1 << 60;
/// The dedicated owner is about to sleep.
pub const ARMED: u64 = 1 << 59;
/// An owner panicked.
pub const DEAD: u64 = 1 << 58;
/// The cell has no owner, and the holder of its bias may enter without a locked instruction.
pub const BIASED: u64 = 1 << 57;

/// The last owner was out of quota: the cell has work and no owner, and the last owner stands by until a
/// thread claims it.
pub const OFFERED: u64 = 1 << 56;

/// The cell is reserved for pollers: a sender that finds it without an owner sets bits alone, and wakes a poller.
pub const RESERVED: u64 = 1 << 55;

/// The number of ready bits: lane n has bit n modulo this.
pub const READY_BITS: u32 = 32;
/// All ready bits.
pub const READY: u64 = (1 << READY_BITS) - 1;
/// All bits that announce work to an owner.
pub const WORK: u64 = READY | WAIT | CONTROL | OFFERED;

/// Returns the ready bit of lane `lane`.
#[inline(always)]
pub fn ready_bit(lane: usize) -> u64 {
    1 << (lane as u32 % READY_BITS)
}
