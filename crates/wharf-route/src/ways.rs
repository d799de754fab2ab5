//! `Ways`: the ports of a sender, and what it takes to put a packet into one of them once its hop is known.

use crate::asking::{Asked, ask};
use crate::counts::Cells;
use crate::reason::{Fate, Reason};
use crate::shared::Shared;
use crate::waiting::{Held, Neighbour as Awaited};
use crate::wrap::{mtu_bytes, packet_bytes, wrap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf::{Burst, Packet, Port, SendError, Sender, Wait};
use wharf_net::{Asker, Exit, Hop, NoHop, Query};

/// Packets that go to a port in one call.
const BURST_PACKETS: usize = 64;
/// The kernel asks a neighbour three times, a second apart.
const KERNEL_ASKS: Duration = Duration::from_millis(2500);

/// What a lookup found.
pub(crate) type Looked<'a> = Result<&'a Hop, NoHop>;

/// A port: its sender, and the burst that goes there next.
#[derive(Debug)]
pub(crate) struct Out {
    name: String,
    /// The index that the interface had when it was last asked for; 0: none.
    interface: u32,
    /// The VRF that it is in; 0: none.
    vrf: u32,
    pub(crate) sender: Sender,
    burst: Burst,
}

/// All of a sender but its caches, whose answers it goes by.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) outs: Vec<Out>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cells: Arc<Cells>,
    asker: Asker,
    /// The tables' state when the indices of the interfaces were last asked for.
    asked: u64,
}

