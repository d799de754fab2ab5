//! `Addresses`: the places of memory in an adapter's address space.

use std::ops::RangeInclusive;

/// Mappings begin at multiples of this: an IOMMU then translates huge pages by one entry.
const STEP: u64 = 2 << 20;
/// The first address of an adapter of 64 bits: above all that is special below 4 GiB.
const ABOVE: u64 = 1 << 32;
/// The first address of an adapter of 32 bits, and the last one before the messages of interrupts (Intel SDM, volume 3,
/// "Message Address Register Format").
const BELOW: RangeInclusive<u64> = 1 << 20..=0xfedf_ffff;

/// Addresses that are free, ascending.
#[derive(Debug)]
pub(super) struct Addresses {
    ranges: Vec<RangeInclusive<u64>>,
    next: u64,
}

impl Addresses {
    /// Makes the address space of an adapter that has `bits` address lines, behind an IOMMU that translates `ranges`.
    /// Without ranges, the kernel does not name any, all addresses are taken to be translated.
    pub(super) fn new(ranges: Vec<RangeInclusive<u64>>, bits: u32) -> Self {
        let usable = if bits > 32 { ABOVE..=u64::MAX >> (64 - bits.min(64)) } else { BELOW };
        let all = if ranges.is_empty() { vec![0..=u64::MAX] } else { ranges };
        let within =
            |range: RangeInclusive<u64>| *range.start().max(usable.start())..=*range.end().min(usable.end());
        Self { ranges: all.into_iter().map(within).filter(|range| !range.is_empty()).collect(), next: 0 }
    }

    /// Takes `len_bytes` addresses, and returns the first; `None` if there are not as many left in one range.
    pub(super) fn take(&mut self, len_bytes: u64) -> Option<u64> {
        let fits = |range: &RangeInclusive<u64>| {
            let at = self.next.max(*range.start()).checked_next_multiple_of(STEP)?;
            (at.checked_add(len_bytes.max(1) - 1)? <= *range.end()).then_some(at)
        };
        let at = self.ranges.iter().find_map(fits)?;
        self.next = at + len_bytes;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_of_32_bits_has_all_memory_below_the_messages_of_interrupts() {
        let mut addresses = Addresses::new(Vec::new(), 32);
        assert_eq!(
            [4096, 3 << 20, 1].map(|len| addresses.take(len)),
            [Some(2 << 20), Some(4 << 20), Some(8 << 20)]
        );
        assert_eq!(addresses.take(4 << 30), None);
        assert_eq!(addresses.take(0xfee0_0000 - (10 << 20)), Some(10 << 20));
        assert_eq!(addresses.take(1), None);
    }

    #[test]
    fn an_adapter_of_64_bits_has_its_memory_above_4_gib() {
        assert_eq!(Addresses::new(Vec::new(), 64).take(1), Some(1 << 32));
        // The width of a small IOMMU.
        let mut addresses = Addresses::new(vec![0..=0xfedf_ffff, 0xfef0_0000..=0x7f_ffff_ffff], 64);
        assert_eq!(addresses.take(1 << 38), Some(1 << 32));
        assert_eq!(addresses.take(1 << 38), None);
    }

    #[test]
    fn a_reserved_range_is_left_out() {
        let mut addresses = Addresses::new(vec![0..=0x00ff_ffff, 0x1234_5000..=u64::MAX], 32);
        assert_eq!(addresses.take(15 << 20), Some(0x1240_0000));
    }
}
