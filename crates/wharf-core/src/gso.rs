//! Software GSO: super-packets in frames, segmented into frames that fit a wire.
//!
//! [`wharf_packet::gso`] plans the segmentation and writes headers. [`SoftwareGso`] moves a frame's bytes into other frames by
//! such a plan, [`Segmenter`] does so before a device that cannot, [`GsoLimiter`] before a discipline that takes no packet
//! beyond a length. A test of `packet` (`wharf-devices/tests/suite/packet/segments.rs`) has the kernel segment the same packets, and
//! compares every byte.
//!
//! On its way a super-packet is one packet, with its bytes: in lanes, in the qdisc, in a bulk (which may have several), in
//! quotas, counters, the byte limit and small queues. The headers of its further segments are not counted there, unlike in the
//! kernel's qdiscs (`qdisc_pkt_len_init`): they are one part in 26 of a TCP segment of 1514 bytes. A discipline that counts
//! them uses [`crate::offload::wire_bytes`].

mod in_flight;
mod limiter;
mod own_memory;
mod segmenter;
mod software;
mod work;

pub use limiter::GsoLimiter;
pub use segmenter::Segmenter;
pub(crate) use segmenter::with_segmenter;
pub use software::{SegmentJob, SoftwareGso, write_segment};
