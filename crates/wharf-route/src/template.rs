//! The headers of datagrams to where a sender has sent before: good while the tables are as they were, and
//! nothing waits. And those of datagrams to elsewhere.

use crate::reason::{Fate, Reason};
use crate::ways::{Looked, Ways};
use std::net::SocketAddr;
use wharf::net::{ETHERNET_BYTES, EthernetHeader, IpHeader, UDP, UDP_BYTES, UdpHeader, UdpHeaders};
use wharf::{Packet, SendError, Wait};
use wharf_net::{Exit, Hop, Neighbour, Query};

/// More destinations than a sender is likely to alternate between.
const TEMPLATES: usize = 1024;
/// Templates are found by sets of places, twice as many as there are templates: of 200 destinations one in a
/// thousand finds its set full.
const SETS: usize = 512;
/// Places of a set.
const WAYS: usize = 4;
/// A place is the number of a template, and bits of its query's hash above it.
const NUMBER: u32 = TEMPLATES as u32 - 1;

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

/// The templates of one sender: memory for as many as it has had use for, up to a bound.
#[derive(Debug)]
pub(crate) struct Templates {
    /// The newest place of a set comes first.
    sets: Box<[[u32; WAYS]]>,
    all: Vec<Template>,
    /// The one that gives way next, once there are as many as there may be.
    oldest: usize,
}

impl Default for Templates {
    fn default() -> Self {
        Self { sets: vec![[0; WAYS]; SETS].into(), all: Vec::new(), oldest: 0 }
    }
}

/// Returns the set of a query, and the bits of its hash that a place has.
#[inline(always)]
fn set_of(query: &Query) -> (usize, u32) {
    let hash = query.mixed();
    (hash as usize % SETS, (hash >> 32) as u32 & !NUMBER)
}

impl Templates {
    /// Returns the template of a query, if it is good for a payload.
    #[inline]
    pub(crate) fn get(&self, query: &Query, generation: u64, bytes: usize) -> Option<&Template> {
        let template = &self.all[self.number_of(query)?];
        (template.generation == generation && bytes <= template.payload_bytes_max).then_some(template)
    }

    /// Returns the number of a query's template, of whatever state of the tables it is.
    #[inline]
    fn number_of(&self, query: &Query) -> Option<usize> {
        let (set, bits) = set_of(query);
        let alike = self.sets[set].iter().filter(|place| **place & !NUMBER == bits);
        let mut numbers = alike.map(|place| (place & NUMBER) as usize);
        numbers.find(|number| self.all.get(*number).is_some_and(|template| template.query == *query))
    }

    /// Keeps a template in place of the one that its query has, or else of the oldest.
    fn put(&mut self, template: Template) {
        if let Some(number) = self.number_of(&template.query) {
            self.all[number] = template;
            return;
        }
        let (set, bits) = set_of(&template.query);
        let number = if self.all.len() < TEMPLATES {
            self.all.push(template);
            self.all.len() - 1
        } else {
            let number = self.oldest;
            self.oldest = (number + 1) % TEMPLATES;
            self.all[number] = template;
            number
        };
        let places = &mut self.sets[set];
        places.rotate_right(1);
        places[0] = bits | number as u32;
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
        if let Some(headers) = UdpHeaders::new(ethernet, ip, udp) {
            let interface = *interface;
            self.put(Template { generation, query: *query, headers, interface, payload_bytes_max });
        }
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

#[cfg(test)]
mod tests;
