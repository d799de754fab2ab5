//! The loads of the flows.

use super::counts::Counts;
use super::far;
use super::flows::Sends;
use super::machine::Settings;
use super::message::Protocol;
use std::sync::Arc;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::Handler;

/// The pattern of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The most messages possible.
    Stream,
    /// One message, and the next one after it has come back.
    RoundTrip,
}

/// One load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) protocol: Protocol,
    pub(super) work: Work,
    pub(super) payload_bytes: u32,
    pub(super) flows: u32,
}

/// Numbers of flows, as published.
pub(super) const FLOWS: [u32; 3] = [1, 10, 100];

impl Load {
    /// Returns all loads, with messages of a byte and of `long_bytes`.
    pub(super) fn all(long_bytes: u32) -> Vec<Self> {
        let mut all = Vec::new();
        for work in [Work::Stream, Work::RoundTrip] {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                for payload_bytes in [1, long_bytes] {
                    all.extend(FLOWS.map(|flows| Self { protocol, work, payload_bytes, flows }));
                }
            }
        }
        all
    }

    pub(super) fn label(&self) -> String {
        let name = match (self.protocol, self.work) {
            (Protocol::Tcp, Work::Stream) => "tcp_stream",
            (Protocol::Udp, Work::Stream) => "udp_stream",
            (Protocol::Tcp, Work::RoundTrip) => "tcp_rr",
            (Protocol::Udp, Work::RoundTrip) => "udp_rr",
        };
        format!("{name}/{}B/flows={}", self.payload_bytes, self.flows)
    }

    /// Returns each flow's way of sending.
    pub(super) fn sends(&self, settings: &Settings) -> Sends {
        let frame_bytes = self.protocol.frame_bytes(self.payload_bytes);
        let window = (settings.window_bytes / u64::from(frame_bytes)).clamp(1, settings.window_packets);
        let (window_packets, burst_packets) = match (self.protocol, self.work) {
            (Protocol::Tcp, Work::Stream) => (window, settings.burst_packets),
            (Protocol::Udp, Work::Stream) => (u64::MAX, settings.burst_packets),
            (_, Work::RoundTrip) => (1, 1),
        };
        Sends { frame_bytes, burst_packets, window_packets }
    }

    /// Returns the device's handler of messages.
    pub(super) fn answers(&self, queue: &TxQueue, seen: &Arc<Counts>) -> Result<Handler, QueueError> {
        match (self.protocol, self.work) {
            (Protocol::Tcp, Work::Stream) => far::acknowledging(queue, self.flows, seen),
            (Protocol::Udp, Work::Stream) => Ok(far::silent(seen)),
            (_, Work::RoundTrip) => far::echoing(queue, seen),
        }
    }

    /// Returns the published figures of such a load: keys below `tx_napi` for rate, p50 and p99.
    pub(super) fn published(&self) -> [Option<&'static str>; 3] {
        match (self.protocol, self.work, self.payload_bytes > 1) {
            (Protocol::Tcp, Work::Stream, true) => [Some("tcp_stream_mbps"), None, None],
            (Protocol::Udp, Work::Stream, true) => [Some("udp_stream_mbps"), None, None],
            (Protocol::Tcp, Work::RoundTrip, false) => [None, Some("tcp_rr_p50_us"), Some("tcp_rr_p99_us")],
            (Protocol::Tcp, Work::RoundTrip, true) => {
                [None, Some("tcp_rr_4k_p50_us"), Some("tcp_rr_4k_p99_us")]
            }
            (Protocol::Udp, Work::RoundTrip, false) => [None, Some("udp_rr_p50_us"), Some("udp_rr_p99_us")],
            (_, Work::Stream, false) | (Protocol::Udp, Work::RoundTrip, true) => [None; 3],
        }
    }
}
