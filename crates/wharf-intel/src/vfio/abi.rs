//! Requests and structures of `include/uapi/linux/vfio.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use wharf_sys::call::check;

/// `_IO(VFIO_TYPE, VFIO_BASE + number)`: a request without size and direction.
const fn request(number: libc::Ioctl) -> libc::Ioctl {
    (b';' as libc::Ioctl) << 8 | (100 + number)
}

pub(super) const GET_API_VERSION: libc::Ioctl = request(0);
pub(super) const CHECK_EXTENSION: libc::Ioctl = request(1);
pub(super) const SET_IOMMU: libc::Ioctl = request(2);
pub(super) const GROUP_GET_STATUS: libc::Ioctl = request(3);
pub(super) const GROUP_SET_CONTAINER: libc::Ioctl = request(4);
pub(super) const GROUP_GET_DEVICE_FD: libc::Ioctl = request(6);
pub(super) const DEVICE_GET_REGION_INFO: libc::Ioctl = request(8);
pub(super) const DEVICE_GET_IRQ_INFO: libc::Ioctl = request(9);
pub(super) const DEVICE_SET_IRQS: libc::Ioctl = request(10);
pub(super) const IOMMU_GET_INFO: libc::Ioctl = request(12);
pub(super) const IOMMU_MAP_DMA: libc::Ioctl = request(13);

/// `VFIO_API_VERSION`.
pub(super) const API_VERSION: usize = 0;
/// `VFIO_TYPE1v2_IOMMU`.
pub(super) const TYPE1V2: libc::c_int = 3;
/// `VFIO_GROUP_FLAGS_VIABLE`.
pub(super) const VIABLE: u32 = 1;
/// `VFIO_DMA_MAP_FLAG_READ` and `VFIO_DMA_MAP_FLAG_WRITE`.
pub(super) const READ: u32 = 1;
pub(super) const WRITE: u32 = 2;
/// `VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`.
pub(super) const IOVA_RANGE: u16 = 1;
/// `VFIO_REGION_INFO_FLAG_MMAP`.
pub(super) const CAN_MAP: u32 = 4;
/// `VFIO_PCI_CONFIG_REGION_INDEX`.
pub(super) const CONFIG: u32 = 7;
/// `VFIO_IRQ_SET_DATA_NONE`, `VFIO_IRQ_SET_DATA_EVENTFD`.
pub(super) const WITHOUT_DATA: u32 = 1;
pub(super) const EVENTFDS: u32 = 4;
/// `VFIO_IRQ_SET_ACTION_UNMASK`, `VFIO_IRQ_SET_ACTION_TRIGGER`.
pub(super) const UNMASK: u32 = 16;
pub(super) const TRIGGER: u32 = 32;

#[repr(C)]
pub(super) struct GroupStatus {
    pub(super) size: u32,
    pub(super) flags: u32,
}

#[repr(C)]
pub(super) struct MapDma {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) from: u64,
    pub(super) at: u64,
    pub(super) len: u64,
}

/// `struct vfio_iommu_type1_info`, and room for the capabilities behind it.
#[repr(C)]
pub(super) struct IommuInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) page_sizes: u64,
    pub(super) capabilities_at: u32,
    pub(super) padding: u32,
    pub(super) capabilities: [u8; IommuInfo::CAPABILITY_BYTES],
}

impl IommuInfo {
    /// Room for about 250 ranges.
    pub(super) const CAPABILITY_BYTES: usize = 4096;
    /// Offset of the capabilities.
    pub(super) const HEAD_BYTES: usize = 24;
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RegionInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) capabilities_at: u32,
    pub(super) len: u64,
    pub(super) offset: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct IrqInfo {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) count: u32,
}

/// `struct vfio_irq_set`, without its data.
#[repr(C)]
pub(super) struct IrqSet {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) count: u32,
}

const _: () = assert!(size_of::<GroupStatus>() == 8 && size_of::<MapDma>() == 32);
const _: () = assert!(size_of::<IommuInfo>() == IommuInfo::HEAD_BYTES + IommuInfo::CAPABILITY_BYTES);
const _: () =
    assert!(size_of::<RegionInfo>() == 32 && size_of::<IrqInfo>() == 16 && size_of::<IrqSet>() == 20);

/// Makes a request with a structure, which the kernel reads and may write.
pub(super) fn ask<T>(fd: BorrowedFd<'_>, request: libc::Ioctl, with: &mut T) -> io::Result<usize> {
    // SAFETY: each request that is made so takes one of the structures above, as many bytes as its own `size` says, or
    // an int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(with)) })
}

/// Makes a request with a number, or 0 for none.
pub(super) fn tell(fd: BorrowedFd<'_>, request: libc::Ioctl, number: libc::c_int) -> io::Result<usize> {
    // SAFETY: the requests that are made so take a number, not an address.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_ulong::try_from(number).unwrap_or(0)) })
}
