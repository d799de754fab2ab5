//! Loops of a packed ring's device for plain buffers, of one descriptor each, many at a time.

use super::super::descriptor::{Descriptor, INDIRECT, NEXT, WRITE};
use super::super::memory::Hand;
use super::super::{Chain, Token};
use super::{AVAILABLE, Cursor, USED, available, turn};
use wharf_sys::shared::Record;

/// Descriptors of a line.
const LINE: usize = 4;
/// Prefetch distance in descriptors.
const COMING_SOON: usize = 16;

/// Returns a descriptor, of which `rest` was read.
#[inline(always)]
pub(super) fn descriptor(record: &Record, rest: u64) -> Descriptor {
    Descriptor::of_packed(u64::from_le(record.load_first()), rest)
}

/// Returns the descriptor without its address, if its flags are `available`.
#[inline(always)]
pub(super) fn made_available(record: &Record, available: u16) -> Option<u64> {
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    (turn(rest) == available).then_some(rest)
}

/// Pops plain buffers of one region into `chains`, from position `first` up to `end`. Returns their number.
// The loop's state is in locals: a field behind a reference is read anew after each word of the ring.
#[inline(always)]
pub(super) fn pop_run(
    descriptors: &[Record], first: Cursor, end: usize, line: Line, hand: Hand, chains: &mut [Chain],
) -> usize {
    let turn = available(first.wrap);
    let run = descriptors.get(first.at()..end).unwrap_or_default();
    for (at, (record, chain)) in run.iter().zip(chains).enumerate() {
        let Some(only) = plain(record, turn) else { return at };
        if (first.at() + at).is_multiple_of(LINE) {
            prefetch_ahead(descriptors, first.at() + at, COMING_SOON, line);
        }
        let Some(part) = hand.find(only.address, only.len_bytes) else { return at };
        chain.set_only(Token { id: only.next_or_id, descriptors: 1 }, part, only.flags & WRITE != 0);
    }
    run.len()
}

/// Returns the descriptor if its flags are `available` and it is all of its buffer.
#[inline(always)]
pub(super) fn plain(record: &Record, available: u16) -> Option<Descriptor> {
    const LOOKED_AT: u16 = AVAILABLE | USED | NEXT | INDIRECT;
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    ((rest >> 48) as u16 & LOOKED_AT == available).then(|| descriptor(record, rest))
}

/// Purpose of a prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Read,
    /// The descriptors are read, and then marked as used.
    Written,
}

/// Prefetches the lines of the descriptors from `at` on, which is available. Lines beyond the driver's
/// position are in the cache from the round before.
#[inline(always)]
pub(super) fn prefetch_first(descriptors: &[Record], at: usize, line: Line) {
    for ahead in (LINE..COMING_SOON).step_by(LINE) {
        prefetch_ahead(descriptors, at, ahead, line);
    }
}

/// Prefetches the line of the descriptor `distance` further on; none in a ring as short as that.
#[inline(always)]
fn prefetch_ahead(descriptors: &[Record], at: usize, ahead: usize, line: Line) {
    let (there, len) = (at + ahead, descriptors.len());
    let there = if there >= len { there - len } else { there };
    match (descriptors.get(there), line) {
        (None, _) => {}
        (Some(descriptor), Line::Read) => descriptor.prefetch(),
        (Some(descriptor), Line::Written) => descriptor.prefetch_to_write(),
    }
}
