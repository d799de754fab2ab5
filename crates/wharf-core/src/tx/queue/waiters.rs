//! SpaceWaiter senders, in order of arrival.
//!
//! A sender that finds the path full registers what it needs, sets WAIT in the owner word, looks once more,
//! and sleeps. The owner serves those who wait before it leaves, once their band has drained to half its limit: as
//! many as the freed space is for, no more, so that no herd wakes. Space that was given to one who has not come
//! yet is his: the next owner does not give it away again, except one at a time to an empty queue, should he never
//! come; whoever is served so takes over the place of the one served longest ago. While somebody waits for a band, that band
//! stays marked full, so that newcomers do not overtake. Whoever was served is off the list, and may send one lane's worth
//! past the mark.
//!
//! Who waits for memory stands in the pool's line, too (`pool/waiting.rs`), which serves it. Here it is known so that owners
//! know that somebody waits: they ask the device to hurry, and what comes home from then on they give to that line
//! (`tx/queue/lanes/waiter_sink.rs`). What came home before may lie in the waiter's own return ring since it has looked. So whoever is
//! new on a list is looked at once by the owner that serves (`fresh`), and again only when something of its own has come home:
//! serving takes time by who is served, not by who waits.
//!
//! Waking is somebody else's code (a runtime's), so it is done when the queue and this list are free again, and a
//! panic in it is nobody's end.

use crate::counters::QueueCounters;
use crate::host::{self, Wake};
use crate::pool::{PagePool, lock};
use crate::qdisc::Backpressure;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use wharf_mem::frame::BANDS_MAX;

const BANDS: usize = BANDS_MAX as usize;
/// A bit for each band.
pub(crate) const ALL_BANDS: u32 = (1 << BANDS) - 1;
/// Beside the bits of full bands: somebody waits for memory, and senders are to give up what they do not use.
pub(crate) const MEMORY_WANTED: u32 = 1 << BANDS;

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room for so many frames in a band.
    Space { band: u8, frames: usize },
    /// Free buffers, in the pool's line.
    Memory,
    /// The sum of bytes that have come home to the sender reaching so many.
    Credit { home_bytes: u32 },
}

#[derive(Debug)]
struct SpaceWaiter {
    ticket: u64,
    need: Need,
    wake: Arc<dyn Wake>,
}

/// One who waits for frames of its own: memory or credit.
#[derive(Debug)]
struct ReturnWaiter {
    ticket: u64,
    /// What the sum of its bytes at home must reach; `None`: it waits for memory.
    home_bytes: Option<u32>,
    wake: Arc<dyn Wake>,
}

/// Where what comes home to a sender can be seen.
pub(crate) trait SenderReturns {
    /// Bytes that have come home to the sender at a place, as a sum that wraps; `None` when it is gone.
    fn home_bytes(&self, place: u16) -> Option<u32>;

    /// Whether buffers wait in its return ring.
    fn has_come_home(&mut self, place: u16) -> bool;

    /// The next place that something has come home to since it was last asked, while anybody waited.
    fn next_returned(&mut self) -> Option<u16>;
}

/// A line per band in order of tickets, and who waits for its own.
#[derive(Debug, Default)]
struct WaitLists {
    bands: [VecDeque<SpaceWaiter>; BANDS],
    /// By place.
    returns: BTreeMap<u16, Vec<ReturnWaiter>>,
    /// How many of them wait for memory.
    for_memory: usize,
    /// SenderSlots of those that no owner has looked at yet.
    fresh: Vec<u16>,
    /// ServeOutcome, and to be woken by whoever served them, or anybody before.
    served: VecDeque<Arc<dyn Wake>>,
    /// Of those whom the pool has served, and will wake: let go of where it harms nobody.
    over: Vec<Arc<dyn Wake>>,
    /// By band, who was served and has not come yet, with the frames that room is kept for.
    promised: [VecDeque<(u64, usize)>; BANDS],
    next_ticket: u64,
}

/// Whether the sum `there`, which wraps, has reached `wanted`.
pub(crate) fn has_reached(there: u32, wanted: u32) -> bool {
    there.wrapping_sub(wanted) as i32 >= 0
}

/// Everybody who waits for one queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    lines: Mutex<WaitLists>,
    /// Whether the discipline looks at bands; otherwise all stand in one line.
    uses_bands: bool,
    counters: Arc<QueueCounters>,
}

