//! The addresses that an IOMMU translates, from the capabilities behind `struct vfio_iommu_type1_info`.

use super::abi::{IOVA_RANGE, IommuInfo};
use std::ops::RangeInclusive;

/// Reads the ranges of `struct vfio_iommu_type1_info_cap_iova_range`. Returns none if the capability is not there.
pub(super) fn ranges(info: &IommuInfo) -> Vec<RangeInclusive<u64>> {
    let bytes = |at: usize, count: usize| {
        let start = at.checked_sub(IommuInfo::HEAD_BYTES)?;
        info.capabilities.get(start..start.checked_add(count)?)
    };
    let short = |at| Some(u16::from_ne_bytes(bytes(at, 2)?.try_into().ok()?));
    let word = |at| Some(u32::from_ne_bytes(bytes(at, 4)?.try_into().ok()?));
    let long = |at| Some(u64::from_ne_bytes(bytes(at, 8)?.try_into().ok()?));
    let mut at = info.capabilities_at as usize;
    // Each capability lies behind the one before, so that the walk ends.
    while let (Some(id), Some(next)) = (short(at), word(at + 4)) {
        if id == IOVA_RANGE {
            let count = word(at + 8).unwrap_or(0) as usize;
            let range = |number: usize| Some(long(at + 16 + 16 * number)?..=long(at + 24 + 16 * number)?);
            return (0..count).map_while(range).collect();
        }
        if next as usize <= at {
            break;
        }
        at = next as usize;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(at: u32, words: &[u32]) -> IommuInfo {
        let mut capabilities = [0; IommuInfo::CAPABILITY_BYTES];
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        capabilities.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        IommuInfo { size: 0, flags: 0, page_sizes: 0, capabilities_at: at, padding: 0, capabilities }
    }

    #[test]
    fn ranges_are_read_behind_other_capabilities() {
        // Capability 2 of two words and a half, then capability 1 at byte 24 + 16 with two ranges.
        let kind = |id: u16| {
            u32::from_ne_bytes([id.to_ne_bytes(), 1_u16.to_ne_bytes()].concat().try_into().unwrap())
        };
        let words = [
            kind(2),
            40,
            7,
            7,
            kind(IOVA_RANGE),
            0,
            2,
            0,
            0,
            0,
            0xfedf_ffff,
            0,
            0xfef0_0000,
            0,
            u32::MAX,
            0xff,
        ];
        let little = cfg!(target_endian = "little");
        assert!(!little || ranges(&info(24, &words)) == [0..=0xfedf_ffff, 0xfef0_0000..=0xff_ffff_ffff]);
        // The kernel of a machine without the capability, and numbers that lead outside or in a circle.
        assert_eq!(ranges(&info(0, &words)), []);
        assert_eq!(ranges(&info(24, &[kind(2), 24])), []);
        assert_eq!(ranges(&info(u32::MAX, &words)), []);
        assert_eq!(ranges(&info(24, &[kind(2), u32::MAX - 3])), []);
        assert_eq!(ranges(&info(24, &[kind(IOVA_RANGE), 0, u32::MAX])).len(), (4096 - 16) / 16);
    }
}
