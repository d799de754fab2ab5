//! What a router does with a frame that has arrived: time to live, ICMP errors, and on to the next hop.

use crate::icmp::{Error, is_exempt};
use crate::reason::{Fate, Reason};
use crate::sender::RouteSender;
use wharf::net::{Headers, IPV4_CHECKSUM_AT, checksum};
use wharf::{Packet, SendError, Wait};
use wharf_net::{Query, RouteKind};

const ETHERNET_BYTES: usize = 14;
const IPV4_TTL_AT: usize = 8;
const IPV6_HOP_LIMIT_AT: usize = 7;

/// A packet that is to be forwarded: what it says of itself.
struct Arrived {
    headers: Headers,
    query: Query,
}

impl RouteSender {
    /// Forwards an Ethernet frame that has arrived by an interface, as a router does: for packets to others it
    /// lowers the time to live, and answers by ICMP what is too old, too long or leads nowhere, 1000 times a
    /// second at most. Waits for room in a port, for `wait` at most.
    ///
    /// Frames to another MAC, to groups, with VLAN tags or without IP count as [`Reason::NotForwarded`], packets
    /// to this host as [`Reason::ThisHost`]: a device that copies (`packet:`) leaves both to the kernel. It
    /// fragments nothing.
    ///
    /// # Errors
    /// Those of [`RouteSender::send`].
    pub fn forward(
        &mut self, mut frame: Packet, interface: u32, wait: impl Into<Wait>,
    ) -> Result<Fate, SendError> {
        self.cells.give();
        let wait = wait.into();
        let arrived = match self.open(&mut frame, interface) {
            Ok(arrived) => arrived,
            Err(reason) => return Ok(self.drop_for(reason)),
        };
        if let Err((reason, mtu_bytes)) = self.may_pass(&frame, &arrived) {
            self.answer(&frame, &arrived, reason, mtu_bytes, wait)?;
            return Ok(self.drop_for(reason));
        }
        let is_v6 = arrived.headers.is_ipv6;
        age(frame.head_mut(), is_v6);
        self.route(frame, &arrived.query, wait)
    }

    /// Takes the Ethernet header off a frame to this host's MAC, and the padding.
    fn open(&self, frame: &mut Packet, interface: u32) -> Result<Arrived, Reason> {
        let head = frame.head();
        let mac = self.shared.tables.interface_mac(interface);
        let is_ours = mac.is_some_and(|mac| head.get(..6) == Some(&mac[..]));
        let is_ip = matches!(head.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]));
        if !is_ours || !is_ip {
            return Err(Reason::NotForwarded);
        }
        frame.trim_front(ETHERNET_BYTES).map_err(|_| Reason::Malformed)?;
        let head = frame.head();
        let headers = Headers::parse_ip(head, 0).map_err(|_| Reason::Malformed)?;
        let (source, destination) = headers.addresses(head).ok_or(Reason::Malformed)?;
        let len_bytes = headers.packet_end(head);
        let (from, to) = headers.ports(head).unwrap_or_default();
        let tos = if headers.is_ipv6 { 0 } else { head.get(1).copied().unwrap_or(0) };
        let query =
            Query::to(destination).from(source).ports(headers.protocol, from, to).tos(tos).input(interface);
        if !frame.is_chain() && len_bytes.is_some_and(|end| end < frame.len()) {
            frame.set_len(len_bytes.unwrap_or(0) as u32).map_err(|_| Reason::Malformed)?;
        }
        Ok(Arrived { headers, query })
    }

    /// Says whether a packet may be forwarded; if it may not, with the MTU that it was too long for.
    fn may_pass(&mut self, packet: &Packet, arrived: &Arrived) -> Result<(), (Reason, u32)> {
        let hop = self.hops.lookup(&arrived.query).map_err(|none| (none.into(), 0))?;
        match hop.kind {
            RouteKind::Local => return Err((Reason::ThisHost, 0)),
            RouteKind::Unicast => {}
            _ => return Err((Reason::NotForwarded, 0)),
        }
        if packet.head().get(ttl_at(arrived.headers.is_ipv6)).is_none_or(|ttl| *ttl <= 1) {
            return Err((Reason::Expired, 0));
        }
        if packet.meta().gso_bytes == 0 && packet.len() > hop.mtu_bytes as usize {
            return Err((Reason::TooBig, hop.mtu_bytes));
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
        if is_exempt(head, &arrived.headers) || !self.errors.take() {
            return Ok(());
        }
        let Ok(Some(from)) = self.hops.lookup(&Query::to(to)).map(|hop| hop.source) else { return Ok(()) };
        let len_bytes = error.len_bytes(head);
        // Without memory there is no error: the packet is counted in any case.
        let Ok(mut message) = self.packet(len_bytes as u32, Wait::Never) else { return Ok(()) };
        if error.write(message.bytes_mut(), from, to, head).is_some() {
            self.send(message, wait)?;
        }
        Ok(())
    }
}

fn ttl_at(is_v6: bool) -> usize {
    if is_v6 { IPV6_HOP_LIMIT_AT } else { IPV4_TTL_AT }
}

/// Lowers the time to live by one, with IPv4's checksum.
fn age(packet: &mut [u8], is_v6: bool) {
    let at = ttl_at(is_v6);
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let before = word(packet, at & !1);
    packet[at] = packet[at].saturating_sub(1);
    if !is_v6 {
        let checksum = checksum::update(word(packet, IPV4_CHECKSUM_AT), before, word(packet, at & !1));
        packet[IPV4_CHECKSUM_AT..IPV4_CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}
