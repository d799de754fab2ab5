//! Arguments of `wharf admin bind`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use wharf_intel::pci::{BindTo, PciAddress};

const EXAMPLES: &str = "\
Examples:
  sudo wharf admin bind 0000:00:03.0 vfio
      take an adapter from the kernel, for e1000:0000:00:03.0
  sudo wharf admin bind 00:03.0 kernel
      give it back to the kernel's driver

A binding stays until it is changed, or the machine starts anew. The adapter must be behind an IOMMU; all adapters \
of its IOMMU group go together.";

/// The adapter, and its driver.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BindArgs {
    /// Adapter to bind, by its address on the PCI bus (`lspci -D`)
    #[arg(value_name = "PCI-ADDRESS", value_parser = address)]
    pub(crate) address: PciAddress,
    /// vfio, for a device of wharf; kernel, for the kernel's own driver
    #[arg(value_name = "DRIVER", value_parser = drivers())]
    pub(crate) to: BindTo,
    /// Take an adapter whose interface is in use or is not seen here, or what is no network adapter, too
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object instead of a line
    #[arg(long)]
    pub(crate) json: bool,
}

fn drivers() -> impl TypedValueParser<Value = BindTo> {
    let driver = |name: String| if name == "vfio" { BindTo::Vfio } else { BindTo::Kernel };
    PossibleValuesParser::new(["vfio", "kernel"]).map(driver)
}

fn address(text: &str) -> Result<PciAddress, String> {
    PciAddress::parse(text).ok_or_else(|| "want an address such as 0000:00:03.0".into())
}
