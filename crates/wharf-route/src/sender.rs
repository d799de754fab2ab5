//! `RouteSender`: one thread's way to send by a router.

use crate::asking::{Asked, ask};
use crate::counts::Cells;
use crate::reason::{Fate, Reason};
use crate::shared::{Alive, Shared};
use crate::template::Templates;
use crate::waiting::{Held, Neighbour as Awaited};
use crate::wrap::{mtu_bytes, packet_bytes, wrap};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wharf::net::{ETHERNET_BYTES, Headers, UDP, UdpHeaders};
use wharf::{Burst, Packet, Port, SendError, Sender, Wait};
use wharf_net::{Asker, Cache, Exit, Query};

/// Packets that go to a port in one call.
const BURST_PACKETS: usize = 64;
/// Packets whose memory a sender takes at a time.
const STOCK_PACKETS: usize = 32;
/// The pause between two checks, while [`RouteSender::flush`] waits for neighbours.
const PAUSE: Duration = Duration::from_micros(200);
/// The kernel asks a neighbour three times, a second apart.
const KERNEL_ASKS: Duration = Duration::from_millis(2500);

/// A port: its sender, and the burst that goes there next.
#[derive(Debug)]
struct Out {
    name: String,
    /// The index that the interface had when it was last asked for; 0: none.
    interface: u32,
    /// The VRF that it is in; 0: none.
    vrf: u32,
    sender: Sender,
    burst: Burst,
}

/// Sends IP packets to where the kernel would send them, for one thread: see the [crate].
///
/// Packets gather in bursts of up to 64 for each port; [`RouteSender::flush`] sends what has gathered. When
/// it is dropped, what has not left is freed, and counts as [`Reason::Full`]. Packets that wait for a
/// neighbour are with the router: they go as it answers.
#[derive(Debug)]
pub struct RouteSender {
    outs: Vec<Out>,
    templates: Templates,
    /// Memory for the next packets.
    stock: Burst,
    pub(crate) hops: Cache,
    /// The ways back to those who sent what is forwarded, from the first such packet on. In `hops` they would
    /// take the places of the ways there.
    pub(crate) sources: Option<Cache>,
    pub(crate) shared: Arc<Shared>,
    /// `None`: of the thread that sends to neighbours.
    _alive: Option<Arc<Alive>>,
    asker: Asker,
    /// The tables' state when the indices of the interfaces were last asked for.
    asked: u64,
    mark: u32,
    pub(crate) cells: Arc<Cells>,
}

/// What [`RouteSender::flush`] leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flushed {
    /// Packets that wait for a neighbour.
    pub waiting: usize,
    /// Packets that found no room in their port in time: they go with the next call.
    pub left: usize,
}

impl RouteSender {
    pub(crate) fn new(
        ports: &[(String, Port)], shared: Arc<Shared>, alive: Option<Arc<Alive>>, name: &str,
        cells: Arc<Cells>,
    ) -> io::Result<Self> {
        let open = |(interface, port): &(String, Port)| {
            let sender = port.sender(name).map_err(io::Error::other)?;
            let burst = sender.burst(BURST_PACKETS);
            Ok(Out { name: interface.clone(), interface: 0, vrf: 0, sender, burst })
        };
        Ok(Self {
            outs: ports.iter().map(open).collect::<io::Result<_>>()?,
            templates: Templates::default(),
            stock: ports[0].1.pool().burst(STOCK_PACKETS),
            hops: Cache::new(shared.tables.clone()),
            sources: None,
            shared,
            _alive: alive,
            asker: Asker::open()?,
            asked: 0,
            mark: 0,
            cells,
        })
    }

