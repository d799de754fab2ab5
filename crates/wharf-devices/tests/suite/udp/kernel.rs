//! Sending, with a kernel that refuses at any place.

mod model;

use model::{Model, Rig};
use proptest::prelude::*;
use wharf_core::device::Transmitted;
use wharf_devices::udp::addressing::{Addressing, ByFrame};
use wharf_devices::udp::headers::Headers;
use wharf_packet::gso::GSO_UDP;
use wharf_sys::errno::{EACCES, EAGAIN, ECONNREFUSED, EHOSTUNREACH, EINVAL, EIO, EMSGSIZE, ENOBUFS, EPERM};
use wharf_sys::udp::ErrorReport;

#[test]
fn a_batch_of_one_length_is_one_message_and_one_call() {
    let mut rig = Rig::connected();
    (0..64).for_each(|number| rig.offer(&[number; 20]));
    assert_eq!(rig.transmit(), Transmitted { doorbell: true, stopped: false });
    assert_eq!((rig.model.calls, rig.model.messages), (1, 1));
    assert_eq!(rig.payloads(), (0..64).map(|number| vec![number; 20]).collect::<Vec<_>>());
    rig.send_all();
    assert_eq!(rig.completed, 64);
}

#[test]
fn every_place_is_a_message_of_its_own() {
    let mut rig = Rig::new(Addressing::ByFrame(ByFrame::new("192.0.2.1:7".parse().unwrap())));
    for (port, byte) in [(1, 1), (1, 2), (2, 3), (1, 4), (1, 5)] {
        rig.offer_to(&format!("192.0.2.9:{port}"), &[byte; 9]);
    }
    rig.offer_to("198.51.100.1:1", &[6; 9]);
    rig.send_all();
    let ports: Vec<_> =
        rig.model.got.iter().map(|(bytes, sent)| (bytes[0], sent.to.unwrap().to_string())).collect();
    let wanted = [
        (1, "192.0.2.9:1"),
        (2, "192.0.2.9:1"),
        (3, "192.0.2.9:2"),
        (4, "192.0.2.9:1"),
        (5, "192.0.2.9:1"),
        (6, "198.51.100.1:1"),
    ];
    assert_eq!(ports, wanted.map(|(byte, to)| (byte, to.to_string())));
    assert_eq!((rig.model.calls, rig.model.messages), (1, 4));
}

#[test]
fn frame_without_datagram_fails_in_its_turn() {
    let mut rig = Rig::connected();
    rig.offer(&[1; 9]);
    rig.offer_bytes(&[0; 60]);
    rig.offer(&[2; 9]);
    rig.offer_bytes(&[0; 5]);
    rig.model.script.push_back((0, EAGAIN));
    assert_eq!(rig.transmit(), Transmitted { doorbell: false, stopped: true });
    assert_eq!((rig.batch.len(), rig.sending.outstanding()), (4, 0), "a frame waits for the frames in front");
    rig.send_all();
    assert_eq!((rig.payloads(), rig.reasons()), (vec![vec![1; 9], vec![2; 9]], vec!["not-udp"; 2]));
    assert_eq!(rig.model.messages, 1, "joined past it");
}

#[test]
fn a_chain_goes_piece_by_piece() {
    let mut rig = Rig::connected();
    let payload: Vec<u8> = (0..3000).map(|at| at as u8).collect();
    let headers =
        Headers::new("[::1]:7".parse().unwrap(), "[::2]:9".parse().unwrap(), 0, payload.len()).unwrap();
    let whole = [&headers.finish(&payload, 1)[..headers.len_bytes()], &payload, &[0xee; 40]].concat();
    // Headers with the first bytes, the middle, the end with padding, nothing but padding.
    for piece in [&whole[..100], &whole[100..1600], &whole[1600..3080], &whole[3080..]] {
        rig.offer_bytes(piece);
    }
    let region = rig.pool.region().clone();
    let mut head = rig.batch.pop().unwrap();
    while let Some(piece) = rig.batch.pop() {
        region.link(&mut head, piece).unwrap();
    }
    rig.batch.push(head).unwrap();
    rig.send_all();
    assert_eq!(rig.payloads(), [payload]);
}

/// Datagrams of `each` bytes, the last one shorter, of bytes that count up.
fn counting(each: usize, count: usize, last: usize) -> Vec<u8> {
    (0..each * (count - 1) + last).map(|at| (at / each * 31 + at) as u8).collect()
}

