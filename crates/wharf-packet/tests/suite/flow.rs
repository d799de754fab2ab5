//! Frames by hand.

use wharf_packet::{QueueMap, TCP, UDP, flow_hash, flow_hash_seeded};

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
fn port_or_protocol_differs_then_the_hash_does_and_a_tag_does_not_count() {
    let one = flow_hash(&ipv4(UDP, 0, [0, 1, 0, 9], false));
    assert_eq!(one, flow_hash(&ipv4(UDP, 0, [0, 1, 0, 9], true)));
    assert_ne!(one, flow_hash(&ipv4(UDP, 0, [0, 2, 0, 9], false)));
    assert_ne!(one, flow_hash(&ipv4(TCP, 0, [0, 1, 0, 9], false)));
}

#[test]
fn fragments_of_one_packet_then_one_hash() {
    let first = flow_hash(&ipv4(UDP, 0x2000, [0, 1, 0, 9], false));
    let later = flow_hash(&ipv4(UDP, 0x00b9, [7, 7, 7, 7], false));
    assert_eq!(first, later);
}

#[test]
fn frame_cut_at_each_byte_then_it_has_a_hash_and_a_queue() {
    for frame in
        [ipv4(UDP, 0, [0, 1, 0, 9], true), [vec![0; 12], vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0]].concat()]
    {
        for len in 0..frame.len() {
            flow_hash(&frame[..len]);
            assert!(QueueMap::new(3).queue_of(&frame[..len]) < 3);
        }
    }
}

/// An IPv6 frame with these extension headers (their numbers), each of 8 bytes, before what `last` is.
fn ipv6(extensions: &[u8], last: u8, ports: [u8; 4]) -> Vec<u8> {
    let mut frame = [vec![2; 12], vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 40]].concat();
    frame.extend([*extensions.first().unwrap_or(&last), 64]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    for at in 0..extensions.len() {
        // A fragment header says that more follow.
        let more = u8::from(extensions[at] == 44);
        frame.extend([*extensions.get(at + 1).unwrap_or(&last), 0, 0, more, 0, 0, 0, 0]);
    }
    frame.extend(ports);
    frame
}

#[test]
fn extension_headers_then_ports_count_and_in_fragments_they_do_not() {
    let plain = flow_hash(&ipv6(&[], UDP, [0, 1, 0, 9]));
    for extensions in [&[0][..], &[0, 43], &[60], &[0, 43, 60]] {
        assert_eq!(flow_hash(&ipv6(extensions, UDP, [0, 1, 0, 9])), plain, "{extensions:?}");
        assert_ne!(flow_hash(&ipv6(extensions, UDP, [0, 2, 0, 9])), plain, "{extensions:?}");
        let fragment = [extensions, &[44]].concat();
        let piece = |ports| flow_hash(&ipv6(&fragment, UDP, ports));
        assert_eq!(piece([0, 1, 0, 9]), piece([7, 7, 7, 7]), "{fragment:?}");
    }
}

#[test]
fn more_than_four_extension_headers_then_ports_still_count() {
    let many = [60; 8];
    assert_ne!(flow_hash(&ipv6(&many, UDP, [0, 1, 0, 9])), flow_hash(&ipv6(&many, UDP, [0, 2, 0, 9])));
}

/// Maps of flows to queues are compared between versions and hosts.
#[test]
fn known_frames_then_known_hashes() {
    assert_eq!(flow_hash(&ipv4(UDP, 0, [0, 1, 0, 9], false)), 0xe9a5_974f_05ee_4e5b);
    assert_eq!(flow_hash(&ipv4(TCP, 0, [0, 1, 0, 9], true)), 0xff96_8a21_dfe7_76d0);
    assert_eq!(flow_hash(&ipv4(UDP, 0x2000, [0, 1, 0, 9], false)), 0x5412_2d80_bd3f_2aa5);
    assert_eq!(flow_hash(&ipv6(&[], UDP, [0, 1, 0, 9])), 0xa4ff_3d92_b55e_bd60);
    assert_eq!(flow_hash(&[2; 60]), 0xa427_370f_ff60_e0ae);
}

#[test]
fn many_flows_then_they_spread_over_queues_and_stay() {
    for queues in [1, 2, 3, 4, 8] {
        let (map, mut seen) = (QueueMap::new(queues), vec![0; queues as usize]);
        for port in 0..=255 {
            let frame = ipv4(UDP, 0, [0, port, 0, 9], false);
            let queue = map.queue_of(&frame);
            let tagged = ipv4(UDP, 0, [0, port, 0, 9], true);
            assert_eq!((map.queue_of(&frame), map.queue_of(&tagged)), (queue, queue));
            seen[queue] += 1;
        }
        let share = 256 / seen.len();
        assert!(seen.iter().all(|&count| count > share / 2 && count < 2 * share + 1), "{seen:?}");
    }
    assert_eq!(QueueMap::new(0), QueueMap::new(1));
}

#[test]
fn seed_changes_then_other_flows_share_a_queue() {
    let frames: Vec<_> = (0..64).map(|port| ipv4(UDP, 0, [0, port, 0, 9], false)).collect();
    let queues = |seed| frames.iter().map(|frame| flow_hash_seeded(frame, seed) % 16).collect::<Vec<_>>();
    assert_eq!(queues(0), frames.iter().map(|frame| flow_hash(frame) % 16).collect::<Vec<_>>());
    assert_eq!(queues(7), queues(7));
    assert_ne!(queues(7), queues(8));
    let together = |queues: &[u64]| (1..64).filter(|&at| queues[at] == queues[0]).collect::<Vec<_>>();
    assert_ne!(together(&queues(7)), together(&queues(8)));
}
