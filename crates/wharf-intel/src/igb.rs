//! `igb:PCI-ADDRESS`: Intel's 82576, by a driver of this crate's own, with several queues. The adapter is handed over
//! by `wharf admin bind PCI-ADDRESS vfio`.
//!
//! Flows that arrive are spread over the queues by their hash (RSS), and each queue has an interrupt of its own
//! (MSI-X). Sections are those of the Intel 82576 Gigabit Ethernet Controller Datasheet, revision 2.65.

mod descriptors;
mod setup;

use crate::family::Family;
use crate::spec;
use wharf_devices::spec::Kind;

/// The family.
#[derive(Debug, Clone, Copy)]
pub enum Igb {}

/// Length of the longest frame, without check sequence (section 8.10.1, long packets).
const LONGEST_BYTES: u32 = 9728;

/// The kind of device.
pub static KIND: Kind = Kind {
    keys: &[spec::RING, spec::mtu(LONGEST_BYTES, "68 to 9714 bytes")],
    ..spec::kind::<Igb>(
        "igb:PCI-ADDRESS[,ring=N,mtu=N] to send, with [,promisc=on|off] to receive",
        "Intel 82576 by a driver in this process (VFIO)",
    )
};

impl Family for Igb {
    const NAME: &'static str = "igb";
    const MODELS: &'static [(u16, &'static str)] = &[(0x10c9, "82576")];
    const QUEUES_MAX: u32 = 8;
    const ADDRESS_BITS: u32 = 64;
    const HAS_MESSAGES: bool = true;
    const REGISTER_BYTES: u32 = 128 << 10;
    // Section 8.10.2: in steps of 1 KiB.
    const BUFFER_BYTES: &'static [u32] = &[1 << 10, 2 << 10, 3 << 10, 4 << 10, 6 << 10, 8 << 10, 10 << 10];
}
