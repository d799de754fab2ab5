//! UDP at the rate that the socket's buffer permits. The bytes charged to the socket may not exceed the
//! buffer; the sender then sleeps until half of them have left (`sock_def_write_space`).

/// One socket.
#[derive(Debug, Clone)]
pub struct UdpSource {
    /// Bytes charged for a packet.
    packet_bytes: u64,
    buffer_bytes: u64,
    inside_bytes: u64,
    sleeping: bool,
}

impl UdpSource {
    /// Creates a socket that is charged `packet_bytes` per packet against a buffer of `buffer_bytes`. One
    /// packet always fits.
    pub fn new(packet_bytes: u64, buffer_bytes: u64) -> Self {
        Self { packet_bytes, buffer_bytes, inside_bytes: 0, sleeping: false }
    }

    /// Sends a packet and returns true, or sleeps.
    pub fn send(&mut self) -> bool {
        self.sleeping |= self.inside_bytes > 0 && self.inside_bytes + self.packet_bytes > self.buffer_bytes;
        if !self.sleeping {
            self.inside_bytes += self.packet_bytes;
        }
        !self.sleeping
    }

    /// Notes that `packets` left. True if that wakes the sender.
    pub fn completed(&mut self, packets: u64) -> bool {
        self.inside_bytes = self.inside_bytes.saturating_sub(packets * self.packet_bytes);
        let wakes = self.sleeping && 2 * self.inside_bytes <= self.buffer_bytes;
        self.sleeping &= !wakes;
        wakes
    }

    /// Returns the number of packets inside.
    pub fn inside(&self) -> u64 {
        self.inside_bytes / self.packet_bytes.max(1)
    }
}
