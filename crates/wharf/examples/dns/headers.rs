//! The headers around a message, as the device makes them: Ethernet, IPv4 without options or IPv6, UDP. The kernel fills in
//! the checksums.

const ETHERTYPE_AT: usize = 12;
const IP_AT: usize = 14;
const UDP_BYTES: usize = 8;

/// Returns the offset of both addresses in an IP header, the length of each, and the offset of the UDP header.
struct Places {
    addresses_at: usize,
    address_bytes: usize,
    udp_at: usize,
}

fn places(frame: &[u8]) -> Option<Places> {
    match frame.get(ETHERTYPE_AT..IP_AT)? {
        [0x08, 0x00] => Some(Places { addresses_at: IP_AT + 12, address_bytes: 4, udp_at: IP_AT + 20 }),
        [0x86, 0xdd] => Some(Places { addresses_at: IP_AT + 8, address_bytes: 16, udp_at: IP_AT + 40 }),
        _ => None,
    }
}

/// Swaps a frame's source and destination. Returns the offset of its message.
pub fn turn_round(frame: &mut [u8]) -> Option<usize> {
    let Places { addresses_at, address_bytes, udp_at } = places(frame)?;
    let message_at = udp_at + UDP_BYTES;
    if frame.len() < message_at {
        return None;
    }
    for (at, bytes) in [(0, 6), (addresses_at, address_bytes), (udp_at, 2)] {
        frame[at..at + 2 * bytes].rotate_left(bytes);
    }
    Some(message_at)
}

/// Writes the lengths for a message of `bytes`.
pub fn set_lengths(frame: &mut [u8], message_at: usize, bytes: usize) {
    let udp_at = message_at - UDP_BYTES;
    let udp_bytes = (UDP_BYTES + bytes) as u16;
    frame[udp_at + 4..udp_at + 6].copy_from_slice(&udp_bytes.to_be_bytes());
    match places(frame) {
        // IPv4 counts its own header.
        Some(Places { address_bytes: 4, .. }) => {
            let total_bytes = udp_bytes + (udp_at - IP_AT) as u16;
            frame[IP_AT + 2..IP_AT + 4].copy_from_slice(&total_bytes.to_be_bytes());
        }
        _ => frame[IP_AT + 4..IP_AT + 6].copy_from_slice(&udp_bytes.to_be_bytes()),
    }
}
