//! `Memory`: what a driver shares with a device, as the device sees it.
//!
//! Descriptors name bytes by the driver's *guest* addresses, rings begin at *user* addresses; both are looked up, every time,
//! in a table of a few regions. What crosses the end of a region goes on in the next one only where that one begins there.

use super::RingError;
use std::sync::Arc;
use wharf_sys::shared::{Area, View};

/// Part of the shared memory.
#[derive(Debug, Clone)]
pub struct MemoryRegion {
    /// Where it begins as descriptors name it.
    pub guest: u64,
    /// Where it begins in the address space of the driver's process.
    pub user: u64,
    /// Its bytes.
    pub view: View,
}

impl MemoryRegion {
    /// `len_bytes` of `area`, from byte `at` on; `None` where they do not lie within, are none, or an address would wrap.
    pub fn new(guest: u64, user: u64, area: &Arc<Area>, at: u64, len_bytes: u64) -> Option<Self> {
        let len = usize::try_from(len_bytes).ok().filter(|&len| len > 0)?;
        let view = View::new(area, usize::try_from(at).ok()?, len)?;
        guest.checked_add(len_bytes)?;
        user.checked_add(len_bytes)?;
        Some(Self { guest, user, view })
    }
}

/// Regions that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Two of them are at the same address.
    #[error("two regions of the shared memory overlap at {address:#x}")]
    Overlap {
        /// Where.
        address: u64,
    },
}

/// Bytes of the shared memory that were looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    region: u32,
    /// Bytes.
    pub len_bytes: u32,
    at: usize,
}

/// A region's bounds: a copy, for loops that look up many buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hand {
    pub(super) index: u32,
    guest: u64,
    len_bytes: u64,
}

impl Hand {
    /// These bytes, if all of them lie in it.
    #[inline(always)]
    pub(super) fn find(&self, address: u64, len_bytes: u32) -> Option<Part> {
        let at = address.wrapping_sub(self.guest);
        let is_within = at < self.len_bytes && u64::from(len_bytes) <= self.len_bytes - at;
        is_within.then_some(Part { region: self.index, len_bytes, at: at as usize })
    }
}

/// A part, at hand: its bytes, of a region that was looked up.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    view: &'a View,
    at: usize,
    len_bytes: usize,
}

impl Window<'_> {
    /// Copies its bytes from `skip` on to `to`; false, and nothing, where it has not so many.
    #[inline(always)]
    pub fn copy_out(&self, skip: usize, to: &mut [u8]) -> bool {
        skip <= self.len_bytes && to.len() <= self.len_bytes - skip && self.view.copy_out(self.at + skip, to)
    }

    /// Copies `from` to its bytes from `skip` on; false, and nothing, where it has not so many.
    #[inline(always)]
    pub fn copy_in(&self, skip: usize, from: &[u8]) -> bool {
        skip <= self.len_bytes
            && from.len() <= self.len_bytes - skip
            && self.view.copy_in(self.at + skip, from)
    }

    /// Has the bytes of a line's length from `skip` on brought here, or where they end: mostly two lines, or one.
    #[inline(always)]
    pub fn prefetch(&self, skip: usize) {
        let at = self.at + skip;
        self.view.prefetch(at);
        self.view.prefetch(at + LINE_BYTES - 1);
    }
}

/// What processors move at a time.
const LINE_BYTES: usize = 64;

/// The table. Cheap to clone, as long as regions are few.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    regions: Vec<MemoryRegion>,
}

impl Memory {
    /// Of these regions.
    ///
    /// # Errors
    /// [`MemoryError::Overlap`].
    pub fn new(mut regions: Vec<MemoryRegion>) -> Result<Self, MemoryError> {
        let keys: [fn(&MemoryRegion) -> u64; 2] = [|region| region.user, |region| region.guest];
        for key in keys {
            regions.sort_by_key(key);
            let overlap =
                regions.windows(2).find(|two| key(&two[1]) - key(&two[0]) < two[0].view.len_bytes() as u64);
            if let Some(two) = overlap {
                return Err(MemoryError::Overlap { address: key(&two[1]) });
            }
        }
        Ok(Self { regions })
    }

