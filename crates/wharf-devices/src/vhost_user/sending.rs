//! `Sending`: frames on their way into the driver's receive buffers.

mod deliver;
mod patience;
mod turn;

use super::link::Link;
use super::vring::{Ring, with_ring};
use crate::virtio::DeviceRing;
use deliver::Writer;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use turn::{InLine, LaneState, Standing, tell, turn};
use wharf_core::device::{Completions, Transmitted};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Region};
use wharf_packet::{flow_hash, index_of};

/// Frames held at a time: waiting for buffers, or copied and not reaped.
pub(super) const RING_FRAMES: usize = BATCH_FRAMES_MAX;

/// Frames that wait for buffers of one queue pair.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Frame>,
    state: LaneState,
}

pub(super) struct Sending {
    region: Option<Arc<Region>>,
    lanes: Box<[Lane]>,
    /// The pairs that flows are spread over: those that were open last. Bit n stands for pair n.
    pairs: u32,
    waiting: usize,
    done: Batch,
    failed: Vec<(Frame, &'static str)>,
    writer: Writer,
    /// The time for which frames may wait; `None` for as long as it takes.
    patience: Option<Duration>,
    /// A lane has stood: see [`LaneState::stood`].
    stands: bool,
}

impl Sending {
    pub(super) fn new(link: &Link) -> Self {
        let lane = || Lane { waiting: VecDeque::with_capacity(RING_FRAMES), ..Lane::default() };
        Self {
            region: None,
            lanes: (0..link.pairs()).map(|_| lane()).collect(),
            pairs: 0,
            waiting: 0,
            done: Batch::new(RING_FRAMES),
            failed: Vec::with_capacity(RING_FRAMES),
            writer: Writer::default(),
            patience: None,
            stands: false,
        }
    }

    pub(super) fn attach(&mut self, region: Arc<Region>) {
        self.region = Some(region);
    }

    /// Sets how long frames may wait for a driver that is not there, or takes nothing.
    pub(super) fn set_patience(&mut self, limit: Option<Duration>) {
        self.patience = limit;
    }

    pub(super) fn held(&self) -> usize {
        self.waiting + self.done.len() + self.failed.len()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.lanes.iter().flat_map(|lane| &lane.waiting).for_each(&mut *see);
        self.done.frames().iter().for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
    }

    pub(super) fn transmit(&mut self, link: &Link, batch: &mut Batch, more: bool) -> Transmitted {
        let mut doorbell = false;
        self.note_pairs(link);
        if self.lanes.len() == 1 && self.waiting == 0 {
            doorbell |= self.straight(link, batch, more);
        }
        if !batch.is_empty() {
            self.line_up(batch);
            doorbell |= self.push(link, more);
        }
        let stopped = self.waiting > 0 || self.held() == RING_FRAMES;
        if stopped && more {
            doorbell |= self.flush(link);
        }
        Transmitted { doorbell, stopped }
    }

    /// Copies frames from the batch: there is one pair, and no frame waits.
    fn straight(&mut self, link: &Link, batch: &mut Batch, more: bool) -> bool {
        let room = RING_FRAMES - self.held();
        let Self { region: Some(region), lanes, done, failed, writer, .. } = self else { return false };
        let Some(lane) = lanes.first_mut() else { return false };
        let mut front = Standing { batch, done, failed, room, count: 0 };
        let rang = turn(link, 0, &mut front, &mut lane.state, writer, region, more);
        front.settle();
        rang
    }

    /// Puts frames into the lanes of their flows' pairs, while there is room.
    fn line_up(&mut self, batch: &mut Batch) {
        while self.waiting + self.done.len() + self.failed.len() < RING_FRAMES {
            let Some(frame) = batch.pop() else { return };
            let lane = self.lane_of(&frame);
            self.lanes[lane].waiting.push_back(frame);
            self.waiting += 1;
        }
    }

