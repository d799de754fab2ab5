//! The time of an event on the agenda, and on a binary heap that does the same, side by side.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;
use wharf_sim::engine::{Agenda, Random};

const EVENTS: u64 = 1_000_000;
/// The fastest of so many rounds counts: other programs may use the machine.
const ROUNDS: usize = 15;

fn main() {
    println!("slots   agenda ns   heap ns   ratio");
    for slots in [2, 12, 24, 64, 128] {
        let quickest =
            |measure: fn(usize) -> f64| (0..ROUNDS).map(|_| measure(slots)).fold(f64::MAX, f64::min);
        let (agenda_ns, heap_ns) = (quickest(agenda), quickest(heap));
        println!("{slots:>5} {agenda_ns:>11.1} {heap_ns:>9.1} {:>7.2}", heap_ns / agenda_ns);
    }
}

fn agenda(slots: usize) -> f64 {
    let (mut random, mut agenda) = (Random::new(1), Agenda::new(slots));
    (0..slots).for_each(|slot| agenda.set(slot, random.below(1000)));
    let began = Instant::now();
    for _ in 0..EVENTS {
        let Some((now_ns, slot)) = agenda.take_before(u64::MAX) else { break };
        agenda.set(slot, now_ns + random.below(1000));
    }
    began.elapsed().as_secs_f64() * 1e9 / EVENTS as f64
}

fn heap(slots: usize) -> f64 {
    let (mut random, mut heap, mut sequence) = (Random::new(1), BinaryHeap::new(), 0u64);
    for slot in 0..slots {
        heap.push(Reverse((random.below(1000), sequence, slot)));
        sequence += 1;
    }
    let began = Instant::now();
    for _ in 0..EVENTS {
        let Some(Reverse((now_ns, _, slot))) = heap.pop() else { break };
        heap.push(Reverse((now_ns + random.below(1000), sequence, slot)));
        sequence += 1;
    }
    began.elapsed().as_secs_f64() * 1e9 / EVENTS as f64
}
