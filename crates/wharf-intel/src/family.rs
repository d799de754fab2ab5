//! `Family`: what differs between families of adapters.

use super::bus::Bus;
use super::options::PortOptions;
use std::fmt::Debug;

/// Bits of the second word of a transmit descriptor that both families have in the same places. End of packet:
pub const EOP: u64 = 1 << 24;
/// Insertion of the check sequence.
pub const IFCS: u64 = 1 << 25;
/// Report of the status.
pub const RS: u64 = 1 << 27;
/// An extended descriptor of the 8254x, an advanced one of the 82576.
pub const DEXT: u64 = 1 << 29;
/// The descriptor is done.
pub const TX_DD: u64 = 1 << 32;
/// The adapter fills in the checksum of IPv4, and that of TCP or UDP.
pub const IXSM: u64 = 1 << 40;
pub const TXSM: u64 = 1 << 41;

/// The registers of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingRegisters {
    /// Base address, lower half; the upper half is 4 bytes behind, and the length, in bytes, 8.
    pub base: u32,
    /// Head: the descriptor that the adapter is at.
    pub head: u32,
    /// Tail: the first descriptor that the adapter does not have.
    pub tail: u32,
}

/// A receive descriptor that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes in its buffer, as the adapter says.
    pub len_bytes: u32,
    /// True for the last buffer of a frame.
    pub is_last: bool,
    /// True if the adapter found the frame to be broken.
    pub is_bad: bool,
}

/// A part of a frame to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its address for the adapter.
    pub address: u64,
    /// Its bytes.
    pub len_bytes: u32,
    /// Bytes of the frame.
    pub frame_bytes: u32,
    /// True for the last part of a frame.
    pub is_last: bool,
    /// The work that the adapter does on the frame. The context descriptor before it describes it.
    pub work: Work,
}

/// Work that a sender leaves to the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The adapter sends the frame as it is.
    None,
    /// The adapter fills in the checksum of TCP or UDP.
    Checksum,
    /// The adapter segments a super-packet of TCP.
    Segments {
        /// True for IPv6, which has no checksum of its own.
        is_ipv6: bool,
        /// Length of the payload.
        payload_bytes: u32,
    },
}

/// The content of a context descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The checksum of the frames that follow.
    Checksum(Checksum),
    /// The segmentation of the one super-packet that follows.
    Segments(Segments),
}

/// A super-packet of TCP. TCP's checksum holds the sum of the pseudo header without the length; the IP length, and the
/// checksum of IPv4, are 0. Places are in bytes from the frame's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Start of the IP header.
    pub network_at: u8,
    /// Start of the TCP header.
    pub transport_at: u8,
    /// Length of all headers, from Ethernet to TCP.
    pub header_bytes: u8,
    /// True for IPv6.
    pub is_ipv6: bool,
    /// Length of the payload of each segment but the last (MSS).
    pub segment_bytes: u16,
    /// Length of the payload.
    pub payload_bytes: u32,
}

/// A super-packet for tests of descriptors: IPv4 and TCP with 12 bytes of options.
#[cfg(test)]
pub(crate) const SUPER_PACKET: Segments = Segments {
    network_at: 14,
    transport_at: 34,
    header_bytes: 66,
    is_ipv6: false,
    segment_bytes: 1448,
    payload_bytes: 60_000,
};

/// A checksum that the adapter fills in. Its place holds the sum of the pseudo header. Places are in bytes from the
/// frame's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// Start of the network header.
    pub network_at: u8,
    /// Start of the summed bytes: the transport header.
    pub start: u8,
    /// Place of the checksum.
    pub place: u8,
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
}

/// A family of adapters. All functions are of the family, none of one adapter.
pub trait Family: Descriptors + Registers + Debug + Send + Sync + 'static {
    /// Name of the kind of device.
    const NAME: &'static str;
    /// Models, by their numbers, and their names.
    const MODELS: &'static [(u16, &'static str)];
    /// Most queues of an adapter.
    const QUEUES_MAX: u32;
    /// Address lines: memory for the adapter lies below 4 GiB if there are 32.
    const ADDRESS_BITS: u32;
    /// True if the adapter is driven by messages (MSI-X), one for each queue; else by its line.
    const HAS_MESSAGES: bool;
    /// Bytes of registers that must be there.
    const REGISTER_BYTES: u32;
    /// Lengths that a receive buffer can have, ascending.
    const BUFFER_BYTES: &'static [u32];
}

/// The layout of a family's descriptors.
pub trait Descriptors {
    /// Bytes that the last descriptor of a super-packet has, and that of the frame behind it: adapters report
    /// these two before they have read the data (`e1000_tx_map` of Linux). 0 for adapters that do not.
    const TAIL_BYTES: u32;
    /// Makes a transmit descriptor.
    fn transmit(part: &Part) -> [u64; 2];
    /// Makes a context descriptor. It holds for the frames that follow.
    fn context(context: &Context) -> [u64; 2];
    /// Reads the second word of a receive descriptor; `None` if it is not done.
    fn arrival(second: u64) -> Option<Arrival>;
}

/// A family's registers, and the order in which they are written.
pub trait Registers {
    /// Returns the registers of transmit queue `queue`.
    fn tx_ring(queue: u32) -> RingRegisters;
    /// Returns the registers of receive queue `queue`.
    fn rx_ring(queue: u32) -> RingRegisters;

    /// Ends all traffic and interrupts, and resets the adapter. Takes some milliseconds.
    fn reset(bus: &impl Bus);
    /// Sets the adapter up for `queues` queues, without traffic.
    fn start(bus: &impl Bus, queues: u32);
    /// Begins to send from transmit queue `queue`, whose ring is set.
    fn start_tx(bus: &impl Bus, queue: u32);
    /// Begins to receive into receive queue `queue`, whose ring is set, with buffers of `buffer_bytes`.
    fn start_rx(bus: &impl Bus, queue: u32, buffer_bytes: u32, options: &PortOptions);
    /// Ends the traffic of a queue. Returns false if it does not end: then the adapter must be reset.
    fn stop_queue(bus: &impl Bus, queue: u32) -> bool;

    /// Sets the least time between two interrupts of a queue.
    fn throttle(bus: &impl Bus, queue: u32, interval_ns: u32);
    /// Unmasks the interrupts of a queue.
    fn unmask(bus: &impl Bus, queue: u32);
    /// Masks the interrupts of a queue.
    fn mask(bus: &impl Bus, queue: u32);
    /// Takes the causes of an interrupt that has come, and those that were collected while it was masked.
    fn acknowledge(bus: &impl Bus, queue: u32);
    /// Returns the frames that the adapter has dropped since the last call for lack of buffers in this queue alone.
    fn missed(bus: &impl Bus, queue: u32) -> u64;
}
