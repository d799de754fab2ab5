//! Errors of a generator's specification.

use std::net::IpAddr;

/// A fault of a [`GeneratorSpec`](super::GeneratorSpec).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// One address is IPv4, the other IPv6.
    #[error(
        "source {from} and destination {to} are not of the same kind: give two IPv4 or two IPv6 addresses"
    )]
    MixedAddresses {
        /// Source.
        from: IpAddr,
        /// Destination.
        to: IpAddr,
    },
    /// Too short for headers and stamp, or too long for IP.
    #[error("frames of {len_bytes} bytes cannot be: {least} to {most} here")]
    Size {
        /// Asked for.
        len_bytes: u32,
        /// Shortest possible.
        least: u32,
        /// Longest possible.
        most: u32,
    },
    /// Fewer flows than senders, or more than there are ports.
    #[error("{flows} flows cannot be: {least} (one per sender) to {most}")]
    Flows {
        /// Asked for.
        flows: u32,
        /// Fewest possible.
        least: u32,
        /// Most possible.
        most: u32,
    },
    /// Packets of different lengths, more of them than one super-packet has, or none.
    #[error("super-packets of {packets} packets cannot be: 1 to {most} here")]
    Super {
        /// Asked for.
        packets: u16,
        /// Most possible.
        most: u16,
    },
    /// No such VLAN.
    #[error("VLAN {vlan} cannot be: 1 to 4094")]
    Vlan {
        /// Asked for.
        vlan: u16,
    },
}
