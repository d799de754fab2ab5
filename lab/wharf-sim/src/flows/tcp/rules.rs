//! The settings of a connection.

use serde::Deserialize;

/// The charge for a piece that the host holds (`truesize`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Truesize {
    /// For each piece.
    pub piece_bytes: u32,
    /// For each packet of it, besides its payload.
    pub packet_bytes: u32,
}

impl Truesize {
    /// Returns the charge for `len_bytes` in `packets`.
    pub fn of(self, len_bytes: u32, packets: u32) -> u64 {
        u64::from(len_bytes) + u64::from(self.piece_bytes) + u64::from(packets) * u64::from(self.packet_bytes)
    }
}

/// The settings of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Payload of a full packet.
    pub mss_bytes: u32,
    /// Largest payload of a super-packet; a packet's or less for a host without super-packets.
    pub super_bytes_max: u32,
    /// Packets of a super-packet at least, if there are as many (`tcp_min_tso_segs`).
    pub super_packets_min: u32,
    /// A super-packet holds the pacing rate's bytes of 1 s divided by this: 1024 (`tcp_tso_autosize`), 2000
    /// before Linux 3.19 (`tcp_xmit_size_goal`).
    pub size_parts: u32,
    /// The pacing rate in congestion avoidance, in percent of a window per round trip
    /// (`tcp_pacing_ca_ratio`).
    pub pacing_percent: u32,
    /// The most bytes of it in the host; `None` for no small queues (`tcp_limit_output_bytes` since Linux
    /// 3.19).
    pub small_queue_bytes_max: Option<u64>,
    /// Bytes of it that the host may always hold (`tcp_limit_output_bytes` from Linux 3.13 to 3.18).
    pub small_queue_bytes_min: u64,
    /// The charge for a piece.
    pub truesize: Truesize,
    /// The peer's receive window.
    pub peer_window_bytes: u64,
    /// True if slow start ends when round trips grow (CUBIC's HyStart, on by default since Linux 2.6.29).
    pub hystart: bool,
    /// True if small packets wait for acknowledgements (no TCP_NODELAY).
    pub nagle: bool,
}

impl Default for Rules {
    /// Returns the settings of Linux of 2014 and later over Ethernet, with time stamps: packets of 1448
    /// bytes.
    fn default() -> Self {
        Self {
            mss_bytes: 1448,
            super_bytes_max: 65_160,
            super_packets_min: 2,
            size_parts: 1024,
            pacing_percent: 120,
            small_queue_bytes_max: Some(131_072),
            small_queue_bytes_min: 0,
            truesize: Truesize { piece_bytes: 512, packet_bytes: 0 },
            peer_window_bytes: 3 << 20,
            hystart: false,
            nagle: true,
        }
    }
}
