//! The owner word: RUNNING, a few notices, and a ready bit per lane.
//!
//! Goal: one owner at a time; no packet is left in an idle path; no lock, and one line shared per burst.
//!
//! - A sender publishes its lane's tail, then swaps 0 for RUNNING; if that fails it sets RUNNING and its
//!   lane's bit at once: if RUNNING was clear before, it is the owner, else the owner will find the bit.
//! - The owner clears bits *before* it reads the tails that they announce.
//! - It leaves by swapping RUNNING for 0, which fails when any bit was set since: then it looks again.
//! - Out of quota with a poller to come, it clears RUNNING alone and leaves the bits for the successor.
//! - Out of quota without one, it sets OFFERED and clears RUNNING: whoever claims next is the owner, and takes
//!   OFFERED off like any notice. The old owner *stands by* until it sees that, or claims again itself. So there
//!   is no moment at which work lies in a cell that nobody owns and nobody is bound to claim.
//! - A sole sender holds the cell's bias: while the word is BIASED and nothing else, it goes in and out by a flag
//!   of its own. Whoever claims then sets RUNNING, takes BIASED away, and waits until the flag is down.
//! - Waiters and control messages ride on the same word, as notices WAIT and CONTROL.
#![forbid(unsafe_code)]

/// Somebody owns the cell.
pub const RUNNING: u64 = 1 << 63;
/// A sender waits for space, or asks to be looked at.
pub const WAIT: u64 = 1 << 62;
/// A control message (a new lane, another setting) lies ready.
pub const CONTROL: u64 = 1 << 61;
/// The owner stays for good and polls the tails: no bits needed.
pub const DEDICATED: u64 = 1 << 60;
/// The dedicated owner is about to sleep.
pub const ARMED: u64 = 1 << 59;
/// An owner panicked inside.
pub const DEAD: u64 = 1 << 58;
/// Nobody owns the cell, and the holder of its bias may enter without a locked instruction.
pub const BIASED: u64 = 1 << 57;

/// The last owner was out of quota: nobody owns the cell, there is work, and it stands by for somebody to claim it.
pub const OFFERED: u64 = 1 << 56;

/// Ready bits: lane n has bit n modulo this.
pub const READY_BITS: u32 = 32;
/// All ready bits.
pub const READY: u64 = (1 << READY_BITS) - 1;
/// All that announces work to an owner.
pub const WORK: u64 = READY | WAIT | CONTROL | OFFERED;

/// The ready bit of lane `lane`.
#[inline(always)]
pub fn ready_bit(lane: usize) -> u64 {
    1 << (lane as u32 % READY_BITS)
}
