//! Frames that wait for a driver that is not there, or takes nothing: how long they may.

use super::super::link::Link;
use super::super::vring::with_ring;
use super::super::{LINK_DOWN, NOT_ENABLED, RING_FULL};
use super::turn::Stood;
use super::{Lane, Sending};
use crate::virtio::DeviceRing;
use std::time::{Duration, Instant};

impl Sending {
    /// Fails the frames that wait if no virtqueue has been open for them for too long: the machine boots, or
    /// has gone; at once if the line was taken down.
    #[cold]
    pub(super) fn give_up(&mut self, link: &Link) {
        if link.is_down() {
            return (0..self.lanes.len()).for_each(|pair| self.fail(pair, LINK_DOWN));
        }
        let is_over = |limit| link.shut_for().is_some_and(|shut| shut >= limit);
        if link.has_ended() || self.patience.is_some_and(is_over) {
            (0..self.lanes.len()).for_each(|pair| self.fail(pair, NOT_ENABLED));
        }
    }

    /// Notes that the poller is about to sleep while frames wait for buffers.
    pub(super) fn note_rest(&mut self) {
        let now = Stood { since: Instant::now(), is_unserved: false };
        let waiting = self.lanes.iter_mut().filter(|lane| !lane.waiting.is_empty());
        waiting.for_each(|lane| _ = lane.state.stood.get_or_insert(now));
        self.stands = true;
    }

    /// Fails the frames of each pair whose driver took nothing for too long, and has buffers again: the
    /// machine was paused. Their receivers have given them up. The same of a pair that its driver does not
    /// serve while it serves others: these may not wait for it.
    #[cold]
    pub(super) fn forget_stale(&mut self, link: &Link) {
        let Some(limit) = self.patience else { return };
        let open = link.open_pairs();
        for pair in 0..self.lanes.len() {
            let Lane { waiting, state } = &self.lanes[pair];
            let is_stale = |stood: &Stood| !waiting.is_empty() && stood.since.elapsed() >= limit;
            let Some(stood) = state.stood.filter(is_stale) else { continue };
            let has_buffers = has_buffers(link, pair, state.too_few);
            if has_buffers || self.is_alone(pair, open) {
                // Frames for a pair that is not served fail at once, so those that are here now are fresh.
                if !(has_buffers && stood.is_unserved) {
                    self.fail(pair, RING_FULL);
                }
                let unserved = Stood { is_unserved: true, ..stood };
                self.lanes[pair].state.stood = (!has_buffers).then_some(unserved);
            }
        }
        self.stands = self.lanes.iter().any(|lane| lane.state.stood.is_some());
    }

    /// True if no frame waits for another one of the `open` pairs.
    fn is_alone(&self, pair: usize, open: u32) -> bool {
        let is_free = |(other, lane): (usize, &Lane)| {
            other != pair && open >> other & 1 != 0 && lane.waiting.is_empty()
        };
        self.lanes.iter().enumerate().any(is_free)
    }

    /// Fails the frames that wait for `pair`.
    pub(super) fn fail(&mut self, pair: usize, reason: &'static str) {
        let lane = &mut self.lanes[pair];
        self.waiting -= lane.waiting.len();
        (lane.state.segments, lane.state.too_few, lane.state.stood) = (0, 0, None);
        self.failed.extend(lane.waiting.drain(..).map(|frame| (frame, reason)));
    }

    /// Returns the time until frames that wait are given up, ns; `u64::MAX` if a notification comes before.
    pub(in super::super) fn next_completion_ns(&self, link: &Link) -> Option<u64> {
        if !self.done.is_empty() || !self.failed.is_empty() {
            return Some(0);
        }
        let left = |limit: Duration| {
            let since = link.shut_for().or_else(|| self.stands_alone_for(link.open_pairs()));
            Some(limit.saturating_sub(since?).as_nanos() as u64)
        };
        (self.waiting > 0).then(|| self.patience.and_then(left).unwrap_or(u64::MAX))
    }

    /// Returns the longest time for which a pair has stood while another one was free.
    fn stands_alone_for(&self, open: u32) -> Option<Duration> {
        let stands = |pair: usize| {
            let Lane { waiting, state } = &self.lanes[pair];
            state.stood.filter(|_| !waiting.is_empty() && self.is_alone(pair, open))
        };
        (0..self.lanes.len()).filter_map(stands).map(|stood| stood.since.elapsed()).max()
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
