//! `Place`: the three areas of a virtqueue (virtio 1.2, section 2.6), and their layout.

use super::{InflightTable, Memory, RingError, SIZE_MAX};
use std::fmt;
use std::sync::Arc;
use wharf_sys::mapping::PAGE_BYTES;
use wharf_sys::shared::{Area, Record, Table, View};

/// Layout of a virtqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Section 2.7: a table and two rings.
    Split,
    /// Section 2.8: one ring, written by both sides.
    Packed,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Split => "split",
            Layout::Packed => "packed",
        })
    }
}

/// Names of the areas.
const AREAS: [&str; 3] = ["descriptor area", "driver area", "device area"];

impl Layout {
    pub(super) fn sizes(self) -> &'static str {
        match self {
            Layout::Split => "a power of two from 1 to 32768",
            Layout::Packed => "1 to 32768",
        }
    }

    /// Returns `size` if a ring can have it.
    ///
    /// # Errors
    /// [`RingError::Size`].
    pub fn check_size(self, size: u32) -> Result<u16, RingError> {
        let fits =
            (1..=u32::from(SIZE_MAX)).contains(&size) && (self == Layout::Packed || size.is_power_of_two());
        u16::try_from(size).ok().filter(|_| fits).ok_or(RingError::Size { layout: self, size })
    }

    /// Returns the bytes and the alignment of each area: section 2.7 has those of a split ring; sections 2.8.10 and
    /// 2.8.14 those of a packed one.
    fn areas(self, size: u16) -> [(usize, usize); 3] {
        let size = usize::from(size);
        match self {
            Layout::Split => [(16 * size, 16), (6 + 2 * size, 2), (6 + 8 * size, 4)],
            Layout::Packed => [(16 * size, 16), (4, 4), (4, 4)],
        }
    }
}

/// Addresses of a virtqueue.
#[derive(Debug, Clone)]
pub struct Place {
    pub(super) layout: Layout,
    pub(super) size: u16,
    /// Descriptors; all of a packed ring.
    pub(super) descriptors: Table<Record>,
    /// Area that the driver writes: available ring, or its notification request.
    pub(super) driver: View,
    /// Area that the device writes: used ring, or its notification request.
    pub(super) device: View,
    /// What the front end keeps for the next device.
    pub(super) inflight: Option<InflightTable>,
}

/// Distance of the areas in own memory: two lines, since processors fetch lines in pairs.
const APART_BYTES: usize = 128;

impl Place {
    /// Finds a ring of `size` whose areas begin at these addresses in the peer's own address space.
    ///
    /// # Errors
    /// [`RingError::Size`]; [`RingError::Place`] if an area does not lie within one region of `memory`.
    pub fn find(
        layout: Layout, size: u32, memory: &Memory, descriptors: u64, driver: u64, device: u64,
    ) -> Result<Self, RingError> {
        let size = layout.check_size(size)?;
        Self::of_areas(layout, size, [descriptors, driver, device], |at, len| memory.view_of_user(at, len))
    }

    /// Makes a ring of `size` in own memory, from byte `at` on.
    ///
    /// # Errors
    /// The errors of [`Place::find`].
    pub fn within(area: &Arc<Area>, at: usize, layout: Layout, size: u32) -> Result<Self, RingError> {
        let size = layout.check_size(size)?;
        let starts = Self::offsets(layout, size, at);
        Self::of_areas(layout, size, starts, |at, len| View::new(area, at, len))
    }

    /// Makes a ring whose areas begin at `starts`, each as `view` gives it.
    fn of_areas<A: Copy>(
        layout: Layout, size: u16, starts: [A; 3], view: impl Fn(A, usize) -> Option<View>,
    ) -> Result<Self, RingError> {
        let areas = layout.areas(size);
        let find = |n: usize| {
            let (len_bytes, align_bytes) = areas[n];
            let found = view(starts[n], len_bytes).filter(|view| view.is_aligned(align_bytes));
            found.ok_or(RingError::Place { area: AREAS[n], align_bytes })
        };
        let (descriptors, driver, device) = (find(0)?, find(1)?, find(2)?);
        let fault = RingError::Place { area: AREAS[0], align_bytes: Record::BYTES };
        let descriptors = Table::new(descriptors).ok_or(fault)?;
        Ok(Self { layout, size, descriptors, driver, device, inflight: None })
    }

    /// Adds the table of what is in flight, at the beginning of `view`.
    ///
    /// # Errors
    /// [`RingError::Inflight`].
    pub fn with_inflight(self, view: &View) -> Result<Self, RingError> {
        let inflight = Some(InflightTable::of(view, &self)?);
        Ok(Self { inflight, ..self })
    }

    /// Returns the starts of the areas of such a ring: descriptors, driver, device.
    pub fn offsets(layout: Layout, size: u16, at: usize) -> [usize; 3] {
        let [(first_bytes, _), (second_bytes, _), _] = layout.areas(size);
        let at = at.next_multiple_of(APART_BYTES);
        let driver = (at + first_bytes).next_multiple_of(APART_BYTES);
        [at, driver, (driver + second_bytes).next_multiple_of(APART_BYTES)]
    }

    /// Returns the bytes of such a ring, from a multiple of 128 on.
    pub fn len_bytes(layout: Layout, size: u16) -> usize {
        let [.., last] = Self::offsets(layout, size, 0);
        (last + layout.areas(size)[2].0).next_multiple_of(APART_BYTES)
    }

    /// Returns the place if it has this layout.
    ///
    /// # Errors
    /// [`RingError::Size`] if it has the other one.
    pub(super) fn of_layout(self, layout: Layout) -> Result<Self, RingError> {
        let size = self.size.into();
        if self.layout == layout { Ok(self) } else { Err(RingError::Size { layout, size }) }
    }

    /// Writes zeros to all areas.
    pub(super) fn clear(&self) {
        for area in self.areas() {
            (0..area.len_bytes() / 2).for_each(|at| area.store_u16(2 * at, 0));
        }
    }

    /// Reads a word of each page.
    pub(crate) fn touch(&self) {
        for area in self.areas() {
            for at in (0..area.len_bytes()).step_by(PAGE_BYTES) {
                let _ = area.load_u16_acquire(at);
            }
        }
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of descriptors.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Returns the areas, in the order descriptors, driver, device: for tests that play a peer that breaks
    /// the rules.
    pub fn areas(&self) -> [&View; 3] {
        [self.descriptors.view(), &self.driver, &self.device]
    }
}
