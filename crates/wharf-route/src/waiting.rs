//! Packets that wait for the MAC of their neighbour.
//!
//! As in the kernel, those of a neighbour are bounded in bytes, and the oldest are dropped. All together hold
//! at most a quarter of the pool's frames. A neighbour is listed until its last packet has gone to its
//! port, so that later packets, which find it listed, do not overtake.

use crate::counts::Cells;
use crate::reason::Reason;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wharf::Packet;
use wharf_net::Query;

/// The kernel's `unres_qlen_bytes`: bytes that may wait for one neighbour.
const BYTES_MAX: usize = 212_992;
/// Neighbours that packets wait for at once, as the kernel's `gc_thresh3`: packets to others count as
/// `no-neighbour`. Whoever asks for each address of a network makes no longer list.
const NEIGHBOURS_MAX: usize = 1024;
/// The pause between two checks of the tables' state while packets wait.
const PAUSE: Duration = Duration::from_millis(1);
/// As long as the end waits for the thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// A neighbour: its interface, and its address.
pub(crate) type Neighbour = (u32, IpAddr);

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) packet: Packet,
    pub(crate) query: Query,
    /// Where it counts if it is dropped: with the sender that was given it.
    pub(crate) cells: Arc<Cells>,
}

impl Held {
    pub(crate) fn drop_for(self, reason: Reason) {
        self.cells.lose(reason, 1);
    }
}

/// A number of packets, and their bytes and frames: a super-packet has many frames of the pool.
#[derive(Debug, Default, Clone, Copy)]
struct Load {
    packets: usize,
    frames: usize,
    bytes: usize,
}

impl Load {
    fn of(held: &Held) -> Self {
        Self { packets: 1, frames: held.packet.chunks().count(), bytes: held.packet.len() }
    }

    fn add(&mut self, more: Self) {
        self.packets += more.packets;
        self.frames += more.frames;
        self.bytes += more.bytes;
    }

    fn take(&mut self, less: Self) {
        self.packets -= less.packets;
        self.frames -= less.frames;
        self.bytes -= less.bytes;
    }
}

#[derive(Debug)]
struct Queue {
    packets: VecDeque<Held>,
    load: Load,
    since: Instant,
}

impl Queue {
    /// Drops the oldest packet. Returns what it held; `None` if there is none.
    fn shed(&mut self) -> Option<Load> {
        let oldest = self.packets.pop_front()?;
        let load = Load::of(&oldest);
        self.load.take(load);
        oldest.drop_for(Reason::NoNeighbour);
        Some(load)
    }
}

