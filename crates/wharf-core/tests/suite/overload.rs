//! A poller that forwards more than it can transmit, in virtual time: receiving and transmitting each packet
//! take time, and the receive ring is short. The discipline, not the ring, says what is lost.

mod rig;

use rig::{
    END_NS, End, FLOOD, Line, Load, MS, PACKET_BYTES, SPARSE, SPARSE_FROM_NS, SPARSE_NS, Seen, VirtualWait,
    buckets_of, forward, path, run,
};
use std::sync::Arc;
use wharf_core::bql::Bounds;
use wharf_core::device::{AnyDevice, THIN_ROWS, thin_buckets};
use wharf_core::host::Clock;
use wharf_core::poller::{Poller, Settings};
use wharf_core::qdisc::contract::write_packet;
use wharf_core::qdisc::{FqCodel, FqCodelOptions, Prio, Qdisc, WhenFull};
use wharf_core::queue::{Claimants, TxQueue};
use wharf_core::rx::{Receiver, RxQueue};
use wharf_core::wait::Wait;
use wharf_packet::flow_hash;
use wharf_testkit::pool;
use wharf_testkit::threads::{TestClock, TestPark};

fn fq_codel() -> Box<dyn Qdisc> {
    let when_full = WhenFull::DropHead;
    Box::new(FqCodel::new(FqCodelOptions { limit_packets: 500, when_full, ..FqCodelOptions::default() }))
}

fn prio() -> Box<dyn Qdisc> {
    Box::new(Prio::new(500).when_full(WhenFull::DropHead))
}

/// Checks that the sparse flow has lost nothing and waited for at most `most_ns`, and that what leaves is at
/// least `part` of what could without receiving.
fn assert_spared(seen: &Seen, load: Load, most_ns: u64, part: f64) {
    let expected = (END_NS - SPARSE_FROM_NS) / SPARSE_NS;
    assert_eq!(seen.ring_drops[usize::from(SPARSE)], 0, "the ring knows no flows");
    // The last one may still be inside.
    assert!(seen.sent[usize::from(SPARSE)] >= expected - 1, "{load:?}: {:?}", seen.sent);
    assert!(seen.sparse_ns.iter().all(|&ns| ns <= most_ns), "{load:?}: {:?}", seen.sparse_ns.iter().max());
    let (sent, could): (u64, u64) = (seen.sent.iter().sum(), END_NS / load.transmit_ns);
    assert!(sent as f64 >= part * could as f64, "{load:?}: {sent} of {could}");
}

#[test]
fn the_discipline_drops_what_is_too_much_and_a_sparse_flow_loses_nothing() {
    for (is_duplex, flows) in [(false, 1), (false, 8), (false, 64), (true, 64)] {
        let load = Load { flows, ..FLOOD };
        let (seen, drops, _) = forward(load, fq_codel(), is_duplex);
        // A turn of all others, 1514 bytes each: the discipline is so short that they come as new flows, too.
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(&seen, load, MS + turn_ns, 0.8);
        let overlimit: u64 = drops.iter().filter(|drop| drop.0 == "overlimit").map(|drop| drop.1).sum();
        let ring: u64 = seen.ring_drops.iter().sum();
        assert!(ring < 130_000 && overlimit > 400_000, "{load:?}: {overlimit} and {ring} in the ring");
        assert!(fairness(&seen) > 0.98, "{load:?}: {:?}", seen.sent);
    }
}

/// What the discipline would drop is not even received. Each flow still has its share, and the sparse one
/// all.
#[test]
fn a_device_that_thins_leaves_the_time_to_transmit() {
    for (flows, qdisc) in [(1, fq_codel()), (8, fq_codel()), (64, fq_codel()), (8, prio())] {
        let is_fair = qdisc.name() == "fq_codel";
        let load = Load { flows, thins: true, receive_ns: 400, ..FLOOD };
        let (seen, _, _) = forward(load, qdisc, true);
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(&seen, load, MS + turn_ns, 0.85);
        let thinned: u64 = seen.thinned.iter().sum();
        assert!(thinned > 300_000 && seen.thinned[usize::from(SPARSE)] == 0, "{load:?}: {:?}", seen.thinned);
        assert!(!is_fair || fairness(&seen) > 0.9, "{load:?}: {:?}", seen.sent);
    }
}

