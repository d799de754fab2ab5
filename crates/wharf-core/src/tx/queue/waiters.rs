//! `Waiters`: the senders that wait for one queue, in order of arrival.
//!
//! A sender that finds the path full registers its need, sets WAIT in the owner word, looks once more, and sleeps. It registers by
//! a message that the owner takes, and shares one [`Waiter`] with it, so no lock is held by a sender: one that is stopped in
//! the middle of a wait, or that its low priority keeps from a processor, holds up no other.
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

mod wait_lists;
mod waiter;

pub(crate) use waiter::{Need, Waiter, has_reached};

use crate::counters::QueueCounters;
use crate::host::{self, Wake};
use crate::pool::PagePool;
use crate::qdisc::Backpressure;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex};
use wait_lists::WaitLists;
use wharf_mem::frame::BANDS_MAX;
use wharf_mem::inbox::Inbox;
use wharf_mem::lock;

const BANDS: usize = BANDS_MAX as usize;
/// A bit per band.
pub(crate) const ALL_BANDS: u32 = (1 << BANDS) - 1;
/// The bit beside those of full bands: a cache waits for memory, and senders give up buffers that they do not use.
pub(crate) const MEMORY_WANTED: u32 = 1 << BANDS;

/// A message of a sender to the owner.
enum Message {
    Waits(Arc<Waiter>),
    /// A listed waiter has left, served or not.
    Leaves {
        place: u16,
        list: usize,
        ticket: u64,
    },
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

/// The tickets of a band's list, read by senders.
#[derive(Debug, Default)]
struct ListedTickets {
    first: AtomicU64,
    next: AtomicU64,
}

/// The waiters of one queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// What senders have to say: they take no lock, so that one which is stopped holds up no other.
    inbox: Inbox<Message>,
    /// The owner's, under a lock only for the thread that comes after an owner has died.
    lists: Mutex<WaitLists>,
    tickets: [ListedTickets; BANDS],
    /// No owner takes messages any more.
    is_over: AtomicBool,
    /// The discipline has bands, or one had; otherwise all senders wait in one list.
    uses_bands: AtomicBool,
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
        Self {
            inbox: Inbox::default(),
            lists: Mutex::default(),
            tickets: Default::default(),
            is_over: AtomicBool::new(false),
            uses_bands: AtomicBool::new(uses_bands),
            counters,
        }
    }

    /// Has senders wait by band from now on.
    pub(crate) fn use_bands(&self) {
        self.uses_bands.store(true, SeqCst);
    }

    fn uses_bands(&self) -> bool {
        self.uses_bands.load(SeqCst)
    }

    fn list_of(&self, band: u8) -> usize {
        if self.uses_bands() { usize::from(band).min(BANDS - 1) } else { 0 }
    }

    /// Registers the sender at `place`. The owner lists it once it is told by WAIT.
    pub(crate) fn register(&self, place: u16, need: Need, wake: Arc<dyn Wake>) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter::new(place, need, wake));
        self.inbox.push(Message::Waits(waiter.clone()));
        // The sender checks after it whether the queue is closed: see `Shared::close`.
        fence(SeqCst);
        waiter
    }

    /// Returns the number of senders that wait before `waiter` for the same; `None` if it has been served.
    pub(crate) fn before(&self, waiter: &Waiter) -> Option<usize> {
        if waiter.is_served() {
            return None;
        }
        let Need::Space { band, .. } = waiter.need else { return Some(0) };
        let listed = waiter.ticket();
        let tickets = &self.tickets[if listed.is_some() { waiter.list() } else { self.list_of(band) }];
        let ticket = listed.unwrap_or_else(|| tickets.next.load(SeqCst));
        Some(ticket.saturating_sub(tickets.first.load(SeqCst)) as usize)
    }

    /// Ends the wait of `waiter`, served or not. Returns the number of senders that came before it for the same and
    /// still wait.
    pub(crate) fn leave(&self, waiter: &Waiter) -> usize {
        let before = self.before(waiter).unwrap_or(0);
        let was_served = waiter.leave();
        let is_promised = matches!(waiter.need, Need::Space { .. });
        // An owner that lists it later sees that it has left.
        if let Some(ticket) = waiter.ticket()
            && (is_promised || !was_served)
        {
            let (place, list) = (waiter.place, waiter.list());
            self.inbox.push(Message::Leaves { place, list, ticket });
        }
        if self.is_over.load(SeqCst) {
            drop(self.inbox.take());
        }
        before
    }

    /// Takes the senders' messages, as the owner.
    fn take_messages(&self, lists: &mut WaitLists) {
        for message in self.inbox.take() {
            match message {
                Message::Waits(waiter) => {
                    let list = match waiter.need {
                        Need::Space { band, .. } => self.list_of(band),
                        Need::Memory | Need::Credit { .. } => BANDS,
                    };
                    lists.list(list, waiter);
                }
                Message::Leaves { list: BANDS, place, ticket } => lists.leave_returns(ticket, place),
                Message::Leaves { list, ticket, .. } => lists.leave_band(ticket, list),
            }
        }
    }

    /// Tells senders the tickets that are listed.
    fn show_tickets(&self, lists: &WaitLists) {
        for (band, tickets) in self.tickets.iter().enumerate() {
            let next = lists.next_tickets[band];
            let first = lists.bands[band].front().and_then(|first| first.ticket()).unwrap_or(next);
            if (tickets.next.load(SeqCst), tickets.first.load(SeqCst)) != (next, first) {
                tickets.next.store(next, SeqCst);
                tickets.first.store(first, SeqCst);
            }
        }
    }

    /// Serves senders for which there is room, first come first, and those whose own frames were completed.
    /// `space` says how full the discipline is, `is_empty` that it has no frame.
    /// [`Waiters::wake_served`] then wakes them.
    pub(crate) fn serve(
        &self, space: Backpressure, is_empty: bool, returned_to: &mut impl SenderReturns, pool: &PagePool,
    ) -> ServeOutcome {
        let lists = &mut *lock(&self.lists);
        self.take_messages(lists);
        let mut full = 0;
        for band in 0..BANDS {
            lists.serve_band(band, space, is_empty, returned_to);
            full |= u32::from(!lists.bands[band].is_empty()) << band;
        }
        if full != 0 && !self.uses_bands() {
            full = ALL_BANDS;
        }
        while let Some(place) = lists.fresh.pop().or_else(|| returned_to.next_returned()) {
            lists.serve_returns(place, returned_to);
        }
        if lists.for_memory > 0 && !pool.is_waited_for() {
            lists.end_memory();
        }
        self.show_tickets(lists);
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
            let Some(served) = lock(&self.lists).served.pop_front() else { break };
            self.wake(served);
        }
        loop {
            let Some(over) = lock(&self.lists).over.pop() else { break };
            host::outlive(|| drop(over));
        }
    }

    /// Wakes a sender, and drops its wake-up if that is the last one: both may run a task's code.
    fn wake(&self, waiter: Arc<Waiter>) {
        self.counters.wakeups.add_shared(1);
        if host::outlive(move || waiter.wake.wake()).is_none() {
            self.counters.panics.add_shared(1);
        }
    }

    /// Wakes all waiters to look for themselves: the poller that they relied on is gone.
    pub(crate) fn nudge_all(&self) {
        let all: Vec<_> = {
            let lists = &mut *lock(&self.lists);
            self.take_messages(lists);
            lists.all().cloned().collect()
        };
        all.into_iter().for_each(|waiter| self.wake(waiter));
        self.wake_served();
    }

    /// Wakes all waiters and clears the list: the path has closed.
    pub(crate) fn wake_all(&self) {
        self.is_over.store(true, SeqCst);
        {
            let lists = &mut *lock(&self.lists);
            self.take_messages(lists);
            let all: Vec<_> = lists.all().cloned().collect();
            lists.served.extend(all);
            lists.bands.iter_mut().for_each(VecDeque::clear);
            lists.returns.clear();
            lists.for_memory = 0;
        }
        self.wake_served();
    }
}