/// What serving has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServeOutcome {
    /// Whether anybody still waits.
    pub(crate) waiting: bool,
    /// Bands that somebody still waits for, and [`MEMORY_WANTED`].
    pub(crate) full: u32,
    /// Whether somebody is to be woken, or looked for elsewhere: [`crate::tx::queue::Shared::wake_served`].
    pub(crate) wakes: bool,
}

impl Waiters {
    pub(crate) fn new(uses_bands: bool, counters: Arc<QueueCounters>) -> Self {
        Self { lines: Mutex::default(), uses_bands, counters }
    }

    fn line_of(&self, band: u8) -> usize {
        if self.uses_bands { usize::from(band).min(BANDS - 1) } else { 0 }
    }

    /// The sender at `place` waits; a ticket.
    pub(crate) fn register(&self, place: u16, need: Need, wake: Arc<dyn Wake>) -> u64 {
        let lines = &mut *lock(&self.lines);
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        let home_bytes = match need {
            Need::Space { band, .. } => {
                lines.bands[self.line_of(band)].push_back(SpaceWaiter { ticket, need, wake });
                return ticket;
            }
            Need::Memory => None,
            Need::Credit { home_bytes } => Some(home_bytes),
        };
        lines.for_memory += usize::from(home_bytes.is_none());
        lines.returns.entry(place).or_default().push(ReturnWaiter { ticket, home_bytes, wake });
        lines.fresh.push(place);
        ticket
    }

    /// How many wait before `ticket` for the same; `None` when it has been served.
    pub(crate) fn before(&self, ticket: u64, place: u16, need: Need) -> Option<usize> {
        let lines = lock(&self.lines);
        match need {
            Need::Space { band, .. } => {
                let line = &lines.bands[self.line_of(band)];
                line.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
            }
            Need::Memory | Need::Credit { .. } => {
                let is_waiting =
                    |returns: &Vec<ReturnWaiter>| returns.iter().any(|returns| returns.ticket == ticket);
                lines.returns.get(&place).is_some_and(is_waiting).then_some(0)
            }
        }
    }

    /// Ends the wait of `ticket`, served or not. How many wait on who had come before it for the same.
    pub(crate) fn leave(&self, ticket: u64, place: u16, need: Need) -> usize {
        // The last of a wake-up may be a task, which then ends here: not under the lock.
        match need {
            Need::Space { band, .. } => {
                let line = self.line_of(band);
                let (before, _gone) = lock(&self.lines).leave_band(ticket, line);
                before
            }
            Need::Memory | Need::Credit { .. } => {
                let _gone = lock(&self.lines).leave_returns(ticket, place);
                0
            }
        }
    }

    /// Picks those that there is room for, first come first, and those whose own frames have come, to be woken by
    /// [`Waiters::wake_served`].
    pub(crate) fn serve(
        &self, space: (Backpressure, bool), homes: &mut impl SenderReturns, pool: &PagePool,
    ) -> ServeOutcome {
        let lines = &mut *lock(&self.lines);
        let mut full = 0;
        for band in 0..BANDS {
            lines.serve_band(band, space);
            full |= u32::from(!lines.bands[band].is_empty()) << band;
        }
        if full != 0 && !self.uses_bands {
            full = ALL_BANDS;
        }
        while let Some(place) = lines.fresh.pop().or_else(|| homes.next_returned()) {
            lines.serve_returns(place, homes);
        }
        if lines.for_memory > 0 && !pool.is_waited_for() {
            lines.end_memory();
        }
        let waiting = full != 0 || !lines.returns.is_empty();
        if pool.is_waited_for() {
            full |= MEMORY_WANTED;
            pool.recall();
        }
        let wakes = !lines.served.is_empty() || !lines.over.is_empty() || pool.has_served();
        let wakes = wakes || (lines.for_memory > 0 && pool.peers().has_others());
        ServeOutcome { waiting, full, wakes }
    }

    /// Wakes those that were served, in turn: not by an owner, who would hold the queue meanwhile.
    #[cold]
    pub(crate) fn wake_served(&self) {
        loop {
            let Some(wake) = lock(&self.lines).served.pop_front() else { break };
            self.wake(wake);
        }
        loop {
            let Some(over) = lock(&self.lines).over.pop() else { break };
            host::outlive(|| drop(over));
        }
    }

