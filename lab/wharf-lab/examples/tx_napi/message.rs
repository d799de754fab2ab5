//! The contents of a frame: flow, number, and time of sending.

use wharf_core::pool::Burst;

/// The protocol that would carry a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Flows with a window that answers open as they are heard: TCP, as far as it decides when to send.
    Tcp,
    /// An application sends and reads when it runs; only the path holds it up.
    Udp,
}

/// The shortest frame, without check sequence.
const SHORTEST_BYTES: u32 = 60;
/// The EtherType for local experiments (IEEE 802).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FLOW_AT: usize = 14;
const NUMBER_AT: usize = 18;
const TIME_AT: usize = 26;
const END_AT: usize = 34;

/// The start of a message; its other bytes do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) flow: u32,
    /// Its number within its flow.
    pub(super) number: u64,
    /// The time at which it was made.
    pub(super) time_ns: u64,
}

impl Protocol {
    /// Returns the bytes of a frame with `payload_bytes`.
    pub(super) fn frame_bytes(self, payload_bytes: u32) -> u32 {
        (self.headers_bytes() + payload_bytes).max(SHORTEST_BYTES)
    }

    /// Returns the bytes of Ethernet and IPv4, and UDP, or TCP with a time stamp.
    fn headers_bytes(self) -> u32 {
        match self {
            Protocol::Tcp => 14 + 20 + 32,
            Protocol::Udp => 14 + 20 + 8,
        }
    }
}

impl Message {
    pub(super) fn write(&self, frame: &mut [u8]) {
        let Some(bytes) = frame.first_chunk_mut::<END_AT>() else { return };
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        bytes[12..FLOW_AT].copy_from_slice(&ETHER_TYPE);
        bytes[FLOW_AT..NUMBER_AT].copy_from_slice(&self.flow.to_be_bytes());
        bytes[NUMBER_AT..TIME_AT].copy_from_slice(&self.number.to_be_bytes());
        bytes[TIME_AT..].copy_from_slice(&self.time_ns.to_be_bytes());
    }

    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let bytes = frame.first_chunk::<END_AT>().filter(|bytes| bytes[12..FLOW_AT] == ETHER_TYPE)?;
        let long = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let flow = bytes[FLOW_AT..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
        Some(Self { flow, number: long(NUMBER_AT)?, time_ns: long(TIME_AT)? })
    }

    /// Returns the messages in `burst`, in order.
    pub(super) fn all(burst: &mut Burst) -> impl Iterator<Item = Self> {
        burst.iter_mut().filter_map(|frame| Self::read(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_completions_are_read_and_others_are_none() {
        let message = Message { flow: 99, number: 1 << 40, time_ns: u64::MAX - 7 };
        let lengths =
            [Protocol::Tcp, Protocol::Udp].map(|by| [0, 1, 4096].map(|bytes| by.frame_bytes(bytes)));
        assert_eq!(lengths, [[66, 67, 4162], [60, 60, 4138]]);
        let mut frame = vec![0; 60];
        assert_eq!(Message::read(&frame), None);
        message.write(&mut frame);
        assert_eq!(Message::read(&frame), Some(message));
        assert_eq!(Message::read(&frame[..END_AT - 1]), None);
    }
}
