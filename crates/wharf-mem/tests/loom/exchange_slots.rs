//! `ExchangeSlots`: the second thread learns of the first, and one of them has the buffer.

use crate::{OF_TWO_THREADS, Stock, Witness, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::exchange_slots::ExchangeSlots;

/// One thread puts a buffer while the other stops waiting for it: one of the two has it.
#[test]
fn a_buffer_put_as_the_slot_closes_is_with_one_thread() {
    let (stock, came, stayed) = (Stock::new(), Witness::default(), Witness::default());
    let (seen_came, seen_stayed) = (came.clone(), stayed.clone());
    check(OF_TWO_THREADS, move || {
        let slots = Arc::new(ExchangeSlots::new(1));
        slots.open(0);
        let free = stock.free.lock().unwrap().pop().unwrap();
        let there = slots.clone();
        let user = thread::spawn(move || there.lay(0, free).err());
        let picked = slots.pick(0).or_else(|| slots.close(0));
        let kept = user.join().unwrap();
        came.note(picked.is_some());
        stayed.note(kept.is_some());
        let back: Vec<_> = picked.into_iter().chain(kept).chain(slots.close(0)).collect();
        assert_eq!(back.len(), 1);
        stock.free.lock().unwrap().extend(back);
        stock.assert_whole();
    });
    assert!(seen_came.happened() && seen_stayed.happened(), "both ends were seen");
}

/// Two halves of a page come back at once: one of the two threads has both.
#[test]
fn the_second_of_two_halves_finds_the_first() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let slots = Arc::new(ExchangeSlots::new(1));
        slots.open(0);
        let (one, other) = {
            let mut free = stock.free.lock().unwrap();
            (free.pop().unwrap(), free.pop().unwrap())
        };
        let meet = |slots: &ExchangeSlots, half| match slots.lay(0, half) {
            Ok(()) => Vec::new(),
            Err(half) => slots.pick(0).into_iter().chain([half]).collect(),
        };
        let there = slots.clone();
        let user = thread::spawn(move || meet(&there, one));
        let here = meet(&slots, other);
        let there = user.join().unwrap();
        assert_eq!((here.len() + there.len(), here.len() % 2), (2, 0));
        stock.free.lock().unwrap().extend(here.into_iter().chain(there));
        stock.assert_whole();
    });
}
