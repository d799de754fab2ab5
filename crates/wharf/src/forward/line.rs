//! `Line`: queues that forward by themselves, both ways: one queue of each end, or all of them if only one end has several.

use super::direction::Dropped;
use super::end::End;
use super::pass::{self, Counts};
use super::switch::{Member, Switch, Vlans};
use super::{
    FIFO_PACKETS, FRAME_BYTES, FRAMES, FRAMES_MAX, ForwardError, ForwardSettings, SUPER_FRAME_BYTES,
    SUPER_FRAMES, SUPER_POOL_BYTES, Way,
};
use crate::port::{Host, Owners, Pollers, Port};
use std::sync::Arc;
use wharf_core::delay::{Delayed, Delays};
use wharf_core::device::PATIENCE;
use wharf_core::gso::GsoLimiter;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::Qdisc;
use wharf_core::queue::TxQueue;
use wharf_core::rx::Handler;
use wharf_core::sender::Spread;
use wharf_devices::host::HostClock;
use wharf_devices::spec::{Direction, Opened};

/// `wharf_route::HEADROOM_BYTES`.
const HEADROOM_BYTES: u32 = 256;

/// The queues of each end, with their numbers, at least one. At most one of the ends has more.
pub(super) struct Line {
    pub(super) queues: [Vec<(usize, Opened)>; 2],
}

/// What the lines have in common, or the ports of a switch.
pub(super) struct Lines<'a> {
    pub(super) settings: &'a ForwardSettings,
    pub(super) ends: Vec<End>,
    /// The pollers that serve the ports, in turn.
    pub(super) pollers: Vec<Arc<Pollers>>,
    /// Queues of the end that has more.
    pub(super) queues: usize,
    /// The directions, that of the first end's arrivals first, where there are arrivals; of a switch, one for
    /// each port.
    pub(super) directions: Vec<Option<super::Direction>>,
    /// The ports of each end.
    pub(super) ports: Vec<Vec<Port>>,
    pub(super) is_switch: bool,
}

