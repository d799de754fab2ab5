//! `VnetHeader`: headers as written and read, right ones and wrong ones.

use proptest::prelude::*;
use wharf_devices::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use wharf_mem::Meta;
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP, GsoPlan};
use wharf_packet::{TCP_FLAGS_AT, TCP_LENGTH_AT};

/// TCP's CWR flag.
const CWR: u8 = 0x80;

/// A TCP super-packet over IPv4, as the kernel hands them over, and its header. The header says nothing true
/// of its length.
fn tcp() -> (Vec<u8>, VnetHeader) {
    let mut packet = vec![0; 14 + 20 + 32 + 4000];
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x45;
    packet[14 + 9] = 6;
    packet[34 + TCP_LENGTH_AT] = 8 << 4;
    let header = VnetHeader {
        needs_checksum: true,
        gso_kind: GSO_TCPV4,
        has_ecn: false,
        header_bytes: 60_000,
        gso_bytes: 1448,
        checksum_start: 34,
        checksum_offset: 16,
    };
    (packet, header)
}

#[test]
fn written_header_is_read_back() {
    let (_, header) = tcp();
    for header in [header, VnetHeader { has_ecn: true, ..header }, VnetHeader::default()] {
        assert_eq!(VnetHeader::read(&header.bytes()), header);
    }
    assert_eq!(VnetHeader::read(&[0, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]).gso_kind, 1, "congestion is no kind");
}

#[test]
fn correct_header_becomes_its_requests_and_back() {
    let (mut packet, header) = tcp();
    let len = packet.len();
    let meta = header.meta(&packet, len).unwrap();
    let expected = Meta {
        gso_bytes: 1448,
        gso_kind: GSO_TCPV4,
        needs_checksum: true,
        checksum_start: 34,
        checksum_offset: 16,
        time_ns: 0,
    };
    assert_eq!(meta, expected);
    assert_eq!(header.meta(&packet[..START_BYTES], len), Ok(meta), "the first bytes will do");
    let to_send = VnetHeader { header_bytes: 66, ..header };
    assert_eq!(VnetHeader::to_send(&packet, len, &meta), Ok(to_send), "the length is counted anew");
    packet[34 + TCP_FLAGS_AT] = CWR;
    assert_eq!(VnetHeader::to_send(&packet, len, &meta), Ok(VnetHeader { has_ecn: true, ..to_send }));
}

#[test]
fn wrong_header_is_rejected_with_its_reason() {
    let (packet, header) = tcp();
    let reason = |packet: &[u8], header: VnetHeader| header.meta(packet, packet.len()).unwrap_err().reason();
    let short = &packet[..50];
    let mut udp = packet.clone();
    udp[14 + 9] = 17;
    for (header, why) in [
        (VnetHeader { gso_bytes: 0, ..header }, "gso-size"),
        (VnetHeader { gso_bytes: u16::MAX, ..header }, "gso-size"),
        (VnetHeader { gso_kind: 3, ..header }, "gso-kind"),
        (VnetHeader { gso_kind: 0x7f, ..header }, "gso-kind"),
        (VnetHeader { gso_kind: GSO_TCPV6, ..header }, "gso-header"),
        (VnetHeader { gso_kind: GSO_UDP, ..header }, "gso-header"),
        (VnetHeader { needs_checksum: false, ..header }, "gso-checksum"),
        (VnetHeader { checksum_start: 33, ..header }, "gso-checksum"),
        (VnetHeader { checksum_offset: 6, ..header }, "gso-checksum"),
        (VnetHeader { checksum_start: u16::MAX, ..header }, "checksum-place"),
        (VnetHeader { checksum_offset: 4031, gso_kind: 0, ..header }, "checksum-place"),
    ] {
        assert_eq!(reason(&packet, header), why, "{header:?}");
    }
    assert_eq!(reason(short, VnetHeader { checksum_offset: 0, ..header }), "gso-header", "beyond the frame");
    assert_eq!(reason(&[], header), "checksum-place");
    assert_eq!(reason(&udp, header), "gso-header", "another protocol");
    let kind_of_nothing = Meta { gso_bytes: 0, gso_kind: GSO_TCPV4, ..Meta::default() };
    let unfit = VnetHeader::to_send(&packet, packet.len(), &kind_of_nothing).unwrap_err();
    assert_eq!((unfit.reason(), unfit.to_string().contains('\n')), ("gso-size", false));
}

#[test]
fn plain_header_requests_nothing() {
    let plain = VnetHeader { header_bytes: 7, gso_bytes: 9, checksum_start: 9999, ..VnetHeader::default() };
    assert_eq!(plain.meta(&[], 0), Ok(Meta::default()));
    let sum = VnetHeader { needs_checksum: true, checksum_start: 4, checksum_offset: 4, ..plain };
    let asked = Meta { needs_checksum: true, checksum_start: 4, checksum_offset: 4, ..Meta::default() };
    assert_eq!((sum.meta(&[0; 10], 10), sum.meta(&[0; 9], 9).is_err()), (Ok(asked), true));
}

proptest! {
    /// Any header before any bytes is rejected, or its request can be sent and segmented.
    #[test]
    fn accepted_header_can_be_sent_and_segmented(
        bytes: [u8; VNET_HEADER_BYTES], place in 0usize..120, patch: [u8; 4], kind in 0u8..6, good: bool,
    ) {
        let (mut packet, true_header) = tcp();
        packet[place..place + 4].copy_from_slice(&patch);
        let mut header = if good { true_header } else { VnetHeader::read(&bytes) };
        header.gso_kind = kind;
        if let Ok(meta) = header.meta(&packet, packet.len()) {
            let again = VnetHeader::to_send(&packet, packet.len(), &meta).unwrap();
            prop_assert_eq!(again.meta(&packet, packet.len()), Ok(meta));
            if meta.gso_bytes > 0 {
                let cut = GsoPlan::new(&packet, meta.gso_kind, meta.gso_bytes).unwrap();
                let mut segment = vec![0; cut.segment_bytes(0)];
                cut.write(&packet, 0, &mut segment);
                prop_assert!(usize::from(again.header_bytes) <= segment.len());
            }
        }
    }
}
