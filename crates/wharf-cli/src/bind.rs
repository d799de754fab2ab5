//! `wharf admin bind`: the driver of an adapter.

use crate::args::BindArgs;
use crate::output::{print, print_json};
use serde::Serialize;
use wharf_intel::pci::PciFunction;

/// The report of `--json`.
#[derive(Serialize)]
struct Bound {
    address: String,
    driver: Option<String>,
    iommu_group: Option<u32>,
    interfaces: Vec<String>,
    /// Adapters of the group that are the kernel's: programs cannot use the group yet.
    in_the_way: Vec<String>,
}

/// Binds the adapter, and prints the driver that it has then.
pub(crate) fn bind(args: &BindArgs) -> anyhow::Result<()> {
    let function = PciFunction::bind(args.address, args.to, args.force)?;
    let in_the_way = if function.is_with_vfio() { function.in_the_way() } else { Vec::new() };
    let bound = Bound {
        address: function.address.to_string(),
        driver: function.driver,
        iommu_group: function.group,
        interfaces: function.interfaces,
        in_the_way: in_the_way.iter().map(|other| other.address.to_string()).collect(),
    };
    if args.json {
        return print_json(&bound);
    }
    let driver = bound.driver.as_deref().unwrap_or("none");
    let mut line = format!("{}: driver {driver}", bound.address);
    for interface in &bound.interfaces {
        line += &format!(", interface {interface}");
    }
    if let Some(first) = bound.in_the_way.first() {
        line += &format!(
            "; {} of its IOMMU group is the kernel's: `wharf admin bind {first} vfio`, too",
            bound.in_the_way.join(", ")
        );
    }
    print(&line)
}
