//! `PciFunction::bind`: from the kernel's driver to `vfio-pci`, and back.

use super::{PciAddress, PciFunction, VFIO_PCI, uses};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use wharf_sys::errno::EBUSY;

/// Drivers that hold functions without using them.
const PARKING: [&str; 3] = [VFIO_PCI, "pci-stub", "uio_pci_generic"];

/// The driver to bind a function to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindTo {
    /// `vfio-pci`, for a device of this crate.
    Vfio,
    /// The kernel's own driver of that model.
    Kernel,
}

/// An error in binding a function: one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// There is no such function.
    #[error("{0}: no such adapter (`lspci -D` lists them)")]
    Missing(PciAddress),
    /// The function is something else: a disk's controller, a bridge.
    #[error(
        "{address}: no network adapter, by its class {class:06x} (`lspci -D` lists them); --force takes it all the same"
    )]
    NotNetwork {
        /// The function.
        address: PciAddress,
        /// Its class code.
        class: u32,
    },
    /// The kernel's driver has the adapter without an interface here, whose uses could be seen.
    #[error(
        "{address}: the kernel's {driver} has it, perhaps for another network namespace: no interface of it is here; \
         --force takes it all the same"
    )]
    Unseen {
        /// The function.
        address: PciAddress,
        /// The kernel's driver.
        driver: String,
    },
    /// This host uses an interface of the adapter.
    #[error("{address}: its interface {interface} {how}; --force takes it all the same")]
    InUse {
        /// The function.
        address: PciAddress,
        /// The interface.
        interface: String,
        /// The use.
        how: &'static str,
    },
    /// The kernel has no IOMMU behind which a program could have the adapter.
    #[error(
        "{0}: no IOMMU keeps its DMA apart: switch one on in the firmware, and boot with intel_iommu=on or amd_iommu=on"
    )]
    NoIommu(PciAddress),
    /// The module is not loaded.
    #[error("{0}: the kernel has no driver vfio-pci: `modprobe vfio-pci`")]
    NoModule(PciAddress),
    /// A program has the adapter, or another one of its group.
    #[error("{0}: a program has it, or another adapter of its IOMMU group, open: end that first")]
    Busy(PciAddress),
    /// No driver took the function.
    #[error("{address}: {what}")]
    Unbound {
        /// The function.
        address: PciAddress,
        /// The driver that did not take it, and the remedy.
        what: String,
    },
    /// The kernel refused a step.
    #[error("{address}: cannot write {file}: {source}{}", remedy(source))]
    Io {
        /// The function.
        address: PciAddress,
        /// The file of sysfs.
        file: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl PciFunction {
    /// Binds the function `address`, and returns it as it is then. A function that is bound already keeps its driver.
    /// With `by_force` its class and the uses of its interface do not matter.
    ///
    /// # Errors
    /// [`BindError`]; the function keeps its driver, but for [`BindError::Unbound`].
    pub fn bind(address: PciAddress, to: BindTo, by_force: bool) -> Result<Self, BindError> {
        let find = || Self::find(address).ok_or(BindError::Missing(address));
        let found = find()?;
        match to {
            BindTo::Vfio => found.bind_to_vfio(by_force)?,
            BindTo::Kernel if !by_force && !found.is_network_adapter() => {
                return Err(BindError::NotNetwork { address, class: found.class });
            }
            BindTo::Kernel => found.bind_to_kernel()?,
        }
        find()
    }

    fn bind_to_vfio(&self, by_force: bool) -> Result<(), BindError> {
        if self.is_with_vfio() {
            return Ok(());
        }
        self.check(by_force)?;
        let moved = self.set_override(VFIO_PCI).and_then(|()| self.unbind()).and_then(|()| self.probe());
        let is_bound = || Self::find_on(&self.bus, self.address).is_some_and(|now| now.is_with_vfio());
        if moved.is_ok() && is_bound() {
            return Ok(());
        }
        // The kernel's driver has it back.
        let given_back = self.set_override("").and_then(|()| self.probe());
        let what = "vfio-pci does not take it (`dmesg` says why)".into();
        moved.and(given_back).and(Err(BindError::Unbound { address: self.address, what }))
    }

    /// Checks that it may be taken from the kernel.
    fn check(&self, by_force: bool) -> Result<(), BindError> {
        if !by_force {
            self.check_uses()?;
        }
        if self.group.is_none() {
            return Err(BindError::NoIommu(self.address));
        }
        if !self.bus.join("drivers").join(VFIO_PCI).is_dir() {
            return Err(BindError::NoModule(self.address));
        }
        Ok(())
    }

    /// Checks that it is a network adapter without a use that is known.
    fn check_uses(&self) -> Result<(), BindError> {
        let address = self.address;
        if !self.is_network_adapter() {
            return Err(BindError::NotNetwork { address, class: self.class });
        }
        let used = self.interfaces.iter().find_map(|name| Some((name.clone(), uses::of(name)?)));
        match (used, &self.driver) {
            (Some((interface, how)), _) => Err(BindError::InUse { address, interface, how }),
            (None, Some(driver)) if self.interfaces.is_empty() && !PARKING.contains(&driver.as_str()) => {
                Err(BindError::Unseen { address, driver: driver.clone() })
            }
            _ => Ok(()),
        }
    }

    fn bind_to_kernel(&self) -> Result<(), BindError> {
        if self.driver.is_some() && !self.is_with_vfio() {
            // Left by a `bind` to vfio-pci that was killed: the kernel's driver would not get the adapter the next
            // time.
            let of_vfio = self.driver_override().is_some_and(|driver| driver == VFIO_PCI);
            return if of_vfio { self.set_override("") } else { Ok(()) };
        }
        // The kernel would wait for the program, and take the adapter from under it.
        if self.is_with_vfio() && self.group.is_some_and(is_open) {
            return Err(BindError::Busy(self.address));
        }
        self.set_override("")?;
        self.unbind()?;
        self.probe()?;
        let bound = Self::find_on(&self.bus, self.address).and_then(|now| now.driver);
        if bound.is_some() {
            return Ok(());
        }
        let alias = fs::read_to_string(self.folder().join("modalias")).unwrap_or_default();
        let what = format!("no driver of the kernel takes it: `modprobe {}`", alias.trim());
        Err(BindError::Unbound { address: self.address, what })
    }

    /// Returns the only driver that the function may have.
    fn driver_override(&self) -> Option<String> {
        let text = fs::read_to_string(self.folder().join("driver_override")).ok()?;
        Some(text.trim().into())
    }

    /// Sets the only driver that the function may have; an empty name permits all.
    fn set_override(&self, driver: &str) -> Result<(), BindError> {
        self.write(&self.folder().join("driver_override"), &format!("{driver}\n"))
    }

    fn unbind(&self) -> Result<(), BindError> {
        let file = self.folder().join("driver/unbind");
        if !file.exists() {
            return Ok(());
        }
        self.write(&file, &self.address.to_string())
    }

    /// Has the drivers look at the function. One that refuses it is no error here.
    fn probe(&self) -> Result<(), BindError> {
        let file = self.bus.join("drivers_probe");
        match self.write(&file, &self.address.to_string()) {
            Err(BindError::Io { source, .. }) if source.kind() != io::ErrorKind::PermissionDenied => Ok(()),
            result => result,
        }
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), BindError> {
        let written = OpenOptions::new()
            .write(true)
            .open(file)
            .and_then(|mut open| io::Write::write_all(&mut open, text.as_bytes()));
        let (address, file) = (self.address, file.display().to_string());
        written.map_err(|source| BindError::Io { address, file, source })
    }
}

/// Returns the remedy for a refusal of the kernel.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ": run it as root (`sudo`)",
        io::ErrorKind::ReadOnlyFilesystem => ": run it outside the container, or mount /sys to be written to",
        _ => " (`dmesg` may say why)",
    }
}

