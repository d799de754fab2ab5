//! Virtqueues (virtio 1.2, sections 2.6 to 2.8): split and packed, the driver's side and the device's.
//!
//! A virtqueue is three areas of shared memory, a [`Place`]. A [`DriverRing`] puts buffers into it, by
//! address, and takes back the used ones. A [`DeviceRing`] takes them as [`Chain`]s, of which every address
//! was looked up in a [`Memory`], and gives them back. Both layouts are types behind the two traits:
//! [`split`] and [`packed`].
//!
//! The peer is not trusted. Each value is read once from a ring, checked, and then used; a violation is a
//! [`RingError`], after which the queue is not to be used any more. Neither side panics, loops without a
//! bound, or touches memory outside, whatever the peer writes.
//!
//! Buffers that were put or used in a batch are published together, by `publish`. A side that has published
//! asks whether the other side needs a notification. A side that means to sleep enables notifications, and
//! looks again if there is something already.
//!
//! Memory order, by pairs. (A) publishing available buffers: Release, pairs with (B) Acquire: a reader of the
//! index sees the descriptors. (C) publishing used buffers: Release, pairs with (D) Acquire: a reader of the
//! index sees the bytes. (E) a full fence between publishing and reading the other side's notification
//! request, pairs with (F) one between requesting a notification and looking for published buffers: one of
//! the two sides sees the other's write.

mod chain;
mod descriptor;
mod error;
mod ids;
mod inflight;
mod log;
mod memory;
mod notify;
pub mod packed;
mod place;
mod ring;
pub mod split;

pub use chain::{Chain, Token};
pub use error::RingError;
pub use inflight::InflightTable;
pub use log::DirtyLog;
pub use memory::{Memory, MemoryError, MemoryRegion, Part, Window};
pub use place::{Layout, Place};
pub(crate) use ring::words;
pub use ring::{DeviceRing, DriverRing, Extent, Options, Used};

/// Feature bits (virtio 1.2, sections 5.1.3 and 6), as masks.
pub mod feature {
    use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP};

    /// The driver may leave checksums to the device.
    pub const CSUM: u64 = 1;
    /// The driver takes frames with unfinished checksums.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// The device says which frames are not too long.
    pub const MTU: u64 = 1 << 3;
    /// The driver takes TCP super-packets over IPv4.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The driver takes TCP super-packets over IPv6.
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// The driver takes TCP super-packets with a CWR flag.
    pub const GUEST_ECN: u64 = 1 << 9;
    /// The device takes TCP super-packets over IPv4.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// The device takes TCP super-packets over IPv6.
    pub const HOST_TSO6: u64 = 1 << 12;
    /// The device takes TCP super-packets with a CWR flag.
    pub const HOST_ECN: u64 = 1 << 13;
    /// The device may put a frame into several receive buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// The driver tells where it is after a migration.
    pub const GUEST_ANNOUNCE: u64 = 1 << 21;
    /// Several queue pairs.
    pub const MQ: u64 = 1 << 22;
    /// vhost: the device logs the pages that it writes.
    pub const LOG_ALL: u64 = 1 << 26;
    /// Chains may be in tables of their own.
    pub const INDIRECT: u64 = 1 << 28;
    /// Each side names the index at which it wants a notification.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// vhost-user: there are protocol features.
    pub const VHOST_PROTOCOL: u64 = 1 << 30;
    /// Virtio 1.0 or later.
    pub const VERSION_1: u64 = 1 << 32;
    /// The packed layout.
    pub const PACKED: u64 = 1 << 34;
    /// Buffers are used in the order in which they were made available.
    pub const IN_ORDER: u64 = 1 << 35;
    /// The driver takes UDP super-packets, over IPv4 and IPv6.
    pub const GUEST_USO: u64 = 3 << 54;
    /// The device takes UDP super-packets.
    pub const HOST_USO: u64 = 1 << 56;
    /// The driver tells the length of the headers of a super-packet.
    pub const GUEST_HDRLEN: u64 = 1 << 59;
    /// Unfinished checksums and super-packets, both ways.
    pub const OFFLOADS: u64 = TO_DRIVER | TO_DEVICE;
    const TO_DRIVER: u64 = GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | GUEST_USO;
    const TO_DEVICE: u64 = CSUM | HOST_TSO4 | HOST_TSO6 | HOST_ECN | HOST_USO;

    /// True if the driver takes super-packets of `gso_kind`, by the agreed `features`.
    pub(crate) fn driver_takes(features: u64, gso_kind: u8) -> bool {
        takes(features, gso_kind, [GUEST_TSO4, GUEST_TSO6, GUEST_USO])
    }

    /// True if the device does.
    pub(crate) fn device_takes(features: u64, gso_kind: u8) -> bool {
        takes(features, gso_kind, [HOST_TSO4, HOST_TSO6, HOST_USO])
    }

    fn takes(features: u64, gso_kind: u8, [tso4, tso6, uso]: [u64; 3]) -> bool {
        let bits = match gso_kind {
            GSO_TCPV4 => tso4,
            GSO_TCPV6 => tso6,
            GSO_UDP => uso,
            _ => return false,
        };
        features & bits == bits
    }
}

/// Most descriptors of a ring (virtio 1.2, section 2.6).
pub const SIZE_MAX: u16 = 32768;
/// Most descriptors of a chain that are followed, those of an indirect table included: more than any driver
/// makes (Linux 19; QEMU has this bound).
pub const CHAIN_MAX: u16 = 1024;
