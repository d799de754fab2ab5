//! `e1000:PCI-ADDRESS`: Intel's 82540EM and 82545EM, by a driver of this crate's own. The adapter is handed over by
//! `wharf admin bind PCI-ADDRESS vfio`; frames then go from the pool's memory to the wire without a system call.
//!
//! One queue, both ways. Sections are those of the PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual (8254x).

mod descriptors;
mod setup;

use crate::family::Family;
use crate::spec;
use wharf_devices::spec::Kind;

/// The family.
#[derive(Debug, Clone, Copy)]
pub enum E1000 {}

/// Length of the longest frame, without check sequence. The adapter receives up to 16384 bytes (section 3.2).
const LONGEST_BYTES: u32 = 16110;

/// The kind of device.
pub static KIND: Kind = Kind {
    keys: &[spec::RING, spec::mtu(LONGEST_BYTES, "68 to 16096 bytes")],
    ..spec::kind::<E1000>(
        "e1000:PCI-ADDRESS[,ring=N,mtu=N] to send, with [,promisc=on|off] to receive",
        "Intel 82540EM and 82545EM by a driver in this process (VFIO)",
    )
};

impl Family for E1000 {
    const NAME: &'static str = "e1000";
    const MODELS: &'static [(u16, &'static str)] = &[(0x100e, "82540EM"), (0x100f, "82545EM")];
    const QUEUES_MAX: u32 = 1;
    // PCI of 32 bits. Linux gives adapters of the family addresses of 64 bits behind PCI-X alone (`e1000_probe`), and
    // none of them messages.
    const ADDRESS_BITS: u32 = 32;
    const HAS_MESSAGES: bool = false;
    const REGISTER_BYTES: u32 = 128 << 10;
    // Section 13.4.22, BSIZE and BSEX.
    const BUFFER_BYTES: &'static [u32] = &[256, 512, 1024, 2048, 4096, 8192, 16384];
}
