use super::finish_checksum;
use wharf::PagePool;
use wharf::device::Meta;

#[test]
fn a_checksum_of_sctp_is_refused_and_others_are_filled_in() {
    let pool = PagePool::builder().frames(64).build().expect("a pool");
    for (protocol, offset, is_done) in [(132, 8, false), (17, 6, true)] {
        let mut packet = pool.packet(40).expect("memory");
        packet.bytes_mut().fill(0);
        packet.bytes_mut()[..4].copy_from_slice(&[0x45, 0, 0, 40]);
        packet.bytes_mut()[9] = protocol;
        let meta =
            Meta { needs_checksum: true, checksum_start: 20, checksum_offset: offset, ..Meta::default() };
        packet.set_meta(&meta);
        assert_eq!(finish_checksum(&mut packet), is_done, "{protocol}");
        let place = 20 + usize::from(offset);
        assert_eq!(packet.head()[place..place + 2] != [0, 0], is_done, "{protocol}");
        assert_eq!(packet.meta().needs_checksum, !is_done);
    }
}
