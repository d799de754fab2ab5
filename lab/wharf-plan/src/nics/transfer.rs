//! A transfer over the bus: its size, and the number of packets that share it.

use super::section::Section;
use super::{Cost, Figure, FileError, Mark, ONE};
use crate::pcie::{Link, Traffic};

/// The actor and the direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The processor writes to the NIC.
    WriteToNic,
    /// The NIC reads memory.
    NicRead,
    /// The NIC writes to memory.
    NicWrite,
    /// The processor reads from the NIC.
    ReadFromNic,
}

const BY: [(&str, Actor); 4] = [
    ("write_to_nic", Actor::WriteToNic),
    ("nic_read", Actor::NicRead),
    ("nic_write", Actor::NicWrite),
    ("read_from_nic", Actor::ReadFromNic),
];

/// Packets that travel inside descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    /// The largest packet for which this is done, in bytes.
    pub max_bytes: u64,
    /// Bytes before each.
    pub header_bytes: u64,
    /// Each, with its header, takes a multiple of this.
    pub align_bytes: u64,
}

/// A transfer: one unit of `bytes + packet_bytes x every` for `every` packets, `batch` units at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its contents: `entry`, `packet`, `completion`...
    pub name: &'static str,
    /// Its actor.
    pub by: Actor,
    /// Bytes of a unit besides packets.
    pub bytes: u64,
    /// Bytes in a unit for each packet.
    pub packet_bytes: u64,
    /// True if the packet itself is part of it.
    pub payload: bool,
    /// Packets to a unit.
    pub every: u64,
    /// Units in a transfer.
    pub batch: u64,
    /// The other transfer whose packets per unit it takes over.
    pub follows: Option<String>,
    /// The other transfer with each unit of which a new unit begins, full or not.
    pub within: Option<String>,
    /// The largest unit, if packets are inlined; it holds at least one packet.
    pub bytes_max: u64,
    /// Inlining, if the NIC does that.
    pub inline: Option<Inline>,
    /// Time that the NIC serves a unit, one after the other, in picoseconds; none if nothing is known of it.
    pub nic_ps: Option<Figure>,
    /// The mark of these numbers.
    pub mark: Mark,
    /// Their source.
    pub source: String,
}

/// The names of transfers.
pub(super) const NAMES: [&str; 8] =
    ["doorbell", "index", "ring", "entry", "packet", "completion", "mini_completion", "interrupt"];

/// The cost of a transfer to each packet.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The transfer.
    pub transfer: &'a Transfer,
    /// Packets that share a unit.
    pub every: u64,
    /// Its part of the cost.
    pub cost: Cost,
}

const BYTES: std::ops::RangeInclusive<u64> = 0..=65536;
const COUNT: std::ops::RangeInclusive<u64> = 1..=65536;
const NIC_PS: std::ops::RangeInclusive<u64> = 0..=1_000_000_000;

impl Transfer {
    /// Reads one; `None` if it is switched off.
    pub(super) fn read(name: &'static str, section: &Section<'_>) -> Result<Option<Self>, FileError> {
        let by = section.choice("by", &BY)?;
        let (mark, source) = section.origin()?;
        let transfer = Self {
            name,
            by: section.need("by", by)?,
            bytes: section.number("bytes", &BYTES)?.unwrap_or(0),
            packet_bytes: section.number("packet_bytes", &BYTES)?.unwrap_or(0),
            payload: section.flag("payload")?.unwrap_or(false),
            every: section.number("every", &COUNT)?.unwrap_or(1),
            batch: section.number("batch", &COUNT)?.unwrap_or(1),
            follows: section.text("follows")?.map(str::to_string),
            within: section.text("within")?.map(str::to_string),
            bytes_max: section.number("bytes_max", &BYTES)?.unwrap_or(0),
            inline: section.section("inline")?.map(|inline| Inline::read(&inline)).transpose()?,
            nic_ps: section.figure("nic_ps", &NIC_PS)?,
            mark,
            source,
        };
        let off = section.flag("off")?.unwrap_or(false);
        section.finish()?;
        transfer.check(section)?;
        Ok((!off).then_some(transfer))
    }

    fn check(&self, section: &Section<'_>) -> Result<(), FileError> {
        let shared = self.every > 1 || self.batch > 1 || self.follows.is_some();
        if self.payload && shared {
            return Err(
                section.fault("payload", "true cannot be: a packet is not shared (every, batch, follows)")
            );
        }
        if self.within.is_some() && self.batch > 1 {
            return Err(section.fault("batch", format!("{} cannot be: 1 with within", self.batch)));
        }
        Ok(())
    }

