//! Requests that do not fit their frame: each fails with its reason, alone.

use crate::net::{frame, with_net};
use crate::supers::{offer_chain, opened, super_packet};
use wharf_devices::open::Direction;
use wharf_mem::Meta;
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP};
use wharf_testkit::end::End;
use wharf_testkit::packets::{cut, data};

#[test]
#[ignore = "wants root"]
fn super_packets_of_ours_are_the_kernels() {
    with_net(|| {
        for frame_bytes in [1984, 65_472, 512] {
            let mut tap = End::new("tap:t0", Direction::Send, frame_bytes);
            let mut keeps = End::receiver("packet:t0,gso=keep");
            let mut cuts = End::receiver("packet:t0");
            for (kind, payload) in
                [(GSO_TCPV4, 30_000), (GSO_TCPV6, 20_001), (GSO_UDP, 12_000), (GSO_TCPV4, 65_480)]
            {
                let (packet, meta) = super_packet(kind, payload);
                tap.offer(&frame(0, 80));
                offer_chain(&mut tap, &packet, &meta);
                tap.offer(&frame(1, 80));
                assert_eq!(tap.send_all(), (3, vec![]), "kind {kind}");
                assert!(keeps.receive(3) == [frame(0, 80), packet.clone(), frame(1, 80)], "kind {kind}");
                let segments = cut(&packet, &meta);
                let expected = [vec![frame(0, 80)], segments, vec![frame(1, 80)]].concat();
                assert!(cuts.receive(expected.len()) == expected, "kind {kind}");
            }
            [tap, keeps, cuts].iter_mut().for_each(End::assert_all_home);
        }
    });
}

#[test]
#[ignore = "wants root"]
fn a_checksum_left_to_the_kernel_is_filled_in() {
    with_net(|| {
        let (mut tap, mut to) = (End::sender("tap:t0"), End::receiver("packet:t0"));
        let (packet, meta) = super_packet(GSO_UDP, 1001);
        offer_chain(&mut tap, &packet, &Meta { gso_bytes: 0, gso_kind: 0, ..meta });
        assert_eq!(tap.send_all(), (1, vec![]));
        assert_eq!(opened(&to.receive(1)[0]).unwrap().2, data(1001));
    });
}

#[test]
#[ignore = "wants root"]
fn a_lie_fails_alone_with_its_reason() {
    with_net(|| {
        let (mut tap, mut to) = (End::sender("tap:t0"), End::receiver("packet:t0"));
        let (packet, meta) = super_packet(GSO_TCPV4, 5000);
        let lies = [
            (Meta { gso_bytes: 0, ..meta }, "gso-size"),
            (Meta { gso_bytes: 65_535, ..meta }, "gso-size"),
            (Meta { gso_bytes: 1461, ..meta }, "too-long"),
            (Meta { gso_kind: 3, ..meta }, "gso-kind"),
            (Meta { gso_kind: 0, ..meta }, "gso-kind"),
            (Meta { gso_kind: GSO_TCPV6, ..meta }, "gso-header"),
            (Meta { gso_kind: GSO_UDP, ..meta }, "gso-header"),
            (Meta { needs_checksum: false, ..meta }, "gso-checksum"),
            (Meta { checksum_start: 35, ..meta }, "gso-checksum"),
            (Meta { checksum_start: 60_000, gso_kind: 0, gso_bytes: 0, ..meta }, "checksum-place"),
        ];
        for (number, (meta, why)) in lies.into_iter().enumerate() {
            tap.offer(&frame(number as u32, 64));
            offer_chain(&mut tap, &packet, &meta);
            assert_eq!(tap.send_all(), (1, vec![why]), "{meta:?}");
            assert_eq!(to.receive(1), [frame(number as u32, 64)]);
        }
        // Headers beyond the frame.
        offer_chain(&mut tap, &packet[..40], &meta);
        offer_chain(&mut tap, &packet, &meta);
        assert_eq!(tap.send_all(), (1, vec!["checksum-place"]));
        assert!(to.receive(4) == cut(&packet, &meta));
        [tap, to].iter_mut().for_each(End::assert_all_home);
    });
}
