//! Which sender of several a frame of a capture goes by.

use wharf_core::qdisc::band_of_bytes;
use wharf_packet::flow_hash;

/// Which of `senders` senders, and of their `bands` bands, a frame of a shared capture goes by.
pub(super) fn lane_of(frame: &[u8], senders: usize, bands: usize) -> usize {
    let sender = if senders == 1 { 0 } else { (flow_hash(frame) % senders as u64) as usize };
    if bands == 1 { sender } else { sender * bands + usize::from(band_of_bytes(frame)).min(bands - 1) }
}

#[cfg(test)]
mod tests {
    use super::super::GeneratorSpec;
    use super::*;

    #[test]
    fn flows_spread_over_senders() {
        let spec = GeneratorSpec { flows: 256, ..GeneratorSpec::default() };
        let (generators, mut seen) = (spec.generators().unwrap(), [0; 4]);
        for flow in 0..256 {
            let mut frame = [0; 60];
            generators[0].write_packet(&mut frame, flow, 0);
            seen[lane_of(&frame, 4, 1)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 32), "{seen:?}");
    }
}
