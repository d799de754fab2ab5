//! Generated traffic: UDP packets with valid checksums, a sequence number and a time stamp.

mod error;

pub use error::GeneratorError;

use super::headers::Template;
use super::super_packet::SuperTemplate;
use super::{Position, Source, Stamp};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wharf_mem::Meta;

/// First source port; each flow has the next one.
const PORT_FIRST: u16 = 1024;
/// Most flows: the number of ports from there on.
pub(super) const FLOWS_MAX: u32 = (1 << 16) - PORT_FIRST as u32;
/// Longest frame whose lengths fit IP and UDP headers.
const LEN_BYTES_MAX: u32 = 65535;

/// Most packets of a super-packet: the kernel's `UDP_MAX_SEGMENTS` until 2023 (Linux 6.9 has 128).
pub const SUPER_PACKETS_MAX: u16 = 64;

/// Lengths of the simple IMIX without check sequence: 7 of 60 bytes, 4 of 590, 1 of 1514, well mixed.
const IMIX: [u32; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

/// Frame lengths, in bytes without the check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// One length.
    Fixed(u32),
    /// The simple IMIX: of 12 frames, 7 of 60 bytes, 4 of 590 and one of 1514. If headers and stamp need more than 60 bytes (IPv6, VLAN), the
    /// short frames are longer.
    Imix,
}

/// Traffic to generate. The default addresses are from the ranges kept for documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// Lengths of frames.
    pub sizes: Sizes,
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address.
    pub destination: IpAddr,
    /// Ethernet source address.
    pub source_mac: [u8; 6],
    /// Ethernet destination address.
    pub destination_mac: [u8; 6],
    /// 802.1Q tag, if any.
    pub vlan: Option<u16>,
    /// Flows in all, distinguished by source port and shared among the senders.
    pub flows: u32,
    /// Senders that share the traffic. Each counts its own packets.
    pub senders: u16,
    /// Number of the run, which tells it apart from others at a receiver of both.
    pub run: u8,
    /// Number of the first sender: above 0 beside other generated traffic.
    pub first_sender: u16,
    /// Source port of the first flow, counted from 1024: above 0 beside other generated traffic.
    pub first_port: u16,
    /// TOS byte of IPv4, or traffic class of IPv6: DSCP in the upper six bits.
    pub tos: u8,
    /// Packets handed over as one super-packet, which the device or the path segments (UDP segmentation): 1 to [`SUPER_PACKETS_MAX`]; 1
    /// for none.
    pub super_packets: u16,
}

impl Default for GeneratorSpec {
    fn default() -> Self {
        Self {
            sizes: Sizes::Fixed(60),
            source: Ipv4Addr::new(192, 0, 2, 1).into(),
            destination: Ipv4Addr::new(198, 51, 100, 1).into(),
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            flows: 1,
            senders: 1,
            run: 0,
            first_sender: 0,
            first_port: 0,
            tos: 0,
            super_packets: 1,
        }
    }
}

impl GeneratorSpec {
    fn check(&self) -> Result<(), GeneratorError> {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(GeneratorError::MixedAddresses { from: self.source, to: self.destination });
        }
        if let Some(vlan) = self.vlan
            && !(1..=4094).contains(&vlan)
        {
            return Err(GeneratorError::Vlan { vlan });
        }
        let least = u32::from(self.senders.max(1));
        if self.flows < least || self.flows > FLOWS_MAX {
            return Err(GeneratorError::Flows { flows: self.flows, least, most: FLOWS_MAX });
        }
        let most = self.super_packets_max();
        if !(1..=most).contains(&self.super_packets) {
            return Err(GeneratorError::Super { packets: self.super_packets, most });
        }
        match self.sizes {
            Sizes::Fixed(len_bytes) if len_bytes < self.shortest_bytes() || len_bytes > LEN_BYTES_MAX => {
                let least = self.shortest_bytes();
                Err(GeneratorError::Size { len_bytes, least, most: LEN_BYTES_MAX })
            }
            _ => Ok(()),
        }
    }

    /// Returns the most packets of a super-packet, which the kernel segments within the longest packet of IP; 1 for mixed lengths.
    pub fn super_packets_max(&self) -> u16 {
        let headers = self.headers_bytes();
        match self.sizes {
            Sizes::Fixed(len_bytes) if len_bytes > headers => {
                ((LEN_BYTES_MAX - headers) / (len_bytes - headers)).clamp(1, SUPER_PACKETS_MAX.into()) as u16
            }
            _ => 1,
        }
    }

    /// Returns the bytes of the longest frame or super-packet.
    pub fn longest_bytes(&self) -> u32 {
        match self.sizes {
            Sizes::Fixed(len_bytes) => {
                len_bytes + (len_bytes - self.headers_bytes()) * u32::from(self.super_packets - 1)
            }
            Sizes::Imix => 1514,
        }
    }

    /// Returns one generator per sender, without end.
    ///
    /// # Errors
    /// [`GeneratorError`].
    pub fn generators(&self) -> Result<Vec<Generator>, GeneratorError> {
        self.check()?;
        let mix = Arc::new(Mix::new(self));
        Ok((0..self.senders.max(1)).map(|sender| Generator::new(self, mix.clone(), sender)).collect())
    }
}