    /// Whether the driver has taken some of it away: see [`Area::is_broken`].
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.regions.iter().any(|region| region.view.area().is_broken())
    }

    /// Its regions, by guest address.
    pub fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    /// `len_bytes` from a user address on, within one region.
    pub fn view_of_user(&self, user: u64, len_bytes: usize) -> Option<View> {
        let region = self.regions.iter().find(|region| offset(user, region.user, &region.view).is_some())?;
        region.view.part(offset(user, region.user, &region.view)?, len_bytes)
    }

    /// Region `hint`, at hand.
    #[inline(always)]
    pub(super) fn hand(&self, hint: u32) -> Hand {
        let region = self.regions.get(hint as usize);
        let (guest, len_bytes) =
            region.map_or((0, 0), |region| (region.guest, region.view.len_bytes() as u64));
        Hand { index: hint, guest, len_bytes }
    }

    /// The region of all of the `len_bytes` from guest address `address` on, at hand, where that is another one than `hand`.
    #[cold]
    pub(super) fn other_hand(&self, address: u64, len_bytes: u32, hand: Hand) -> Option<Hand> {
        let other = self.hand(self.search(address)?);
        (other.index != hand.index && other.find(address, len_bytes).is_some()).then_some(other)
    }

    /// The bytes from guest address `address` on, up to `len_bytes` or the end of their region. `hint` is where they were found last
    /// time, and is kept.
    #[inline]
    pub(super) fn find(&self, address: u64, len_bytes: u32, hint: &mut u32) -> Option<Part> {
        let within = |index: u32| {
            let region = self.regions.get(index as usize)?;
            let at = offset(address, region.guest, &region.view)?;
            let left = u32::try_from(region.view.len_bytes() - at).unwrap_or(u32::MAX);
            Some(Part { region: index, len_bytes: len_bytes.min(left), at })
        };
        if let Some(part) = within(*hint) {
            return Some(part);
        }
        *hint = self.search(address)?;
        within(*hint)
    }

    #[cold]
    #[inline(never)]
    fn search(&self, address: u64) -> Option<u32> {
        let found =
            self.regions.iter().position(|region| offset(address, region.guest, &region.view).is_some());
        found.and_then(|index| u32::try_from(index).ok())
    }

    /// The bytes of `part`, at hand; `None` where it is not of this memory.
    #[inline(always)]
    pub fn window(&self, part: &Part) -> Option<Window<'_>> {
        let view = &self.regions.get(part.region as usize)?.view;
        Some(Window { view, at: part.at, len_bytes: part.len_bytes as usize })
    }

    /// Copies the bytes of `part` from `skip` on to `to`; false where it is not that long, or not of this memory.
    #[inline]
    pub fn copy_out(&self, part: &Part, skip: u32, to: &mut [u8]) -> bool {
        let region = self.regions.get(part.region as usize);
        reaches(part, skip, to.len())
            && region.is_some_and(|region| region.view.copy_out(part.at + skip as usize, to))
    }

    /// Copies `from` to the bytes of `part` from `skip` on; false where it is not that long, or not of this memory.
    #[inline]
    pub fn copy_in(&self, part: &Part, skip: u32, from: &[u8]) -> bool {
        let region = self.regions.get(part.region as usize);
        reaches(part, skip, from.len())
            && region.is_some_and(|region| region.view.copy_in(part.at + skip as usize, from))
    }

    /// Copies the bytes at a guest address to `to`, from several regions if need be.
    ///
    /// # Errors
    /// [`RingError::Outside`].
    pub(super) fn read(&self, address: u64, to: &mut [u8], hint: &mut u32) -> Result<(), RingError> {
        let mut done = 0;
        while done < to.len() {
            let left = u32::try_from(to.len() - done).unwrap_or(u32::MAX);
            let fault = RingError::Outside { address, len_bytes: left };
            let from = address.checked_add(done as u64).ok_or(fault)?;
            let part = self.find(from, left, hint).ok_or(fault)?;
            let next = done + part.len_bytes as usize;
            if !self.copy_out(&part, 0, &mut to[done..next]) {
                return Err(fault);
            }
            done = next;
        }
        Ok(())
    }
}

#[inline(always)]
fn reaches(part: &Part, skip: u32, len: usize) -> bool {
    part.len_bytes.checked_sub(skip).is_some_and(|left| left as usize >= len)
}

/// How far behind the beginning `start` of a region an address is, if it lies in it.
#[inline(always)]
fn offset(address: u64, start: u64, view: &View) -> Option<usize> {
    let offset = address.wrapping_sub(start);
    (offset < view.len_bytes() as u64).then_some(offset as usize)
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
