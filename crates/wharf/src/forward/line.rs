//! `Line`: queues that forward by themselves, both ways: one queue of each end, or all of them if only one end has several.

use super::delay::{Delayed, Delays};
use super::direction::Direction;
use super::end::End;
use super::pass::{self, Activity, Counts};
use super::ring::RingDelays;
use super::{
    FIFO_PACKETS, FRAME_BYTES, FRAMES, FRAMES_MAX, ForwardError, ForwardSettings, SUPER_FRAME_BYTES,
    SUPER_FRAMES, SUPER_POOL_BYTES,
};
use std::sync::Arc;
use wharf_core::device::{AnyDevice, PATIENCE};
use wharf_core::gso::GsoLimiter;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Handler, RxQueue};
use wharf_core::sender::Spread;
use wharf_devices::host::{HostClock, HostPark};

/// The queues of each end, at least one. At most one of the ends has more.
pub(super) struct Line {
    pub(super) ends: [Vec<End>; 2],
}

/// The end that frames come from.
struct Source<'a> {
    ends: &'a mut [End],
    /// The queues of the other direction. They have the devices if these do both ways.
    back: &'a [TxQueue],
    pool: &'a PagePool,
}

impl Line {
    /// Starts its directions and adds them to `directions`, that of the first end's arrivals first.
    pub(super) fn start(
        self, settings: &ForwardSettings, directions: &mut [Option<Direction>; 2],
    ) -> Result<(), ForwardError> {
        let Self { mut ends } = self;
        let [a, b] = ends.each_ref().map(|end| &end[0]);
        let names = [a.name.clone(), b.name.clone()];
        let there = [a.receives() && b.sends(), b.receives() && a.sends()];
        if there == [false; 2] {
            let [a, b] = names;
            return Err(ForwardError::Nothing { a, b });
        }
        let large = [a, b].into_iter().filter(|end| end.receives()).all(End::receives_super_packets);
        let is_shared = there == [true; 2] && (a.is_one || b.is_one);
        let queues = ends[0].len().max(ends[1].len());
        let pools = settings.pools(is_shared, large, queues)?;
        let mut leaving = [Vec::new(), Vec::new()];
        for at in (0..2).filter(|&at| there[at]) {
            if ends[at][0].receives_super_packets() {
                suffices(&pools[at], &names[at])?;
            }
            let [from, to] = [at, 1 - at].map(|at| names[at].clone());
            let name = ["a-b", "b-a"][at];
            let direction = directions[at].get_or_insert_with(|| Direction::new(name, from, to));
            for device in ends[1 - at].iter_mut().filter_map(End::take_sending) {
                direction.has_bql = !settings.byte_limits.is_off()
                    && device.as_tx().is_some_and(|device| device.info().has_real_completions());
                let (delays, ring_delays) = (Arc::default(), Arc::<RingDelays>::default());
                let device = ring_delays.around(device);
                leaving[at].push(settings.queue(&pools[at], device, &delays)?);
                direction.delays.push(delays);
                direction.ring_delays.push(ring_delays);
            }
        }
        for at in (0..2).filter(|&at| there[at]) {
            let Some(direction) = &mut directions[at] else { continue };
            let from = Source { ends: &mut ends[at], back: &leaving[1 - at], pool: &pools[at] };
            settings.add_receivers(direction, &leaving[at], from)?;
            direction.queues.extend_from_slice(&leaving[at]);
        }
        Ok(())
    }
}

/// Checks that there is memory to receive super-packets into.
fn suffices(pool: &PagePool, name: &str) -> Result<(), ForwardError> {
    let (frames, frame_bytes) = (pool.frames(), pool.region().spec().frame_bytes);
    match u64::from(frames) * u64::from(frame_bytes) < SUPER_POOL_BYTES {
        true => Err(ForwardError::TooFew { frames, frame_bytes, name: name.into() }),
        false => Ok(()),
    }
}

impl ForwardSettings {
    /// Makes memory for each direction of `queues` queues: the same if a device does both ways, `large` if both receive super-packets.
    fn pools(&self, shared: bool, large: bool, queues: usize) -> Result<[PagePool; 2], ForwardError> {
        // A user that sets one of number and size has the usual one for the other.
        let is_open = large && self.frames.is_none() && self.frame_bytes.is_none();
        let (frames, bytes) = if is_open { (SUPER_FRAMES, SUPER_FRAME_BYTES) } else { (FRAMES, FRAME_BYTES) };
        let further = self.qdisc_packets.saturating_sub(FIFO_PACKETS as u32).saturating_mul(2);
        let frames = self.frames.unwrap_or_else(|| frames.saturating_add(further).min(FRAMES_MAX));
        let frames = frames.saturating_mul(u32::try_from(queues).unwrap_or(u32::MAX));
        let pool = || {
            let builder = PagePool::builder().frames(frames);
            let builder = builder.frame_bytes(self.frame_bytes.unwrap_or(bytes));
            builder.build()
        };
        let first = pool()?;
        let second = if shared { first.clone() } else { pool()? };
        Ok([first, second])
    }

    /// Builds the transmit queue, whose discipline notes its delays.
    fn queue(
        &self, pool: &PagePool, device: AnyDevice, delays: &Arc<Delays>,
    ) -> Result<TxQueue, ForwardError> {
        let builder = TxQueue::builder_of(pool, device, Arc::new(HostClock), Arc::new(HostPark))
            .map_err(wharf_core::queue::QueueError::from)?;
        let qdisc = Delayed::new((self.qdisc)(pool), pool.frames(), delays.clone());
        let builder = builder.qdisc(Box::new(qdisc)).byte_limits(self.byte_limits);
        let queue = builder.small_queues(self.small_queues).build()?;
        if self.drop_tail {
            queue.set_patience(Some(PATIENCE));
            queue.set_drop_tail(true);
        }
        Ok(queue)
    }

    /// Hands arrivals of each side to the queues `leaving`.
    fn add_receivers(
        &self, direction: &mut Direction, leaving: &[TxQueue], from: Source<'_>,
    ) -> Result<(), ForwardError> {
        for (at, end) in from.ends.iter_mut().enumerate() {
            let (handler, counts) = self.handler(leaving, &end.name, &direction.activity)?;
            let own = end.take_receiving();
            direction.is_of_queue = own.is_none();
            let receiver = match (own, from.back.get(at)) {
                (Some(device), _) => RxQueue::new(device, from.pool, leaving, handler)?,
                (None, Some(back)) => RxQueue::of(back, handler)?,
                (None, None) => {
                    let name = end.name.clone();
                    return Err(ForwardError::Nothing { a: name.clone(), b: name });
                }
            };
            direction.receivers.push(receiver.takes_chains(true));
            direction.counts.push(counts);
        }
        Ok(())
    }

    fn handler(
        &self, leaving: &[TxQueue], name: &str, activity: &Arc<Activity>,
    ) -> Result<(Handler, Arc<Counts>), ForwardError> {
        let sender = |queue: &TxQueue| queue.sender(&format!("from {name}"));
        let mut senders = leaving.iter().map(sender).collect::<Result<Vec<_>, _>>()?;
        let limiter = self.longest_bytes.zip(leaving.first());
        let limiter = limiter.map(|(bytes, queue)| GsoLimiter::new(queue.pool(), bytes));
        let activity = activity.clone();
        Ok(match senders.pop() {
            Some(only) if senders.is_empty() => pass::handler(only, limiter, activity),
            last => {
                senders.extend(last);
                pass::handler(Spread::new(senders)?, limiter, activity)
            }
        })
    }
}
