//! `Waiters`: the senders that wait for one queue, in order of arrival.
//!
//! A sender that finds the path full registers its need, sets WAIT in the owner word, looks once more, and sleeps.
//! The owner serves waiters before it releases the queue, once their band has drained to half its limit, and the first
//! waiter's lane to half its frames. It serves as many as the freed space is for, so that no herd wakes. A served sender may
//! send a lane's worth of frames, its turn, so that it sleeps once for many bursts. Space promised to a woken sender stays
//! reserved until it returns.
//! On an empty queue one further waiter at a time is let in, so that a sender that never returns cannot block the
//! rest; it takes over the promise made longest ago. While a sender waits for a band, that band stays marked full, so
//! that newcomers do not overtake. A served sender is off the list, and may send its turn although the band is marked.
//!
//! A sender that waits for memory is also on the pool's wait list (`pool/waiting.rs`), which serves it. It is listed
//! here so that owners know of it: they force completions, and give completed frames to the pool's waiters
//! (`tx/queue/lanes/waiter_sink.rs`). Frames completed earlier may lie in the waiter's own return ring since it last
//! looked. So the owner looks once at each new waiter (`fresh`), and again only when frames of that sender have been
//! completed: the cost of serving grows with the senders served, not with those that wait.
//!
//! A wake-up runs foreign code (a runtime's): it is called outside the queue's state and without this list's lock, and a
//! panic in it ends nothing.

use crate::counters::QueueCounters;
use crate::host::{self, Wake};
use crate::pool::{PagePool, lock};
use crate::qdisc::Backpressure;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use wharf_mem::frame::BANDS_MAX;

const BANDS: usize = BANDS_MAX as usize;
/// A bit per band.
pub(crate) const ALL_BANDS: u32 = (1 << BANDS) - 1;
/// The bit beside those of full bands: a cache waits for memory, and senders give up buffers that they do not use.
pub(crate) const MEMORY_WANTED: u32 = 1 << BANDS;

/// The need of a waiting sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room for `frames` in a band.
    Space { band: u8, frames: usize },
    /// Free buffers, by the pool's wait list.
    Memory,
    /// Completions: the sum of the sender's completed bytes reaches `returned_bytes`.
    Credit { returned_bytes: u32 },
}

#[derive(Debug)]
struct SpaceWaiter {
    ticket: u64,
    place: u16,
    need: Need,
    wake: Arc<dyn Wake>,
}

/// A sender that waits for completions of its own: for memory or for credit.
#[derive(Debug)]
struct ReturnWaiter {
    ticket: u64,
    /// The sum of completed bytes to reach; `None` if it waits for memory.
    returned_bytes: Option<u32>,
    wake: Arc<dyn Wake>,
}

/// A view of lanes and of the frames that were completed, by sender.
pub(crate) trait SenderReturns {
    /// Returns the wrapping sum of completed bytes of the sender at `place`; `None` once it is gone.
    fn returned_bytes(&self, place: u16) -> Option<u32>;

    /// True if at least half of the lane of the sender at `place` is free.
    fn has_drained(&mut self, place: u16) -> bool;

    /// True if buffers lie in the return ring of the sender at `place`.
    fn has_returned(&mut self, place: u16) -> bool;

    /// Returns the next place whose frames were completed since the last call, while a sender waited.
    fn next_returned(&mut self) -> Option<u16>;
}

/// Waiters for space, a list per band in order of tickets, and waiters for completions.
#[derive(Debug, Default)]
struct WaitLists {
    bands: [VecDeque<SpaceWaiter>; BANDS],
    /// Waiters for completions of their own, by place.
    returns: BTreeMap<u16, Vec<ReturnWaiter>>,
    /// Those of `returns` that wait for memory.
    for_memory: usize,
    /// Places of waiters that no owner has looked at yet.
    fresh: Vec<u16>,
    /// Wake-ups of served senders, due outside the lock.
    served: VecDeque<Arc<dyn Wake>>,
    /// Wake-ups of waiters that the pool has served and wakes: to be dropped outside the lock.
    over: Vec<Arc<dyn Wake>>,
    /// By band, tickets of served senders that have not returned, with the frames that room is reserved for.
    promised: [VecDeque<(u64, usize)>; BANDS],
    next_ticket: u64,
}

/// True if the wrapping sum `there` has reached `wanted`.
pub(crate) fn has_reached(there: u32, wanted: u32) -> bool {
    there.wrapping_sub(wanted) as i32 >= 0
}

/// The waiters of one queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    lists: Mutex<WaitLists>,
    /// The discipline has bands; otherwise all senders wait in one list.
    uses_bands: bool,
    counters: Arc<QueueCounters>,
}

