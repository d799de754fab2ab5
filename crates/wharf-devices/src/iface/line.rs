//! The state of a line, and what its frames begin with.

use std::io;
use wharf_core::device::DeviceError;

/// Reason of frames that fail because the interface has gone for good.
pub const GONE: &str = "gone";

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: u32 = wharf_packet::ETHERNET_BYTES as u32;
/// Bytes of a VLAN tag.
pub const VLAN_BYTES: u32 = wharf_packet::VLAN_BYTES as u32;
/// Offset of the EtherType, or of the first VLAN tag.
pub(crate) const ETHERTYPE_AT: usize = 12;

/// The state of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It carries frames.
    Up,
    /// Switched off, or without carrier: frames fail until it is back.
    Down,
    /// Frames fail for good.
    Gone,
}

impl State {
    /// Returns the reason of frames that fail in this state, if they do.
    #[inline]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Up => None,
            Self::Down => Some("link-down"),
            Self::Gone => Some(GONE),
        }
    }

    /// Makes the error of this state of `device`, if it is one. The system's answer is `errno`.
    pub fn error(self, device: &str, what: &str, errno: i32) -> Option<DeviceError> {
        if self == Self::Up {
            return None;
        }
        let (device, what, source) = (device.into(), what.into(), io::Error::from_raw_os_error(errno));
        Some(match self {
            Self::Gone => DeviceError::Gone { device, what, source },
            _ => DeviceError::Down { device, what, source },
        })
    }
}

/// Returns true if an Ethernet frame begins with a VLAN tag, for which the MTU leaves room.
pub fn is_tagged(frame: &[u8]) -> bool {
    matches!(frame.get(ETHERTYPE_AT..ETHERTYPE_AT + 2), Some([0x81, 0x00] | [0x88, 0xa8]))
}
