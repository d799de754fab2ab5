//! What is in a frame: whose, which, and when it was sent.

use wharf_core::pool::Burst;

/// Ethernet, IPv4 and UDP: what a message of so many bytes would take before them.
const HEADERS_BYTES: u32 = 42;
/// The shortest frame, without check sequence.
const SHORTEST_BYTES: u32 = 60;
/// For local experiments (IEEE 802).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const FLOW_AT: usize = 14;
const NUMBER_AT: usize = 18;
const TIME_AT: usize = 26;
const END_AT: usize = 34;

/// A message's beginning; the rest is whatever was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) flow: u32,
    /// Messages of its flow up to this one.
    pub(super) number: u64,
    /// When it was made.
    pub(super) time_ns: u64,
}

/// Bytes of the frame for so many of payload.
pub(super) fn frame_bytes(payload_bytes: u32) -> u32 {
    (HEADERS_BYTES + payload_bytes).max(SHORTEST_BYTES)
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

    /// Those in `burst`, in order.
    pub(super) fn all(burst: &mut Burst) -> impl Iterator<Item = Self> {
        burst.iter_mut().filter_map(|frame| Self::read(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_not_is_none() {
        let message = Message { flow: 99, number: 1 << 40, time_ns: u64::MAX - 7 };
        let mut frame = vec![0; frame_bytes(1) as usize];
        assert_eq!((frame.len(), frame_bytes(4096), Message::read(&frame)), (60, 4138, None));
        message.write(&mut frame);
        assert_eq!(Message::read(&frame), Some(message));
        assert_eq!(Message::read(&frame[..END_AT - 1]), None);
    }
}
