//! The agenda: events in order of time, then of scheduling.

use std::collections::BTreeMap;
use wharf_sim::engine::{Agenda, Random};

#[test]
fn equal_times_come_in_the_order_of_scheduling() {
    let mut agenda = Agenda::new(5);
    [3, 0, 4, 1].into_iter().for_each(|slot| agenda.set(slot, 7));
    agenda.set(2, 6);
    agenda.set(0, 7); // again: now it is last
    let order: Vec<_> = std::iter::from_fn(|| agenda.take_before(8)).collect();
    assert_eq!(order, [(6, 2), (7, 3), (7, 4), (7, 1), (7, 0)]);
    assert_eq!(agenda.take_before(u64::MAX), None);
}

#[test]
fn later_events_stay() {
    let mut agenda = Agenda::new(2);
    agenda.set(1, 10);
    assert_eq!(agenda.take_before(10), None);
    agenda.set_no_later(1, 12);
    assert_eq!(agenda.due_ns(1), Some(10));
    agenda.set_no_later(1, 9);
    assert_eq!((agenda.take_before(10), agenda.due_ns(1)), (Some((9, 1)), None));
    agenda.set(1, 20);
    agenda.clear(1);
    assert_eq!(agenda.take_before(u64::MAX), None);
}

/// Against an ordered map, over 20 000 steps.
#[test]
fn agrees_with_an_ordered_map() {
    let (mut random, mut agenda) = (Random::new(7), Agenda::new(37));
    let (mut model, mut due, mut now_ns) = (BTreeMap::new(), [None; 37], 0);
    for sequence in 0u64..20_000 {
        let slot = random.below(37) as usize;
        match random.below(4) {
            0 => {
                let taken = agenda.take_before(u64::MAX);
                let wanted = model.pop_first().map(|((at_ns, _), slot)| (at_ns, slot));
                assert_eq!(taken, wanted);
                if let Some((at_ns, slot)) = taken {
                    (now_ns, due[slot]) = (at_ns, None);
                }
            }
            1 => {
                agenda.clear(slot);
                due[slot].take().map(|key| model.remove(&key));
            }
            _ => {
                let at_ns = now_ns + random.below(20);
                agenda.set(slot, at_ns);
                due[slot].take().map(|key| model.remove(&key));
                due[slot] = Some((at_ns, sequence));
                model.insert((at_ns, sequence), slot);
            }
        }
        assert_eq!(agenda.due_ns(slot), due[slot].map(|(at_ns, _)| at_ns));
    }
}
