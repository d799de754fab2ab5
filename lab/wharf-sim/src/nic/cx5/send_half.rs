//! `SendHalf`: the contract of a writer of a send queue, with its settings, its packets and its errors.

use super::segment::{Ethernet, Pointer};
use crate::nic::host_memory::{HostMemory, MemoryFault};
use crate::nic::ring::Ring;

/// The key of all memory.
pub(super) const KEY: u32 = 0x1000;

/// The settings of a queue pair. The switches have the names of `ethtool --show-priv-flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Logarithm of the number of send blocks, 5 to 15.
    pub log_send_blocks: u32,
    /// Logarithm of the number of receive buffers, 6 to 15.
    pub log_receive: u32,
    /// Several packets per entry; for sockets the switch is called `skb_tx_mpwqe`.
    pub xdp_tx_mpwqe: bool,
    /// Outstanding packets from which on packets travel inside entries; `None` for never.
    pub inline_from: Option<usize>,
    /// True if every entry asks for a completion, not only the last before a doorbell.
    pub completion_each: bool,
}

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its offloads.
    pub ethernet: Ethernet,
    /// Its location; several pieces if it is not linear.
    pub pieces: &'a [Pointer],
    /// Its bytes, if the driver may copy them.
    pub bytes: Option<&'a [u8]>,
}

/// The reason for which a packet was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The ring is full.
    #[error("the ring of {blocks} blocks is full")]
    Full {
        /// Blocks of the ring.
        blocks: u32,
    },
    /// A packet in too many pieces.
    #[error("a packet in {pieces} pieces: 1 to {most} can be")]
    Pieces {
        /// Its pieces.
        pieces: usize,
        /// Most pieces.
        most: u32,
    },
    /// The ring is not in memory.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
}

/// A completion of an entry that is not outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("completion of entry {index}, which is not outstanding ({outstanding} are)")]
pub struct NotOutstanding {
    /// The block in the completion.
    pub index: u16,
    /// Entries outstanding.
    pub outstanding: usize,
}

/// A sending half: the writer of a send queue.
pub trait SendHalf: Send + std::fmt::Debug + Sized {
    /// The device's name.
    const NAME: &'static str;

    /// Creates queue `number` in `memory`. Returns its location, too.
    fn new(number: u32, spec: &Spec, memory: &mut HostMemory) -> (Self, Ring);

    /// True if a packet in one piece fits.
    fn has_room(&self) -> bool;

    /// Writes one packet. The NIC sees it only after [`SendHalf::ring`].
    ///
    /// # Errors
    /// [`WriteError`]; the packet is not written.
    fn push(&mut self, packet: &Outgoing<'_>, memory: &mut HostMemory) -> Result<(), WriteError>;

    /// Asks for a completion. Returns the doorbell's value, or `None` if there is nothing new.
    ///
    /// # Errors
    /// The ring is not in memory.
    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<u32>, MemoryFault>;

    /// Notes that all entries up to `index` were sent. Returns the number of their packets.
    ///
    /// # Errors
    /// [`NotOutstanding`]; nothing is taken as sent.
    fn completed(&mut self, index: u16) -> Result<usize, NotOutstanding>;
}
