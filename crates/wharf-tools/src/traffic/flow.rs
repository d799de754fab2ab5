//! The sender, of several, that a frame of a capture goes by.

use wharf_packet::flow_hash;

/// Returns the sender, of `senders`, that a frame of a shared capture goes by.
pub(super) fn sender_of(frame: &[u8], senders: usize) -> usize {
    if senders == 1 { 0 } else { (flow_hash(frame) % senders as u64) as usize }
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
            seen[sender_of(&frame, 4)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 32), "{seen:?}");
    }
}
