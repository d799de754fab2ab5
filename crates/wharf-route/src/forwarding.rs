//! What a router does with a frame that has arrived: time to live, ICMP errors, and on to the next hop.

use crate::icmp::{Error, is_exempt};
use crate::reason::{Fate, Reason};
use crate::sender::RouteSender;
use crate::wrap::{mtu_bytes, packet_bytes};
use std::net::IpAddr;
use wharf::net::{ETHERNET_BYTES, Headers, checksum, replace_ip_word};
use wharf::{Packet, SendError, Wait};
use wharf_net::{Cache, Hop, NoHop, Query, RouteKind};

const IPV4_TTL_AT: usize = 8;
const IPV6_HOP_LIMIT_AT: usize = 7;

/// A packet that is to be forwarded: what it says of itself.
struct Arrived {
    headers: Headers,
    query: Query,
    /// The VRF that it came by; 0: none. The way back is within it.
    vrf: u32,
}

impl RouteSender {
    /// Forwards an Ethernet frame that has arrived by a port, the one at this position of
    /// [`Router::ports`](crate::Router::ports), as a router does. For packets to others it lowers the time to
    /// live, and answers by ICMP what is too old, too long or leads nowhere: all senders of a router
    /// together 1000 times a second. Waits for room in a port, for `wait` at most.
    ///
    /// Frames to another MAC, to groups, with VLAN tags or without IP count as [`Reason::NotForwarded`],
    /// packets to this host as [`Reason::ThisHost`]: a device that copies (`packet:`) leaves both to the
    /// kernel. It fragments nothing.
    ///
    /// # Errors
    /// Those of [`RouteSender::send`].
    pub fn forward(
        &mut self, mut frame: Packet, port: usize, wait: impl Into<Wait>,
    ) -> Result<Fate, SendError> {
        self.cells.give();
        let wait = wait.into();
        let arrived = match self.open(&mut frame, port) {
            Ok(arrived) => arrived,
            Err(reason) => return Ok(self.drop_for(reason)),
        };
        if let Err((reason, mtu_bytes)) = self.may_pass(&frame, &arrived) {
            // A send to a port that has ended reports it.
            _ = self.answer(&frame, &arrived, reason, mtu_bytes, wait);
            return Ok(self.drop_for(reason));
        }
        let is_v6 = arrived.headers.is_ipv6;
        age(frame.head_mut(), is_v6);
        self.route(frame, &arrived.query, wait)
    }

    /// Takes the Ethernet header off a frame to this host's MAC, and the padding.
    fn open(&mut self, frame: &mut Packet, port: usize) -> Result<Arrived, Reason> {
        let (interface, vrf) = self.interface_of(port).ok_or(Reason::NotForwarded)?;
        let head = frame.head();
        let mac = self.shared.tables.interface_mac(interface);
        let is_ours = mac.is_some_and(|mac| head.get(..6) == Some(&mac[..]));
        let is_v6 = match head.get(12..14) {
            Some([0x08, 0x00]) if is_ours => false,
            Some([0x86, 0xdd]) if is_ours => true,
            _ => return Err(Reason::NotForwarded),
        };
        frame.trim_front(ETHERNET_BYTES).map_err(|_| Reason::Malformed)?;
        let head = frame.head();
        let headers = Headers::parse_ip(head, 0).map_err(|_| Reason::Malformed)?;
        let (source, destination) = headers.addresses(head).ok_or(Reason::Malformed)?;
        let end = headers.packet_end(head).ok_or(Reason::Malformed)?;
        // The length in a super-packet is that of the whole, or 0.
        let is_super = frame.meta().gso_bytes > 0;
        let is_whole = (headers.transport_at..=frame.len()).contains(&end);
        if headers.is_ipv6 != is_v6 || !(is_super || is_whole) || !has_checksum(head, is_v6) {
            return Err(Reason::Malformed);
        }
        if is_martian(source, true) || is_martian(destination, false) {
            return Err(Reason::NotForwarded);
        }
        let (from, to) = headers.ports(head).unwrap_or_default();
        let query = Query::to(destination).from(source).ports(headers.protocol, from, to).input(interface);
        let query = query.tos(headers.traffic_class(head).unwrap_or(0));
        if !frame.is_chain() && !is_super && end < frame.len() {
            frame.set_len(end as u32).map_err(|_| Reason::Malformed)?;
        }
        Ok(Arrived { headers, query, vrf })
    }