/// The state after waiters were served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServeOutcome {
    /// A sender still waits.
    pub(crate) waiting: bool,
    /// Bands for which senders still wait, and [`MEMORY_WANTED`].
    pub(crate) full: u32,
    /// [`crate::tx::queue::Shared::wake_served`] is due: senders to wake, or peer queues to reap.
    pub(crate) wakes: bool,
}

impl Waiters {
    pub(crate) fn new(uses_bands: bool, counters: Arc<QueueCounters>) -> Self {
        Self { lists: Mutex::default(), uses_bands, counters }
    }

    fn list_of(&self, band: u8) -> usize {
        if self.uses_bands { usize::from(band).min(BANDS - 1) } else { 0 }
    }

    /// Registers the sender at `place`. Returns its ticket.
    pub(crate) fn register(&self, place: u16, need: Need, wake: Arc<dyn Wake>) -> u64 {
        let lists = &mut *lock(&self.lists);
        let ticket = lists.next_ticket;
        lists.next_ticket += 1;
        let returned_bytes = match need {
            Need::Space { band, .. } => {
                lists.bands[self.list_of(band)].push_back(SpaceWaiter { ticket, place, need, wake });
                return ticket;
            }
            Need::Memory => None,
            Need::Credit { returned_bytes } => Some(returned_bytes),
        };
        lists.for_memory += usize::from(returned_bytes.is_none());
        lists.returns.entry(place).or_default().push(ReturnWaiter { ticket, returned_bytes, wake });
        lists.fresh.push(place);
        ticket
    }

    /// Returns the number of senders that wait before `ticket` for the same; `None` if it has been served.
    pub(crate) fn before(&self, ticket: u64, place: u16, need: Need) -> Option<usize> {
        let lists = lock(&self.lists);
        match need {
            Need::Space { band, .. } => {
                let list = &lists.bands[self.list_of(band)];
                list.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
            }
            Need::Memory | Need::Credit { .. } => {
                let is_waiting =
                    |returns: &Vec<ReturnWaiter>| returns.iter().any(|returns| returns.ticket == ticket);
                lists.returns.get(&place).is_some_and(is_waiting).then_some(0)
            }
        }
    }

    /// Ends the wait of `ticket`, served or not. Returns the number of senders that came before it for the same and
    /// still wait.
    pub(crate) fn leave(&self, ticket: u64, place: u16, need: Need) -> usize {
        // Dropping the last wake-up of a task may run its code: not under the lock.
        match need {
            Need::Space { band, .. } => {
                let list = self.list_of(band);
                let (before, _gone) = lock(&self.lists).leave_band(ticket, list);
                before
            }
            Need::Memory | Need::Credit { .. } => {
                let _gone = lock(&self.lists).leave_returns(ticket, place);
                0
            }
        }
    }

    /// Serves senders for which there is room, first come first, and those whose own frames were completed.
    /// [`Waiters::wake_served`] then wakes them.
    pub(crate) fn serve(
        &self, space: (Backpressure, bool), returned_to: &mut impl SenderReturns, pool: &PagePool,
    ) -> ServeOutcome {
        let lists = &mut *lock(&self.lists);
        let mut full = 0;
        for band in 0..BANDS {
            lists.serve_band(band, space, returned_to);
            full |= u32::from(!lists.bands[band].is_empty()) << band;
        }
        if full != 0 && !self.uses_bands {
            full = ALL_BANDS;
        }
        while let Some(place) = lists.fresh.pop().or_else(|| returned_to.next_returned()) {
            lists.serve_returns(place, returned_to);
        }
        if lists.for_memory > 0 && !pool.is_waited_for() {
            lists.end_memory();
        }
        let waiting = full != 0 || !lists.returns.is_empty();
        if pool.is_waited_for() {
            full |= MEMORY_WANTED;
            pool.recall();
        }
        let wakes = !lists.served.is_empty() || !lists.over.is_empty() || pool.has_served();
        let wakes = wakes || (lists.for_memory > 0 && pool.peers().has_others());
        ServeOutcome { waiting, full, wakes }
    }

    /// Wakes the served senders in turn. The caller does not touch the queue's state meanwhile: it has released the queue,
    /// unless it is dedicated or goes on.
    #[cold]
    pub(crate) fn wake_served(&self) {
        loop {
            let Some(wake) = lock(&self.lists).served.pop_front() else { break };
            self.wake(wake);
        }
        loop {
            let Some(over) = lock(&self.lists).over.pop() else { break };
            host::outlive(|| drop(over));
        }
    }

