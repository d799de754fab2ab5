//! The loops of a packed ring's device: plain buffers, of one descriptor each, many at a time.

use super::super::memory::Hand;
use super::super::split::{INDIRECT, NEXT, WRITE};
use super::super::{Chain, Token};
use super::{AVAILABLE, Cursor, Descriptor, USED, available, rest, turn};
use wharf_sys::shared::Record;

/// Descriptors of a line.
const LINE: usize = 4;
/// Lines are asked for so many descriptors ahead.
const COMING_SOON: usize = 16;

impl Descriptor {
    /// What is there, of which `rest` was read.
    #[inline(always)]
    pub(super) fn of(record: &Record, rest: u64) -> Self {
        let address = u64::from_le(record.load_first());
        Self { address, len_bytes: rest as u32, id: (rest >> 32) as u16, flags: (rest >> 48) as u16 }
    }
}

/// What is there, but for its address, if its flags say `available`.
#[inline(always)]
pub(super) fn made_available(record: &Record, available: u16) -> Option<u64> {
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    (turn(rest) == available).then_some(rest)
}

/// Pops plain buffers of one region into `chains`, from place `first` on up to `end`; how many.
// All that the loop looks at is at hand: what is behind a reference is read anew after each word of the ring.
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
        chain.set_only(Token { id: only.id, descriptors: 1 }, part, only.flags & WRITE != 0);
    }
    run.len()
}

/// What is there, if its flags say `available`, and that it is all of its buffer.
#[inline(always)]
pub(super) fn plain(record: &Record, available: u16) -> Option<Descriptor> {
    const LOOKED_AT: u16 = AVAILABLE | USED | NEXT | INDIRECT;
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    ((rest >> 48) as u16 & LOOKED_AT == available).then(|| Descriptor::of(record, rest))
}

/// Says of buffers of one descriptor each, the first of `chains`, that they were used, with these flags; how many: as far as
/// the ring goes on, and there are such.
#[inline(always)]
pub(super) fn put_run(run: &[Record], flags: u16, chains: &[Chain]) -> usize {
    for (at, (record, chain)) in run.iter().zip(chains).enumerate() {
        let token = chain.token();
        if token.descriptors != 1 {
            return at;
        }
        // (C), seen once the first one of the batch is.
        record.store_second_release(rest(0, token.id, flags));
    }
    run.len().min(chains.len())
}

/// What becomes of the descriptors of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Read,
    /// They are read, and then written, that they were used.
    Written,
}

/// Has the lines of the descriptors from `at` on, which is available, brought here. Lines that the driver has not come to are here
/// from the round before.
#[inline(always)]
pub(super) fn prefetch_first(descriptors: &[Record], at: usize, line: Line) {
    for ahead in (LINE..COMING_SOON).step_by(LINE) {
        prefetch_ahead(descriptors, at, ahead, line);
    }
}

/// Asks for the line of the descriptor so many further on; of a ring as short as that, for none.
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
