use super::*;
use crate::tx::engine::BULK_PACKETS_MAX;
use wharf_mem::lane::{LaneProducer, lane};
use wharf_mem::return_ring::return_ring;

const FRAMES: u32 = 1024;

/// Makes lanes that hold `counts` frames.
fn filled(counts: &[usize]) -> (Lanes, Vec<LaneProducer>) {
    let pool = PagePool::builder().frames(FRAMES).build().unwrap();
    let mut lanes = Lanes::new(pool.clone());
    let fill = |(at, &count): (usize, &usize)| {
        let (mut lane_in, frames) = lane(128, 0);
        lanes.add(at, Lane { frames, return_ring: Some(LaneReturnRing::new(return_ring(128, 0).0, &pool)) });
        let (mut cache, mut burst) = (pool.cache("test").unwrap(), pool.burst(64));
        let filled = cache.fill(&mut burst, count, 64);
        assert!(count == 0 || filled.is_ok());
        burst.batch_mut().frames_mut().iter_mut().for_each(|frame| frame.set_sender(at as u16));
        burst.batch_mut().refresh();
        assert_eq!(lane_in.push(burst.batch_mut()), count);
        lane_in
    };
    let ins = counts.iter().enumerate().map(fill).collect();
    (lanes, ins)
}

fn pulled(lanes: &mut Lanes, max: usize, places: usize) -> Vec<usize> {
    let mut to = Batch::new(BULK_PACKETS_MAX);
    lanes.pull(&mut to, max);
    let of = |at| to.frames().iter().filter(|frame| usize::from(frame.sender()) == at).count();
    let counts = (0..places).map(of).collect();
    lanes.recycle(&mut to);
    counts
}

#[test]
fn lanes_with_frames_left_get_shares_of_those_that_ran_empty() {
    let (mut lanes, _ins) = filled(&[64, 0, 4, 64]);
    lanes.announce_all();
    let first = pulled(&mut lanes, 64, 4);
    assert_eq!((first[1], first[2]), (0, 4));
    assert!(first[0] >= 16 && first[3] >= 16 && first[0] + first[3] == 60, "{first:?}");
    let then = pulled(&mut lanes, 64, 4);
    assert_eq!(then[0].max(then[3]), 32, "two full lanes: half each");
}

#[test]
fn many_full_lanes_get_one_quantum_each_in_turn() {
    let (mut lanes, _ins) = filled(&[16; 16]);
    lanes.announce_all();
    assert_eq!(pulled(&mut lanes, 64, 16), [[8; 8], [0; 8]].concat());
    assert_eq!(pulled(&mut lanes, 64, 16), [[0; 8], [8; 8]].concat(), "the round_robin goes on where it was");
}

#[test]
fn any_quota_gives_even_shares() {
    for (max, count) in [(17, 2), (20, 2), (33, 3), (50, 7), (63, 9), (64, 5)] {
        let (mut lanes, _ins) = filled(&vec![64; count]);
        lanes.announce_all();
        let mut sums = vec![0; count];
        // Stops before a lane may be empty.
        for _ in 0..48 * count / max {
            let of_each = pulled(&mut lanes, max, count);
            sums.iter_mut().zip(of_each).for_each(|(sum, pulled)| *sum += pulled);
        }
        let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
        assert!(spread <= QUANTUM_FRAMES.max(max / count), "{max} packets of {count} lanes: {sums:?}");
    }
}

#[test]
fn one_full_lane_among_many_empty_ones_fills_a_bulk() {
    let mut counts = [0; 64];
    counts[40] = 64;
    let (mut lanes, _ins) = filled(&counts);
    lanes.announce_all();
    assert_eq!(pulled(&mut lanes, 64, 64)[40], 64);

    assert!(lanes.is_empty());
}
