//! A sole sender that enters by the bias, and another thread that claims the cell.

use crate::{OF_THREE_THREADS, OF_TWO_THREADS, Witness, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::word::{RUNNING, WORK, ready_bit};
use wharf_mem::{Bias, OwnerCell, Ownership, Published};

type Cell = OwnerCell<u32>;

/// Adds one as an ordinary owner; returns false if another owner will see to it.
fn add_as_owner(cell: &Cell, bit: u64) -> bool {
    let Published::Owner(mut owner) = cell.publish(bit) else { return false };
    owner.take_bits(WORK);
    owner.with(|value| *value += 1);
    leave(owner);
    true
}

fn leave(mut owner: Ownership<'_, u32>) {
    while let Err(mut back) = owner.leave() {
        back.take_bits(WORK);
        owner = back;
    }
}

/// Adds one as a sender does: by the bias, or else as an ordinary owner. Returns whether it was added, and
/// whether by the bias.
fn add(cell: &Cell, bias: &mut Bias, bit: u64) -> (bool, bool) {
    if let Some(mut entered) = cell.enter(bias) {
        entered.with(|value| *value += 1);
        entered.leave();
        return (true, true);
    }
    cell.release(bias);
    (add_as_owner(cell, bit), false)
}

/// loom checks that no two threads access the value at once; the sum, that no addition is lost; the
/// witnesses, that both ways were taken.
fn holder_and_others(others: usize, preemptions: usize) {
    let (passed, was_refused) = (Witness::default(), Witness::default());
    let (passes, refusals) = (passed.clone(), was_refused.clone());
    check(preemptions, move || {
        let cell = Arc::new(Cell::new(0));
        let mut bias = cell.take_bias().unwrap();
        cell.acquire(&mut bias);
        let thread = |at: usize| {
            let cell = cell.clone();
            thread::spawn(move || u32::from(add_as_owner(&cell, ready_bit(at))))
        };
        let threads: Vec<_> = (0..others).map(thread).collect();
        let mut sum = 0;
        for _ in 0..2 {
            let (added, by_bias) = add(&cell, &mut bias, ready_bit(7));
            sum += u32::from(added);
            passes.note(by_bias);
            refusals.note(!by_bias);
        }
        cell.acquire(&mut bias);
        sum += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>();
        cell.release(&mut bias);
        let Published::Owner(mut owner) = cell.claim(0) else { panic!("still owned: {cell:?}") };
        assert_eq!(owner.with(|value| *value), sum);
        leave(owner);
        assert_eq!(cell.word() & RUNNING, 0);
    });
    assert!(passed.happened() && was_refused.happened());
}

#[test]
fn a_claim_waits_for_the_holder_of_the_bias() {
    holder_and_others(1, OF_TWO_THREADS);
}

#[test]
fn two_claims_wait_for_the_holder_of_the_bias() {
    holder_and_others(2, OF_THREE_THREADS);
}

#[test]
fn a_bias_that_is_returned_is_taken_by_another_thread() {
    check(OF_TWO_THREADS, || {
        let cell = Arc::new(Cell::new(0));
        let theirs = cell.clone();
        let other = thread::spawn(move || {
            let Some(mut bias) = theirs.take_bias() else { return 0 };
            theirs.acquire(&mut bias);
            let (added, _) = add(&theirs, &mut bias, ready_bit(1));
            theirs.return_bias(bias);
            u32::from(added)
        });
        let mut sum = 0;
        if let Some(mut bias) = cell.take_bias() {
            cell.acquire(&mut bias);
            sum += u32::from(add(&cell, &mut bias, ready_bit(0)).0);
            cell.return_bias(bias);
        }
        sum += other.join().unwrap();
        let Published::Owner(mut owner) = cell.claim(0) else { panic!("still owned: {cell:?}") };
        assert_eq!(owner.with(|value| *value), sum);
        leave(owner);
    });
}