#[test]
fn buckets_cannot_be_told_from_the_flows() {
    let mut bytes = [0; PACKET_BYTES as usize];
    let is_same = |flow: &u16| {
        write_packet(&mut bytes, *flow, 0, 0);
        thin_buckets(&bytes)[0] == (flow_hash(&bytes) >> 54) as usize
    };
    assert!((0..64).filter(is_same).count() < 8, "the hash has a seed");
}

/// Receivers that take all after each poll: no poll receives more than their inboxes hold.
#[test]
fn receivers_that_keep_up_lose_nothing_in_a_flood() {
    let (clock, pool) = (Arc::new(TestClock::default()), pool(4096));
    let line = Line::new(&clock, Load { apart_ns: 50, flows: 8, ..FLOOD });
    let queue = TxQueue::builder_of(
        &pool,
        AnyDevice::Tx(Box::new(End::new(&line))),
        clock.clone(),
        Arc::new(TestPark),
    );
    let queue = queue.unwrap().build().unwrap();
    let open =
        |handler| RxQueue::new(Box::new(End::new(&line)), &pool, std::slice::from_ref(&queue), handler);
    let (by, park) = (|bytes: &[u8]| u64::from(bytes[35]), Arc::new(TestPark));
    let receivers = Receiver::several_behind_poller(&pool, clock.clone(), park, 2, by, open);
    let mut receivers = receivers.unwrap();
    let mut poller = Poller::new(Box::new(VirtualWait(clock.clone())), Settings::default());
    poller.add_receiver(receivers[0].queue());
    let (mut poller, mut taken, mut burst) = (poller.begin(), 0, pool.burst(256));
    while clock.now_ns() < END_NS / 2 {
        poller.step(u64::MAX);
        for receiver in &mut receivers {
            while receiver.recv(&mut burst, Wait::Never).unwrap() > 0 {
                taken += burst.len();
                burst.clear();
            }
        }
    }
    drop(poller);
    let mut drops = 0;
    receivers[0].queue().drops(&mut |_, count| drops += count);
    assert!(drops == 0 && taken > 100_000, "{drops} and {taken}");
}

/// A flood whose flow has the urgent one's hash: the class tells them apart.
#[test]
fn an_urgent_flow_is_not_thinned_with_a_flood_of_its_hash() {
    let flow_of = |flow| buckets_of(flow, 0)[0];
    let first = (1..=u16::MAX).find(|&flow| flow_of(flow) == flow_of(SPARSE)).unwrap();
    let load = Load { first, thins: true, receive_ns: 400, ..FLOOD };
    let (seen, _, _) = forward(load, prio(), true);
    assert_spared(&seen, load, 2 * MS, 0.85);
    assert!(seen.thinned[usize::from(first)] > 300_000 && seen.thinned[0] == 0);
}

/// A flood of the same class that has a bucket of the sparse flow: the other row tells them apart.
#[test]
fn a_sparse_flow_that_shares_a_bucket_with_a_flood_is_not_thinned() {
    for row in 0..THIN_ROWS {
        let shares = |flow: &u16| buckets_of(*flow, 0)[row] == buckets_of(SPARSE, 0)[row];
        let first = (1..=u16::MAX).find(shares).unwrap();
        let load = Load { first, sparse_tos: 0, thins: true, receive_ns: 400, ..FLOOD };
        let (seen, _, _) = forward(load, fq_codel(), true);
        assert_spared(&seen, load, 2 * MS, 0.85);
        assert!(seen.thinned[usize::from(first)] > 300_000 && seen.thinned[0] == 0, "row {row}");
    }
}

/// The handler's thread never transmits: the queue's pollers do, and drop.
#[test]
fn a_flood_by_a_queue_that_others_transmit_is_one_too() {
    for flows in [1, 8] {
        let clock = Arc::new(TestClock::default());
        let load = Load { flows, thins: true, receive_ns: 400, ..FLOOD };
        let path = path(&clock, load, fq_codel(), false);
        path.1.set_claimants(Claimants::Pollers);
        run(&clock, std::slice::from_ref(&path));
        let seen = &path.0.lock().unwrap().seen;
        let turn_ns = u64::from(flows) * u64::from(1514 / PACKET_BYTES + 1) * load.transmit_ns;
        assert_spared(seen, load, 2 * MS + turn_ns, 0.8);
        assert!(seen.thinned.iter().sum::<u64>() > 300_000, "{:?}", seen.thinned);
    }
}

