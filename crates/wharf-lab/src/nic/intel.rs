//! `ixgbe`, `igb` and `e1000`: Intel's rings of 16-byte descriptors, with a tail register.
//!
//! The driver writes descriptors and moves the tail; the NIC fetches them, and reports either by writing descriptors
//! back with their DD bit set, several at a time, or by writing its head into memory. The three differ in what the
//! bits are ([`Layout`]: `advanced` for `ixgbe` and `igb`, `legacy` for `e1000`) and in how many descriptors move at a
//! time ([`setup::Family`]).

pub mod advanced;
pub mod driver;
pub mod formats;
pub mod legacy;
pub mod setup;

#[cfg(test)]
mod tests;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;
/// A descriptor as it lies in memory.
pub type Descriptor = [u8; DESCRIPTOR_BYTES];

/// What the driver asks to be sent, as the NIC reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToSend {
    /// Where the packet, or the piece, lies.
    pub address: u64,
    /// Its length.
    pub len_bytes: u32,
    /// Whether it is the last piece of its packet (EOP).
    pub last: bool,
    /// Whether it is to be reported (RS).
    pub report: bool,
}

/// A packet received, as the driver reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length.
    pub len_bytes: u32,
    /// Whether it ends here (EOP).
    pub last: bool,
    /// Error bits; 0 for none.
    pub errors: u32,
}

/// What the bits of a family's descriptors are.
pub trait Layout: Send + std::fmt::Debug + 'static {
    /// To be sent.
    fn to_send(what: &ToSend) -> Descriptor;

    /// The NIC's side of [`Layout::to_send`].
    ///
    /// # Errors
    /// What makes no sense.
    fn read_to_send(descriptor: &Descriptor) -> Result<ToSend, &'static str>;

    /// That descriptor as the NIC writes it back.
    fn sent(descriptor: &Descriptor) -> Descriptor;

    /// Whether the NIC has.
    fn is_sent(descriptor: &Descriptor) -> bool;

    /// A buffer to receive into.
    fn to_receive(address: u64) -> Descriptor;

    /// The NIC's side of [`Layout::to_receive`].
    fn read_to_receive(descriptor: &Descriptor) -> u64;

    /// That descriptor as the NIC writes it back.
    fn received(descriptor: &Descriptor, packet: &Received) -> Descriptor;

    /// The driver's side of [`Layout::received`]; `None` where the NIC has not written it yet.
    fn read_received(descriptor: &Descriptor) -> Option<Received>;
}

fn u16_at(descriptor: &Descriptor, at: usize) -> u16 {
    u16::from_le_bytes([descriptor[at], descriptor[at + 1]])
}

fn u32_at(descriptor: &Descriptor, at: usize) -> u32 {
    u32::from(u16_at(descriptor, at + 2)) << 16 | u32::from(u16_at(descriptor, at))
}

fn u64_at(descriptor: &Descriptor, at: usize) -> u64 {
    u64::from(u32_at(descriptor, at + 4)) << 32 | u64::from(u32_at(descriptor, at))
}
