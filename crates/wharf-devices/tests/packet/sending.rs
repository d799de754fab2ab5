//! What is sent, as tcpdump sees it at the other end.

use super::common::len_of;
use super::net::{End, Tcpdump, frame, has, with_pair};

fn sends(spec: &'static str, count: u32, name: &'static str) {
    with_pair(move || {
        if !has("tcpdump") {
            return;
        }
        let tcpdump = Tcpdump::start("vb", count as usize, name);
        let mut end = End::sender(spec);
        let frames: Vec<Vec<u8>> = (0..count).map(|number| frame(number, len_of(number))).collect();
        for some in frames.chunks(50) {
            some.iter().for_each(|bytes| end.offer(bytes));
            assert_eq!(end.send_all(), (some.len(), vec![]));
        }
        let captured = tcpdump.frames();
        assert_eq!(captured.len(), frames.len());
        assert!(captured == frames, "not what was sent");
        end.assert_all_home();
    });
}

#[test]
fn every_byte_arrives_in_order() {
    sends("packet:va", 3000, "send");
}

#[test]
fn and_past_the_qdisc() {
    sends("packet:va,bypass=on", 3000, "bypass");
}

/// A ring of whatever fits one block; many times round.
#[test]
fn and_by_the_smallest_ring() {
    sends("packet:va,ring=1", 2000, "small");
}