impl Lines<'_> {
    /// Opens the ports of `line`, and has arrivals at each leave by those of the other end.
    pub(super) fn start(&mut self, line: Line) -> Result<(), ForwardError> {
        let there = [0, 1].map(|at| self.directions[at].is_some());
        let large = self.ends.iter().filter(|end| end.receives).all(End::receives_super_packets);
        let is_shared =
            there == [true; 2] && (self.settings.ways.is_some() || self.ends.iter().any(|end| end.is_one));
        let [a, b] = line.queues.each_ref().map(Vec::len);
        let pools = self.settings.pools(is_shared, large, a.max(b))?;
        for at in (0..2).filter(|&at| there[at] && self.ends[at].receives_super_packets()) {
            suffices(&pools[at], &self.ends[at].name)?;
        }
        let mut ports = [Vec::new(), Vec::new()];
        for (at, queues) in line.queues.into_iter().enumerate() {
            for (number, opened) in queues {
                ports[at].push(self.port(at, number, opened, [&pools[at], &pools[1 - at]])?);
            }
        }
        let mut ways = [None, None];
        if let (Some(make), [[a], [b]]) = (&self.settings.ways, ports.each_ref().map(Vec::as_slice)) {
            ways = make([a, b])?.map(Some);
        }
        for (at, direction) in self.directions.iter_mut().enumerate() {
            let Some(direction) = direction else { continue };
            let leaving: Vec<TxQueue> = ports[1 - at].iter().flat_map(Port::queue).cloned().collect();
            for port in &ports[at] {
                let (handler, counts) = self.settings.handler(&leaving, direction, ways[at].take())?;
                direction.receivers.push(port.on_receive(handler)?);
                direction.counts.push(counts);
            }
            direction.queues.extend(leaving);
        }
        self.ports.iter_mut().zip(ports).for_each(|(all, ports)| all.extend(ports));
        Ok(())
    }

    /// Opens ports of a switch, the first of which has this number, in its memory.
    pub(super) fn connect(
        &mut self, switch: &Arc<Switch>, pool: &PagePool, first: usize, queues: Vec<Vec<Opened>>,
    ) -> Result<(), ForwardError> {
        for (at, queues) in queues.into_iter().enumerate() {
            let own = queues.iter().flat_map(|opened| opened.own_macs.clone()).collect();
            let opened = queues.into_iter().enumerate();
            let ports = opened.map(|(number, opened)| self.port(at, number, opened, [pool; 2]));
            let ports = ports.collect::<Result<Vec<_>, _>>()?;
            let queues: Vec<TxQueue> = ports.iter().flat_map(Port::queue).cloned().collect();
            // A port that is slow holds up no other.
            queues.iter().for_each(drop_what_waits);
            let name = self.ends[at].name.clone();
            let vlans = self.settings.vlans_of(&self.ends[at])?;
            switch.join(first + at, Member { name, vlans, queues, own }, self.settings)?;
            self.ports.push(ports);
        }
        for (at, direction) in self.directions.iter_mut().flatten().enumerate() {
            direction.queues.extend(self.ports[at].iter().flat_map(Port::queue).cloned());
            for port in self.ports[at].iter().filter(|_| self.ends[at].receives) {
                let clock = Arc::new(HostClock);
                let (handler, counts) =
                    switch.handler(first + at, self.settings, pool, clock, &direction.activity)?;
                direction.receivers.push(port.on_receive(handler)?);
                direction.counts.push(counts);
            }
        }
        Ok(())
    }

    /// Opens the port of queue `number` of end `at`. What arrives there lies in the first pool, and what
    /// leaves in the other one.
    fn port(
        &mut self, at: usize, number: usize, opened: Opened, pools: [&PagePool; 2],
    ) -> Result<Port, ForwardError> {
        let (settings, is_switch, end) = (self.settings, self.is_switch, &mut self.ends[at]);
        let is_both_ways = is_switch || self.directions.iter().all(Option::is_some);
        let arrives = if is_switch { end.receives } else { self.directions[at].is_some() };
        let leaving = &mut self.directions[if is_switch { at } else { 1 - at }];
        let leaving = leaving.as_mut().filter(|_| !is_switch || end.sends);
        // One thread takes both ends of a line if there are no more threads than queues.
        let turn = if is_both_ways { at * self.queues + number } else { number };
        let pollers = &self.pollers[turn % self.pollers.len()];
        let mut opened = end.builder.wrapped(opened)?;
        let direction = match (leaving.is_some(), arrives) {
            (true, true) => Direction::Both,
            (true, false) => Direction::Send,
            (false, _) => Direction::Receive,
        };
        let delays = Arc::<Delays>::default();
        if let Some(leaving) = leaving {
            opened.device = leaving.add_queue(opened.device, &delays, settings);
        }
        let port = end.builder.port_of(number, opened, |port| {
            let port =
                port.direction(direction).owners(Owners::Senders).polled_by(pollers).takes_chains(true);
            match direction {
                Direction::Receive => port.pool(pools[0]),
                _ => {
                    let pool = pools[1];
                    let qdisc = Delayed::new(make_qdisc(settings, at, pool), pool.frames(), delays);
                    let port = port.pool(pool).receiving_pool(pools[0]).qdisc(qdisc);
                    port.byte_limits(settings.byte_limits).small_queues(settings.small_queues)
                }
            }
        })?;
        if let (true, Ok(queue)) = (settings.drop_tail, port.queue()) {
            drop_what_waits(queue);
        }
        Ok(port)
    }
}

/// Makes a discipline in front of end `at`: a FIFO if there is no maker.
fn make_qdisc(settings: &ForwardSettings, at: usize, pool: &PagePool) -> Box<dyn Qdisc> {
    let make = settings.qdisc.get(at).or(settings.qdisc.last());
    make.map_or_else(|| (ForwardSettings::default().qdisc[0])(pool), |make| make(pool))
}

/// Has senders of `queue` drop what it has no room for.
fn drop_what_waits(queue: &TxQueue) {
    queue.set_patience(Some(PATIENCE));
    queue.set_drop_tail(true);
}

/// Checks that there is memory to receive super-packets into.
fn suffices(pool: &PagePool, name: &str) -> Result<(), ForwardError> {
    let (frames, frame_bytes) = (pool.frames(), pool.region().spec().frame_bytes);
    match u64::from(frames) * u64::from(frame_bytes) < SUPER_POOL_BYTES {
        true => Err(ForwardError::TooFew { frames, frame_bytes, name: name.into() }),
        false => Ok(()),
    }
}

impl ForwardSettings {
    /// Returns the pollers: one for each of the `queues`, or as many as were asked for.
    pub(super) fn pollers_of(&self, queues: usize, receivers: usize) -> Vec<Arc<Pollers>> {
        self.further_pollers(self.pollers.unwrap_or(queues).clamp(1, receivers.max(1)), &[])
    }