/// The lengths in turn, and a template for each.
#[derive(Debug)]
struct Mix {
    templates: Vec<Template>,
    /// Packets that go together, and their template.
    whole: Option<SuperTemplate>,
    /// Templates; that of packet n is at n modulo their number.
    turns: Vec<u8>,
    /// Bytes before each template in its turn, and of a whole turn at the end.
    bytes_before: Vec<u64>,
}

impl Mix {
    fn new(spec: &GeneratorSpec) -> Self {
        let shortest = spec.shortest_bytes();
        let lens: Vec<u32> = match spec.sizes {
            Sizes::Fixed(len_bytes) => vec![len_bytes],
            Sizes::Imix => IMIX.map(|len_bytes| len_bytes.max(shortest)).into(),
        };
        let mut different = lens.clone();
        different.sort_unstable();
        different.dedup();
        let place = |len| different.iter().position(|&other| other == len).unwrap_or(0) as u8;
        let turns = lens.iter().map(|&len| place(len)).collect();
        let sums = lens.iter().scan(0, |sum, &len| {
            *sum += u64::from(len);
            Some(*sum)
        });
        let bytes_before = std::iter::once(0).chain(sums).collect();
        Self {
            templates: different.iter().map(|&len| Template::new(spec, len)).collect(),
            whole: (spec.super_packets > 1).then(|| SuperTemplate::new(spec, lens[0])),
            turns,
            bytes_before,
        }
    }

    #[inline]
    fn turn(&self, number: u64) -> usize {
        if self.turns.len() == 1 { 0 } else { (number % self.turns.len() as u64) as usize }
    }

    #[inline]
    fn template(&self, number: u64) -> &Template {
        &self.templates[usize::from(self.turns[self.turn(number)])]
    }

    /// Returns the bytes of the first `number` packets.
    fn bytes_of_first(&self, number: u64) -> u64 {
        let round_bytes = self.bytes_before.last().copied().unwrap_or(0);
        let rounds = number / self.turns.len() as u64;
        rounds.wrapping_mul(round_bytes).wrapping_add(self.bytes_before[self.turn(number)])
    }
}

/// One sender's generated packets.
#[derive(Debug, Clone)]
pub struct Generator {
    mix: Arc<Mix>,
    /// Its place among its senders, and the number that its packets carry.
    at: u16,
    run: u8,
    sender: u16,
    senders: u16,
    /// Source port of its first flow.
    first_port: u16,
    tos: u8,
    /// Flows of this sender.
    flows: u64,
    next: u64,
    end: u64,
}

impl Generator {
    fn new(spec: &GeneratorSpec, mix: Arc<Mix>, at: u16) -> Self {
        let senders = spec.senders.max(1);
        // Flow f belongs to sender f modulo their number.
        let flows = u64::from((spec.flows - u32::from(at)).div_ceil(u32::from(senders)));
        let sender = spec.first_sender.saturating_add(at);
        // All flows of all senders have their place below 2^16, unless the first port is none of theirs.
        let first_port = PORT_FIRST.wrapping_add(spec.first_port).wrapping_add(at);
        let (run, tos) = (spec.run, spec.tos);
        Self { mix, at, run, sender, senders, first_port, tos, flows, next: 0, end: u64::MAX }
    }

