//! The headers of datagrams to where a sender has sent before: good while the tables are as they were, and
//! nothing waits. And those of datagrams to elsewhere.

use crate::reason::{Fate, Reason};
use crate::ways::{Looked, Ways};
use std::net::{IpAddr, SocketAddr};
use wharf::net::{ETHERNET_BYTES, EthernetHeader, IpHeader, UDP, UDP_BYTES, UdpHeader, UdpHeaders};
use wharf::{Packet, SendError, Wait};
use wharf_net::{Exit, Hop, Neighbour, Query};

/// As many destinations as a sender is likely to alternate between.
const TEMPLATES: usize = 256;

/// All headers of the datagrams of one query.
#[derive(Debug)]
pub(crate) struct Template {
    generation: u64,
    query: Query,
    pub(crate) headers: UdpHeaders,
    /// The interface that they leave by.
    pub(crate) interface: u32,
    payload_bytes_max: usize,
}

/// The ends of a datagram, and the tables' state before its hop was looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) generation: u64,
}

/// The templates of one sender.
#[derive(Debug)]
pub(crate) struct Templates(Box<[Option<Template>]>);

impl Default for Templates {
    fn default() -> Self {
        Self((0..TEMPLATES).map(|_| None).collect())
    }
}

fn slot_of(to: SocketAddr) -> usize {
    let low = match to.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => ip.to_bits() as u32,
    };
    (low ^ low >> 8 ^ u32::from(to.port())) as usize % TEMPLATES
}

impl Templates {
    /// Returns the template of a query, if it is good for a payload.
    #[inline]
    pub(crate) fn get(
        &self, to: SocketAddr, query: &Query, generation: u64, bytes: usize,
    ) -> Option<&Template> {
        let template = self.0[slot_of(to)].as_ref()?;
        let is_good = template.generation == generation && template.query == *query;
        (is_good && bytes <= template.payload_bytes_max).then_some(template)
    }

    /// Keeps the headers of a query, where all of them are known and none of a tunnel or a tag is among them.
    pub(crate) fn keep(&mut self, generation: u64, query: &Query, hop: &Hop, ends: [SocketAddr; 2]) {
        let [from, to] = ends;
        let (Neighbour::Known { mac, is_stale: false }, Some(source), Exit::Port(interface), [None, None]) =
            (hop.neighbour, hop.source_mac, &hop.exit, hop.tags)
        else {
            return;
        };
        let ip = IpHeader { dont_fragment: true, ..IpHeader::new(from.ip(), to.ip(), UDP) };
        let ethernet = EthernetHeader { destination: mac, source, vlan: None, ethertype: ip.ethertype() };
        let udp = UdpHeader { source: from.port(), destination: to.port() };
        let payload_bytes_max = (hop.mtu_bytes as usize).saturating_sub(ip.len_bytes() + UDP_BYTES);
        self.0[slot_of(to)] = UdpHeaders::new(ethernet, ip, udp).map(|headers| Template {
            generation,
            query: *query,
            headers,
            interface: *interface,
            payload_bytes_max,
        });
    }
}

impl Ways {
    /// Sends a payload with the headers of a template.
    pub(crate) fn put_known(
        &mut self, mut payload: Packet, known: &Template, wait: Wait,
    ) -> Result<Fate, SendError> {
        match known.headers.put(&mut payload) {
            Ok(()) => self.put(payload, known.interface, wait),
            Err(_) => Ok(self.drop_for(Reason::NoHeadroom)),
        }
    }

    /// Sends a payload by the hop that its query has, and keeps its headers.
    pub(crate) fn put_datagram(
        &mut self, mut payload: Packet, ends: &Ends, query: &Query, hop: Looked<'_>,
        templates: &mut Templates, wait: Wait,
    ) -> Result<Fate, SendError> {
        let Ends { from, to, generation } = *ends;
        let source = hop.map_err(Reason::from).and_then(|hop| {
            let source = query.source().or(hop.source).ok_or(Reason::NoRoute)?;
            templates.keep(generation, query, hop, [SocketAddr::new(source, from.port()), to]);
            Ok(source)
        });
        let headers = match source {
            Ok(source) => UdpHeaders::between(SocketAddr::new(source, from.port()), to),
            Err(reason) => return Ok(self.drop_for(reason)),
        };
        let Some(headers) = headers else { return Ok(self.drop_for(Reason::NotSupported)) };
        // The Ethernet header of these is zeros: the one that is right is written later.
        let put = headers.dont_fragment().put(&mut payload).and_then(|()| payload.trim_front(ETHERNET_BYTES));
        match put {
            Ok(()) => self.route(payload, query, hop, wait),
            Err(_) => Ok(self.drop_for(Reason::NoHeadroom)),
        }
    }
}
