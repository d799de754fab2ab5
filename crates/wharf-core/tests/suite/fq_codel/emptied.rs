//! A flow that ran empty begins anew. In kernels without 815980fe6dbb (2026) it kept the time at which its
//! packets had begun to wait for longer than the target, and lost the first one that waited so long an
//! interval later: sparse flows above all.

use super::{Arrival, Event, Ours, Queue};
use wharf_core::qdisc::FqCodelOptions;

const MS: u64 = 1_000_000;
const FLOWS: u64 = 20;

#[test]
fn a_flow_that_ran_empty_is_not_dropped_for_what_it_waited_before() {
    let mut ours = Ours::new(FqCodelOptions::default(), |number| (number % FLOWS) as u16);
    let mut events = Vec::new();
    // One packet of each flow in each round: it waits for twice the target, and the rounds are two intervals
    // apart.
    for round in 0..10 {
        let came_ns = 1000 * MS + round * 200 * MS;
        for number in round * FLOWS..(round + 1) * FLOWS {
            ours.enqueue(came_ns, number, Arrival { at_ns: came_ns, bytes: 1000, ecn: 0 });
        }
        while ours.dequeue(came_ns + 10 * MS, &mut events).is_some() {}
    }
    let left = events.iter().filter(|event| matches!(event, Event::Left(..))).count() as u64;
    assert_eq!((left, events.len() as u64), (10 * FLOWS, 10 * FLOWS), "{:?}", ours.reasons);
}
