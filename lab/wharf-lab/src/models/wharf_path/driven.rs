//! The threads that run the queue for its senders: a dedicated owner, or the core's own poller, which
//! sleeps by the model's time.

use super::{Path, Step};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wharf_core::host::{Clock, PollerWait, Wake};
use wharf_core::poller::{ActivePoller, Dedicated, Poller, Settings};
use wharf_core::queue::TxQueue;
use wharf_sim::engine::{Agenda, VirtualClock};

/// A sleep that lasts until the thread is woken.
const FOREVER_NS: u64 = 1 << 62;

/// The wake-up of a modelled thread, and the time for which a poller sleeps.
#[derive(Debug, Default)]
pub(super) struct Nap {
    rung: AtomicBool,
    for_ns: AtomicU64,
}

impl Wake for Nap {
    fn wake(&self) {
        self.rung.store(true, Relaxed);
    }
}

impl Nap {
    /// Takes the wake-up, if there was one.
    pub(super) fn take_rung(&self) -> bool {
        self.rung.swap(false, Relaxed)
    }

    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Relaxed)
    }
}

/// A poller's way to wait: it notes for how long, and returns.
#[derive(Debug)]
struct NoteNap(Arc<Nap>, Arc<VirtualClock>);

impl PollerWait for NoteNap {
    fn waker(&self) -> Arc<dyn Wake> {
        self.0.clone()
    }

    fn now_ns(&self) -> u64 {
        self.1.now_ns()
    }

    fn watch(&mut self, _at: usize, _fd: std::os::fd::RawFd) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, _told: &mut dyn FnMut(usize)) {
        self.0.for_ns.store(timeout_ns, Relaxed);
    }
}

/// The thread behind the senders' processors.
pub(super) enum Server<'q> {
    Dedicated(Dedicated<'q>),
    Poller {
        poller: Box<ActivePoller>,
        nap: Arc<Nap>,
        /// It sleeps until it is woken, or for a time.
        sleeps: bool,
    },
}

impl Server<'_> {
    /// Creates the poller of a queue, on the exact clock.
    pub(super) fn poller(queue: &TxQueue, clock: &Arc<VirtualClock>) -> Self {
        let nap = Arc::new(Nap::default());
        let mut poller = Poller::new(Box::new(NoteNap(nap.clone(), clock.clone())), Settings::default());
        poller.add(queue);
        Self::Poller { poller: Box::new(poller.begin()), nap, sleeps: false }
    }
}

/// What a round of the server was.
struct Round {
    /// Packets that it sent, if it is a dedicated owner.
    packets: u64,
    /// It begins the next one by itself no sooner, and at once only if woken.
    sleeps_ns: u64,
}

impl Path<'_> {
    /// Does one round of the dedicated owner, or a step of the poller.
    pub(super) fn serve(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.nic.write_back(0, now_ns);
        let queue = self.queue;
        let counters = queue.counters();
        let count = || [counters.packets.get(), counters.sent.get(), counters.doorbells.get()];
        let before = count();
        let Some(server) = &mut self.server else { return };
        let round = match server {
            Server::Dedicated(dedicated) => Round { packets: dedicated.poll().into(), sleeps_ns: 0 },
            Server::Poller { poller, nap, sleeps } => {
                nap.for_ns.store(0, Relaxed);
                nap.take_rung();
                poller.step(u64::MAX);
                let sleeps_ns = if nap.is_rung() { 0 } else { nap.for_ns.load(Relaxed) };
                *sleeps = sleeps_ns > 0;
                Round { packets: 0, sleeps_ns }
            }
        };
        let [packets, sent, rung] = std::array::from_fn(|n| count()[n] - before[n]);
        (0..rung).for_each(|_| self.depart(at, now_ns));
        if self.setup.time.is_over(now_ns) && counters.gone() == self.entered {
            self.server = None;
            return;
        }
        let costs = &self.setup.costs;
        let packet_ns = packets * (costs.pull_ns + costs.driver_ns) + sent * costs.reclaim_ns;
        let work_ns = packet_ns + rung * costs.doorbell_drain_ns;
        if matches!(self.server, Some(Server::Dedicated(_))) {
            return self.dedicated_rests(at, now_ns, work_ns, round.packets + sent, round.packets, agenda);
        }
        let next_ns = now_ns + work_ns.max(costs.look_ns).max(1);
        match round.sleeps_ns {
            0 => agenda.set(at, next_ns),
            FOREVER_NS.. => agenda.clear(at),
            sleeps_ns => {
                let late_ns = self.setup.threads.map_or(0, |threads| threads.late_ns);
                agenda.set(at, next_ns + sleeps_ns + late_ns);
            }
        }
    }

    /// Lets the dedicated owner begin its next round, after its pauses.
    fn dedicated_rests(
        &mut self, at: usize, now_ns: u64, work_ns: u64, moved: u64, packets: u64, agenda: &mut Agenda,
    ) {
        let costs = &self.setup.costs;
        let lanes = self.is_fresh.iter_mut().map(std::mem::take).filter(|is_fresh| *is_fresh).count() as u64;
        let pauses = u64::from(Dedicated::pauses_after(packets as u32));
        let work_ns = work_ns + lanes * costs.lane_ns + pauses * costs.pause_ns;
        // Without pauses, looks in vain until the next completion are one step.
        let sleeps = moved == 0 && costs.pause_ns == 0;
        let next_ns = self.nic.next_write_back_ns(0).filter(|_| sleeps).unwrap_or(0);
        let idle_ns = next_ns.saturating_sub(now_ns).min(costs.again_ns);
        agenda.set(at, now_ns + work_ns.max(costs.look_ns).max(idle_ns).max(1));
    }

    /// Lets a processor idle until one of its senders is woken.
    pub(super) fn idle(&mut self, at: usize, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        (processor.idles, processor.step) = (true, Step::Due);
        agenda.clear(at);
    }

    /// Schedules the threads that were woken by what has just been done: the poller, and senders on
    /// processors that idle.
    pub(super) fn wake_up(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let (poller_at, wake_ns) =
            (self.processors.len(), self.setup.threads.map_or(0, |threads| threads.wake_ns));
        if let Some(Server::Poller { nap, sleeps, .. }) = &mut self.server
            && *sleeps
            && nap.is_rung()
        {
            *sleeps = false;
            agenda.set_no_later(poller_at, now_ns + wake_ns);
        }
        for (at, processor) in self.processors.iter_mut().enumerate() {
            if processor.idles && processor.senders.is_woken() {
                agenda.set_no_later(at, now_ns + wake_ns);
            }
        }
    }
}