/// True if a program has the group open: the kernel opens it for one alone.
fn is_open(group: u32) -> bool {
    let opened = OpenOptions::new().read(true).write(true).open(format!("/dev/vfio/{group}"));
    opened.is_err_and(|error| error.raw_os_error() == Some(EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A bus of plain files: nothing happens when they are written.
    fn bus(name: &str) -> std::path::PathBuf {
        let bus = std::env::temp_dir().join(format!("wharf-pci-{name}-{}", std::process::id()));
        let folder = bus.join("devices/0000:00:03.0");
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("vendor", "0x8086\n"),
            ("device", "0x100e\n"),
            ("class", "0x020000\n"),
            ("driver_override", "(null)\n"),
            ("modalias", "pci:x\n"),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        fs::write(bus.join("drivers_probe"), "").unwrap();
        bus
    }

    fn found(bus: &Path) -> PciFunction {
        PciFunction::find_on(bus, PciAddress::parse("00:03.0").unwrap()).unwrap()
    }

    #[test]
    fn what_is_missing_is_said_and_nothing_is_written() {
        let bus = bus("missing");
        assert!(matches!(found(&bus).bind_to_vfio(false), Err(BindError::NoIommu(_))));
        symlink("../../kernel/iommu_groups/3", bus.join("devices/0000:00:03.0/iommu_group")).unwrap();
        let function = found(&bus);
        assert_eq!((function.id, function.group, function.driver.clone()), ((0x8086, 0x100e), Some(3), None));
        assert!(matches!(function.bind_to_vfio(false), Err(BindError::NoModule(_))));
        assert_eq!(fs::read_to_string(bus.join("devices/0000:00:03.0/driver_override")).unwrap(), "(null)\n");
        assert_eq!(PciFunction::find_on(&bus, PciAddress::parse("00:04.0").unwrap()), None);
        fs::remove_dir_all(bus).unwrap();
    }

    #[test]
    fn an_interface_with_an_address_is_refused_unless_by_force() {
        let bus = bus("used");
        fs::create_dir_all(bus.join("devices/0000:00:03.0/net/lo")).unwrap();
        let refused = found(&bus).bind_to_vfio(false).unwrap_err().to_string();
        assert_eq!(refused, "0000:00:03.0: its interface lo has an address; --force takes it all the same");
        assert!(matches!(found(&bus).bind_to_vfio(true), Err(BindError::NoIommu(_))));
        fs::remove_dir_all(bus).unwrap();
    }

    #[test]
    fn a_function_of_another_class_is_refused_unless_by_force() {
        let bus = bus("class");
        fs::write(bus.join("devices/0000:00:03.0/class"), "0x010802\n").unwrap();
        let refused = found(&bus).bind_to_vfio(false).unwrap_err().to_string();
        assert!(refused.starts_with("0000:00:03.0: no network adapter, by its class 010802"), "{refused}");
        assert!(matches!(found(&bus).bind_to_vfio(true), Err(BindError::NoIommu(_))));
        fs::remove_dir_all(bus).unwrap();
    }

    /// Binds the function to a driver of the kernel's.
    fn bind_to_a_driver(bus: &Path) {
        fs::create_dir_all(bus.join("drivers/e1000")).unwrap();
        symlink("../../drivers/e1000", bus.join("devices/0000:00:03.0/driver")).unwrap();
    }

    #[test]
    fn a_driver_without_an_interface_here_is_refused_unless_by_force() {
        let bus = bus("unseen");
        bind_to_a_driver(&bus);
        assert!(matches!(found(&bus).bind_to_vfio(false), Err(BindError::Unseen { .. })));
        assert!(matches!(found(&bus).bind_to_vfio(true), Err(BindError::NoIommu(_))));
        // One of the virtio bus has its interfaces a level below.
        fs::create_dir_all(bus.join("devices/0000:00:03.0/virtio0/net/none-such-there")).unwrap();
        assert_eq!(found(&bus).interfaces, ["none-such-there"]);
        assert!(matches!(found(&bus).bind_to_vfio(false), Err(BindError::NoIommu(_))));
        fs::remove_dir_all(bus).unwrap();
    }

    #[test]
    fn an_override_is_undone_when_unbinding_fails_and_when_it_was_left_behind() {
        let bus = bus("override");
        bind_to_a_driver(&bus);
        let file = bus.join("devices/0000:00:03.0/driver_override");
        symlink("../../kernel/iommu_groups/3", bus.join("devices/0000:00:03.0/iommu_group")).unwrap();
        fs::create_dir_all(bus.join("drivers/vfio-pci")).unwrap();
        // A folder cannot be written to.
        fs::create_dir_all(bus.join("drivers/e1000/unbind")).unwrap();
        let refused = found(&bus).bind_to_vfio(true).unwrap_err();
        assert!(matches!(&refused, BindError::Io { file, .. } if file.ends_with("unbind")), "{refused}");
        assert!(fs::read_to_string(&file).unwrap().starts_with('\n'));
        fs::write(&file, "vfio-pci\n").unwrap();
        found(&bus).bind_to_kernel().unwrap();
        assert!(fs::read_to_string(&file).unwrap().starts_with('\n'));
        fs::remove_dir_all(bus).unwrap();
    }

    #[test]
    fn a_driver_that_does_not_take_it_is_an_error_and_the_override_is_undone() {
        let bus = bus("untaken");
        symlink("../../kernel/iommu_groups/3", bus.join("devices/0000:00:03.0/iommu_group")).unwrap();
        fs::create_dir_all(bus.join("drivers/vfio-pci")).unwrap();
        let refused = found(&bus).bind_to_vfio(false).unwrap_err().to_string();
        assert!(refused.starts_with("0000:00:03.0: vfio-pci does not take it"), "{refused}");
        let left = fs::read_to_string(bus.join("devices/0000:00:03.0/driver_override")).unwrap();
        assert!(left.starts_with('\n'), "{left:?}");
        let refused = found(&bus).bind_to_kernel().unwrap_err().to_string();
        assert_eq!(refused, "0000:00:03.0: no driver of the kernel takes it: `modprobe pci:x`");
        fs::remove_dir_all(bus).unwrap();
    }
}
