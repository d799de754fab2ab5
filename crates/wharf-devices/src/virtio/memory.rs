//! `Memory`: the memory that a driver shares, as the device sees it.
//!
//! Descriptors name bytes by the driver's *guest* addresses, rings begin at *user* addresses. Both are looked
//! up, every time, in a table of a few regions. Bytes that cross the end of a region go on in the next one
//! only if that one begins there.

use super::{DirtyLog, RingError};
use std::sync::Arc;
use wharf_sys::shared::{Area, View};

/// Part of the shared memory.
#[derive(Debug, Clone)]
pub struct MemoryRegion {
    /// Start in the guest addresses of descriptors.
    pub guest: u64,
    /// Start in the address space of the driver's process.
    pub user: u64,
    /// Its bytes.
    pub view: View,
}

impl MemoryRegion {
    /// Makes a region of `len_bytes` of `area`, from byte `at` on; `None` if they are outside, are none, or
    /// an address would wrap.
    pub fn new(guest: u64, user: u64, area: &Arc<Area>, at: u64, len_bytes: u64) -> Option<Self> {
        let len = usize::try_from(len_bytes).ok().filter(|&len| len > 0)?;
        let view = View::new(area, usize::try_from(at).ok()?, len)?;
        guest.checked_add(len_bytes)?;
        user.checked_add(len_bytes)?;
        Some(Self { guest, user, view })
    }
}

/// Invalid regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Two regions overlap.
    #[error("two regions of the shared memory overlap at {address:#x}")]
    Overlap {
        /// The address.
        address: u64,
    },
}

/// Bytes of the shared memory that were looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    region: u32,
    /// Number of bytes.
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
    /// Returns these bytes, if all of them lie in it.
    #[inline(always)]
    pub(super) fn find(&self, address: u64, len_bytes: u32) -> Option<Part> {
        let at = address.wrapping_sub(self.guest);
        let is_within = at < self.len_bytes && u64::from(len_bytes) <= self.len_bytes - at;
        is_within.then_some(Part { region: self.index, len_bytes, at: at as usize })
    }
}

/// A part with its region, which was looked up.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    view: &'a View,
    at: usize,
    len_bytes: usize,
}

impl Window<'_> {
    /// Copies its bytes from `skip` on to `to`. Returns false, and copies none, if it has fewer.
    #[inline(always)]
    pub fn copy_out(&self, skip: usize, to: &mut [u8]) -> bool {
        skip <= self.len_bytes && to.len() <= self.len_bytes - skip && self.view.copy_out(self.at + skip, to)
    }

    /// Copies `from` to its bytes from `skip` on. Returns false, and copies none, if it has fewer.
    #[inline(always)]
    pub fn copy_in(&self, skip: usize, from: &[u8]) -> bool {
        skip <= self.len_bytes
            && from.len() <= self.len_bytes - skip
            && self.view.copy_in(self.at + skip, from)
    }

    /// Prefetches the first line, and for writing a line's length of bytes from `skip` on: one or two lines.
    #[inline(always)]
    pub fn prefetch_to_write(&self, skip: usize) {
        let at = self.at + skip;
        self.view.prefetch(self.at);
        self.view.prefetch_to_write(at);
        self.view.prefetch_to_write(at + LINE_BYTES - 1);
    }

    /// Prefetches a line's length of bytes from `skip` on: one or two lines.
    #[inline(always)]
    pub fn prefetch(&self, skip: usize) {
        let at = self.at + skip;
        self.view.prefetch(at);
        self.view.prefetch(at + LINE_BYTES - 1);
    }
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// The table of regions. Cheap to clone if they are few.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    regions: Vec<MemoryRegion>,
    /// Where writes are noted; `None` if they are not.
    log: Option<DirtyLog>,
}

impl Memory {
    /// Makes a table of these regions.
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
        Ok(Self { regions, log: None })
    }

    /// Returns true if the driver has taken some of the memory, or the log, away: see [`Area::is_broken`].
    #[inline]
    pub fn is_broken(&self) -> bool {
        let is_log_broken = || self.log.as_ref().is_some_and(DirtyLog::is_broken);
        self.regions.iter().any(|region| region.view.area().is_broken()) || is_log_broken()
    }

    /// Returns the same memory, whose writes are noted in `log`.
    pub fn logged(&self, log: Option<DirtyLog>) -> Self {
        Self { regions: self.regions.clone(), log }
    }

    /// Returns true if writes are noted.
    #[inline(always)]
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Notes that the first `len_bytes` of `part` were written.
    pub(super) fn note_part(&self, part: &Part, len_bytes: u32) {
        if let (Some(log), Some(region)) = (&self.log, self.regions.get(part.region as usize)) {
            log.note(region.guest + part.at as u64, len_bytes.min(part.len_bytes).into());
        }
    }

    /// Notes that `len_bytes` were written from user address `user` on, within one region.
    pub(crate) fn note_user(&self, user: u64, len_bytes: usize) {
        let Some(log) = &self.log else { return };
        let find =
            |region: &MemoryRegion| Some(region.guest + offset(user, region.user, &region.view)? as u64);
        self.regions.iter().find_map(find).into_iter().for_each(|at| log.note(at, len_bytes as u64));
    }

    /// Returns the regions, by guest address.
    pub fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    /// Returns `len_bytes` from a user address on, within one region.
    pub fn view_of_user(&self, user: u64, len_bytes: usize) -> Option<View> {
        let region = self.regions.iter().find(|region| offset(user, region.user, &region.view).is_some())?;
        region.view.part(offset(user, region.user, &region.view)?, len_bytes)
    }

    /// Returns region `hint`.
    #[inline(always)]
    pub(super) fn hand(&self, hint: u32) -> Hand {
        let region = self.regions.get(hint as usize);
        let (guest, len_bytes) =
            region.map_or((0, 0), |region| (region.guest, region.view.len_bytes() as u64));
        Hand { index: hint, guest, len_bytes }
    }

    /// Returns the region of all `len_bytes` from guest address `address` on, if it is not `hand`.
    #[cold]
    pub(super) fn other_hand(&self, address: u64, len_bytes: u32, hand: Hand) -> Option<Hand> {
        let other = self.hand(self.search(address)?);
        (other.index != hand.index && other.find(address, len_bytes).is_some()).then_some(other)
    }

    /// Returns the bytes from guest address `address` on, up to `len_bytes` or the end of their region.
    /// `hint` is the region of the last lookup, and is updated.
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
        // By guest address: see `new`.
        let index = self.regions.partition_point(|region| region.guest <= address).checked_sub(1)?;
        offset(address, self.regions[index].guest, &self.regions[index].view)?;
        u32::try_from(index).ok()
    }

    /// Returns the bytes of `part` with their region; `None` if it is not of this memory.
    #[inline(always)]
    pub fn window(&self, part: &Part) -> Option<Window<'_>> {
        let view = &self.regions.get(part.region as usize)?.view;
        Some(Window { view, at: part.at, len_bytes: part.len_bytes as usize })
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
            if !self.window(&part).is_some_and(|window| window.copy_out(0, &mut to[done..next])) {
                return Err(fault);
            }
            done = next;
        }
        Ok(())
    }
}

/// Returns the offset of an address from the start `start` of a region, if it lies in it.
#[inline(always)]
fn offset(address: u64, start: u64, view: &View) -> Option<usize> {
    let offset = address.wrapping_sub(start);
    (offset < view.len_bytes() as u64).then_some(offset as usize)
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
