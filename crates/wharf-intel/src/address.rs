//! The adapter that a specification names: its address on the bus, and its model.

use super::family::Family;
use crate::pci::{PciAddress, PciFunction};
use wharf_core::device::DeviceError;
use wharf_devices::spec::DeviceSpec;

/// Number of the vendor on the bus.
const INTEL: u16 = 0x8086;

/// Returns the address that a specification names.
pub(super) fn address(spec: &DeviceSpec) -> Result<PciAddress, DeviceError> {
    let place = spec.place();
    let wrong =
        || spec.fault("no address of an adapter: it is written like 0000:00:03.0 (`lspci -D` lists them)");
    PciAddress::parse(place).ok_or_else(wrong)
}

/// Checks that an adapter is one of the family's.
pub(super) fn check_model<F: Family>(function: &PciFunction) -> Result<&'static str, String> {
    let (vendor, model) = function.id;
    let known = F::MODELS.iter().find(|(id, _)| vendor == INTEL && *id == model);
    known.map(|(_, name)| *name).ok_or_else(|| {
        let models: Vec<String> =
            F::MODELS.iter().map(|(id, name)| format!("{name} ({INTEL:04x}:{id:04x})")).collect();
        format!("it is {vendor:04x}:{model:04x}, not {}", models.join(" or "))
    })
}