    /// Ends it after `packets` packets.
    #[must_use]
    pub fn ending_after(mut self, packets: u64) -> Self {
        self.end = packets;
        self
    }

    /// Returns the number of its sender.
    pub fn sender(&self) -> u16 {
        self.sender
    }

    /// Returns the TOS byte of its packets.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.tos
    }

    /// Returns the bytes of packet `number`.
    #[inline]
    pub fn len_of(&self, number: u64) -> u32 {
        self.mix.template(number).len_bytes()
    }

    /// Returns the place of the stamp, bytes from the start of the frame.
    pub fn payload_at(&self) -> usize {
        self.mix.template(0).payload_at()
    }

    /// Writes packet `number`, made at `time_ns`, to `to`, which has [`Generator::len_of`] bytes.
    #[inline]
    pub fn write_packet(&self, to: &mut [u8], number: u64, time_ns: u64) {
        let stamp = self.stamp(number, time_ns);
        match &self.mix.whole {
            None => self.mix.template(number).write(to, self.port(number), &stamp),
            Some(whole) => whole.write_piece(to, self.port(number), &stamp),
        }
    }

    /// Returns the number of its flows.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// Returns the flow of packet `number`, from 0, and the packet's place in that flow.
    #[inline]
    pub(super) fn place_in_flow(&self, number: u64) -> (u64, u64) {
        let (each, flows) = (self.packets_each(), self.flows.max(1));
        let (round, within) = (number / each / flows, number % each);
        (number / each % flows, round * each + within)
    }

    /// Returns the source port of packet `number`, and of those that go with it.
    #[inline]
    fn port(&self, number: u64) -> u16 {
        // Avoid the division if there is one flow: it takes as long as all other writes.
        let flow = if self.flows == 1 { 0 } else { (number / self.packets_each() % self.flows) as u16 };
        self.first_port.wrapping_add(self.senders.wrapping_mul(flow))
    }

    /// Returns the packets of a super-packet.
    #[inline]
    fn packets_each(&self) -> u64 {
        self.mix.whole.as_ref().map_or(1, |whole| whole.packets().into())
    }

    #[inline]
    fn stamp(&self, number: u64, time_ns: u64) -> Stamp {
        Stamp { run: self.run, sender: self.sender, number, time_ns }
    }

    /// Returns the number of packets that go together next.
    #[inline]
    fn packets_next(&self) -> u16 {
        self.packets_each().min(self.end - self.next) as u16
    }
}

impl Source for Generator {
    #[inline]
    fn remaining(&self) -> u64 {
        match &self.mix.whole {
            None => self.end - self.next,
            Some(_) => (self.end - self.next).div_ceil(self.packets_each()),
        }
    }

    fn longest_bytes(&self) -> u32 {
        let longest = self.mix.templates.last().map_or(0, Template::len_bytes);
        self.mix.whole.as_ref().map_or(longest, |whole| whole.len_bytes(whole.packets()))
    }

    #[inline]
    fn len_bytes(&self) -> u32 {
        match &self.mix.whole {
            None => self.len_of(self.next),
            Some(whole) => whole.len_bytes(self.packets_next()),
        }
    }

    fn position(&self, ahead: u64) -> Position {
        let number = self.next.saturating_add(ahead.saturating_mul(self.packets_each()));
        let senders = u64::from(self.senders);
        let packets = number.saturating_mul(senders).saturating_add(self.at.into());
        Position { packets, bytes: self.mix.bytes_of_first(number).saturating_mul(senders), time_ns: 0 }
    }

    fn is_stamped(&self) -> bool {
        true
    }

    #[inline]
    fn write(&mut self, to: &mut [u8], now_ns: u64) {
        match &self.mix.whole {
            None => {
                self.write_packet(to, self.next, now_ns);
                self.next += 1;
            }
            Some(whole) => {
                let (packets, stamp) = (self.packets_next(), self.stamp(self.next, now_ns));
                whole.write(to, self.port(self.next), &stamp, packets);
                self.next += u64::from(packets);
            }
        }
    }

    #[inline]
    fn requests(&self) -> Option<Meta> {
        self.mix.whole.as_ref().map(SuperTemplate::requests)
    }
}
