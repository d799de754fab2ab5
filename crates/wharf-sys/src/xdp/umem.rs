//! `Umem`: the memory of a socket that has buffers of its own behind a region's.

use crate::call::Pages;
use crate::mapping::Mapping;
use std::io;
use std::ptr::NonNull;

/// A second mapping of a region's file, with private pages of 4 KiB behind it. An offset into the region is the
/// same in both mappings.
#[derive(Debug)]
pub struct Umem {
    pages: Pages,
    region_bytes: usize,
}

impl Umem {
    /// Maps the file of `region`, and `spare_bytes` of new memory behind it, rounded up to whole pages.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(region: &Mapping, spare_bytes: usize) -> io::Result<Self> {
        let (region_bytes, page_bytes) = (region.len_bytes(), region.page_bytes());
        let pages = Pages::map_with_tail(region.fd()?, region_bytes, page_bytes, spare_bytes)?;
        Ok(Self { pages, region_bytes })
    }

    /// Returns the offset of the first byte behind the region.
    pub fn spare_at(&self) -> usize {
        self.region_bytes
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.pages.start()
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.pages.len_bytes()
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::mapping::PAGE_BYTES;

    #[test]
    fn both_mappings_have_the_regions_bytes_at_the_same_offset() {
        let region = Mapping::shared_small_pages(3 * PAGE_BYTES).unwrap();
        let umem = Umem::new(&region, PAGE_BYTES + 1).unwrap();
        assert_eq!((umem.spare_at(), umem.len_bytes()), (3 * PAGE_BYTES, 5 * PAGE_BYTES));
        for at in [0, PAGE_BYTES + 7, 3 * PAGE_BYTES - 1] {
            // SAFETY: inside of both mappings, which no other thread knows.
            unsafe { region.start().add(at).write(at as u8 | 1) };
            // SAFETY: as above.
            assert_eq!(unsafe { umem.start().add(at).read() }, at as u8 | 1);
        }
        let last = umem.len_bytes() - 1;
        // SAFETY: as above: the spare memory may be written, up to its last byte.
        unsafe { umem.start().add(last).write(7) };
    }

    #[test]
    fn it_outlives_the_region() {
        let region = Mapping::shared(PAGE_BYTES).unwrap();
        let umem = Umem::new(&region, PAGE_BYTES).unwrap();
        drop(region);
        // SAFETY: inside of the mapping, which no other thread knows.
        assert_eq!(unsafe { umem.start().read() }, 0);
    }
}
