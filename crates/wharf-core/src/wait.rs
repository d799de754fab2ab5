//! Waiting senders, in order of arrival.
//!
//! A sender that finds the path full registers what it needs, sets WAIT in the owner word, looks once more,
//! and sleeps. The owner serves those who wait before it leaves, once their band has drained to half its limit: as
//! many as the freed space is for, no more, so that no herd wakes. Space that was given to one who has not come
//! yet is his: the next owner does not give it away again, except one at a time to an empty queue, should he never
//! come. While somebody waits for a band, that band stays marked full, so that newcomers do not overtake. Whoever
//! was served is off the list, and may send one lane's worth past the mark.
//!
//! Waking is somebody else's code (a runtime's), so it is done when the queue and this list are free again, and a
//! panic in it is nobody's end.

use crate::counters::QueueCounters;
use crate::host::{self, Wake};
use crate::pool::lock;
use crate::qdisc::Qdisc;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use wharf_mem::frame::BANDS_MAX;

const BANDS: usize = BANDS_MAX as usize;
/// The lines of those who wait for memory, and each for its own frames, behind one for each band.
const MEMORY: usize = BANDS;
const CREDIT: usize = BANDS + 1;
const LINES: usize = BANDS + 2;

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Room for so many frames in a band.
    Space { band: u8, frames: usize },
    /// Any frame coming home.
    Memory,
    /// The sum of bytes that have come home to the sender at a place reaching so many.
    Credit { place: u16, home_bytes: u32 },
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    need: Need,
    wake: Arc<dyn Wake>,
}

/// A line per band, one for memory and one for credit, each in order of tickets.
#[derive(Debug, Default)]
struct Lines {
    lines: [VecDeque<Waiting>; LINES],
    /// Served, and to be woken by whoever served them, or anybody before.
    served: VecDeque<Arc<dyn Wake>>,
    /// Frames, by band, for which there is room kept: those of senders that were served and have not come yet.
    promised: [usize; BANDS],
    next_ticket: u64,
}

/// Whether the sum `there`, which wraps, has reached `wanted`.
pub(crate) fn has_reached(there: u32, wanted: u32) -> bool {
    there.wrapping_sub(wanted) as i32 >= 0
}

/// Everybody who waits for one queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    lines: Mutex<Lines>,
    /// Whether the discipline looks at bands; otherwise all stand in one line.
    uses_bands: bool,
    counters: Arc<QueueCounters>,
}

/// What serving has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Served {
    /// Whether anybody still waits.
    pub(crate) waiting: bool,
    /// Bands that somebody still waits for.
    pub(crate) bands: u32,
    /// Whether somebody is to be woken: [`Waiters::wake_served`].
    pub(crate) wakes: bool,
}

impl Waiters {
    pub(crate) fn new(uses_bands: bool, counters: Arc<QueueCounters>) -> Self {
        Self { lines: Mutex::default(), uses_bands, counters }
    }

    fn line_of(&self, need: Need) -> usize {
        match need {
            Need::Memory => MEMORY,
            Need::Credit { .. } => CREDIT,
            Need::Space { band, .. } if self.uses_bands => usize::from(band).min(BANDS - 1),
            Need::Space { .. } => 0,
        }
    }

    pub(crate) fn register(&self, need: Need, wake: Arc<dyn Wake>) -> u64 {
        let mut lines = lock(&self.lines);
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        lines.lines[self.line_of(need)].push_back(Waiting { ticket, need, wake });
        ticket
    }