    fn wake(&self, wake: Arc<dyn Wake>) {
        if !host::wake(wake) {
            self.counters.panics.fetch_add(1, Relaxed);
        }
    }

    /// Lets all look for themselves, served or not: the poller that they relied on is gone.
    pub(crate) fn nudge_all(&self) {
        let wakes: Vec<_> = lock(&self.lines).wakes().cloned().collect();
        wakes.into_iter().for_each(|wake| self.wake(wake));
        self.wake_served();
    }

    /// Wakes all, served or not: the path has closed.
    pub(crate) fn wake_all(&self) {
        {
            let lines = &mut *lock(&self.lines);
            let all: Vec<_> = lines.wakes().cloned().collect();
            lines.served.extend(all);
            lines.bands.iter_mut().for_each(VecDeque::clear);
            lines.returns.clear();
            lines.for_memory = 0;
        }
        self.wake_served();
    }
}

impl Need {
    /// Frames that room is kept for once it has been served.
    fn frames(self) -> usize {
        if let Need::Space { frames, .. } = self { frames.max(1) } else { 0 }
    }
}

impl WaitLists {
    fn wakes(&self) -> impl Iterator<Item = &Arc<dyn Wake>> {
        let returns = self.returns.values().flatten().map(|returns| &returns.wake);
        self.bands.iter().flatten().map(|waiting| &waiting.wake).chain(returns)
    }

    fn leave_band(&mut self, ticket: u64, line: usize) -> (usize, Option<SpaceWaiter>) {
        match self.bands[line].binary_search_by_key(&ticket, |waiting| waiting.ticket) {
            Ok(at) => (at, self.bands[line].remove(at)),
            Err(_) => {
                self.promised[line].retain(|promise| promise.0 != ticket);
                (0, None)
            }
        }
    }

    fn leave_returns(&mut self, ticket: u64, place: u16) -> Option<ReturnWaiter> {
        let here = self.returns.get_mut(&place)?;
        let at = here.iter().position(|returns| returns.ticket == ticket)?;
        let gone = here.swap_remove(at);
        self.for_memory -= usize::from(gone.home_bytes.is_none());
        if here.is_empty() {
            self.returns.remove(&place);
        }
        Some(gone)
    }

    /// Each waits for frames of its own: they are in nobody's way. Those who wait for memory stay in the pool's line.
    fn serve_returns(&mut self, place: u16, homes: &mut impl SenderReturns) {
        let Some(here) = self.returns.get_mut(&place) else { return };
        let (home_bytes, has_memory) = (homes.home_bytes(place), homes.has_come_home(place));
        let is_due = |returns: &ReturnWaiter| match (returns.home_bytes, home_bytes) {
            (None, _) => has_memory,
            (Some(wanted), Some(there)) => has_reached(there, wanted),
            (Some(_), None) => true,
        };
        for due in here.extract_if(.., |returns| is_due(returns)) {
            self.for_memory -= usize::from(due.home_bytes.is_none());
            self.served.push_back(due.wake);
        }
        if here.is_empty() {
            self.returns.remove(&place);
        }
    }

    /// The pool has served all.
    fn end_memory(&mut self) {
        for here in self.returns.values_mut() {
            self.over.extend(
                here.extract_if(.., |returns| returns.home_bytes.is_none()).map(|returns| returns.wake),
            );
        }
        self.returns.retain(|_, here| !here.is_empty());
        self.for_memory = 0;
    }

    fn serve_band(&mut self, band: usize, (space, is_empty): (Backpressure, bool)) {
        let line = &mut self.bands[band];
        if line.is_empty() || !space.has_drained(band as u8) {
            return;
        }
        let (free, promised) = (space.room(band as u8), &mut self.promised[band]);
        let mut kept: usize = promised.iter().map(|promise| promise.1).fold(0, usize::saturating_add);
        // Whoever wants more than there ever is has its turn all the same. And who was served and never comes must
        // not keep the others from an empty queue.
        let mut is_due = free > 0 && (kept == 0 || is_empty);
        while let Some(first) = line.front() {
            let mut needed = kept.saturating_add(first.need.frames());
            if needed > free && !is_due {
                return;
            }
            if needed > free {
                needed -= promised.pop_front().map_or(0, |oldest| oldest.1);
            }
            (kept, is_due) = (needed, false);
            promised.push_back((first.ticket, first.need.frames()));
            self.served.extend(line.pop_front().map(|first| first.wake));
        }
    }
}