fn cut(payload: &[u8], each: usize) -> Vec<Vec<u8>> {
    payload.chunks(each).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_super_packet_is_a_message_or_as_many_as_it_takes() {
    for (each, count, last, messages) in
        [(1200, 20, 1200, 1), (1200, 54, 7, 1), (100, 64, 1, 1), (100, 65, 100, 2), (100, 500, 9, 8)]
    {
        let (mut rig, payload) = (Rig::connected(), counting(each, count, last));
        rig.offer(&[1; 9]);
        rig.offer_super(&payload, each as u16, GSO_UDP);
        rig.offer(&[2; 9]);
        assert_eq!(rig.transmit(), Transmitted { doorbell: true, stopped: false });
        assert_eq!((rig.model.calls, rig.model.messages), (1, messages + 2), "{count} of {each}");
        let wanted = [vec![vec![1; 9]], cut(&payload, each), vec![vec![2; 9]]].concat();
        assert_eq!(rig.payloads(), wanted);
        rig.send_all();
        assert_eq!(rig.completed, 3);
    }
}

#[test]
fn a_super_packet_goes_on_where_the_kernel_stopped() {
    let (mut rig, payload) = (Rig::connected(), counting(100, 300, 100));
    rig.offer_super(&payload, 100, GSO_UDP);
    rig.offer(&[1; 9]);
    for (taken, sent) in [(2, 128), (0, 128), (1, 192)] {
        rig.model.script.push_back((taken, EAGAIN));
        if taken > 0 {
            rig.model.script.push_back((0, EAGAIN));
        }
        assert!(rig.transmit().stopped);
        assert_eq!((rig.batch.len(), rig.sending.outstanding(), rig.model.got.len()), (2, 0, sent));
    }
    // Refused from there on, it goes datagram by datagram.
    rig.model.never_joined = Some(EIO);
    rig.send_all();
    assert_eq!(rig.payloads(), [cut(&payload, 100), vec![vec![1; 9]]].concat());
    assert_eq!(rig.completed, 2);
}

#[test]
fn a_super_packet_of_which_a_datagram_is_forbidden_fails_and_those_behind_go() {
    let mut rig = Rig::connected();
    rig.model.forbidden = Some((7, EPERM));
    let payload: Vec<u8> = (5..10).flat_map(|byte| [byte; 20]).collect();
    rig.offer_super(&payload, 20, GSO_UDP);
    rig.offer(&[1; 20]);
    rig.send_all();
    assert_eq!(
        (rig.payloads(), rig.reasons()),
        ([5, 6, 1].map(|byte| vec![byte; 20]).to_vec(), vec!["not-permitted"])
    );
}

#[test]
fn super_packets_of_no_datagrams_fail() {
    let mut rig = Rig::connected();
    rig.offer_super(&[1; 100], 50, 3);
    // One whose segments are longer than it is: a datagram.
    rig.offer_super(&[2; 100], 100, GSO_UDP);
    rig.send_all();
    assert_eq!((rig.reasons(), rig.payloads()), (vec!["gso-kind"], vec![vec![2; 100]]));
}

#[test]
fn rejected_joined_send_goes_one_by_one_and_joins_again_later() {
    for errno in [EIO, EINVAL, EMSGSIZE] {
        let mut rig = Rig::connected();
        (0..64).for_each(|number| rig.offer(&[number; 20]));
        rig.model.never_joined = Some(errno);
        rig.send_all();
        assert_eq!(rig.payloads(), (0..64).map(|number| vec![number; 20]).collect::<Vec<_>>());
        assert_eq!(rig.model.calls, 2, "refused once, then all by one call");
        rig.model.never_joined = None;
        for messages in [1, 2] {
            (0..64).for_each(|number| rig.offer(&[number; 20]));
            rig.send_all();
            assert_eq!(rig.model.messages, 64 + messages, "after a pause of 64 frames");
        }
    }
}

#[test]
fn closed_port_does_not_end_the_device() {
    let mut rig = Rig::connected();
    for number in 0..20 {
        rig.offer(&[number; 20]);
        rig.model.script.push_back((0, ECONNREFUSED));
        rig.transmit();
    }
    assert!(rig.reap().unwrap().contains("no program listens"));
    rig.send_all();
    assert_eq!((rig.completed, rig.model.got.len(), rig.failed.len()), (20, 20, 0));
}

#[test]
fn reports_of_earlier_datagrams_hold_up_none_and_are_told() {
    let mut rig = Rig::connected();
    // More than a frame is tried again in a row.
    for number in 0..100 {
        rig.offer(&[number; 20]);
        rig.model.script.push_back((0, EHOSTUNREACH));
        let report = ErrorReport { errno: EHOSTUNREACH, is_late: true };
        rig.model.reports.extend([report, ErrorReport { is_late: false, ..report }, report]);
        rig.transmit();
    }
    let told = rig.reap().unwrap();
    assert!(told.contains("no neighbour answers") && told.contains("at least 200 datagrams"), "{told}");
    rig.send_all();
    assert_eq!((rig.completed, rig.model.got.len(), rig.failed.len()), (100, 100, 0));
    assert!(rig.model.reports.is_empty());
}

#[test]
fn an_answer_that_stays_fails_the_frame_with_its_reason() {
    let all = [
        (EPERM, "not-permitted"),
        (EACCES, "not-permitted"),
        (EHOSTUNREACH, "unreachable"),
        (EMSGSIZE, "too-long"),
    ];
    for (errno, reason) in all {
        let mut rig = Rig::connected();
        rig.model.forbidden = Some((7, errno));
        (5..10).for_each(|number| rig.offer(&[number; 20]));
        rig.send_all();
        assert_eq!(rig.payloads(), [5, 6, 8, 9].map(|number| vec![number; 20]));
        assert_eq!(rig.reasons(), [reason]);
    }
}

#[test]
fn without_memory_or_closed_frames_fail() {
    let mut rig = Rig::unattached();
    rig.offer(&[1; 9]);
    rig.send_all();
    rig.offer(&[1; 9]);
    rig.sending.refuse(&mut rig.batch);
    rig.reap();
    assert_eq!(rig.reasons(), ["not-attached", "closed"]);
}

fn errno() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![EAGAIN, EIO, EINVAL, EMSGSIZE, ECONNREFUSED, ENOBUFS, EPERM, EHOSTUNREACH])
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_reordered(
        frames in prop::collection::vec((0..20u8, prop::sample::select(vec![0usize, 1, 20, 20, 20, 21, 1200])), 1..200),
        script in prop::collection::vec((0usize..6, errno()), 0..60),
        never_joined in prop::option::of(prop::sample::select(vec![EIO, EINVAL, EMSGSIZE])),
        forbidden in prop::option::of((0..20u8, errno().prop_filter("stays", |errno| ![EAGAIN, ENOBUFS].contains(errno)))),
        by_frame: bool,
        offers in prop::collection::vec(1usize..70, 1..8),
    ) {
        let mut rig = if by_frame {
            Rig::new(Addressing::ByFrame(ByFrame::new("192.0.2.1:7".parse().unwrap())))
        } else {
            Rig::connected()
        };
        rig.model = Model { script: script.into(), never_joined, forbidden, ..Model::default() };
        let (mut offers, mut next) = (offers.into_iter().cycle(), 0);
        while next < frames.len() {
            let until = frames.len().min(next + offers.next().unwrap());
            for (number, (kind, len)) in frames.iter().enumerate().take(until).skip(next) {
                match kind {
                    // Numbered, so that each is known.
                    3.. => {
                        let payload: Vec<u8> = [*kind, number as u8].into_iter().chain([9; 1200]).take(*len).collect();
                        rig.offer_to(&format!("192.0.2.9:{}", kind % 3 + 1), &payload);
                    }
                    _ => rig.offer_bytes(&[number as u8; 40]),
                }
            }
            next = until;
            rig.transmit();
            rig.reap();
        }
        // Sends the rest, with the errors that are left in the script.
        rig.send_all();
        let unfit = frames.iter().filter(|(kind, _)| *kind < 3).count();
        prop_assert_eq!(rig.reasons().iter().filter(|reason| **reason == "not-udp").count(), unfit);
        prop_assert_eq!(rig.completed, rig.model.got.len());
        prop_assert_eq!(rig.completed + rig.failed.len(), frames.len());
        // In order, with those left out that have failed.
        let mut numbers = rig.model.got.iter().filter(|(bytes, _)| bytes.len() > 1).map(|(bytes, _)| bytes[1] as usize);
        let mut last = None;
        prop_assert!(numbers.all(|number| last.replace(number).is_none_or(|last| last < number)), "order");
        for (bytes, sent) in &rig.model.got {
            if let (Some(kind), true) = (bytes.first(), by_frame) {
                prop_assert_eq!(u16::from(kind % 3 + 1), sent.to.unwrap().port());
            }
            prop_assert!(bytes.len() <= 1 || frames[bytes[1] as usize] == (bytes[0], bytes.len()), "whole");
        }
        // Only forbidden datagrams fail, and those retried too often.
        let failed = rig.failed.iter().filter(|(_, reason)| *reason != "not-udp").count();
        prop_assert!(forbidden.is_some() || failed <= 60);
    }

    #[test]
    fn super_packets_are_cut_as_they_should_whatever_keeps_the_kernel(
        frames in prop::collection::vec((prop::sample::select(vec![20u16, 333, 1200]), 1usize..130, any::<bool>()), 1..12),
        script in prop::collection::vec((0usize..4, prop::sample::select(vec![EAGAIN, ENOBUFS, ECONNREFUSED])), 0..40),
        never_joined in prop::option::of(prop::sample::select(vec![EIO, EINVAL, EMSGSIZE])),
    ) {
        let mut rig = Rig::connected();
        rig.model = Model { script: script.into(), never_joined, ..Model::default() };
        let mut wanted = Vec::new();
        for (each, count, is_super) in frames {
            let each = usize::from(each);
            let payload = if is_super { counting(each, count.min(40_000 / each), each - 3) } else { vec![count as u8; each] };
            if is_super {
                rig.offer_super(&payload, each as u16, GSO_UDP);
            } else {
                rig.offer(&payload);
            }
            wanted.extend(cut(&payload, each));
            rig.transmit();
            rig.reap();
        }
        rig.send_all();
        prop_assert_eq!(rig.reasons(), Vec::<&str>::new());
        prop_assert_eq!(rig.payloads(), wanted);
    }
}
