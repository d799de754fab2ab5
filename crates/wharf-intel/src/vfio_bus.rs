//! `VfioBus`: an adapter by VFIO.

use super::addresses::Addresses;
use super::bus::Bus;
use super::family::Family;
use crate::pci::{PciAddress, PciFunction};
use crate::vfio::{Bar, Container, Device, InterruptKind, Step, VfioError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wharf_mem::lock;
use wharf_sys::errno::{EBUSY, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP, EPERM};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;

/// An adapter by VFIO.
#[derive(Debug)]
pub struct VfioBus {
    bar: Bar,
    events: Vec<EventFd>,
    kind: InterruptKind,
    request: EventFd,
    /// True once the kernel has asked for the adapter. Each queue is told.
    is_requested: AtomicBool,
    addresses: Mutex<Addresses>,
    // Dropped in this order: the kernel ends the adapter's DMA with the one, and takes the memory away from
    // it with the other.
    device: Device,
    container: Container,
}

impl VfioBus {
    /// Opens the adapter of `function`, of family `F`, with up to `vectors` interrupts.
    ///
    /// # Errors
    /// A line that says what to do, and the kernel's answer.
    pub fn open<F: Family>(function: &PciFunction, vectors: u32) -> Result<Self, (String, io::Error)> {
        let address = function.address;
        if !function.is_with_vfio() {
            let driver = function
                .driver
                .as_deref()
                .map_or("no driver".into(), |driver| format!("the kernel's {driver}"));
            let what = format!("it is bound to {driver}: `wharf admin bind {address} vfio`");
            return Err((what, io::Error::from_raw_os_error(EBUSY)));
        }
        let group = function.group.ok_or_else(|| {
            let what = "no IOMMU keeps its DMA apart: boot with intel_iommu=on or amd_iommu=on";
            (what.to_string(), io::Error::from_raw_os_error(EPERM))
        })?;
        let explain = |error: VfioError| (explain(function, group, &error), error.source);
        let container = Container::open(group).map_err(explain)?;
        let device = container.device(&address.to_string()).map_err(explain)?;
        let fault = |what: &str| {
            let what = what.to_string();
            move |error| (what, error)
        };
        let bar = device.bar(0).map_err(fault("its registers cannot be mapped"))?;
        if bar.len_bytes() < F::REGISTER_BYTES as usize {
            let what = format!("it has {} bytes of registers, not {}", bar.len_bytes(), F::REGISTER_BYTES);
            return Err((what, io::Error::from_raw_os_error(ENODEV)));
        }
        let messages = device.interrupts(InterruptKind::MsiX);
        if F::HAS_MESSAGES && messages < vectors {
            let what =
                format!("it has {messages} interrupts by message (MSI-X), and its queues want {vectors}");
            return Err((what, io::Error::from_raw_os_error(EOPNOTSUPP)));
        }
        let kind = if F::HAS_MESSAGES { InterruptKind::MsiX } else { InterruptKind::IntX };
        let (events, request) =
            interrupts(&device, kind, vectors).map_err(fault("cannot set its interrupts up"))?;
        let ranges =
            container.ranges().map_err(fault("the kernel does not say what its IOMMU translates"))?;
        Ok(Self {
            bar,
            events,
            kind,
            request,
            is_requested: AtomicBool::new(false),
            addresses: Mutex::new(Addresses::new(ranges, F::ADDRESS_BITS)),
            device,
            container,
        })
    }
}

/// Sets interrupts up: those of queues, and the kernel's request for the adapter.
fn interrupts(device: &Device, kind: InterruptKind, vectors: u32) -> io::Result<(Vec<EventFd>, EventFd)> {
    let count = device.interrupts(kind).min(vectors);
    let events: Vec<EventFd> = (0..count).map(|_| EventFd::new()).collect::<io::Result<_>>()?;
    device.notify(kind, &events.iter().collect::<Vec<_>>())?;
    let request = EventFd::new()?;
    if device.interrupts(InterruptKind::Request) > 0 {
        device.notify(InterruptKind::Request, &[&request])?;
    }
    Ok((events, request))
}

/// Explains a refusal of the kernel, with a remedy.
fn explain(function: &PciFunction, group: u32, error: &VfioError) -> String {
    match (error.step, error.source.raw_os_error()) {
        (Step::Container, Some(ENODEV)) => {
            "the kernel's VFIO is not loaded: `modprobe vfio_iommu_type1`".into()
        }
        // The adapter is with `vfio-pci`, so that the module is there.
        (Step::Container, Some(ENOENT)) => {
            "there is no /dev/vfio/vfio: give the container /dev/vfio, or use a kernel \
            with CONFIG_VFIO_GROUP and CONFIG_VFIO_CONTAINER"
                .into()
        }
        (Step::Container, _) => "the kernel's VFIO cannot be used".into(),
        (Step::Group, Some(EBUSY)) => {
            "another program has it, or another adapter of its IOMMU group, open: end that first".into()
        }
        (Step::Group, _) => {
            format!("cannot open /dev/vfio/{group}: give this user the right to write to it (`chown`)")
        }
        (Step::Viable, _) => {
            let others: Vec<PciAddress> = function.in_the_way().iter().map(|other| other.address).collect();
            let others: Vec<String> = others.iter().map(PciAddress::to_string).collect();
            format!("the IOMMU cannot tell it from {}: bind that to vfio, too", others.join(", "))
        }
        (Step::Iommu, Some(EPERM)) => {
            "the IOMMU does not remap interrupts: switch that on in the firmware, or, if you \
            trust the adapter, set the parameter allow_unsafe_interrupts of module vfio_iommu_type1"
                .into()
        }
        (Step::Iommu, _) => "the kernel cannot put it behind the IOMMU".into(),
        (Step::Device, Some(ENODEV)) => "the adapter is gone".into(),
        (Step::Device | Step::Region, _) => "the kernel's VFIO refuses it".into(),
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

    fn map(&self, mapping: &Mapping, is_writable: bool) -> io::Result<u64> {
        let at = lock(&self.addresses).take(mapping.len_bytes() as u64);
        let at = at.ok_or_else(|| io::Error::from_raw_os_error(ENOSPC))?;
        self.container.map(mapping, at, is_writable).map(|()| at)
    }

    fn set_bus_master(&self, is_on: bool) {
        // It fails for an adapter that is gone alone, which has no DMA.
        let _ = self.device.set_bus_master(is_on);
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
        if self.request.clear() {
            self.is_requested.store(true, Relaxed);
        }
        self.is_requested.load(Relaxed)
    }
}

impl Drop for VfioBus {
    fn drop(&mut self) {
        self.set_bus_master(false);
    }
}
