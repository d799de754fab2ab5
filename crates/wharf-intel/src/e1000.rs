//! `e1000:PCI-ADDRESS`: Intel's 82540EM and 82545EM, by a driver of this crate's own. The adapter is handed over by
//! `wharf bind PCI-ADDRESS vfio`; frames then go from the pool's memory to the wire without a system call.
//!
//! One queue, both ways. Sections are those of the PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual (8254x).

#[doc(hidden)]
pub mod descriptors;
mod setup;

use crate::bus::Bus;
use crate::family::{Arrival, Context, Family, Part, RingRegisters};
use crate::options::PortOptions;
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
    rx_keys: spec::RX_KEYS,
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

    #[inline(always)]
    fn transmit(part: &Part) -> [u64; 2] {
        descriptors::transmit(part)
    }

    fn context(context: &Context) -> [u64; 2] {
        descriptors::context(context)
    }

    #[inline(always)]
    fn arrival(second: u64) -> Option<Arrival> {
        descriptors::arrival(second)
    }

    fn tx_ring(_queue: u32) -> RingRegisters {
        setup::TX_RING
    }

    fn rx_ring(_queue: u32) -> RingRegisters {
        setup::RX_RING
    }

    fn reset(bus: &impl Bus) {
        setup::reset(bus);
    }

    fn start(bus: &impl Bus, _queues: u32) {
        setup::start(bus);
    }

    fn start_tx(bus: &impl Bus, _queue: u32) {
        setup::start_tx(bus);
    }

    fn start_rx(bus: &impl Bus, _queue: u32, buffer_bytes: u32, options: &PortOptions) {
        setup::start_rx(bus, buffer_bytes, options);
    }

    fn stop_queue(bus: &impl Bus, _queue: u32) -> bool {
        setup::stop(bus);
        true
    }

    fn throttle(bus: &impl Bus, _queue: u32, interval_ns: u32) {
        setup::throttle(bus, interval_ns);
    }

    fn unmask(bus: &impl Bus, _queue: u32) {
        bus.write(setup::IMS, setup::CAUSES);
    }

    fn mask(bus: &impl Bus, _queue: u32) {
        bus.write(setup::IMC, u32::MAX);
    }

    /// Reads the causes, which clears them (section 13.4.17): the line is released.
    fn acknowledge(bus: &impl Bus, _queue: u32) {
        bus.read(setup::ICR);
    }

    /// Returns 0: the one queue's are those of the adapter.
    fn missed(_bus: &impl Bus, _queue: u32) -> u64 {
        0
    }
}