/// Two floods on one poller: what one of them drops is not the other's.
#[test]
fn floods_of_two_receive_queues_leave_each_its_half() {
    let clock = Arc::new(TestClock::default());
    let load = Load { thins: true, receive_ns: 400, ..FLOOD };
    let paths = [(); 2].map(|()| path(&clock, load, fq_codel(), false));
    run(&clock, &paths);
    let sent = paths.each_ref().map(|(line, ..)| line.lock().unwrap().seen.sent[1]);
    assert!(10 * sent[0].abs_diff(sent[1]) < sent[0] + sent[1], "{sent:?}");
}

#[test]
fn thinning_ends_with_the_flood() {
    let load = Load { flows: 8, thins: true, burst: 187_500, pause_ns: 300 * MS, ..FLOOD };
    let (seen, _, _) = forward(load, fq_codel(), true);
    let thinned: u64 = seen.thinned.iter().sum();
    assert!(thinned > 10_000 && !seen.is_thinning, "{seen:?}");
}

/// Jain's index of the flows but the sparse one.
fn fairness(seen: &Seen) -> f64 {
    let bulk: Vec<f64> = seen.sent[1..].iter().map(|&sent| sent as f64).collect();
    let (sum, squares) = (bulk.iter().sum::<f64>(), bulk.iter().map(|sent| sent * sent).sum::<f64>());
    sum * sum / squares / bulk.len() as f64
}

#[test]
fn an_urgent_flow_loses_nothing_with_priorities() {
    let (seen, _, _) = forward(FLOOD, prio(), false);
    assert_spared(&seen, FLOOD, 2 * MS, 0.8);
}

#[test]
fn what_cannot_even_be_received_leaves_a_sixth_of_the_time_to_transmit() {
    let load = Load { receive_ns: 1000, ..FLOOD };
    let (seen, _, _) = forward(load, fq_codel(), false);
    let (sent, could): (u64, u64) = (seen.sent.iter().sum(), END_NS / load.transmit_ns);
    assert!(6 * sent > could, "{sent} of {could}");
}

#[test]
fn a_burst_that_the_ring_holds_is_forwarded_whole() {
    // 2000 packets of the flood at once, each tenth of a second: more than the discipline would hold.
    let load = Load { apart_ns: 200, burst: 2000, transmit_ns: 10_000, ..FLOOD };
    let (seen, drops, _) = forward(load, fq_codel(), false);
    assert_eq!((drops, seen.ring_drops.iter().sum::<u64>()), (vec![], 0));
    assert!(seen.sent[1] >= 8000, "{:?}", seen.sent);
}

/// A machine whose driver waits loses nothing, however long it sends more than can leave.
#[test]
fn a_side_that_waits_floods_nothing() {
    let load = Load { holds_back: true, ..FLOOD };
    for is_duplex in [false, true] {
        let (seen, drops, _) = forward(load, fq_codel(), is_duplex);
        assert_eq!((drops, seen.ring_drops.iter().sum::<u64>()), (vec![], 0));
        assert!(seen.sent[1] > 10_000, "{:?}", seen.sent);
    }
}

#[test]
fn a_forwarder_that_keeps_up_has_nothing_in_the_discipline() {
    let load = Load { apart_ns: 20_000, transmit_ns: 10_000, ..FLOOD };
    let (seen, drops, stats) = forward(load, fq_codel(), false);
    assert_spared(&seen, load, MS, 0.5);
    assert_eq!((drops, stats.iter().find(|stat| stat.0 == "new_flows")), (vec![], Some(&("new_flows", 0))));
}

/// Where the forwarder is not the limit, but a reader who sleeps between two packets of a ring of 1024 slots.
#[test]
fn the_limit_keeps_a_ring_short_that_another_empties_and_costs_nothing() {
    let most_ns = |seen: &Seen| seen.sparse_ns.iter().copied().max().unwrap_or(0);
    for flows in [1, 8] {
        let load = Load { flows, apart_ns: 50_000, transmit_ns: 1000, read_ns: 100_000, ..FLOOD };
        let (with, _, _) = forward(load, fq_codel(), false);
        let (without, _, _) = forward(Load { byte_limits: Bounds::OFF, ..load }, fq_codel(), false);
        let [sent, could] = [&with, &without].map(|seen| seen.sent.iter().sum::<u64>());
        assert!(10 * most_ns(&with) <= most_ns(&without), "{} {}", most_ns(&with), most_ns(&without));
        assert!(100 * sent >= 98 * could, "{sent} of {could}");
        assert_eq!(with.ring_drops[usize::from(SPARSE)], 0);
        assert!(with.sparse_ns.len() as u64 >= (END_NS - SPARSE_FROM_NS) / SPARSE_NS, "one was lost");
    }
}
