use super::*;

#[test]
fn an_error_quotes_the_packet_and_its_checksum_is_right() {
    let (router, host): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut packet = vec![7; 700];
    IpHeader::new(host, router, 17).write(&mut packet, 680).unwrap();
    let error = Error::of(Reason::TooBig, 1400, false).unwrap();
    let mut bytes = vec![0; error.len_bytes(&packet)];
    error.write(&mut bytes, router, host, &packet).unwrap();
    assert_eq!((bytes.len(), &bytes[20..22], &bytes[24..28]), (576, &[3, 4][..], &[0, 0, 5, 120][..]));
    assert_eq!(&bytes[28..], &packet[..548]);
    assert_eq!(fold(sum(&bytes[20..])), 0xffff);
}

#[test]
fn no_error_about_an_error_or_to_a_group() {
    let exempt = |source: [u8; 4], to: [u8; 4], protocol, kind| {
        let mut packet = vec![0; 40];
        IpHeader::new(source.into(), to.into(), protocol).write(&mut packet, 20).unwrap();
        packet[20] = kind;
        is_exempt(&packet, &Headers::parse_ip(&packet, 0).unwrap())
    };
    assert!(!exempt([10, 0, 0, 1], [10, 0, 0, 2], 17, 3));
    assert!(!exempt([10, 0, 0, 1], [10, 0, 0, 2], 1, 8));
    assert!(exempt([10, 0, 0, 1], [10, 0, 0, 2], 1, 11));
    assert!(exempt([0, 0, 0, 0], [10, 0, 0, 2], 17, 0));
    assert!(exempt([10, 0, 0, 1], [224, 0, 0, 2], 17, 0));
}

#[test]
fn a_burst_of_errors_ends_at_fifty() {
    let mut budget = Budget::default();
    let sent = (0..10_000).take_while(|_| budget.take()).count();
    assert!(sent >= AT_ONCE as usize, "{sent}");
    // A slow machine earns some meanwhile; never as many as it asks for.
    assert!(sent < 10_000, "{sent}");
}
