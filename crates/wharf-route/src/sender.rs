//! `RouteSender`: one thread's way to send by a router.

use crate::counts::Cells;
use crate::gathered::Together;
use crate::reason::{Fate, Reason};
use crate::shared::{Alive, Shared};
use crate::template::{Ends, Templates};
use crate::waiting::{Held, Neighbour as Awaited};
use crate::ways::{Way, Ways};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wharf::net::{Headers, UDP};
use wharf::{Burst, Packet, Port, SendError, Wait};
use wharf_net::{Cache, Query};

/// Packets whose memory a sender takes at a time.
const STOCK_PACKETS: usize = 32;
/// The pause between two checks, while [`RouteSender::flush`] waits for neighbours.
const PAUSE: Duration = Duration::from_micros(200);

/// Sends IP packets to where the kernel would send them, for one thread: see the [crate].
///
/// Packets gather in bursts of up to 64 for each port; [`RouteSender::flush`] sends what has gathered. When
/// it is dropped, what has not left is freed, and counts as [`Reason::Full`]. Packets that wait for a
/// neighbour are with the router: they go as it answers.
#[derive(Debug)]
pub struct RouteSender {
    pub(crate) ways: Ways,
    pub(crate) templates: Templates,
    /// Memory for the next packets.
    stock: Burst,
    pub(crate) hops: Cache,
    /// The ways back to those who sent what is forwarded, from the first such packet on. In `hops` they would
    /// take the slots of the ways there.
    pub(crate) sources: Option<Cache>,
    pub(crate) together: Together,
    /// `None`: of the thread that sends to neighbours.
    _alive: Option<Arc<Alive>>,
    mark: u32,
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
        Ok(Self {
            hops: Cache::new(shared.tables.clone()),
            ways: Ways::new(ports, shared, name, cells)?,
            templates: Templates::default(),
            stock: ports[0].1.pool().burst(STOCK_PACKETS),
            sources: None,
            together: Together::default(),
            _alive: alive,
            mark: 0,
        })
    }

    /// Sets the firewall mark (`SO_MARK`) that rules see, for the packets that follow.
    pub fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    /// Returns what tells any thread of the packets that this sender was given, and that were dropped.
    pub fn drops(&self) -> impl Fn() -> Vec<(Reason, u64)> + Send + Sync + 'static {
        let cells = self.ways.cells.clone();
        move || cells.drops().collect()
    }

    /// Takes memory for a packet of `len_bytes`, and waits for it. Its bytes are uninitialised, as those of
    /// any fresh [`Packet`].
    ///
    /// # Errors
    /// Those of [`Sender::packet`](wharf::Sender::packet).
    pub fn packet(&mut self, len_bytes: u32, wait: impl Into<Wait>) -> Result<Packet, SendError> {
        let wait = wait.into();
        let [out, ..] = &mut self.ways.outs[..] else { return Err(SendError::Closed) };
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
    /// Those of [`Sender::send`](wharf::Sender::send); the packet is freed then, and counts as
    /// [`Reason::Full`].
    pub fn send(&mut self, packet: Packet, wait: impl Into<Wait>) -> Result<Fate, SendError> {
        self.ways.cells.give();
        match self.query_of(&packet) {
            Some(query) => self.ways.route(packet, &query, self.hops.lookup(&query), wait.into()),
            None => Ok(self.ways.drop_for(Reason::Malformed)),
        }
    }

    /// Sends a payload as a UDP datagram from an address and a port. The kernel's tables choose the address
    /// where it is unspecified (`0.0.0.0`, `::`); an answer has the one that was asked.
    ///
    /// # Errors
    /// Those of [`RouteSender::send`].
    pub fn send_datagram(
        &mut self, payload: Packet, from: SocketAddr, to: SocketAddr, wait: impl Into<Wait>,
    ) -> Result<Fate, SendError> {
        self.ways.cells.give();
        let (wait, query, generation) = (wait.into(), self.query_between(from, to), self.hops.generation());
        let is_idle = self.ways.shared.waiting.is_idle();
        let known = self.templates.get(&query, generation, payload.len()).filter(|_| is_idle);
        match known {
            Some(known) => self.ways.put_known(payload, known, wait),
            None => {
                let ends = Ends { from, to, generation };
                let hop = self.hops.lookup(&query);
                self.ways.put_datagram(payload, &ends, &query, hop, &mut self.templates, wait)
            }
        }
    }

    /// Returns what the tables are asked for a datagram.
    pub(crate) fn query_between(&self, from: SocketAddr, to: SocketAddr) -> Query {
        let query = Query::to(to.ip()).from(from.ip()).ports(UDP, from.port(), to.port()).mark(self.mark);
        match to {
            SocketAddr::V6(to) if to.scope_id() != 0 => query.output(to.scope_id()),
            _ => query,
        }
    }

    /// Sends what has gathered, and waits until it has room in its ports and its neighbours have answered,
    /// for `wait` at most.
    ///
    /// # Errors
    /// Those of [`Sender::send`](wharf::Sender::send).
    pub fn flush(&mut self, wait: impl Into<Wait>) -> Result<Flushed, SendError> {
        let wait = wait.into();
        let end = wait.end();
        loop {
            let left = self.ways.pass_all(end.map_or(Wait::Forever, Wait::Until))?;
            let waiting = self.ways.shared.waiting.len();
            let is_over = wait == Wait::Never || end.is_some_and(|end| Instant::now() >= end);
            if waiting == 0 || is_over {
                return Ok(Flushed { waiting, left });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Sends what has gathered, and drops what finds no room within `wait`, or whose port is being closed.
    pub fn flush_or_drop(&mut self, wait: impl Into<Wait>) {
        self.ways.flush_or_drop(wait.into());
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

    /// Sends packets that have waited for a neighbour since a time, in order, up to the first that has to
    /// wait on.
    pub(crate) fn send_held(&mut self, of: &Awaited, since: Instant, all: &mut VecDeque<Held>, wait: Wait) {
        while let Some(mut held) = all.pop_front() {
            let hop = self.hops.lookup(&held.query);
            match self.ways.way_of(&mut held.packet, &held.query, hop, Some((*of, since))) {
                // An error says that the port is being closed: the packet is counted.
                Way::By(interface) => _ = self.ways.put(held.packet, interface, wait),
                Way::Nowhere(reason) => held.drop_for(reason),
                Way::After(neighbour) if neighbour == *of => return all.push_front(held),
                // The route has changed.
                Way::After(neighbour) => _ = self.ways.shared.waiting.push(neighbour, held),
            }
        }
    }
}

impl Drop for RouteSender {
    fn drop(&mut self) {
        self.flush_or_drop(Wait::Never);
    }
}