    /// Makes so many pollers beside `others`, on the first processors that these leave.
    pub(super) fn further_pollers(&self, threads: usize, others: &[Arc<Pollers>]) -> Vec<Arc<Pollers>> {
        let mut used: Vec<_> = others.iter().filter_map(|pollers| pollers.cpu()).collect();
        let mut free = self.cpus.iter().cycle().filter(|cpu| {
            let taken = used.iter().position(|other| other == *cpu);
            taken.inspect(|&at| _ = used.swap_remove(at)).is_none()
        });
        (0..threads).map(|_| Pollers::new(Host::Machine, self.poller, free.next().copied())).collect()
    }

    /// Makes the memory of a switch with `queues` queues in all.
    pub(super) fn pool_of(&self, ends: &[End], queues: usize) -> Result<PagePool, ForwardError> {
        let large = ends.iter().filter(|end| end.receives).all(End::receives_super_packets);
        let [pool, _] = self.pools(true, large, queues)?;
        ends.iter()
            .filter(|end| end.receives_super_packets())
            .try_for_each(|end| suffices(&pool, &end.name))?;
        Ok(pool)
    }

    fn vlans_of(&self, end: &End) -> Result<Vlans, ForwardError> {
        let own = self.vlans.iter().find(|(name, _)| end.is_called(name));
        let vlans = own.map_or(Ok(Vlans::Any), |(_, text)| text.parse());
        vlans.map_err(|what| ForwardError::Port { port: end.name.clone(), what })
    }

    /// Checks that each of the VLANs is of a port.
    pub(super) fn check_vlans(&self, ends: &[End]) -> Result<(), ForwardError> {
        match self.vlans.iter().find(|(name, _)| !ends.iter().any(|end| end.is_called(name))) {
            Some((name, vlans)) => {
                Err(ForwardError::Port { port: name.clone(), what: format!("no port to be in VLAN {vlans}") })
            }
            None => Ok(()),
        }
    }

    /// Makes memory for each direction of `queues` queues: the same if a device does both ways, `large` if both receive super-packets.
    fn pools(&self, shared: bool, large: bool, queues: usize) -> Result<[PagePool; 2], ForwardError> {
        // A user that sets one of number and size has the usual one for the other.
        let is_open = large && self.frames.is_none() && self.frame_bytes.is_none();
        let (frames, bytes) = if is_open { (SUPER_FRAMES, SUPER_FRAME_BYTES) } else { (FRAMES, FRAME_BYTES) };
        let further = self.qdisc_packets.saturating_sub(FIFO_PACKETS as u32).saturating_mul(2);
        let frames = self.frames.unwrap_or_else(|| frames.saturating_add(further).min(FRAMES_MAX));
        let frames = frames.saturating_mul(u32::try_from(queues).unwrap_or(u32::MAX));
        let pool = || {
            let builder = PagePool::builder().frames(frames);
            let builder = builder.frame_bytes(self.frame_bytes.unwrap_or(bytes));
            // A router writes headers of VLANs and tunnels in front of what has arrived.
            if self.ways.is_some() { builder.headroom_bytes(HEADROOM_BYTES).build() } else { builder.build() }
        };
        let first = pool()?;
        let second = if shared { first.clone() } else { pool()? };
        Ok([first, second])
    }

    fn handler(
        &self, leaving: &[TxQueue], direction: &mut super::Direction, way: Option<Way>,
    ) -> Result<(Handler, Arc<Counts>), ForwardError> {
        let limiter = self.longest_bytes.zip(leaving.first());
        let limiter = limiter.map(|(bytes, queue)| GsoLimiter::new(queue.pool(), bytes));
        let activity = direction.activity.clone();
        if let Some(way) = way {
            direction.way = Some(Dropped(way.drops.clone()));
            return Ok(pass::handler(Box::new(way), limiter, activity));
        }
        let sender = |queue: &TxQueue| queue.sender(&format!("from {}", direction.from));
        let mut senders = leaving.iter().map(sender).collect::<Result<Vec<_>, _>>()?;
        Ok(match senders.pop() {
            Some(only) if senders.is_empty() => pass::handler(Box::new(only), limiter, activity),
            last => {
                senders.extend(last);
                pass::handler(Box::new(Spread::new(senders)?), limiter, activity)
            }
        })
    }
}
