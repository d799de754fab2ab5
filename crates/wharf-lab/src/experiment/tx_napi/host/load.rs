//! What the flows do.

use super::Rig;
use super::far;
use super::guest::Sends;
use super::message::frame_bytes;
use super::seen::Seen;
use std::sync::Arc;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::receive::Handler;

/// When a flow sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// As much as a window lets it, which acknowledgements open: TCP, as far as it decides what leaves when.
    Window,
    /// As much as the path lets it: UDP.
    Stream,
    /// One message, and the next one when it has come back. Here TCP and UDP are the same.
    RoundTrip,
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Window => "tcp_stream",
            Work::Stream => "udp_stream",
            Work::RoundTrip => "rr",
        }
    }
}

/// One load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) payload_bytes: u32,
    pub(super) flows: u32,
}

/// Numbers of flows, those of what was published.
pub(super) const FLOWS: [u32; 3] = [1, 10, 100];

impl Load {
    /// All that is run, with messages of a byte and of `long_bytes`.
    pub(super) fn all(long_bytes: u32) -> Vec<Self> {
        let mut all = Vec::new();
        for work in [Work::Window, Work::Stream, Work::RoundTrip] {
            for payload_bytes in [1, long_bytes] {
                all.extend(FLOWS.map(|flows| Self { work, payload_bytes, flows }));
            }
        }
        all
    }

    pub(super) fn label(&self) -> String {
        format!("{}/{}B/flows={}", self.work.name(), self.payload_bytes, self.flows)
    }

    /// How each flow sends.
    pub(super) fn sends(&self, rig: &Rig) -> Sends {
        let frame_bytes = frame_bytes(self.payload_bytes);
        let window = (rig.window_bytes / u64::from(frame_bytes)).clamp(1, rig.window_packets);
        let (window_packets, burst_packets) = match self.work {
            Work::Window => (window, rig.burst_packets),
            Work::Stream => (u64::MAX, rig.burst_packets),
            Work::RoundTrip => (1, 1),
        };
        Sends { frame_bytes, burst_packets, window_packets }
    }

    /// What the device does with messages.
    pub(super) fn answers(&self, queue: &TxQueue, seen: &Arc<Seen>) -> Result<Handler, QueueError> {
        match self.work {
            Work::Window => far::acknowledging(queue, self.flows, seen),
            Work::Stream => Ok(far::silent(seen)),
            Work::RoundTrip => far::echoing(queue, seen),
        }
    }

    /// What was published of such a load: keys below `tx_napi` for rate, p50 and p99.
    pub(super) fn published(&self) -> [Option<&'static str>; 3] {
        match (self.work, self.payload_bytes > 1) {
            (Work::Window, true) => [Some("tcp_stream_mbps"), None, None],
            (Work::Stream, true) => [Some("udp_stream_mbps"), None, None],
            (Work::Window | Work::Stream, false) => [None; 3],
            (Work::RoundTrip, false) => [None, Some("tcp_rr_p50_us"), Some("tcp_rr_p99_us")],
            (Work::RoundTrip, true) => [None, Some("tcp_rr_4k_p50_us"), Some("tcp_rr_4k_p99_us")],
        }
    }
}
