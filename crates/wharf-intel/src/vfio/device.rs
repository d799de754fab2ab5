//! `Device`: the configuration space, the registers and the interrupts of an adapter.

use super::abi::{
    self, CAN_MAP, CONFIG, EVENTFDS, IrqInfo, IrqSet, RegionInfo, TRIGGER, UNMASK, WITHOUT_DATA, ask,
};
use super::bar::Bar;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use wharf_sys::call::Pages;
use wharf_sys::event::EventFd;

/// Offset of the command register (PCI Local Bus Specification 3.0, section 6.2.2), and its bit that permits DMA.
const COMMAND_AT: u16 = 4;
const BUS_MASTER: u16 = 4;
/// The most interrupts that are set at once.
const VECTORS_MAX: usize = 32;

/// A kind of interrupts (`VFIO_PCI_*_IRQ_INDEX`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptKind {
    /// The line: the kernel masks it as it notifies, until [`Device::unmask`].
    IntX = 0,
    /// Messages with a vector for each cause.
    MsiX = 2,
    /// The kernel asks for the adapter back: it is to be removed.
    Request = 4,
}

/// An adapter. When this is dropped the kernel resets the adapter, as far as it can be reset, and ends its DMA and
/// interrupts.
#[derive(Debug)]
pub struct Device {
    file: std::fs::File,
    /// Offset of the configuration space in the file.
    config_at: u64,
}

impl Device {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let mut device = Self { file: fd.into(), config_at: 0 };
        device.config_at = device.region(CONFIG)?.offset;
        Ok(device)
    }

    fn region(&self, index: u32) -> io::Result<RegionInfo> {
        let mut info = RegionInfo { size: size_of::<RegionInfo>() as u32, index, ..RegionInfo::default() };
        ask(self.file.as_fd(), abi::DEVICE_GET_REGION_INFO, &mut info)?;
        Ok(info)
    }

    /// Maps base address region `index`, 0 to 5.
    ///
    /// # Errors
    /// `ENXIO` if it has none that can be mapped; those of `mmap(2)`.
    pub fn bar(&self, index: u32) -> io::Result<Bar> {
        let info = self.region(index)?;
        let sizes = (usize::try_from(info.len), libc::off_t::try_from(info.offset));
        match sizes {
            (Ok(len @ 1..), Ok(offset)) if info.flags & CAN_MAP != 0 && index < CONFIG - 1 => {
                Pages::map(Some(self.file.as_fd()), offset, len, libc::MAP_SHARED).map(Bar)
            }
            _ => Err(io::Error::from_raw_os_error(libc::ENXIO)),
        }
    }

    /// Reads the word of 2 bytes at byte `at` of the configuration space.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn config(&self, at: u16) -> io::Result<u16> {
        let mut word = [0; 2];
        self.file.read_exact_at(&mut word, self.config_at + u64::from(at))?;
        Ok(u16::from_le_bytes(word))
    }

    /// Lets the adapter read and write memory, or stops that.
    ///
    /// # Errors
    /// Those of `pread(2)` and `pwrite(2)`.
    pub fn set_bus_master(&self, is_on: bool) -> io::Result<()> {
        let command = self.config(COMMAND_AT)? & !BUS_MASTER | if is_on { BUS_MASTER } else { 0 };
        self.file.write_all_at(&command.to_le_bytes(), self.config_at + u64::from(COMMAND_AT))
    }

    /// Returns the number of interrupts of a kind; 0 if the adapter has none of that kind.
    pub fn interrupts(&self, kind: InterruptKind) -> u32 {
        let mut info =
            IrqInfo { size: size_of::<IrqInfo>() as u32, index: kind as u32, ..IrqInfo::default() };
        ask(self.file.as_fd(), abi::DEVICE_GET_IRQ_INFO, &mut info).map_or(0, |_| info.count)
    }

    /// Makes each interrupt of a kind, from the first on, signal one of `events`; without `events` there are none of
    /// that kind.
    ///
    /// # Errors
    /// `EINVAL` for more than the adapter has of that kind.
    pub fn notify(&self, kind: InterruptKind, events: &[&EventFd]) -> io::Result<()> {
        let fds: Vec<i32> = events.iter().take(VECTORS_MAX).map(|event| event.as_fd().as_raw_fd()).collect();
        let data = if fds.is_empty() { WITHOUT_DATA } else { EVENTFDS };
        self.set(kind, data | TRIGGER, fds.len(), &fds)
    }

    /// Lets the line, which the kernel has masked, notify again.
    ///
    /// # Errors
    /// `EINVAL` where there is no line.
    #[inline]
    pub fn unmask(&self) -> io::Result<()> {
        self.set(InterruptKind::IntX, WITHOUT_DATA | UNMASK, 1, &[])
    }

    fn set(&self, kind: InterruptKind, flags: u32, count: usize, fds: &[i32]) -> io::Result<()> {
        #[repr(C)]
        struct WithData {
            head: IrqSet,
            fds: [i32; VECTORS_MAX],
        }
        let size = size_of::<IrqSet>() + size_of_val(fds);
        let head = IrqSet { size: size as u32, flags, index: kind as u32, start: 0, count: count as u32 };
        let mut all = WithData { head, fds: [-1; VECTORS_MAX] };
        all.fds.iter_mut().zip(fds).for_each(|(to, fd)| *to = *fd);
        // The kernel reads the structure, and as much data as its `size` says.
        ask(self.file.as_fd(), abi::DEVICE_SET_IRQS, &mut all).map(drop)
    }
}