    /// Returns the lane of the frame's flow.
    fn lane_of(&self, frame: &Frame) -> usize {
        let count = self.pairs.count_ones();
        if count <= 1 {
            return self.pairs.trailing_zeros() as usize % self.lanes.len();
        }
        let hash = self.region.as_ref().and_then(|region| region.bytes(frame).ok()).map_or(0, flow_hash);
        let nth = index_of(hash, count);
        let mut pairs = (0..self.lanes.len()).filter(|pair| self.pairs >> pair & 1 != 0);
        pairs.nth(nth as usize).unwrap_or(0)
    }

    /// Spreads the flows anew if other pairs are open. A flow's frames wait in one lane: they stay in order.
    fn note_pairs(&mut self, link: &Link) {
        let open = link.open_pairs();
        if open != self.pairs && open != 0 {
            self.spread(open);
        }
    }

    #[cold]
    fn spread(&mut self, open: u32) {
        self.pairs = open;
        let mut frames = VecDeque::with_capacity(self.waiting);
        for lane in &mut self.lanes {
            frames.append(&mut lane.waiting);
            // A super-packet that was half delivered begins anew: its receiver recognises segments that it
            // has.
            (lane.state.segments, lane.state.too_few, lane.state.stood) = (0, 0, None);
        }
        for frame in frames {
            let lane = self.lane_of(&frame);
            self.lanes[lane].waiting.push_back(frame);
        }
    }

    /// Delivers waiting frames as far as possible. Returns true if a driver was notified.
    fn push(&mut self, link: &Link, more: bool) -> bool {
        let mut rang = false;
        if self.stands {
            self.forget_stale(link);
        }
        self.note_pairs(link);
        for pair in 0..self.lanes.len() {
            if self.lanes[pair].waiting.is_empty() || link.is_shut() {
                continue;
            }
            let Self { region: Some(region), lanes, done, failed, writer, waiting, .. } = self else {
                return rang;
            };
            let Lane { waiting: frames, state } = &mut lanes[pair];
            let before = frames.len();
            rang |= turn(link, pair, &mut InLine { frames, done, failed }, state, writer, region, more);
            *waiting -= before - frames.len();
            if frames.len() < before {
                state.stood = None;
            }
        }
        if self.waiting > 0 && link.is_shut() {
            self.give_up(link);
        }
        rang
    }

    pub(super) fn flush(&mut self, link: &Link) -> bool {
        let mut rang = false;
        for (pair, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.state.owes_call) {
            let Some(mut vring) = link.vring(2 * pair) else { continue };
            rang |= vring
                .open()
                .is_some_and(|(running, call)| tell(link, 2 * pair, running, &mut lane.state, call));
        }
        rang
    }

    pub(super) fn reap(&mut self, link: &Link, budget: usize, into: &mut Completions) {
        if self.waiting > 0 {
            self.push(link, false);
        }
        let sent = into.sent.append(&mut self.done, budget);
        let failed = self.failed.len().min(budget - sent);
        into.failed.extend(self.failed.drain(..failed));
    }

    /// Asks for notifications of buffers, if frames wait for some. Returns false if there are some already.
    pub(super) fn arm(&mut self, link: &Link) -> bool {
        if self.waiting > 0 && !link.is_shut() {
            self.note_rest();
        }
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.waiting.is_empty());
        let mut nothing_came = true;
        for (pair, lane) in waiting {
            let Some(mut vring) = link.vring(2 * pair) else { continue };
            nothing_came &= !vring.is_mute();
            if let Some((running, _)) = vring.open().filter(|_| !link.is_shut()) {
                let too_few = lane.state.too_few;
                let ask =
                    |ring: &mut Ring| with_ring!(ring, ring => ring.enable_notification_behind(too_few));
                nothing_came &= running.write(ask);
            }
        }
        nothing_came
    }

    pub(super) fn disarm(&self, link: &Link) {
        link.each_running(0, |ring| with_ring!(ring, ring => ring.disable_notification()));
    }

    /// Fails the frames that wait.
    pub(super) fn close(&mut self) {
        (0..self.lanes.len()).for_each(|pair| self.fail(pair, "closed"));
    }
}
