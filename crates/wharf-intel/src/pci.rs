//! Functions of the PCI bus, as the kernel shows them in sysfs, and the driver that each is bound to.
//!
//! `vfio-pci` holds a function for a driver of this crate. [`PciFunction::bind`] hands one over and back, by
//! `driver_override` and `drivers_probe` (Documentation/ABI/testing/sysfs-bus-pci).

mod bind;
mod uses;

pub use bind::{BindError, BindTo};

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The bus in sysfs.
const BUS: &str = "/sys/bus/pci";
/// The base class of network controllers (PCI Code and ID Assignment Specification, section 1.3).
const NETWORK_CLASS: u32 = 2;
/// The driver that holds a function for programs.
pub const VFIO_PCI: &str = "vfio-pci";

/// The address of a function: domain, bus, device and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl PciAddress {
    /// Reads `0000:00:03.0`, or `00:03.0` in domain 0, as `lspci` prints them. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str, most: u32| {
            let is_hex = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(text, 16).ok().filter(|&number| is_hex && number <= most)
        };
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.rsplit(':');
        let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
        let is_all = parts.next().is_none();
        let [bus, device, function] =
            [(bus, 0xff), (device, 0x1f), (function, 7)].map(|(text, most)| number(text, most));
        let domain = number(domain, u32::MAX).filter(|_| is_all)?;
        Some(Self { domain, bus: bus? as u8, device: device? as u8, function: function? as u8 })
    }
}

/// A function, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciFunction {
    /// Its address.
    pub address: PciAddress,
    /// Numbers of its vendor and model.
    pub id: (u16, u16),
    /// Its class code: base class, subclass and programming interface. 0x02 in the upper byte is a network adapter's.
    pub class: u32,
    /// Name of the driver that it is bound to.
    pub driver: Option<String>,
    /// Number of its IOMMU group: the functions that the IOMMU cannot tell apart. `None` without an IOMMU.
    pub group: Option<u32>,
    /// Interfaces of its driver's in this network namespace.
    pub interfaces: Vec<String>,
    bus: PathBuf,
}

impl PciFunction {
    /// Looks at the function `address`; `None` if there is none.
    pub fn find(address: PciAddress) -> Option<Self> {
        Self::find_on(Path::new(BUS), address)
    }

    /// Looks at a function on the bus in folder `bus`.
    fn find_on(bus: &Path, address: PciAddress) -> Option<Self> {
        let folder = bus.join("devices").join(address.to_string());
        let number = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let id = |file: &str| number(file).and_then(|number| u16::try_from(number).ok());
        let target = |link: &str| {
            let target = fs::read_link(folder.join(link)).ok()?;
            Some(target.file_name()?.to_string_lossy().into_owned())
        };
        // A paravirtual adapter has its interfaces below the device of the virtio bus.
        let on_virtio = names(&folder).into_iter().filter(|name| name.starts_with("virtio"));
        let folders =
            std::iter::once(folder.join("net")).chain(on_virtio.map(|name| folder.join(name).join("net")));
        let mut interfaces: Vec<String> = folders.flat_map(|folder| names(&folder)).collect();
        interfaces.sort();
        Some(Self {
            address,
            id: (id("vendor")?, id("device")?),
            class: number("class").unwrap_or(0),
            driver: target("driver"),
            group: target("iommu_group").and_then(|group| group.parse().ok()),
            interfaces,
            bus: bus.into(),
        })
    }

    /// Returns the functions of its group, itself among them, by address.
    pub fn members(&self) -> Vec<Self> {
        let found = names(&self.folder().join("iommu_group/devices"));
        let addresses = found.iter().filter_map(|name| PciAddress::parse(name));
        let mut members: Vec<Self> =
            addresses.filter_map(|address| Self::find_on(&self.bus, address)).collect();
        members.sort_by_key(|member| member.address);
        members
    }

    /// Returns the functions of its group that keep the kernel from handing the group to a program: they are bound to a
    /// driver of the kernel's. Bridges are not counted.
    pub fn in_the_way(&self) -> Vec<Self> {
        let is_free = |member: &Self| match member.driver.as_deref() {
            None | Some(VFIO_PCI | "pcieport" | "pci-stub") => true,
            Some(_) => member.address == self.address,
        };
        self.members().into_iter().filter(|member| !is_free(member)).collect()
    }

    /// True if `vfio-pci` holds it.
    pub fn is_with_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO_PCI)
    }

    /// True if its class is that of network adapters.
    pub fn is_network_adapter(&self) -> bool {
        self.class >> 16 == NETWORK_CLASS
    }

    fn folder(&self) -> PathBuf {
        self.bus.join("devices").join(self.address.to_string())
    }
}

/// Returns the names in a folder; none if it is not there.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_lspci_prints_them() {
        let read = |text: &str| PciAddress::parse(text).map(|address| address.to_string());
        assert_eq!(read("00:03.0").as_deref(), Some("0000:00:03.0"));
        assert_eq!(read("0000:af:1f.7").as_deref(), Some("0000:af:1f.7"));
        assert_eq!(read("10000:0:0.0").as_deref(), Some("10000:00:00.0"));
        for text in [
            "",
            "eth0",
            "00:03",
            "3.0",
            "00:20.0",
            "00:03.8",
            "1:2:3:4.0",
            "00:+3.0",
            "00:.0",
            "x:00:03.0",
            "00:003.0é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