impl Ways {
    pub(crate) fn new(
        ports: &[(String, Port)], shared: Arc<Shared>, name: &str, cells: Arc<Cells>,
    ) -> io::Result<Self> {
        let open = |(interface, port): &(String, Port)| {
            let sender = port.sender(name).map_err(io::Error::other)?;
            let burst = sender.burst(BURST_PACKETS);
            Ok(Out { name: interface.clone(), interface: 0, vrf: 0, sender, burst })
        };
        let outs = ports.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Self { outs, shared, cells, asker: Asker::open()?, asked: 0 })
    }

    /// Sends the bursts of all ports, though one fails. Returns the packets that are left in them.
    pub(crate) fn pass_all(&mut self, wait: Wait) -> Result<usize, SendError> {
        let (mut left, mut failed) = (0, None);
        for at in 0..self.outs.len() {
            match self.pass(at, wait) {
                Ok(more) => left += more,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(left), Err)
    }

    /// See [`RouteSender::flush_or_drop`](crate::RouteSender::flush_or_drop).
    pub(crate) fn flush_or_drop(&mut self, wait: Wait) {
        for at in 0..self.outs.len() {
            _ = self.pass(at, wait);
            self.cells.lose(Reason::Full, self.outs[at].burst.len());
            self.outs[at].burst.clear();
        }
    }

    /// Sends a packet by the hop that its query has.
    pub(crate) fn route(
        &mut self, mut packet: Packet, query: &Query, hop: Looked<'_>, wait: Wait,
    ) -> Result<Fate, SendError> {
        match self.way_of(&mut packet, query, hop, None) {
            Way::By(interface) => self.put(packet, interface, wait),
            Way::After(neighbour) => {
                // What has gathered goes before what waits. A send to a port that has ended reports it.
                _ = self.pass_all(Wait::Never);
                Ok(self.hold(neighbour, packet, *query))
            }
            Way::Nowhere(reason) => Ok(self.drop_for(reason)),
        }
    }

    /// Has a packet wait for its neighbour.
    fn hold(&self, neighbour: Awaited, packet: Packet, query: Query) -> Fate {
        let held = Held { packet, query, cells: self.cells.clone() };
        let is_in = self.shared.waiting.push(neighbour, held);
        if is_in { Fate::Waits } else { Fate::Dropped(Reason::NoNeighbour) }
    }

    /// Finds the way of a packet, and writes its headers if it can leave now. `of`: it has waited for this
    /// neighbour, since this time.
    pub(crate) fn way_of(
        &mut self, packet: &mut Packet, query: &Query, hop: Looked<'_>, of: Option<(Awaited, Instant)>,
    ) -> Way {
        let destination = query.destination();
        let hop = match hop {
            Ok(hop) => hop,
            Err(none) => return Way::Nowhere(none.into()),
        };
        let neighbour = (hop.interface, hop.gateway.unwrap_or(destination));
        let has_waited = of.filter(|(of, _)| *of == neighbour);
        let is_listed = has_waited.is_none() && self.shared.waiting.has(&neighbour);
        let has_failed = match ask(&mut self.asker, hop, destination) {
            Asked::Fresh if !is_listed => return wrap(packet, hop).map_or_else(Way::Nowhere, Way::By),
            // One that failed long ago is asked for once more, as the kernel does.
            Asked::Failed { is_asked } => match has_waited {
                None => !is_asked && !is_listed,
                Some((_, since)) => since.elapsed() >= KERNEL_ASKS,
            },
            Asked::Fresh | Asked::Unknown => false,
        };
        match self.unfit(packet, hop) {
            Some(reason) => Way::Nowhere(reason),
            None if has_failed => Way::Nowhere(Reason::NoNeighbour),
            None => Way::After(neighbour),
        }
    }

    /// Returns why a packet could not leave if its neighbour were known: then it need not wait for that.
    #[cold]
    fn unfit(&mut self, packet: &Packet, hop: &Hop) -> Option<Reason> {
        if packet_bytes(packet) > mtu_bytes(hop) {
            return Some(Reason::TooBig);
        }
        let Exit::Port(port) = hop.exit else { return None };
        self.out_of(port).is_none().then_some(Reason::NoPort)
    }

    /// Puts a frame into the burst of the port that it leaves by.
    pub(crate) fn put(&mut self, packet: Packet, interface: u32, wait: Wait) -> Result<Fate, SendError> {
        let Some(at) = self.out_of(interface) else { return Ok(self.drop_for(Reason::NoPort)) };
        if self.outs[at].burst.len() == BURST_PACKETS {
            self.pass(at, wait).inspect_err(|_| self.cells.lose(Reason::Full, 1))?;
        }
        match self.outs[at].burst.push(packet) {
            Ok(()) => Ok(Fate::Routed),
            Err(_) => Ok(self.drop_for(Reason::Full)),
        }
    }

    /// Sends the burst of a port. Returns the packets that are left in it.
    fn pass(&mut self, at: usize, wait: Wait) -> Result<usize, SendError> {
        let out = &mut self.outs[at];
        if out.burst.is_empty() {
            return Ok(0);
        }
        let before = out.burst.len();
        let sent = out.sender.send(&mut out.burst, wait);
        self.cells.route(before - out.burst.len());
        // The port takes nothing more.
        let end = |_: &SendError| {
            self.cells.lose(Reason::Full, out.burst.len());
            out.burst.clear();
        };
        Ok(sent.inspect_err(end)?.left)
    }

    /// Returns the port of an interface.
    fn out_of(&mut self, interface: u32) -> Option<usize> {
        let find = |outs: &[Out]| outs.iter().position(|out| out.interface == interface);
        if let Some(at) = find(&self.outs) {
            return Some(at);
        }
        self.find_interfaces().then(|| find(&self.outs))?
    }

    /// Returns the interface of a port, if it is there, and its VRF; 0: none.
    pub(crate) fn interface_of(&mut self, port: usize) -> Option<(u32, u32)> {
        self.find_interfaces();
        self.outs.get(port).map(|out| (out.interface, out.vrf)).filter(|(index, _)| *index != 0)
    }

    /// Asks for the indices of the interfaces, if the tables have changed since. Returns false otherwise.
    fn find_interfaces(&mut self) -> bool {
        let generation = self.shared.tables.generation();
        let is_old = self.asked != generation;
        if is_old {
            self.asked = generation;
            for out in &mut self.outs {
                out.interface = self.shared.tables.interface_index(&out.name).unwrap_or(0);
                out.vrf = self.shared.tables.interface_vrf(out.interface);
            }
        }
        is_old
    }

    pub(crate) fn drop_for(&self, reason: Reason) -> Fate {
        self.cells.lose(reason, 1);
        Fate::Dropped(reason)
    }
}

/// Where a packet goes, once its hop is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the port of this interface; its headers are written.
    By(u32),
    /// It has to wait for a neighbour.
    After(Awaited),
    Nowhere(Reason),
}
