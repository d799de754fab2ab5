//! Which sender of several a frame of a capture goes by.

use wharf_core::flow::flow_hash;
use wharf_core::qdisc::band_of_bytes;

/// Which of `senders` senders, and of their `bands` bands, a frame of a shared capture goes by.
pub(super) fn lane_of(frame: &[u8], senders: usize, bands: usize) -> usize {
    let sender = if senders == 1 { 0 } else { (flow_hash(frame) % senders as u64) as usize };
    if bands == 1 { sender } else { sender * bands + usize::from(band_of_bytes(frame)).min(bands - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: u8 = 17;

    fn ipv4(protocol: u8, fragment: u16, ports: [u8; 4], tagged: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if tagged {
            frame.extend([0x81, 0, 0, 100]);
        }
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
        frame.extend(ports);
        frame
    }

    #[test]
    fn flows_spread_over_senders() {
        let mut seen = [0; 4];
        for port in 0..=255 {
            seen[lane_of(&ipv4(UDP, 0, [0, port, 0, 9], false), 4, 1)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 32), "{seen:?}");
    }
}
