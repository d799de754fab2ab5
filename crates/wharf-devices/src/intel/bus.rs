//! `Bus`: the way to an adapter.

use crate::pci::{PciAddress, PciFunction, VFIO_PCI};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wharf_sys::errno::{EBUSY, ENODEV, ENOENT, EPERM};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;
use wharf_sys::vfio::{Bar, Container, Device, InterruptKind, Step, VfioError};

/// Registers of an adapter, memory for it, and its interrupts.
pub trait Bus: Debug + Send + Sync + 'static {
    /// Reads the register at byte `at`: all ones if the adapter is gone.
    fn read(&self, at: u32) -> u32;
    /// Writes the register at byte `at`, after all earlier writes to memory.
    fn write(&self, at: u32, value: u32);
    /// Lets the adapter reach `mapping`, and returns its address for the adapter.
    ///
    /// # Errors
    /// The kernel pins no more memory, above all.
    fn map(&self, mapping: &Mapping) -> io::Result<u64>;
    /// Lets the adapter read and write memory, or stops that.
    fn set_bus_master(&self, is_on: bool);
    /// Sets up to `wanted` interrupts up, and returns their number: 0 if there are none.
    fn interrupts(&self) -> u32;
    /// The descriptor that interrupt `vector` makes readable.
    fn wait_fd(&self, vector: u32) -> Option<RawFd>;
    /// Makes that descriptor unreadable. Returns true if it was readable.
    fn take(&self, vector: u32) -> bool;
    /// Lets an interrupt line notify again that has notified.
    fn unmask(&self);
    /// True if the kernel wants the adapter back: it is to be removed.
    fn is_requested(&self) -> bool;
    /// Waits while the adapter resets, or ends what it does.
    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The first address that memory has for an adapter: above all that is special below 4 GiB.
const FIRST_ADDRESS: u64 = 1 << 32;
/// Mappings begin at multiples of this.
const ADDRESS_STEP: u64 = 2 << 20;

/// An adapter by VFIO.
#[derive(Debug)]
pub struct VfioBus {
    bar: Bar,
    events: Vec<EventFd>,
    kind: InterruptKind,
    request: EventFd,
    next_address: AtomicU64,
    // Dropped in this order: the kernel ends the adapter's DMA with the one, and takes the memory away from it with the other.
    device: Device,
    container: Container,
}

impl VfioBus {
    /// Opens the adapter of `function`, with up to `vectors` interrupts.
    ///
    /// # Errors
    /// A line that says what to do, and the kernel's answer.
    pub fn open(function: &PciFunction, vectors: u32) -> Result<Self, (String, io::Error)> {
        let address = function.address;
        if !function.is_with_vfio() {
            let driver = function
                .driver
                .as_deref()
                .map_or("no driver".into(), |driver| format!("the kernel's {driver}"));
            let what = format!("it is bound to {driver}: `wharf bind {address} vfio`");
            return Err((what, io::Error::from_raw_os_error(EBUSY)));
        }
        let group = function.group.ok_or_else(|| {
            let what = "no IOMMU keeps its DMA apart: boot with intel_iommu=on or amd_iommu=on";
            (what.to_string(), io::Error::from_raw_os_error(EPERM))
        })?;
        let explain = |error: VfioError| (explain(function, group, &error), error.source);
        let container = Container::open(group).map_err(explain)?;
        let device = container.device(&address.to_string()).map_err(explain)?;
        let bar = device.bar(0).map_err(|error| ("its registers cannot be mapped".into(), error))?;
        let (kind, events, request) =
            interrupts(&device, vectors).map_err(|error| ("cannot set its interrupts up".into(), error))?;
        Ok(Self {
            bar,
            events,
            kind,
            request,
            next_address: AtomicU64::new(FIRST_ADDRESS),
            device,
            container,
        })
    }
}

