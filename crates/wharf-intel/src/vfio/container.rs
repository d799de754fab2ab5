//! `Container`: the address space of an adapter behind an IOMMU.

use super::abi::{
    self, API_VERSION, GroupStatus, IommuInfo, MapDma, READ, TYPE1V2, VIABLE, WRITE, ask, tell,
};
use super::device::Device;
use super::ranges::ranges;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use wharf_sys::call::descriptor;
use wharf_sys::mapping::Mapping;

/// A group of adapters that the IOMMU cannot tell apart, and its address space.
///
/// Memory is pinned while it is mapped here: the kernel frees no page of it, even after this process has unmapped it.
/// Mappings end with the container.
#[derive(Debug)]
pub struct Container {
    // Dropped first: a container lives as long as one of its groups.
    group: OwnedFd,
    container: OwnedFd,
}

/// A step of opening an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `/dev/vfio/vfio`.
    Container,
    /// The group's file, `/dev/vfio/N`.
    Group,
    /// A check that all adapters of the group are with VFIO.
    Viable,
    /// Putting the group behind the container's IOMMU.
    Iommu,
    /// The adapter in its group.
    Device,
    /// A part of the adapter: registers, configuration space.
    Region,
}

/// A refusal of the kernel.
#[derive(Debug, thiserror::Error)]
#[error("{step:?}: {source}")]
pub struct VfioError {
    /// The step that failed.
    pub step: Step,
    /// The kernel's answer.
    pub source: io::Error,
}

impl Step {
    pub(super) fn refused(self) -> impl Fn(io::Error) -> VfioError {
        move |source| VfioError { step: self, source }
    }
}

fn open(path: &str) -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path).map(OwnedFd::from)
}

impl Container {
    /// Opens group `group`, behind an IOMMU (`VFIO_TYPE1v2_IOMMU`).
    ///
    /// # Errors
    /// [`VfioError`] with the step: the module is not there, another process has the group (`EBUSY`), an adapter of the
    /// group is not with VFIO, the IOMMU cannot keep interrupts apart (`EPERM`).
    pub fn open(group: u32) -> Result<Self, VfioError> {
        let refused = Step::Container.refused();
        let container = open("/dev/vfio/vfio").map_err(&refused)?;
        if tell(container.as_fd(), abi::GET_API_VERSION, 0).map_err(&refused)? != API_VERSION
            || tell(container.as_fd(), abi::CHECK_EXTENSION, TYPE1V2).map_err(&refused)? == 0
        {
            return Err(refused(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        let group = open(&format!("/dev/vfio/{group}")).map_err(Step::Group.refused())?;
        let mut status = GroupStatus { size: size_of::<GroupStatus>() as u32, flags: 0 };
        ask(group.as_fd(), abi::GROUP_GET_STATUS, &mut status).map_err(Step::Group.refused())?;
        if status.flags & VIABLE == 0 {
            return Err(Step::Viable.refused()(io::Error::from_raw_os_error(libc::EBUSY)));
        }
        let mut fd = container.as_raw_fd();
        ask(group.as_fd(), abi::GROUP_SET_CONTAINER, &mut fd).map_err(Step::Iommu.refused())?;
        tell(container.as_fd(), abi::SET_IOMMU, TYPE1V2).map_err(Step::Iommu.refused())?;
        Ok(Self { group, container })
    }

    /// Opens the adapter `address`, such as `0000:00:03.0`.
    ///
    /// # Errors
    /// [`VfioError`]: it is not in the group (`ENODEV`), or has no registers to map.
    pub fn device(&self, address: &str) -> Result<Device, VfioError> {
        let refused = Step::Device.refused();
        let name = CString::new(address).map_err(|_| refused(io::ErrorKind::InvalidInput.into()))?;
        let request = abi::GROUP_GET_DEVICE_FD;
        // SAFETY: a text that ends with 0, which the kernel reads; the descriptor is new.
        let fd = unsafe { descriptor(libc::ioctl(self.group.as_raw_fd(), request, name.as_ptr())) };
        Device::new(fd.map_err(refused)?).map_err(Step::Region.refused())
    }

    /// Returns the addresses that the IOMMU translates, each with the last one; none if the kernel does not say
    /// (before 5.4).
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn ranges(&self) -> io::Result<Vec<RangeInclusive<u64>>> {
        let mut info = IommuInfo {
            size: size_of::<IommuInfo>() as u32,
            flags: 0,
            page_sizes: 0,
            capabilities_at: 0,
            padding: 0,
            capabilities: [0; IommuInfo::CAPABILITY_BYTES],
        };
        ask(self.container.as_fd(), abi::IOMMU_GET_INFO, &mut info)?;
        Ok(ranges(&info))
    }

    /// Lets adapters reach `mapping` at address `at` of theirs, a multiple of the page length, to read and, if it
    /// `is_writable`, to write.
    ///
    /// # Errors
    /// `ENOMEM` beyond the limit of locked memory, `EEXIST` if something is there already, `EINVAL` for an address that
    /// the IOMMU does not translate.
    pub fn map(&self, mapping: &Mapping, at: u64, is_writable: bool) -> io::Result<()> {
        let (from, len) = (mapping.start().as_ptr() as u64, mapping.len_bytes() as u64);
        let flags = READ | if is_writable { WRITE } else { 0 };
        let mut map = MapDma { size: size_of::<MapDma>() as u32, flags, from, at, len };
        ask(self.container.as_fd(), abi::IOMMU_MAP_DMA, &mut map).map(drop)
    }
}
