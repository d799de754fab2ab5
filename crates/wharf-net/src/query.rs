//! What is asked: where a packet has to go.

use std::net::{IpAddr, Ipv6Addr};

const V6: u16 = 1;
const HAS_FROM: u16 = 2;

/// A packet to be sent: its destination, and what rules and multipath routes regard.
#[derive(Clone, Copy, Debug, Eq)]
#[repr(C)] // What is compared together stands together.
pub struct Query {
    to: u128,
    from: u128,
    pub(crate) mark: u32,
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) user: u32,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    flags: u16,
    flow: u32,
    ports: u32,
}

impl PartialEq for Query {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.is_like(other) && self.goes_as(other)
    }
}

impl Query {
    /// Returns true if destination, flow and ports are the same.
    #[inline(always)]
    pub(crate) fn goes_as(&self, other: &Self) -> bool {
        (self.flow ^ other.flow) | (self.ports ^ other.ports) == 0 && self.to == other.to
    }

    /// Takes destination, flow and ports from another query.
    #[inline(always)]
    pub(crate) fn go_as(&mut self, other: &Self) {
        (self.to, self.flow, self.ports) = (other.to, other.flow, other.ports);
    }

    /// Returns true if the queries differ in destination, flow and ports alone: what is often the same for
    /// all packets of a sender is. Compares without a branch: a cache does so for each packet.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let small = |it: &Self| u32::from(it.protocol) | u32::from(it.tos) << 8 | u32::from(it.flags) << 16;
        (self.from as u64 ^ other.from as u64)
            | ((self.from >> 64) as u64 ^ (other.from >> 64) as u64)
            | (pair(self.mark, self.input) ^ pair(other.mark, other.input))
            | (pair(self.output, self.user) ^ pair(other.output, other.user))
            | u64::from(small(self) ^ small(other))
            == 0
    }

    /// Asks for the way to an address.
    pub fn to(address: IpAddr) -> Self {
        let (to, flags) = number_of(address);
        let (from, mark, input, output, user, flow, ports) = (0, 0, 0, 0, 0, 0, 0);
        Self { to, from, mark, input, output, user, flow, ports, protocol: 0, tos: 0, flags }
    }

    /// Sets the source address. One of another family is left out.
    pub fn from(mut self, address: IpAddr) -> Self {
        let (from, family) = number_of(address);
        if family == self.flags & V6 && !address.is_unspecified() {
            (self.from, self.flags) = (from, self.flags | HAS_FROM);
        }
        self
    }

    /// Sets the firewall mark (`SO_MARK`).
    pub fn mark(self, mark: u32) -> Self {
        Self { mark, ..self }
    }

    /// Sets the interface that the packet came by: it is forwarded. 0: it is this host's own.
    pub fn input(self, interface: u32) -> Self {
        Self { input: interface, ..self }
    }

    /// Sets the interface that the packet has to leave by (`SO_BINDTODEVICE`), or the VRF. 0: any.
    pub fn output(self, interface: u32) -> Self {
        Self { output: interface, ..self }
    }

    /// Sets the user whose packet it is, which rules may regard. Without, root.
    pub fn user(self, user: u32) -> Self {
        Self { user, ..self }
    }

    /// Sets IP's protocol number and the ports, which rules may regard, and which spread flows over multipath
    /// routes.
    pub fn ports(self, protocol: u8, source: u16, destination: u16) -> Self {
        self.protocol(protocol).source_port(source).port(destination)
    }

    /// Sets IP's protocol number alone.
    pub fn protocol(self, protocol: u8) -> Self {
        Self { protocol, ..self }
    }

    /// Sets the source port alone.
    pub fn source_port(self, port: u16) -> Self {
        Self { ports: u32::from(port) << 16 | self.ports & 0xffff, ..self }
    }

    /// Sets the destination port alone.
    pub fn port(self, port: u16) -> Self {
        Self { ports: self.ports & 0xffff_0000 | u32::from(port), ..self }
    }

    /// Sets the type of service, without ECN's two bits.
    pub fn tos(self, tos: u8) -> Self {
        Self { tos: tos & 0xfc, ..self }
    }

    /// Sets the hash of the flow, by which it keeps its way of a multipath route. Without, one of the
    /// addresses and ports is taken.
    pub fn flow(self, hash: u32) -> Self {
        Self { flow: hash, ..self }
    }

    /// Returns true for IPv6.
    pub fn is_v6(&self) -> bool {
        self.flags & V6 != 0
    }

    /// Returns the destination.
    pub fn destination(&self) -> IpAddr {
        address_of(self.to, self.is_v6())
    }

    /// Returns the source, if it was set.
    pub fn source(&self) -> Option<IpAddr> {
        (self.flags & HAS_FROM != 0).then(|| address_of(self.from, self.is_v6()))
    }

    pub(crate) fn number(&self) -> u128 {
        self.to
    }

    /// Returns source and destination port.
    pub(crate) fn both_ports(&self) -> [u16; 2] {
        [(self.ports >> 16) as u16, self.ports as u16]
    }

    /// Returns a number for a multipath route: 31 bits, the same for each packet of a flow.
    pub(crate) fn path_hash(&self) -> u32 {
        let mixed = if self.flow == 0 { self.mixed() } else { mix(u64::from(self.flow)) };
        (mixed >> 33) as u32
    }

    /// Returns a number for a slot in a cache of one's own: destination, source, flow and ports decide, and
    /// each of its bits depends on all of theirs.
    #[inline]
    pub fn mixed(&self) -> u64 {
        // Turned: a subnet and a host of it often have the same number.
        let fold = |wide: u128| ((wide >> 64) as u64).rotate_left(32) ^ wide as u64;
        mix(mix(fold(self.to) ^ u64::from(self.flow) << 32)
            ^ fold(self.from).rotate_left(17)
            ^ u64::from(self.ports) << 8)
    }
}

fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xe703_7ed1_a0b4_28db;
    (product >> 64) as u64 ^ product as u64
}

fn number_of(address: IpAddr) -> (u128, u16) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 0),
        IpAddr::V6(address) => (address.to_bits(), V6),
    }
}

fn address_of(number: u128, v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::from_bits(number).into() } else { std::net::Ipv4Addr::from_bits(number as u32).into() }
}
