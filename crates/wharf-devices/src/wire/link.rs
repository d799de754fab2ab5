//! `Link`: what the two ends of one direction share besides their lanes: the sender's memory, and the rare
//! frames that come back by no lane, because they failed or their far end is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wharf_mem::lane::LaneConsumer;
use wharf_mem::{Batch, Frame, Region};

/// Frames have failed at the far end.
const FAILED: u32 = 1;
/// The far end takes no more: what is still on the wire is the sender's again.
const GONE: u32 = 2;

/// One direction.
#[derive(Default)]
pub(super) struct Link {
    /// The memory that the frames on this direction lie in, once the sending end is attached.
    region: OnceLock<Arc<Region>>,
    /// Written rarely, so that looking at it costs the sender no transfer of a line.
    notices: AtomicU32,
    returned: Mutex<Returned>,
}

#[derive(Default)]
struct Returned {
    failed: Vec<(Frame, &'static str)>,
    unread: Option<Unread>,
}

/// What a far end that is gone has not read.
pub(super) struct Unread {
    /// Off the lane already; before what is on it.
    pub(super) arrived: Batch,
    pub(super) lane: LaneConsumer,
}

impl Link {
    /// Says where the frames' bytes are; false when that was said before.
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

    /// Gives the sender back all that has not been read; the last word of the far end.
    #[cold]
    pub(super) fn hang_up(&self, unread: Unread) {
        self.returned().unread = Some(unread);
        self.notices.fetch_or(GONE, Ordering::Release); // (F)
    }

    /// Whether the sender must look at [`Link::collect`]. What the far end completed before it gave notice is
    /// in the lane of completions after this.
    #[inline(always)]
    pub(super) fn has_notice(&self) -> bool {
        self.notices.load(Ordering::Acquire) != 0 // (F)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.notices.load(Ordering::Acquire) & GONE != 0
    }

    /// The frames that failed since the last call, and what a far end that is gone left, once.
    #[cold]
    pub(super) fn collect(&self) -> (Vec<(Frame, &'static str)>, Option<Unread>) {
        self.notices.fetch_and(!FAILED, Ordering::AcqRel);
        let mut returned = self.returned();
        (std::mem::take(&mut returned.failed), returned.unread.take())
    }

    /// As a panicking thread left it: both fields are whole at every step.
    fn returned(&self) -> MutexGuard<'_, Returned> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
