//! Waiting senders, in order of arrival.
//!
//! A sender that finds the path full registers what it needs, sets WAIT in the owner word, looks once more,
//! and sleeps. The owner serves the list before it leaves, once the band has drained to half its limit: as many
//! as the freed space is for, no more, so that no herd wakes. While somebody waits for a band, that band stays marked full, so that newcomers do
//! not overtake. Whoever was served is off the list, and may send one lane's worth past the mark.

use crate::host::Wake;
use crate::pool::lock;
use crate::qdisc::Qdisc;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

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

#[derive(Debug, Default)]
struct List {
    waiting: VecDeque<Waiting>,
    next_ticket: u64,
}

/// Whether the sum `there`, which wraps, has reached `wanted`.
pub(crate) fn has_reached(there: u32, wanted: u32) -> bool {
    there.wrapping_sub(wanted) as i32 >= 0
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<List>);

/// What serving has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Served {
    /// Whether anybody still waits.
    pub(crate) waiting: bool,
    /// Bands that somebody still waits for.
    pub(crate) bands: u32,
}

impl Waiters {
    pub(crate) fn register(&self, need: Need, wake: Arc<dyn Wake>) -> u64 {
        let mut list = lock(&self.0);
        let ticket = list.next_ticket;
        list.next_ticket += 1;
        list.waiting.push_back(Waiting { ticket, need, wake });
        ticket
    }

    /// Whether `ticket` is still on the list.
    pub(crate) fn waits(&self, ticket: u64) -> bool {
        lock(&self.0).waiting.iter().any(|waiting| waiting.ticket == ticket)
    }

    pub(crate) fn cancel(&self, ticket: u64) {
        lock(&self.0).waiting.retain(|waiting| waiting.ticket != ticket);
    }

    /// Wakes those that there is room for, first come first; `reaped` says whether frames came home, and
    /// `home_bytes` how many bytes to the sender at a place.
    pub(crate) fn serve(
        &self, qdisc: &dyn Qdisc, reaped: bool, home_bytes: impl Fn(u16) -> Option<u32>,
    ) -> Served {
        let mut list = lock(&self.0);
        let mut granted = [0usize; wharf_mem::frame::BANDS_MAX as usize];
        let mut served = Served::default();
        list.waiting.retain(|waiting| {
            let go = match waiting.need {
                Need::Memory => reaped,
                Need::Credit { place, home_bytes: wanted } => {
                    home_bytes(place).is_none_or(|there| has_reached(there, wanted))
                }
                Need::Space { band, frames } => {
                    let taken = &mut granted[usize::from(band) % granted.len()];
                    let room = qdisc.room(band).saturating_sub(*taken);
                    let go = room > 0 && qdisc.has_drained(band) && served.bands & (1 << band) == 0;
                    *taken += if go { frames } else { 0 };
                    served.bands |= u32::from(!go) << band;
                    go
                }
            };
            if go {
                waiting.wake.wake();
            }
            !go
        });
        served.waiting = !list.waiting.is_empty();
        served
    }

    /// Lets all look for themselves, served or not: the poller that they relied on is gone.
    pub(crate) fn nudge_all(&self) {
        lock(&self.0).waiting.iter().for_each(|waiting| waiting.wake.wake());
    }

    /// Wakes all, served or not: the path has closed.
    pub(crate) fn wake_all(&self) {
        lock(&self.0).waiting.drain(..).for_each(|waiting| waiting.wake.wake());
    }
}
