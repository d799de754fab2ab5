//! Frames of any bytes through the header parser: no offset lies outside, a shorter frame has the same headers or none, and
//! whatever changes a frame keeps its length and flow.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_packet::checksum::{complete_transport, fold, sum};
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP, GsoPlan};
use wharf_packet::{Datagram, Ecn, Headers, UdpHeaders, ecn, flow_hash_seeded, mark_ce, traffic_class, tunnel};

fuzz_target!(|bytes: &[u8]| {
    let (flow, class) = (flow_hash_seeded(bytes, 7), traffic_class(bytes));
    let mut frame = bytes.to_vec();
    if mark_ce(&mut frame) {
        assert_eq!((ecn(&frame), traffic_class(&frame)), (Some(Ecn::Ce), class.map(|class| class | 3)));
    } else {
        assert_eq!(frame, bytes);
    }
    assert_eq!(flow_hash_seeded(&frame, 7), flow);
    let datagram = Datagram::parse(bytes);
    if let Some((headers, payload)) = UdpHeaders::reply_to(bytes) {
        let (asked, mut back) = (datagram.unwrap(), vec![0; headers.len_bytes()]);
        back.extend(&bytes[payload]);
        headers.write(&mut back, 1).unwrap();
        let answer = Datagram::parse(&back).unwrap();
        assert_eq!((answer.source, answer.destination, answer.payload), (asked.destination, asked.source, asked.payload));
    }
    let headers = Headers::parse(bytes);
    assert_eq!(Headers::parse(&frame), headers);
    let Ok(headers) = headers else { return };
    assert!(headers.ip_at < headers.transport_at && headers.transport_at <= bytes.len());
    assert_eq!(headers.traffic_class(bytes), class);
    assert_eq!(Headers::parse_ip(bytes, headers.ip_at), Ok(headers));
    assert_eq!(Headers::parse(&bytes[..headers.transport_at]), Ok(headers));
    assert!(Headers::parse(&bytes[..headers.transport_at - 1]).is_err());
    let pseudo = headers.pseudo_sum(bytes, 9);
    assert_eq!(pseudo.is_some(), headers.final_destination_at.is_some());
    if let Some(payload_at) = headers.payload_at(bytes) {
        assert!(payload_at <= bytes.len() && headers.ports(bytes).is_some());
    }
    // Inner packets lie behind their tunnel, so that this ends.
    let (mut outer, mut depth) = (headers, 0);
    while let Some(Ok(inner)) = tunnel::inner(bytes, &outer).map(|inner| inner.headers(bytes)) {
        assert!(inner.ip_at >= outer.transport_at);
        (outer, depth) = (inner, depth + 1);
        assert!(depth <= bytes.len());
    }
    for kind in [GSO_TCPV4, GSO_TCPV6, GSO_UDP] {
        if let Ok(plan) = GsoPlan::new(bytes, kind, 100) {
            let mut segment = vec![0; plan.segment_bytes(0)];
            plan.write(bytes, 0, &mut segment);
            let written = Headers::parse(&segment).unwrap();
            let len = segment.len() - written.transport_at;
            let all = written.pseudo_sum(&segment, len).unwrap() + sum(&segment[written.transport_at..]);
            assert_eq!(fold(all), 0xffff);
        }
    }
    let before = frame.clone();
    complete_transport(&mut frame, headers.transport_at, 8);
    assert_eq!(frame[..headers.transport_at], before[..headers.transport_at]);
});
