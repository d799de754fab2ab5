//! The making of a sender: its slot in the queue, its lane, its cache and its counters.

use super::balance::Balance;
use super::biased_owner::BiasedOwner;
use super::{Sender, waiting};
use crate::counters::SenderCounters;
use crate::pool::RETURN_RING_FRAMES;
use crate::tx::queue::lanes::{Lane, LaneReturnRing};
use crate::tx::queue::{ControlMessage, QueueError, Shared, TxQueue};
use crate::tx::small_queue::Credit;
use std::sync::Arc;
use wharf_mem::lane::lane;
use wharf_mem::return_ring::return_ring;
use wharf_mem::word::ready_bit;

impl TxQueue {
    /// Makes a sender of this queue; the ledger lists its memory under `name`.
    ///
    /// # Errors
    /// [`QueueError::Senders`], [`QueueError::Pool`], [`QueueError::Closed`], [`QueueError::Ended`].
    pub fn sender(&self, name: &str) -> Result<Sender, QueueError> {
        self.shared.check_open()?;
        let at = self.shared.take_slot()?;
        let counters = Arc::new(SenderCounters::named(name));
        self.shared.senders().keep(&counters);
        let made = Sender::new(&self.shared, at, name, counters);
        let (sender, lane) = made.inspect_err(|_| self.shared.senders().give_back(at))?;
        self.shared.control(ControlMessage::Add(at, lane));
        self.shared.count_sender(1);
        Ok(sender)
    }
}

impl Sender {
    fn new(
        shared: &Arc<Shared>, at: usize, name: &str, counters: Arc<SenderCounters>,
    ) -> Result<(Self, Lane), QueueError> {
        let setup = shared.setup();
        let (lane_in, lane_out) = lane(setup.lane_frames, setup.index_start);
        let (ring_in, ring_out) = return_ring(RETURN_RING_FRAMES, setup.index_start);
        let place = at as u16;
        let mut cache = setup.pool.cache(name)?;
        cache.set_return_ring(ring_out, place);
        let theirs = Lane { frames: lane_out, return_ring: Some(LaneReturnRing::new(ring_in, &setup.pool)) };
        let settings = shared.sender_settings();
        let settings_version = settings.version();
        let (is_drop_tail, uses_bands) = (settings.is_drop_tail(), settings.uses_bands());
        let credit = Credit::new(settings.small_queue_bytes(), setup.index_start, setup.clock.now_ns());
        let biased = if setup.run_observer.is_some() { BiasedOwner::never() } else { BiasedOwner::new() };
        let (shared, bit) = (shared.clone(), ready_bit(at));
        let (balance, looks_max, turn_end) = (Balance::default(), waiting::LOOKS_MAX, 0);
        let sender = Self {
            shared,
            lane: lane_in,
            cache,
            place,
            bit,
            biased,
            credit,
            balance,
            looks_max,
            is_queue_fast: false,
            cancel: None,
            turn_end,
            ready_wait: None,
            readiness: Arc::default(),
            ready_watch: None,
            is_drop_tail,
            uses_bands,
            settings_version,
            flood: None,
            counters,
        };
        Ok((sender, theirs))
    }
}