    fn wake(&self, wake: Arc<dyn Wake>) {
        self.counters.wakeups.add_shared(1);
        if !host::wake(wake) {
            self.counters.panics.add_shared(1);
        }
    }

    /// Wakes all waiters to look for themselves: the poller that they relied on is gone.
    pub(crate) fn nudge_all(&self) {
        let wakes: Vec<_> = lock(&self.lists).wakes().cloned().collect();
        wakes.into_iter().for_each(|wake| self.wake(wake));
        self.wake_served();
    }

    /// Wakes all waiters and clears the list: the path has closed.
    pub(crate) fn wake_all(&self) {
        {
            let lists = &mut *lock(&self.lists);
            let all: Vec<_> = lists.wakes().cloned().collect();
            lists.served.extend(all);
            lists.bands.iter_mut().for_each(VecDeque::clear);
            lists.returns.clear();
            lists.for_memory = 0;
        }
        self.wake_served();
    }
}

impl Need {
    /// Returns the frames that room is reserved for once the sender has been served.
    pub(crate) fn frames(self) -> usize {
        if let Need::Space { frames, .. } = self { frames.max(1) } else { 0 }
    }
}

impl WaitLists {
    fn wakes(&self) -> impl Iterator<Item = &Arc<dyn Wake>> {
        let returns = self.returns.values().flatten().map(|returns| &returns.wake);
        self.bands.iter().flatten().map(|waiting| &waiting.wake).chain(returns)
    }

    fn leave_band(&mut self, ticket: u64, list: usize) -> (usize, Option<SpaceWaiter>) {
        match self.bands[list].binary_search_by_key(&ticket, |waiting| waiting.ticket) {
            Ok(at) => (at, self.bands[list].remove(at)),
            Err(_) => {
                self.promised[list].retain(|promise| promise.0 != ticket);
                (0, None)
            }
        }
    }

    fn leave_returns(&mut self, ticket: u64, place: u16) -> Option<ReturnWaiter> {
        let here = self.returns.get_mut(&place)?;
        let at = here.iter().position(|returns| returns.ticket == ticket)?;
        let gone = here.swap_remove(at);
        self.for_memory -= usize::from(gone.returned_bytes.is_none());
        if here.is_empty() {
            self.returns.remove(&place);
        }
        Some(gone)
    }

    /// Serves the waiters at `place` whose own frames were completed. Those that wait for memory stay on the pool's
    /// wait list.
    fn serve_returns(&mut self, place: u16, returned_to: &mut impl SenderReturns) {
        let Some(here) = self.returns.get_mut(&place) else { return };
        let (returned_bytes, has_memory) =
            (returned_to.returned_bytes(place), returned_to.has_returned(place));
        let is_due = |returns: &ReturnWaiter| match (returns.returned_bytes, returned_bytes) {
            (None, _) => has_memory,
            (Some(wanted), Some(there)) => has_reached(there, wanted),
            (Some(_), None) => true,
        };
        for due in here.extract_if(.., |returns| is_due(returns)) {
            self.for_memory -= usize::from(due.returned_bytes.is_none());
            self.served.push_back(due.wake);
        }
        if here.is_empty() {
            self.returns.remove(&place);
        }
    }

    /// Ends all waits for memory: the pool has served them.
    fn end_memory(&mut self) {
        for here in self.returns.values_mut() {
            self.over.extend(
                here.extract_if(.., |returns| returns.returned_bytes.is_none()).map(|returns| returns.wake),
            );
        }
        self.returns.retain(|_, here| !here.is_empty());
        self.for_memory = 0;
    }

    fn serve_band(
        &mut self, band: usize, (space, is_empty): (Backpressure, bool), lanes: &mut impl SenderReturns,
    ) {
        let list = &mut self.bands[band];
        if list.is_empty() || !space.has_drained(band as u8) {
            return;
        }
        let (free, promised) = (space.room(band as u8), &mut self.promised[band]);
        let mut kept: usize = promised.iter().map(|promise| promise.1).fold(0, usize::saturating_add);
        // A sender that wants more than the limit is served all the same, and a served sender that never returns must
        // not keep the others from an empty queue.
        let mut is_due = free > 0 && (kept == 0 || is_empty);
        while let Some(first) = list.front() {
            let mut needed = kept.saturating_add(first.need.frames());
            if (needed > free && !is_due) || !lanes.has_drained(first.place) {
                return;
            }
            if needed > free {
                needed -= promised.pop_front().map_or(0, |oldest| oldest.1);
            }
            (kept, is_due) = (needed, false);
            promised.push_back((first.ticket, first.need.frames()));
            self.served.extend(list.pop_front().map(|first| first.wake));
        }
    }
}