    /// How many wait before `ticket` for the same; `None` when it has been served.
    pub(crate) fn before(&self, ticket: u64, need: Need) -> Option<usize> {
        let lines = lock(&self.lines);
        lines.lines[self.line_of(need)].binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Ends the wait of `ticket`, served or not. How many wait on who had come before it for the same.
    pub(crate) fn leave(&self, ticket: u64, need: Need) -> usize {
        let (mut lines, line) = (lock(&self.lines), self.line_of(need));
        match lines.lines[line].binary_search_by_key(&ticket, |waiting| waiting.ticket) {
            Ok(at) => {
                let gone = lines.lines[line].remove(at);
                // The last of a wake-up may be a task, which then ends here: not under the lock.
                drop(lines);
                drop(gone);
                at
            }
            Err(_) => {
                if let Some(promised) = lines.promised.get_mut(line) {
                    *promised = promised.saturating_sub(need.frames());
                }
                0
            }
        }
    }

    /// Picks those that there is room for, first come first, to be woken by [`Waiters::wake_served`]; `reaped` says
    /// whether frames came home, and `home_bytes` how many bytes to the sender at a place.
    pub(crate) fn serve(
        &self, qdisc: &dyn Qdisc, reaped: bool, home_bytes: impl Fn(u16) -> Option<u32>,
    ) -> Served {
        let lines = &mut *lock(&self.lines);
        let mut bands = 0;
        for band in 0..BANDS {
            lines.serve_band(band, qdisc);
            bands |= u32::from(!lines.lines[band].is_empty()) << band;
        }
        if reaped {
            lines.served.extend(lines.lines[MEMORY].drain(..).map(|waiting| waiting.wake));
        }
        if bands != 0 && !self.uses_bands {
            bands = u32::MAX;
        }
        lines.serve_credit(home_bytes);
        let waiting = lines.lines.iter().any(|line| !line.is_empty());
        Served { waiting, bands, wakes: !lines.served.is_empty() }
    }

    /// Wakes those that were served, in turn: not by an owner, who would hold the queue meanwhile.
    #[cold]
    pub(crate) fn wake_served(&self) {
        loop {
            let Some(wake) = lock(&self.lines).served.pop_front() else { return };
            self.wake(wake);
        }
    }

    fn wake(&self, wake: Arc<dyn Wake>) {
        if !host::wake(wake) {
            self.counters.panics.fetch_add(1, Relaxed);
        }
    }

    /// Lets all look for themselves, served or not: the poller that they relied on is gone.
    pub(crate) fn nudge_all(&self) {
        let wakes: Vec<_> =
            lock(&self.lines).lines.iter().flatten().map(|waiting| waiting.wake.clone()).collect();
        wakes.into_iter().for_each(|wake| self.wake(wake));
        self.wake_served();
    }

    /// Wakes all, served or not: the path has closed.
    pub(crate) fn wake_all(&self) {
        {
            let lines = &mut *lock(&self.lines);
            let all = lines.lines.iter_mut().flat_map(|line| line.drain(..));
            lines.served.extend(all.map(|waiting| waiting.wake));
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

impl Lines {
    /// Each waits for frames of its own: they are in nobody's way.
    fn serve_credit(&mut self, home_bytes: impl Fn(u16) -> Option<u32>) {
        let Self { lines, served, .. } = self;
        lines[CREDIT].retain(|waiting| {
            let Need::Credit { place, home_bytes: wanted } = waiting.need else { return false };
            let is_due = home_bytes(place).is_none_or(|there| has_reached(there, wanted));
            if is_due {
                served.push_back(waiting.wake.clone());
            }
            !is_due
        });
    }

    fn serve_band(&mut self, band: usize, qdisc: &dyn Qdisc) {
        let line = &mut self.lines[band];
        if line.is_empty() || !qdisc.has_drained(band as u8) {
            return;
        }
        let (free, promised) = (qdisc.room(band as u8), &mut self.promised[band]);
        // Whoever wants more than there ever is has its turn all the same. And who was served and never comes must
        // not keep the others from an empty queue.
        let mut is_due = free > 0 && (*promised == 0 || qdisc.is_empty());
        while let Some(first) = line.front() {
            let needed = promised.saturating_add(first.need.frames());
            if needed > free && !is_due {
                return;
            }
            (*promised, is_due) = (needed, false);
            self.served.extend(line.pop_front().map(|first| first.wake));
        }
    }
}
