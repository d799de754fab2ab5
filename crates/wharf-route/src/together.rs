//! Bursts: packets whose hops are looked up together, so that what the lookups read of large tables is on its
//! way at a time. Packets to one destination keep their order.

use crate::arrived::{is_own, may_pass};
use crate::gathered::{TOGETHER, Together};
use crate::reason::Reason;
use crate::sender::RouteSender;
use crate::template::Ends;
use std::net::SocketAddr;
use wharf::{Burst, Packet, SendError, Wait};

/// Datagrams sent between two checks whether the tables have changed.
const ROUND: usize = 64;

impl RouteSender {
    /// Sends all IP packets of a burst, as [`RouteSender::send`] does each, and leaves it empty. A burst to
    /// many destinations costs less so, with a large table.
    ///
    /// # Errors
    /// The last of those of [`RouteSender::send`]; the other packets are sent in any case.
    pub fn send_all(&mut self, packets: &mut Burst, wait: impl Into<Wait>) -> Result<(), SendError> {
        self.forget_left();
        let (wait, mut ended) = (wait.into(), Ok(()));
        while !packets.is_empty() {
            while self.together.packets.len() < TOGETHER
                && let Some(packet) = packets.pop()
            {
                self.ways.cells.give();
                match self.query_of(&packet) {
                    Some(query) => {
                        self.together.queries.push(query);
                        self.together.packets.push(packet);
                    }
                    None => _ = self.ways.drop_for(Reason::Malformed),
                }
            }
            let Together { queries, packets, .. } = &mut self.together;
            let mut gathered = packets.drain(..);
            self.hops.lookup_all(queries, |query, hop| {
                let Some(packet) = gathered.next() else { return };
                keep_error(&mut ended, self.ways.route(packet, query, hop, wait));
            });
            drop(gathered);
            queries.clear();
        }
        ended
    }

    /// Sends payloads as UDP datagrams, each to an address, as [`RouteSender::send_datagram`] does. The
    /// tables are checked for changes every 64 datagrams. Up to 16 datagrams wait for the iterator, which
    /// should not block.
    ///
    /// # Errors
    /// As [`RouteSender::send_all`].
    pub fn send_datagrams(
        &mut self, datagrams: impl IntoIterator<Item = (Packet, SocketAddr)>, from: SocketAddr,
        wait: impl Into<Wait>,
    ) -> Result<(), SendError> {
        self.forget_left();
        let (wait, mut ended, mut datagrams) = (wait.into(), Ok(()), datagrams.into_iter());
        let mut is_over = false;
        while !is_over {
            // Asked for once: a packet with known headers must not pass one to the same address without.
            let generation = self.hops.generation();
            let is_idle = self.ways.shared.waiting.is_idle();
            // Known headers do not gather: without this bound they would outlive a change of the tables.
            for _ in 0..ROUND {
                if self.together.packets.len() == TOGETHER {
                    break;
                }
                let Some((payload, to)) = datagrams.next() else {
                    is_over = true;
                    break;
                };
                self.ways.cells.give();
                let query = self.query_between(from, to);
                let known = self.templates.get(&query, generation, payload.len());
                if let Some(known) = known.filter(|_| is_idle) {
                    keep_error(&mut ended, self.ways.put_known(payload, known, wait));
                    continue;
                }
                self.together.queries.push(query);
                self.together.packets.push(payload);
                self.together.ends.push(Ends { from, to, generation });
            }
            let Together { queries, packets, ends, .. } = &mut self.together;
            let mut gathered = packets.drain(..).zip(ends.drain(..));
            self.hops.lookup_all(queries, |query, hop| {
                let Some((payload, ends)) = gathered.next() else { return };
                let put = self.ways.put_datagram(payload, &ends, query, hop, &mut self.templates, wait);
                keep_error(&mut ended, put);
            });
            drop(gathered);
            queries.clear();
        }
        ended
    }

    /// Forwards all frames of a burst that have arrived by a port, as [`RouteSender::forward`] does each,
    /// and leaves it empty. ICMP errors go behind the packets that they were gathered with.
    ///
    /// # Errors
    /// As [`RouteSender::send_all`].
    pub fn forward_all(
        &mut self, frames: &mut Burst, port: usize, wait: impl Into<Wait>,
    ) -> Result<(), SendError> {
        self.forget_left();
        let (wait, mut ended) = (wait.into(), Ok(()));
        while !frames.is_empty() {
            self.gather_arrived(frames, port);
            let Together { queries, packets, arrived, own, refused, .. } = &mut self.together;
            let mut gathered = packets.drain(..).zip(arrived.drain(..)).zip(own.drain(..));
            self.hops.lookup_all(queries, |query, hop| {
                let Some(((mut frame, arrived), is_own)) = gathered.next() else { return };
                match may_pass(&mut frame, &arrived, is_own, hop) {
                    Ok(hop) => keep_error(&mut ended, self.ways.route(frame, query, Ok(hop), wait)),
                    Err(why) => refused.push((frame, arrived, why)),
                }
            });
            drop(gathered);
            queries.clear();
            self.together.refused.reverse();
            while let Some((frame, arrived, why)) = self.together.refused.pop() {
                self.refuse(&frame, &arrived, why, wait);
            }
        }
        ended
    }

    /// Frees what a call before has left, whose iterator panicked.
    fn forget_left(&mut self) {
        if !self.together.packets.is_empty() {
            self.ways.cells.lose(Reason::Full, self.together.packets.len());
            self.together = Together::default();
        }
    }

    /// Gathers the frames that are whole, and whether their sources are addresses of this host.
    fn gather_arrived(&mut self, frames: &mut Burst, port: usize) {
        while self.together.packets.len() < TOGETHER
            && let Some(mut frame) = frames.pop()
        {
            self.ways.cells.give();
            match self.ways.open(&mut frame, port) {
                Ok(arrived) => {
                    self.together.queries.push(arrived.back);
                    self.together.packets.push(frame);
                    self.together.arrived.push(arrived);
                }
                Err(reason) => _ = self.ways.drop_for(reason),
            }
        }
        self.sources();
        let Together { queries, arrived, own, .. } = &mut self.together;
        if let Some(sources) = &mut self.sources {
            sources.lookup_all(queries, |_, way_back| own.push(is_own(way_back)));
        }
        queries.clear();
        queries.extend(arrived.iter().map(|arrived| arrived.query));
    }
}

fn keep_error<T>(ended: &mut Result<(), SendError>, sent: Result<T, SendError>) {
    if let Err(error) = sent {
        *ended = Err(error);
    }
}
