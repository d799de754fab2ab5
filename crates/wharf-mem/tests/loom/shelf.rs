//! A shelf: whoever comes second learns of the first, and a buffer is with one of them.

use crate::{OF_TWO_THREADS, Stock, Witness, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::shelf::Shelf;

/// One lays a buffer down while the other stops waiting for it: it is picked up, or stays with who had it.
#[test]
fn a_buffer_laid_down_as_the_place_closes_is_with_one_of_the_two() {
    let (stock, came, stayed) = (Stock::new(), Witness::default(), Witness::default());
    let (seen_came, seen_stayed) = (came.clone(), stayed.clone());
    check(OF_TWO_THREADS, move || {
        let shelf = Arc::new(Shelf::new(1));
        shelf.open(0);
        let free = stock.free.lock().unwrap().pop().unwrap();
        let there = shelf.clone();
        let user = thread::spawn(move || there.lay(0, free).err());
        let picked = shelf.pick(0).or_else(|| shelf.close(0));
        let kept = user.join().unwrap();
        came.note(picked.is_some());
        stayed.note(kept.is_some());
        let back: Vec<_> = picked.into_iter().chain(kept).chain(shelf.close(0)).collect();
        assert_eq!(back.len(), 1);
        stock.free.lock().unwrap().extend(back);
        stock.assert_whole();
    });
    assert!(seen_came.happened() && seen_stayed.happened(), "both ends were seen");
}

/// Two halves of a page come back at once: one of the two threads has both.
#[test]
fn of_two_halves_the_second_finds_the_first() {
    let stock = Stock::new();
    check(OF_TWO_THREADS, move || {
        let shelf = Arc::new(Shelf::new(1));
        shelf.open(0);
        let (one, other) = {
            let mut free = stock.free.lock().unwrap();
            (free.pop().unwrap(), free.pop().unwrap())
        };
        let meet = |shelf: &Shelf, half| match shelf.lay(0, half) {
            Ok(()) => Vec::new(),
            Err(half) => shelf.pick(0).into_iter().chain([half]).collect(),
        };
        let there = shelf.clone();
        let user = thread::spawn(move || meet(&there, one));
        let here = meet(&shelf, other);
        let there = user.join().unwrap();
        assert_eq!((here.len() + there.len(), here.len() % 2), (2, 0));
        stock.free.lock().unwrap().extend(here.into_iter().chain(there));
        stock.assert_whole();
    });
}