    /// Returns the bytes in a unit for a packet of `size`, and true if the packet is among them.
    fn per_packet(&self, size: u64) -> (u64, bool) {
        match self.inline {
            Some(inline) if size <= inline.max_bytes => {
                ((inline.header_bytes + size).div_ceil(inline.align_bytes) * inline.align_bytes, true)
            }
            _ => (self.packet_bytes, false),
        }
    }

    /// Returns the packets of a unit, before `follows` and `within`.
    fn own_every(&self, size: u64) -> u64 {
        match self.per_packet(size) {
            (bytes, true) => (self.bytes_max.saturating_sub(self.bytes) / bytes.max(1)).max(1),
            _ => self.every,
        }
    }

    fn traffic(&self, link: &Link, bytes: u64) -> Traffic {
        match self.by {
            Actor::WriteToNic => link.write_to_nic(bytes),
            Actor::NicRead => link.nic_read(bytes),
            Actor::NicWrite => link.nic_write(bytes),
            Actor::ReadFromNic => link.read_from_nic(bytes),
        }
    }

    /// Returns its cost to a packet of `size` if `every` packets share a unit, and units begin anew every
    /// `session` packets.
    fn cost(&self, link: &Link, size: u64, every: u64, session: Option<u64>) -> Cost {
        let data = self.bytes + self.per_packet(size).0 * every + if self.payload { size } else { 0 };
        let bytes = data * self.batch;
        let traffic = self.traffic(link, bytes);
        let (times, packets) = match session {
            Some(session) => (session.div_ceil(every), session),
            None => (1, every * self.batch),
        };
        let share = |count: u64| share(u128::from(count) * u128::from(times), packets);
        let is_read = self.by == Actor::NicRead;
        let carries_packet = self.payload || self.name == "packet";
        Cost {
            to_nic_bytes: share(traffic.to_nic),
            to_host_bytes: share(traffic.to_host),
            reads: if is_read { share(link.read_requests(0, bytes)) } else { 0 },
            fetches: if is_read && !carries_packet { share(1) } else { 0 },
            doorbells: if self.name == "doorbell" { share(1) } else { 0 },
            nic_ps: self.nic_ps.as_ref().map_or(0, |each| share(each.value * self.batch)),
            pages: 0,
        }
    }
}

/// Returns `count` per `packets`, in billionths.
fn share(count: u128, packets: u64) -> u64 {
    let (count, packets) = (count * u128::from(ONE), u128::from(packets.max(1)));
    u64::try_from((count + packets / 2) / packets).unwrap_or(u64::MAX)
}

impl Inline {
    fn read(section: &Section<'_>) -> Result<Self, FileError> {
        let max_bytes = section.need("max_bytes", section.number("max_bytes", &COUNT)?)?;
        let header_bytes = section.number("header_bytes", &BYTES)?.unwrap_or(0);
        let align_bytes = section.number("align_bytes", &COUNT)?.unwrap_or(1);
        section.finish()?;
        Ok(Self { max_bytes, header_bytes, align_bytes })
    }
}

/// Returns the transfer of this name.
pub(super) fn named<'a>(transfers: &'a [Transfer], name: &str) -> Option<&'a Transfer> {
    transfers.iter().find(|transfer| transfer.name == name)
}

/// Returns the cost of each transfer to a packet of `size`.
pub(super) fn shares<'a>(transfers: &'a [Transfer], link: &Link, size: u32) -> Vec<Share<'a>> {
    let size = u64::from(size);
    let inlined = transfers.iter().any(|transfer| transfer.per_packet(size).1);
    let every_of = |transfer: &Transfer| {
        let leader = transfer.follows.as_deref().and_then(|name| named(transfers, name));
        leader.unwrap_or(transfer).own_every(size)
    };
    let one = |transfer: &'a Transfer| {
        let every = every_of(transfer);
        let session = transfer.within.as_deref().and_then(|name| named(transfers, name)).map(every_of);
        Share { transfer, every, cost: transfer.cost(link, size, every, session) }
    };
    // Inlined packets are not read again.
    transfers.iter().filter(|transfer| !(inlined && transfer.payload)).map(one).collect()
}
