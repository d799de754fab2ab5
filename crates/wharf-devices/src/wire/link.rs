//! `Link`: the part that both ends of one direction share besides their lanes: the sender's memory, and the
//! rare frames that come back by no lane, because they failed or their far end is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use wharf_mem::lane::LaneConsumer;
use wharf_mem::{Batch, Frame, Region, lock};

/// Flag: frames have failed at the far end.
const FAILED: u32 = 1;
/// Flag: the far end takes no more, and the frames on the wire are the sender's again.
const GONE: u32 = 2;

/// One direction.
#[derive(Default)]
pub(super) struct Link {
    /// The memory of the frames on this direction, once the sending end is attached.
    region: OnceLock<Arc<Region>>,
    /// Written rarely, so that the sender's reads move no cache line.
    notices: AtomicU32,
    returned: Mutex<Returned>,
}

#[derive(Default)]
struct Returned {
    failed: Vec<(Frame, &'static str)>,
    unread: Option<Unread>,
}

/// Frames that a far end has not read when it goes.
pub(super) struct Unread {
    /// Frames off the lane; they come before those on it.
    pub(super) arrived: Batch,
    pub(super) lane: LaneConsumer,
}

impl Link {
    /// Sets the memory of the frames. Returns false if it was set before.
    pub(super) fn attach(&self, region: Arc<Region>) -> bool {
        self.region.set(region).is_ok()
    }

    pub(super) fn region(&self) -> Option<&Arc<Region>> {
        self.region.get()
    }

    /// Gives a frame back to the sender, unsent.
    #[cold]
    pub(super) fn fail(&self, frame: Frame, reason: &'static str) {
        self.returned().failed.push((frame, reason));
        self.notices.fetch_or(FAILED, Ordering::Release); // (F)
    }

    /// Gives the unread frames back to the sender: the last act of the far end.
    #[cold]
    pub(super) fn hang_up(&self, unread: Unread) {
        self.returned().unread = Some(unread);
        self.notices.fetch_or(GONE, Ordering::Release); // (F)
    }

    /// Returns true if the sender must look at [`Link::collect`]. Frames that the far end completed before it
    /// set the flag are in the lane of completions after this call.
    #[inline(always)]
    pub(super) fn has_notice(&self) -> bool {
        self.notices.load(Ordering::Acquire) != 0 // (F)
    }

    /// Returns the frames that failed since the last call, and once those that a far end left when it went.
    #[cold]
    pub(super) fn collect(&self) -> (Vec<(Frame, &'static str)>, Option<Unread>) {
        self.notices.fetch_and(!FAILED, Ordering::AcqRel);
        let mut returned = self.returned();
        (std::mem::take(&mut returned.failed), returned.unread.take())
    }

    /// Takes the lock even after a panic: both fields are whole at every step.
    fn returned(&self) -> MutexGuard<'_, Returned> {
        lock(&self.returned)
    }
}