#[derive(Debug, Default)]
struct Queues {
    by_neighbour: HashMap<Neighbour, Queue>,
    /// Of all neighbours, with what the thread has.
    load: Load,
    /// What the thread has, of one neighbour.
    taken: Option<Load>,
    is_over: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiting {
    queues: Mutex<Queues>,
    changed: Condvar,
    /// Neighbours listed: a sender that reads 0 takes no lock.
    neighbours: AtomicUsize,
    frames_max: usize,
}

impl Waiting {
    pub(crate) fn new(pool_frames: u32) -> Self {
        Self {
            queues: Mutex::default(),
            changed: Condvar::new(),
            neighbours: AtomicUsize::new(0),
            frames_max: (pool_frames as usize / 4).max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the packets that wait.
    pub(crate) fn len(&self) -> usize {
        if self.is_idle() { 0 } else { self.lock().load.packets }
    }

    /// Returns true if no packet waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.neighbours.load(Ordering::Acquire) == 0
    }

    /// Returns true if the neighbour is listed: later packets must not overtake those that wait.
    pub(crate) fn has(&self, neighbour: &Neighbour) -> bool {
        !self.is_idle() && self.lock().by_neighbour.contains_key(neighbour)
    }

    /// Takes a packet. The oldest go for it: of the same neighbour beyond its bytes, of the one with the most
    /// beyond the bound of all. Returns false if it does not wait.
    pub(crate) fn push(&self, neighbour: Neighbour, held: Held) -> bool {
        let mut queues = self.lock();
        if queues.is_over {
            held.drop_for(Reason::NoNeighbour);
            return false;
        }
        if queues.by_neighbour.len() >= NEIGHBOURS_MAX && !queues.by_neighbour.contains_key(&neighbour) {
            held.drop_for(Reason::NoNeighbour);
            return false;
        }
        let Queues { by_neighbour, load, .. } = &mut *queues;
        let fresh = || Queue { packets: VecDeque::new(), load: Load::default(), since: Instant::now() };
        let queue = by_neighbour.entry(neighbour).or_insert_with(fresh);
        let more = Load::of(&held);
        queue.load.add(more);
        load.add(more);
        queue.packets.push_back(held);
        while queue.load.bytes > BYTES_MAX
            && let Some(less) = queue.shed()
        {
            load.take(less);
        }
        let is_in = !queue.packets.is_empty();
        while load.frames > self.frames_max
            && let Some(less) =
                by_neighbour.values_mut().max_by_key(|it| it.load.frames).and_then(Queue::shed)
        {
            load.take(less);
        }
        self.neighbours.store(queues.by_neighbour.len(), Ordering::Release);
        self.changed.notify_all();
        is_in
    }

    /// Ends the thread: what waits is dropped, at once.
    pub(crate) fn end(&self) {
        let mut queues = self.lock();
        queues.is_over = true;
        self.changed.notify_all();
        let with_thread = |queues: &mut Queues| queues.taken.is_some();
        let rested = self.changed.wait_timeout_while(queues, PATIENCE, with_thread);
        let (mut queues, _) = rested.unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut queues.by_neighbour).into_values().flat_map(|queue| queue.packets);
        waiting.for_each(|held| held.drop_for(Reason::NoNeighbour));
        queues.load = queues.taken.unwrap_or_default();
        self.neighbours.store(0, Ordering::Release);
    }

    /// Waits a moment, or until a packet waits. Returns false at the end.
    pub(crate) fn rest(&self) -> bool {
        let queues = self.lock();
        if queues.by_neighbour.is_empty() {
            let is_idle = |queues: &mut Queues| queues.by_neighbour.is_empty() && !queues.is_over;
            let woken = self.changed.wait_while(queues, is_idle).unwrap_or_else(PoisonError::into_inner);
            return !woken.is_over;
        }
        let is_idle = |queues: &mut Queues| !queues.is_over;
        let waited = self.changed.wait_timeout_while(queues, PAUSE, is_idle);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Returns true once the thread is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Returns the neighbours that packets wait for.
    pub(crate) fn listed(&self) -> Vec<Neighbour> {
        self.lock().by_neighbour.keys().copied().collect()
    }

    /// Takes the packets of a neighbour, with the time since when it is asked for. `None`, and it is
    /// listed no more, if there are none.
    pub(crate) fn take(&self, neighbour: &Neighbour) -> Option<(VecDeque<Held>, Instant)> {
        let mut queues = self.lock();
        let queue = queues.by_neighbour.get_mut(neighbour)?;
        let load = std::mem::take(&mut queue.load);
        let (packets, since) = (std::mem::take(&mut queue.packets), queue.since);
        if packets.is_empty() {
            queues.by_neighbour.remove(neighbour);
            self.neighbours.store(queues.by_neighbour.len(), Ordering::Release);
            return None;
        }
        queues.taken = Some(load);
        Some((packets, since))
    }

    /// Puts packets that were taken, and not sent, back in front of those that have arrived meanwhile.
    pub(crate) fn put_back(&self, neighbour: &Neighbour, mut left: VecDeque<Held>) {
        let mut queues = self.lock();
        let Queues { by_neighbour, load, taken, .. } = &mut *queues;
        load.take(taken.take().unwrap_or_default());
        self.changed.notify_all();
        match by_neighbour.get_mut(neighbour) {
            None => left.drain(..).for_each(|held| held.drop_for(Reason::NoNeighbour)),
            Some(queue) => {
                for more in left.iter().map(Load::of) {
                    queue.load.add(more);
                    load.add(more);
                }
                left.append(&mut queue.packets);
                queue.packets = left;
            }
        }
    }
}

#[cfg(test)]
mod tests;
