//! Frames that wait for a driver that is not there, or takes nothing: how long they may.

use super::super::link::Link;
use super::super::vring::with_ring;
use super::super::{NOT_ENABLED, RING_FULL};
use super::{Lane, Sending};
use crate::virtio::DeviceRing;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The time for which frames may wait; `None` for as long as it takes.
    limit: Option<Duration>,
    /// Since when frames have waited for buffers of a driver that is there, at a moment with nothing else to
    /// do.
    stood_since: Option<Instant>,
}

impl Patience {
    pub(super) fn set(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    /// Notes that frames left.
    #[inline]
    pub(super) fn note_progress(&mut self) {
        self.stood_since = None;
    }

    /// True if frames waited when there was nothing else to do, and none has left since.
    #[inline]
    pub(super) fn stands(&self) -> bool {
        self.stood_since.is_some()
    }

    /// Notes that the poller is about to sleep while frames wait for buffers.
    pub(super) fn note_rest(&mut self) {
        self.stood_since.get_or_insert_with(Instant::now);
    }
}

impl Sending {
    /// Fails the frames that wait if no virtqueue has been open for them for too long: the machine boots, or
    /// has gone.
    #[cold]
    pub(super) fn give_up(&mut self, link: &Link) {
        let is_over = |limit| link.shut_for().is_some_and(|shut| shut >= limit);
        if link.has_ended() || self.patience.limit.is_some_and(is_over) {
            (0..self.lanes.len()).for_each(|pair| self.fail(pair, NOT_ENABLED));
        }
    }

    /// Fails the frames of each pair whose driver took nothing for too long and has buffers again: the
    /// machine was paused. Their receivers have given them up.
    #[cold]
    pub(super) fn forget_stale(&mut self, link: &Link) {
        let stood = self.patience.stood_since.map(|since| since.elapsed());
        if self.patience.limit.zip(stood).is_none_or(|(limit, stood)| stood < limit) {
            return;
        }
        for pair in 0..self.lanes.len() {
            let Lane { waiting, state } = &self.lanes[pair];
            if !waiting.is_empty() && has_buffers(link, pair, state.too_few) {
                self.fail(pair, RING_FULL);
            }
        }
    }

    /// Fails the frames that wait for `pair`.
    pub(super) fn fail(&mut self, pair: usize, reason: &'static str) {
        let lane = &mut self.lanes[pair];
        self.waiting -= lane.waiting.len();
        (lane.state.segments, lane.state.too_few) = (0, 0);
        self.failed.extend(lane.waiting.drain(..).map(|frame| (frame, reason)));
        self.patience.note_progress();
    }

    /// Returns the time until frames that wait are given up, ns; `u64::MAX` if a notification comes before.
    pub(in super::super) fn next_completion_ns(&self, link: &Link) -> Option<u64> {
        if !self.done.is_empty() || !self.failed.is_empty() {
            return Some(0);
        }
        let left = |limit: Duration| Some(limit.saturating_sub(link.shut_for()?).as_nanos() as u64);
        (self.waiting > 0).then(|| self.patience.limit.and_then(left).unwrap_or(u64::MAX))
    }
}

/// True if the driver of `pair` has a buffer behind those that were `too_few`.
fn has_buffers(link: &Link, pair: usize, too_few: u16) -> bool {
    let Some(mut vring) = link.vring(2 * pair) else { return false };
    let Some((running, _)) = vring.open() else { return false };
    running.write(|ring| {
        with_ring!(ring, ring => {
            let nothing_came = ring.enable_notification_behind(too_few);
            ring.disable_notification();
            !nothing_came
        })
    })
}
