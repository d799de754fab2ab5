//! `WaitLists`: the waiters that the owner has listed.

use super::waiter::Waiter;
use super::{BANDS, SenderReturns};
use crate::qdisc::Backpressure;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Waiters for space, a list per band in order of tickets, and waiters for completions.
#[derive(Debug, Default)]
pub(super) struct WaitLists {
    pub(super) bands: [VecDeque<Arc<Waiter>>; BANDS],
    /// Waiters for completions of their own, by place.
    pub(super) returns: BTreeMap<u16, Vec<Arc<Waiter>>>,
    /// Those of `returns` that wait for memory.
    pub(super) for_memory: usize,
    /// Places of waiters that no owner has looked at yet.
    pub(super) fresh: Vec<u16>,
    /// Served senders, to be woken outside the lock.
    pub(super) served: VecDeque<Arc<Waiter>>,
    /// Waiters that no other thread knows any more: to be dropped outside the lock.
    pub(super) over: Vec<Waiter>,
    /// By band, tickets of served senders that have not returned, with the frames that room is reserved for.
    promised: [VecDeque<(u64, usize)>; BANDS],
    /// The ticket of the next waiter, by band; the last one is that of `returns`.
    pub(super) next_tickets: [u64; BANDS + 1],
}

impl WaitLists {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.bands.iter().flatten().chain(self.returns.values().flatten())
    }

    /// Adds `waiter` to the end of band `list`, or to those that wait for completions.
    pub(super) fn list(&mut self, list: usize, waiter: Arc<Waiter>) {
        // The ticket is never another one's: a sender that leaves now may name it.
        waiter.set_ticket(list, self.next_tickets[list]);
        self.next_tickets[list] += 1;
        if waiter.has_left() {
            return self.drop_later(waiter);
        }
        if let Some(band) = self.bands.get_mut(list) {
            return band.push_back(waiter);
        }
        self.for_memory += usize::from(waiter.is_for_memory());
        self.fresh.push(waiter.place);
        self.returns.entry(waiter.place).or_default().push(waiter);
    }

    /// Drops `waiter` outside the lock if no other thread refers to it: dropping a task's wake-up may run its code.
    fn drop_later(&mut self, waiter: Arc<Waiter>) {
        self.over.extend(Arc::into_inner(waiter));
    }

    pub(super) fn leave_band(&mut self, ticket: u64, list: usize) {
        match self.bands[list].binary_search_by_key(&Some(ticket), |waiter| waiter.ticket()) {
            Ok(at) => {
                let gone = self.bands[list].remove(at);
                gone.into_iter().for_each(|waiter| self.drop_later(waiter));
            }
            Err(_) => self.promised[list].retain(|promise| promise.0 != ticket),
        }
    }

    pub(super) fn leave_returns(&mut self, ticket: u64, place: u16) {
        self.remove_returns(place, |waiter| waiter.ticket() == Some(ticket), false);
    }

    /// Serves the waiters at `place` whose own frames were completed. Those that wait for memory stay on the pool's
    /// wait list.
    pub(super) fn serve_returns(&mut self, place: u16, returned_to: &mut impl SenderReturns) {
        if !self.returns.contains_key(&place) {
            return;
        }
        let (bytes, has_memory) = (returned_to.returned_bytes(place), returned_to.has_returned(place));
        self.remove_returns(place, |waiter| waiter.is_due(bytes, has_memory), true);
    }

    /// Takes the waiters at `place` that are `due` off the list, and wakes them if they are `served`.
    fn remove_returns(&mut self, place: u16, due: impl Fn(&Waiter) -> bool, served: bool) {
        let Some(here) = self.returns.get_mut(&place) else { return };
        for waiter in here.extract_if(.., |waiter| due(waiter)) {
            self.for_memory -= usize::from(waiter.is_for_memory());
            if served && waiter.serve() {
                self.served.push_back(waiter);
            } else {
                self.over.extend(Arc::into_inner(waiter));
            }
        }
        if here.is_empty() {
            self.returns.remove(&place);
        }
    }

    /// Ends all waits for memory: the pool has served them.
    pub(super) fn end_memory(&mut self) {
        for here in self.returns.values_mut() {
            let ended = here.extract_if(.., |waiter| waiter.is_for_memory());
            self.over.extend(ended.filter_map(Arc::into_inner));
        }
        self.returns.retain(|_, here| !here.is_empty());
        self.for_memory = 0;
    }

    pub(super) fn serve_band(
        &mut self, band: usize, space: Backpressure, is_empty: bool, lanes: &mut impl SenderReturns,
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
            let Some(first) = list.pop_front() else { return };
            if !first.serve() {
                self.over.extend(Arc::into_inner(first));
                continue;
            }
            if needed > free {
                needed -= promised.pop_front().map_or(0, |oldest| oldest.1);
            }
            (kept, is_due) = (needed, false);
            promised.extend(first.ticket().map(|ticket| (ticket, first.need.frames())));
            self.served.push_back(first);
        }
    }
}