/// Sets interrupts up: messages where the adapter has them, else the line.
fn interrupts(device: &Device, vectors: u32) -> io::Result<(InterruptKind, Vec<EventFd>, EventFd)> {
    let kind = match vectors {
        2.. if device.interrupts(InterruptKind::MsiX) >= vectors => InterruptKind::MsiX,
        _ if device.interrupts(InterruptKind::MsiX) > 0 => InterruptKind::MsiX,
        _ if device.interrupts(InterruptKind::Msi) > 0 => InterruptKind::Msi,
        _ => InterruptKind::IntX,
    };
    let count = device.interrupts(kind).min(vectors);
    let events: Vec<EventFd> = (0..count).map(|_| EventFd::new()).collect::<io::Result<_>>()?;
    device.notify(kind, &events.iter().collect::<Vec<_>>())?;
    let request = EventFd::new()?;
    if device.interrupts(InterruptKind::Request) > 0 {
        device.notify(InterruptKind::Request, &[&request])?;
    }
    Ok((kind, events, request))
}

/// Explains a refusal of the kernel, with a remedy.
fn explain(function: &PciFunction, group: u32, error: &VfioError) -> String {
    match (error.step, error.source.raw_os_error()) {
        (Step::Container, Some(ENOENT | ENODEV)) => format!("there is no /dev/vfio/vfio: `modprobe {VFIO_PCI}`"),
        (Step::Container, _) => "the kernel's VFIO cannot be used".into(),
        (Step::Group, Some(EBUSY)) => "another program has it open".into(),
        (Step::Group, _) => format!("cannot open /dev/vfio/{group}: give this user the right to write to it (`chown`)"),
        (Step::Viable, _) => {
            let others: Vec<PciAddress> = function.in_the_way().iter().map(|other| other.address).collect();
            let others: Vec<String> = others.iter().map(PciAddress::to_string).collect();
            format!("the IOMMU cannot tell it from {}: bind that to vfio, too", others.join(", "))
        }
        (Step::Iommu, Some(EPERM)) => "the IOMMU does not remap interrupts: switch that on in the firmware, or, if you trust the adapter, \
            set the parameter allow_unsafe_interrupts of module vfio_iommu_type1"
            .into(),
        (Step::Iommu, _) => "the kernel cannot put it behind the IOMMU".into(),
        (Step::Device, Some(ENODEV)) => "the adapter is gone".into(),
        (Step::Device | Step::Region | Step::Interrupts, _) => "the kernel's VFIO refuses it".into(),
    }
}

impl Bus for VfioBus {
    #[inline]
    fn read(&self, at: u32) -> u32 {
        self.bar.read(at)
    }

    #[inline]
    fn write(&self, at: u32, value: u32) {
        self.bar.write(at, value);
    }

    fn map(&self, mapping: &Mapping) -> io::Result<u64> {
        let len = (mapping.len_bytes() as u64).next_multiple_of(ADDRESS_STEP);
        let at = self.next_address.fetch_add(len, Relaxed);
        self.container.map(mapping, at).map(|()| at)
    }

    fn set_bus_master(&self, is_on: bool) {
        // It fails for an adapter that is gone alone, which has no DMA.
        let _ = self.device.set_bus_master(is_on);
    }

    fn interrupts(&self) -> u32 {
        self.events.len() as u32
    }

    fn wait_fd(&self, vector: u32) -> Option<RawFd> {
        self.events.get(vector as usize).map(|event| event.as_fd().as_raw_fd())
    }

    fn take(&self, vector: u32) -> bool {
        self.events.get(vector as usize).is_some_and(EventFd::clear)
    }

    fn unmask(&self) {
        if self.kind == InterruptKind::IntX {
            let _ = self.device.unmask();
        }
    }

    fn is_requested(&self) -> bool {
        self.request.clear()
    }
}

impl Drop for VfioBus {
    fn drop(&mut self) {
        self.set_bus_master(false);
    }
}