    /// Returns the way from this host to who sent a packet, within a VRF or outside of all.
    fn way_back(&mut self, source: IpAddr, vrf: u32) -> Result<&Hop, NoHop> {
        let sources = self.sources.get_or_insert_with(|| Cache::new(self.shared.tables.clone()));
        sources.lookup(&Query::to(source).output(vrf))
    }

    /// Says whether a packet may be forwarded; if it may not, with the MTU that it was too long for.
    fn may_pass(&mut self, packet: &Packet, arrived: &Arrived) -> Result<(), (Reason, u32)> {
        // A packet of an address of our own has not come from us (the kernel's `fib_validate_source`).
        if let Some(source) = arrived.query.source()
            && self.way_back(source, arrived.vrf).is_ok_and(|hop| hop.kind != RouteKind::Unicast)
        {
            return Err((Reason::NotForwarded, 0));
        }
        let hop = self.hops.lookup(&arrived.query).map_err(|none| (none.into(), 0))?;
        match hop.kind {
            RouteKind::Local => return Err((Reason::ThisHost, 0)),
            RouteKind::Unicast => {}
            _ => return Err((Reason::NotForwarded, 0)),
        }
        if packet.head().get(ttl_at(arrived.headers.is_ipv6)).is_none_or(|ttl| *ttl <= 1) {
            return Err((Reason::Expired, 0));
        }
        let mtu_bytes = mtu_bytes(hop);
        if packet_bytes(packet) > mtu_bytes {
            return Err((Reason::TooBig, mtu_bytes as u32));
        }
        Ok(())
    }

    /// Sends the ICMP error for a reason, if there is one, and the packet may have one.
    fn answer(
        &mut self, packet: &Packet, arrived: &Arrived, reason: Reason, mtu_bytes: u32, wait: Wait,
    ) -> Result<(), SendError> {
        let (head, is_v6) = (packet.head(), arrived.headers.is_ipv6);
        let Some(error) = Error::of(reason, mtu_bytes, is_v6) else { return Ok(()) };
        let Some(to) = arrived.query.source() else { return Ok(()) };
        if is_exempt(head, &arrived.headers) || !self.shared.may_answer() {
            return Ok(());
        }
        // Back to one host alone: a source may be a broadcast address of ours.
        let from = match self.way_back(to, arrived.vrf) {
            Ok(hop) if hop.kind == RouteKind::Unicast => hop.source,
            _ => None,
        };
        let Some(from) = from else { return Ok(()) };
        let len_bytes = error.len_bytes(head);
        // Without memory there is no error: the packet is counted in any case.
        let Ok(mut message) = self.packet(len_bytes as u32, Wait::Never) else { return Ok(()) };
        let is_written = error.write(message.bytes_mut(), from, to, head).is_some();
        if let Some(query) = self.query_of(&message).filter(|_| is_written) {
            self.cells.give();
            self.route(message, &query.output(arrived.vrf), wait)?;
        }
        Ok(())
    }
}

fn ttl_at(is_v6: bool) -> usize {
    if is_v6 { IPV6_HOP_LIMIT_AT } else { IPV4_TTL_AT }
}

/// True if IPv4's header has its checksum; IPv6 has none.
fn has_checksum(packet: &[u8], is_v6: bool) -> bool {
    let header = packet.first().and_then(|first| packet.get(..4 * usize::from(first & 15)));
    is_v6 || header.is_some_and(|header| checksum::fold(checksum::sum(header)) == 0xffff)
}

/// True for addresses that no router passes on (RFC 1812, 5.3.7; RFC 4291, 2.5.6).
fn is_martian(address: IpAddr, is_source: bool) -> bool {
    let is_bad = match address {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] >= 240,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_bad || address.is_unspecified() || address.is_loopback() || is_source && address.is_multicast()
}

/// Lowers the time to live by one, with IPv4's checksum.
fn age(packet: &mut [u8], is_v6: bool) {
    let at = ttl_at(is_v6);
    let mut word = [packet[at & !1], packet[at | 1]];
    word[at & 1] = word[at & 1].saturating_sub(1);
    replace_ip_word(packet, !is_v6, at & !1, u16::from_be_bytes(word));
}
