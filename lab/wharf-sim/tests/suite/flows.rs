//! Parts of traffic sources: ranges of a stream, and a socket of datagrams.

use proptest::prelude::*;
use wharf_sim::flows::Ranges;
use wharf_sim::flows::udp::UdpSource;

proptest! {
    /// Compares with a set of single bytes.
    #[test]
    fn agree_with_a_bitmap(steps in prop::collection::vec((0u64..60, 0u64..12, any::<bool>()), 1..60)) {
        let (mut ranges, mut bits) = (Ranges::default(), [false; 80]);
        for (from, length, insert) in steps {
            if insert {
                ranges.insert(from, from + length);
                (from..from + length).for_each(|at| bits[at as usize] = true);
            } else {
                ranges.remove_below(from / 4);
                (0..from / 4).for_each(|at| bits[at as usize] = false);
            }
            let wanted: Vec<u64> = (0..80).filter(|&at| bits[at as usize]).collect();
            let found: Vec<u64> = ranges.iter().flat_map(|(start, end)| start..end).collect();
            prop_assert_eq!(&found, &wanted);
            prop_assert_eq!(ranges.bytes_within(0, u64::MAX), wanted.len() as u64);
            prop_assert_eq!(ranges.end(), wanted.last().map(|last| last + 1));
            let within = wanted.iter().filter(|&&at| (from..from + length).contains(&at)).count();
            prop_assert_eq!(ranges.bytes_within(from, from + length), within as u64);
            prop_assert_eq!(ranges.end_of(from).is_some(), bits[from as usize]);
            let next = (from + 1..80).find(|&at| bits[at as usize] && !bits[at as usize - 1]);
            prop_assert_eq!(ranges.next_after(from), next);
        }
    }
}

#[test]
fn sleeps_when_the_buffer_is_full_and_wakes_at_half() {
    let mut blast = UdpSource::new(1000, 4500);
    assert_eq!([(); 6].map(|()| blast.send()), [true, true, true, true, false, false]);
    assert_eq!([blast.completed(1), blast.completed(1), blast.completed(1)], [false, true, false]);
    assert_eq!((blast.inside(), blast.send()), (1, true));
    let mut large = UdpSource::new(9000, 4500);
    assert_eq!([large.send(), large.send(), large.completed(1), large.send()], [true, false, true, true]);
}