    /// Sets the firewall mark (`SO_MARK`) that rules see, for the packets that follow.
    pub fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    /// Returns what tells any thread of the packets that this sender was given, and that were dropped.
    pub fn drops(&self) -> impl Fn() -> Vec<(Reason, u64)> + Send + Sync + 'static {
        let cells = self.cells.clone();
        move || cells.drops().collect()
    }

    /// Takes memory for a packet of `len_bytes`, and waits for it. Its bytes are uninitialised, as those of
    /// any fresh [`Packet`].
    ///
    /// # Errors
    /// Those of [`Sender::packet`].
    pub fn packet(&mut self, len_bytes: u32, wait: impl Into<Wait>) -> Result<Packet, SendError> {
        let wait = wait.into();
        let [out, ..] = &mut self.outs[..] else { return Err(SendError::Closed) };
        if self.stock.is_empty() {
            out.sender.fill(&mut self.stock, STOCK_PACKETS, len_bytes, Wait::Never)?;
        }
        match self.stock.pop() {
            Some(mut packet) => {
                packet.set_len(len_bytes)?;
                Ok(packet)
            }
            None => out.sender.packet(len_bytes, wait),
        }
    }

    /// Sends a whole IP packet, without a header in front of it. Waits for room in its port, for `wait` at
    /// most.
    ///
    /// # Errors
    /// Those of [`Sender::send`]; the packet is freed then, and counts as [`Reason::Full`].
    pub fn send(&mut self, packet: Packet, wait: impl Into<Wait>) -> Result<Fate, SendError> {
        self.cells.give();
        match self.query_of(&packet) {
            Some(query) => self.route(packet, &query, wait.into()),
            None => Ok(self.drop_for(Reason::Malformed)),
        }
    }

    /// Sends a payload as a UDP datagram from an address and a port. The kernel's tables choose the address
    /// where it is unspecified (`0.0.0.0`, `::`); an answer has the one that was asked.
    ///
    /// # Errors
    /// Those of [`RouteSender::send`].
    pub fn send_datagram(
        &mut self, mut payload: Packet, from: SocketAddr, to: SocketAddr, wait: impl Into<Wait>,
    ) -> Result<Fate, SendError> {
        self.cells.give();
        let query = Query::to(to.ip()).from(from.ip()).ports(UDP, from.port(), to.port()).mark(self.mark);
        let query = match to {
            SocketAddr::V6(to) if to.scope_id() != 0 => query.output(to.scope_id()),
            _ => query,
        };
        let generation = self.hops.generation();
        let known = self.templates.get(to, &query, generation, payload.len());
        if let Some(known) = known.filter(|_| self.shared.waiting.is_idle()) {
            return match known.headers.put(&mut payload) {
                Ok(()) => self.put(payload, known.interface, wait.into()),
                Err(_) => Ok(self.drop_for(Reason::NoHeadroom)),
            };
        }
        let source = match self.hops.lookup(&query) {
            Ok(hop) => query.source().or(hop.source).ok_or(Reason::NoRoute).inspect(|source| {
                let from = SocketAddr::new(*source, from.port());
                self.templates.keep(generation, &query, hop, [from, to]);
            }),
            Err(none) => Err(none.into()),
        };
        let headers = match source {
            Ok(source) => UdpHeaders::between(SocketAddr::new(source, from.port()), to),
            Err(reason) => return Ok(self.drop_for(reason)),
        };
        let Some(headers) = headers else { return Ok(self.drop_for(Reason::NotSupported)) };
        // The Ethernet header of these is zeros: the one that is right is written later.
        let put = headers.dont_fragment().put(&mut payload).and_then(|()| payload.trim_front(ETHERNET_BYTES));
        match put {
            Ok(()) => self.route(payload, &query, wait.into()),
            Err(_) => Ok(self.drop_for(Reason::NoHeadroom)),
        }
    }

    /// Sends what has gathered, and waits until it has room in its ports and its neighbours have answered,
    /// for `wait` at most.
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    pub fn flush(&mut self, wait: impl Into<Wait>) -> Result<Flushed, SendError> {
        let wait = wait.into();
        let end = wait.end();
        loop {
            let left = self.pass_all(end.map_or(Wait::Forever, Wait::Until))?;
            let waiting = self.shared.waiting.len();
            let is_over = wait == Wait::Never || end.is_some_and(|end| Instant::now() >= end);
            if waiting == 0 || is_over {
                return Ok(Flushed { waiting, left });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Sends the bursts of all ports, though one fails. Returns the packets that are left in them.
    fn pass_all(&mut self, wait: Wait) -> Result<usize, SendError> {
        let (mut left, mut failed) = (0, None);
        for at in 0..self.outs.len() {
            match self.pass(at, wait) {
                Ok(more) => left += more,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(left), Err)
    }

    /// Sends what has gathered, and drops what finds no room within `wait`, or whose port is being closed.
    pub fn flush_or_drop(&mut self, wait: impl Into<Wait>) {
        let wait = wait.into();
        for at in 0..self.outs.len() {
            _ = self.pass(at, wait);
            self.cells.lose(Reason::Full, self.outs[at].burst.len());
            self.outs[at].burst.clear();
        }
    }

    /// Returns what the tables are asked for an IP packet. `None` if it is no whole one.
    pub(crate) fn query_of(&self, packet: &Packet) -> Option<Query> {
        let head = packet.head();
        let headers = Headers::parse_ip(head, 0).ok()?;
        let (source, destination) = headers.addresses(head)?;
        let (from, to) = headers.ports(head).unwrap_or_default();
        let tos = headers.traffic_class(head)?;
        let query = Query::to(destination).from(source).ports(headers.protocol, from, to);
        Some(query.tos(tos).mark(self.mark))
    }

    /// Sends a packet to where `query` leads.
    pub(crate) fn route(&mut self, mut packet: Packet, query: &Query, wait: Wait) -> Result<Fate, SendError> {
        match self.way_of(&mut packet, query, None) {
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

    /// Sends packets that have waited for a neighbour since a time, in order, up to the first that has to
    /// wait on.
    pub(crate) fn send_held(&mut self, of: &Awaited, since: Instant, all: &mut VecDeque<Held>, wait: Wait) {
        while let Some(mut held) = all.pop_front() {
            match self.way_of(&mut held.packet, &held.query, Some((*of, since))) {
                // An error says that the port is being closed: the packet is counted.
                Way::By(interface) => _ = self.put(held.packet, interface, wait),
                Way::Nowhere(reason) => held.drop_for(reason),
                Way::After(neighbour) if neighbour == *of => return all.push_front(held),
                // The route has changed.
                Way::After(neighbour) => _ = self.shared.waiting.push(neighbour, held),
            }
        }
    }

    /// Finds the way of a packet, and writes its headers if it can leave now. `of`: it has waited for this
    /// neighbour, since this time.
    fn way_of(&mut self, packet: &mut Packet, query: &Query, of: Option<(Awaited, Instant)>) -> Way {
        let destination = query.destination();
        let hop = match self.hops.lookup(query) {
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
        match self.unfit(packet, query) {
            Some(reason) => Way::Nowhere(reason),
            None if has_failed => Way::Nowhere(Reason::NoNeighbour),
            None => Way::After(neighbour),
        }
    }

    /// Returns why a packet could not leave if its neighbour were known: then it need not wait for that.
    #[cold]
    fn unfit(&mut self, packet: &Packet, query: &Query) -> Option<Reason> {
        let hop = self.hops.lookup(query).ok()?;
        if packet_bytes(packet) > mtu_bytes(hop) {
            return Some(Reason::TooBig);
        }
        let Exit::Port(port) = hop.exit else { return None };
        self.out_of(port).is_none().then_some(Reason::NoPort)
    }

    /// Puts a frame into the burst of the port that it leaves by.
    fn put(&mut self, packet: Packet, interface: u32, wait: Wait) -> Result<Fate, SendError> {
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
        let generation = self.hops.generation();
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

impl Drop for RouteSender {
    fn drop(&mut self) {
        self.flush_or_drop(Wait::Never);
    }
}

/// Where a packet goes, once its hop is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the port of this interface; its headers are written.
    By(u32),
    /// It has to wait for a neighbour.
    After(Awaited),
    Nowhere(Reason),
}
