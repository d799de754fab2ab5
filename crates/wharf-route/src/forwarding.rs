//! What a router does with a frame that has arrived: on to the next hop, or an ICMP error back.

use crate::arrived::{Arrived, Refused, is_own, may_pass};
use crate::icmp::{Error, is_exempt};
use crate::reason::Fate;
use crate::sender::RouteSender;
use crate::ways::Looked;
use wharf::{Packet, SendError, Wait};
use wharf_net::{Cache, Query, RouteKind};

impl RouteSender {
    /// Forwards an Ethernet frame that has arrived by a port, the one at this position of
    /// [`Router::ports`](crate::Router::ports), as a router does. For packets to others it lowers the time to
    /// live, and answers by ICMP what is too old, too long or leads nowhere: all senders of a router
    /// together 1000 times a second. Waits for room in a port, for `wait` at most.
    ///
    /// Frames to another MAC, to groups, with VLAN tags or without IP count as
    /// [`Reason::NotForwarded`](crate::Reason::NotForwarded), packets to this host as
    /// [`Reason::ThisHost`](crate::Reason::ThisHost): a device that copies (`packet:`) leaves both to the
    /// kernel. It fragments nothing.
    ///
    /// # Errors
    /// Those of [`RouteSender::send`].
    pub fn forward(
        &mut self, mut frame: Packet, port: usize, wait: impl Into<Wait>,
    ) -> Result<Fate, SendError> {
        self.ways.cells.give();
        let arrived = match self.ways.open(&mut frame, port) {
            Ok(arrived) => arrived,
            Err(reason) => return Ok(self.ways.drop_for(reason)),
        };
        let is_own = is_own(self.way_back(&arrived.back));
        match may_pass(&mut frame, &arrived, is_own, self.hops.lookup(&arrived.query)) {
            Ok(hop) => self.ways.route(frame, &arrived.query, Ok(hop), wait.into()),
            Err(refused) => Ok(self.refuse(&frame, &arrived, refused, wait.into())),
        }
    }

    /// Answers a packet that may not pass, and drops it.
    pub(crate) fn refuse(&mut self, frame: &Packet, arrived: &Arrived, refused: Refused, wait: Wait) -> Fate {
        // A send to a port that has ended reports it.
        _ = self.answer(frame, arrived, refused, wait);
        self.ways.drop_for(refused.0)
    }

    /// Returns the way from this host to who sent a packet, within a VRF or outside of all.
    fn way_back(&mut self, back: &Query) -> Looked<'_> {
        self.sources().lookup(back)
    }

    pub(crate) fn sources(&mut self) -> &mut Cache {
        self.sources.get_or_insert_with(|| Cache::new(self.ways.shared.tables.clone()))
    }

    /// Sends the ICMP error for a reason, if there is one, and the packet may have one.
    fn answer(
        &mut self, packet: &Packet, arrived: &Arrived, (reason, mtu_bytes): Refused, wait: Wait,
    ) -> Result<(), SendError> {
        let (head, is_v6) = (packet.head(), arrived.headers.is_ipv6);
        let Some(error) = Error::of(reason, mtu_bytes, is_v6) else { return Ok(()) };
        let Some(to) = arrived.query.source() else { return Ok(()) };
        if is_exempt(head, &arrived.headers) || !self.ways.shared.may_answer() {
            return Ok(());
        }
        // Back to one host alone: a source may be a broadcast address of ours.
        let from = match self.way_back(&arrived.back) {
            Ok(hop) if hop.kind == RouteKind::Unicast => hop.source,
            _ => None,
        };
        let Some(from) = from else { return Ok(()) };
        let len_bytes = error.len_bytes(head);
        // Without memory there is no error: the packet is counted in any case.
        let Ok(mut message) = self.packet(len_bytes as u32, Wait::Never) else { return Ok(()) };
        let is_written = error.write(message.bytes_mut(), from, to, head).is_some();
        if let Some(query) = self.query_of(&message).filter(|_| is_written) {
            self.ways.cells.give();
            let query = query.output(arrived.vrf);
            self.ways.route(message, &query, self.hops.lookup(&query), wait)?;
        }
        Ok(())
    }
}
