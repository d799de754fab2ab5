//! `RxState`: the part of a receive queue that one poller at a time has: the device, its memory, and the frames that the
//! handler left.

use super::flood::Flood;
use super::whole::Joiner;
use crate::device::RxDevice;
use crate::host::Wake;
use crate::pool::{Burst, Cache, PagePool, WaitPlace};
use crate::tx::queue::QueueError;
use std::sync::Arc;
use wharf_mem::batch::BATCH_FRAMES_MAX;

/// The treatment of frames that a handler leaves in the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Free their memory.
    Free,
    /// Show them again at the next poll, and receive nothing before that: back-pressure.
    /// [`RxQueue::resume`](super::RxQueue::resume) calls for that poll.
    Again,
}

/// The user's handler of received frames, in order.
pub type Handler = Box<dyn FnMut(&mut Burst) -> Rest + Send>;

pub(super) struct RxState {
    /// `None` if the device belongs to a transmit queue, or is closed.
    pub(super) device: Option<Box<dyn RxDevice>>,
    pub(super) cache: Cache,
    /// Its place on the pool's wait list.
    pub(super) pool_place: Option<WaitPlace>,
    pub(super) burst: Burst,
    pub(super) handler: Handler,
    pub(super) joiner: Joiner,
    pub(super) flood: Flood,
    /// See [`RxDevice::holds_back`](crate::device::RxDevice::holds_back).
    pub(super) holds_back: bool,
}

/// A wake-up without effect: a poller that is short of memory comes back by itself.
#[derive(Debug)]
pub(super) struct ComesBack;

impl Wake for ComesBack {
    fn wake(&self) {}
}

impl RxState {
    /// The state of a queue without a device of its own.
    pub(super) fn new(pool: &PagePool, name: &str, handler: Handler) -> Result<Self, QueueError> {
        let (cache, burst) = (pool.cache(&format!("receiver of {name}"))?, pool.burst(BATCH_FRAMES_MAX));
        Ok(Self {
            device: None,
            cache,
            pool_place: None,
            burst,
            handler,
            joiner: Joiner::default(),
            flood: Flood::default(),
            holds_back: false,
        })
    }

    /// Shows the frames to the handler. Returns true if it is done with all of them.
    pub(super) fn hand_over(&mut self) -> bool {
        if !self.burst.is_empty() && (self.handler)(&mut self.burst) == Rest::Free {
            self.free();
        }
        self.burst.is_empty()
    }

    /// Takes the handler; nothing is shown to it any more.
    pub(super) fn take_handler(&mut self) -> Handler {
        std::mem::replace(&mut self.handler, Box::new(|_| Rest::Free))
    }

    pub(super) fn free(&mut self) {
        if !self.burst.is_empty() && self.cache.give(self.burst.batch_mut()).is_err() {
            // The handler has swapped it for a burst of another pool, or the device has put such a frame into
            // it.
            self.burst.clear();
        }
    }

    /// True if there is memory, and no request has failed since the last call: a long packet may need more than there
    /// is.
    pub(super) fn has_memory(&mut self) -> bool {
        !self.cache.ran_out() && (self.cache.has_frames() || self.cache.pool().depot_len() > 0)
    }

    /// Joins the wait list if `starved`, or leaves it.
    pub(super) fn wait_for_memory_in_turn(&mut self, starved: bool) {
        let is_waiting = self.pool_place.as_ref().is_some_and(|place| place.before().is_some());
        if starved && is_waiting {
            return;
        }
        if let Some(place) = self.pool_place.take() {
            place.leave(true);
        }
        self.cache.gather(starved);
        if starved {
            self.pool_place = Some(self.cache.join_wait_list(Arc::new(ComesBack)));
        }
    }
}
