//! `Qdisc`: the contract of a queueing discipline.

use super::{Backpressure, QdiscContext, Rate, WhenFull};
use crate::dscp::DscpBands;
use wharf_mem::{Batch, Frame, Region};

/// The bounds of one [`Qdisc::dequeue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Most frames.
    pub packets: usize,
    /// No further frame leaves once this many bytes have left; at least 1. So one frame leaves in any case,
    /// and the bound is exceeded by one frame at most.
    pub bytes: u64,
}

impl Limit {
    /// No bound but the batch's room.
    pub const NONE: Self = Self { packets: usize::MAX, bytes: u64::MAX };

    /// At most `packets` frames of any length.
    pub const fn packets(packets: usize) -> Self {
        Self { packets, bytes: u64::MAX }
    }
}

/// The contract of a queueing discipline. See [the module](super) for its invariants.
pub trait Qdisc: Send {
    /// Returns its name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// Adds storage for `frames` further frames, beyond its limit: a sender's lane is emptied into it. May
    /// allocate.
    fn reserve(&mut self, frames: usize);

    /// Returns the number of frames that [`Qdisc::enqueue`] takes now, of any band.
    fn storage(&self) -> usize;

    /// Takes frames from the front of `from` while there is storage for them. May drop any frame that it has.
    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch);

    /// Moves frames to the back of `to` within `limit`, in the order in which they shall leave. May drop any
    /// frame that it has.
    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit);

    /// Returns the number of frames inside.
    fn len(&self) -> usize;

    /// True if no frame is inside.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how full each band is.
    fn backpressure(&self) -> Backpressure;

    /// Returns the effect of its limit when it is reached.
    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    /// Bounds the memory that super-packets take in it: by a part of `region`, whose frames they are of.
    /// Called once, while it is empty.
    fn bound_memory(&mut self, _region: &Region) {}

    /// Drops frames beyond a limit that drops. Called before the owner leaves, if [`Qdisc::backpressure`]
    /// reports a full band.
    fn trim(&mut self, _cx: &mut QdiscContext<'_>) {}

    /// Moves frames to the back of `to` while it has room, even those held back: the queue is being
    /// closed (`qdisc_reset`).
    fn purge(&mut self, to: &mut Batch);

    /// True if frames may bypass it while it is empty (`TCQ_F_CAN_BYPASS`).
    fn can_bypass(&self) -> bool {
        false
    }

    /// True if it has bands: senders then classify their frames.
    fn uses_bands(&self) -> bool {
        false
    }

    /// Returns the band of each DSCP, by which senders classify frames without a priority if it has bands.
    /// By default EF, VA and CS5 to CS7 are in the first band, the others in the kernel's.
    fn dscp_bands(&self) -> [u8; 64] {
        DscpBands::default().into()
    }

    /// True if it drops a packet that has expired when its turn comes, as [`EXPIRED`](super::EXPIRED).
    fn drops_expired(&self) -> bool {
        false
    }

    /// Returns the time, by [`QdiscContext::now_ns`], at which a frame that it holds back now may leave. Such
    /// a queue needs a poller, or a sender that waits.
    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    /// Shows each frame inside to `see`, for audits.
    fn visit(&self, see: &mut dyn FnMut(&Frame));

    /// Sets the rate of the token bucket in it, from now on. Returns false if it has none.
    fn set_rate(&mut self, _rate: Rate) -> bool {
        false
    }

    /// Shows its statistics to `see`, by name. Names are words of the JSON output, and so a promise.
    fn stats(&self, _see: &mut dyn FnMut(&'static str, u64)) {}
}
