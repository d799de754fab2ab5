//! `PortOptions`: the settings of the queues of an adapter.

use wharf_devices::iface::ETHERNET_BYTES;

/// The MTU up to which no frame is longer than that.
const USUAL_MTU_BYTES: u32 = 1500;

/// Settings of the queues of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOptions {
    /// True to send.
    pub sends: bool,
    /// True to receive.
    pub receives: bool,
    /// Descriptors of each ring, a power of two.
    pub ring_entries: u32,
    /// Length of the longest payload of a frame, bytes.
    pub mtu_bytes: u32,
    /// True to receive frames for other addresses, too.
    pub promiscuous: bool,
    /// Number of queues, and of devices that share the pool.
    pub queues: u32,
}

impl PortOptions {
    /// True if frames may be longer than the adapter takes by itself.
    pub fn has_long_frames(&self) -> bool {
        self.mtu_bytes > USUAL_MTU_BYTES
    }

    pub(super) fn longest_bytes(&self) -> u32 {
        self.mtu_bytes + ETHERNET_BYTES
    }
}
