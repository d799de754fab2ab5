//! A sender that waits for memory, beside an owner to whom its frame comes back.
//!
//! The sender joins the pool's wait list, then the queue's list, sets WAIT in the owner word, looks into its
//! return ring, and sleeps. An owner that knows of a waiter gives completed frames to the pool's list. A
//! frame that it returned before may have come after the sender's look: the owner looks into the ring itself
//! when a waiter is new on its list. `core: tx/queue/waiters.rs`, `pool/waiting.rs`,
//! `tx/queue/lanes/waiter_sink.rs`.

use crate::{OF_TWO_THREADS, START, Stock, may};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use wharf_mem::return_ring::{ReturnConsumer, ReturnProducer, return_ring};
use wharf_mem::word::{WAIT, WORK};
use wharf_mem::{Batch, FreeFrame, OwnerCell, Ownership, Published};

struct State {
    /// Frames in the device.
    device: Batch,
    returns: ReturnProducer,
    waiting: bool,
}

/// The state under the depot's lock.
#[derive(Default)]
struct Depot {
    free: Vec<FreeFrame>,
    /// True while the sender is on the wait list.
    is_listed: bool,
    handed: Vec<FreeFrame>,
}

struct Model {
    cell: OwnerCell<State>,
    /// True once the device is done with its frame.
    is_done: AtomicBool,
    depot: Mutex<Depot>,
    waited_for: AtomicUsize,
    /// True while the sender is new on the queue's list.
    fresh: Mutex<bool>,
    bell: Notify,
    woken: AtomicBool,
    /// True once no other thread will do anything.
    over: AtomicBool,
}

/// The steps that may be left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The owner looks into the return ring of a waiter that is new on its list.
    looks_at_fresh: bool,
    /// The sender joins the pool's list before the queue's, or else after its look.
    lists_first: bool,
}

impl Model {
    fn join_waitlist(&self) {
        let mut depot = self.depot.lock().unwrap();
        // core/pool/waiting.rs join: let ticket = depot.wait_list.join(wanted, mailbox.clone(), wake);
        // core/pool/waiting.rs join: self.shared.wait_status.update(&depot);
        depot.is_listed = true;
        self.waited_for.store(1, SeqCst);
        // core/pool/waiting.rs join: self.serve(&mut depot);
        self.serve(&mut depot);
    }

    /// Hands free frames to the waiter, and returns true if it must be woken.
    fn serve(&self, depot: &mut Depot) -> bool {
        if !depot.is_listed || depot.free.is_empty() {
            return false;
        }
        let Depot { free, handed, is_listed } = depot;
        handed.append(free);
        *is_listed = false;
        self.waited_for.store(0, SeqCst);
        true
    }

    /// Frees the frame: to the wait list, or to the return ring. Returns true if the sender must be woken.
    fn reap(&self, inside: &mut State, stock: &Stock) -> bool {
        if inside.device.is_empty() || !self.is_done.load(SeqCst) {
            return false;
        }
        // core/tx/queue/state.rs reap: if self.waiting { self.reap_for_waiters() } else { self.engine.reap(&mut self.lanes) }
        // core/tx/queue/lanes/waiter_sink.rs recycle_runs: if pool.is_waited_for() {
        if !inside.waiting || self.waited_for.load(SeqCst) == 0 {
            inside.returns.push(&mut inside.device, 1);
            return false;
        }
        // core/tx/queue/lanes/waiter_sink.rs recycle_runs: pool.give_to_waiters(done, pieces, count);
        // core/pool/waiting.rs give_to_waiters: let given = self.shared.region.give(batch, free, count);
        let mut depot = self.depot.lock().unwrap();
        stock.region.give(&mut inside.device, &mut depot.free, 1).unwrap();
        // core/pool/waiting.rs give_to_waiters: self.deposit_quietly(free.drain(..), &mut PageCounters::default());
        self.serve(&mut depot)
    }

    fn run(&self, mut owner: Ownership<'_, State>, stock: &Stock, steps: Steps, bits: u64) {
        // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
        let mut bits = bits | owner.take_bits(WORK);
        let mut wakes = false;
        loop {
            owner.with(|inside| {
                // core/tx/queue/qdisc_run.rs handle_rare: state.waiting |= bits & WAIT != 0;
                inside.waiting |= bits & WAIT != 0;
                wakes |= self.reap(inside, stock);
                // core/tx/queue/waiters.rs serve: while let Some(place) = lists.fresh.pop().or_else(|| returned_to.next_returned()) {
                // core/tx/queue/waiters/wait_lists.rs serve_returns: let (bytes, has_memory) = (returned_to.returned_bytes(place), returned_to.has_returned(place));
                if inside.waiting && std::mem::take(&mut *self.fresh.lock().unwrap()) {
                    wakes |= steps.looks_at_fresh && inside.returns.waiting() > 0;
                }
            });
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            match owner.leave() {
                Ok(()) => break,
                Err(back) => owner = back,
            }
            bits = owner.take_bits(WORK);
        }
        // core/tx/queue/qdisc_run.rs after_release: self.wake_served();
        if wakes {
            self.woken.store(true, SeqCst);
            self.bell.notify();
        }
    }

    /// Claims the cell for the sender, and returns true if it became the owner.
    fn claim(&self, bits: u64, stock: &Stock, steps: Steps) -> bool {
        match self.cell.claim(bits) {
            Published::Owner(owner) => self.run(owner, stock, steps, bits),
            Published::Seen => return false,
            Published::WakeOwner | Published::Dead => unreachable!(),
        }
        true
    }

    /// Claims the cell as a poller, which comes back when the queue is owned: once before the device is done,
    /// once afterwards.
    fn poll_twice(&self, stock: &Stock, steps: Steps) {
        self.claim(0, stock, steps);
        self.is_done.store(true, SeqCst);
        while !self.claim(0, stock, steps) {
            thread::yield_now();
        }
    }

    /// Takes the frames that have come to the sender.
    fn fetch(&self, returns: &mut ReturnConsumer, to: &mut Vec<FreeFrame>) {
        to.append(&mut self.depot.lock().unwrap().handed);
        returns.pop(to, usize::MAX);
    }
}

/// Returns true if some interleaving leaves the sender asleep beside a free frame.
fn sleeps_for_good(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let (returns_in, mut returns_out) = return_ring(2, START);
        let inside = State { device: stock.frames(0, 1), returns: returns_in, waiting: false };
        let model = Arc::new(Model {
            cell: OwnerCell::new(inside),
            is_done: AtomicBool::new(false),
            depot: Mutex::new(Depot::default()),
            waited_for: AtomicUsize::new(0),
            fresh: Mutex::new(false),
            bell: Notify::new(),
            woken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let (theirs, their_stock) = (model.clone(), stock.clone());
        let owner = thread::spawn(move || {
            theirs.poll_twice(&their_stock, steps);
            theirs.over.store(true, SeqCst);
            theirs.bell.notify(); // ends the sleep, so that the model can report it
        });
        let mut came = Vec::new();
        // core/tx/sender/waiting.rs register: let pool_place = (need == Need::Memory).then(|| self.cache.join_wait_list(wake.clone()));
        if steps.lists_first {
            model.join_waitlist();
        }
        // core/tx/sender/waiting.rs register: let waiter = shared.waiters().register(place, need, wake);
        *model.fresh.lock().unwrap() = true;
        // core/tx/sender/waiting.rs look_once: match shared.cell().claim_unreserved(WAIT) {
        model.claim(WAIT, &stock, steps);
        // core/tx/sender/waiting.rs look_once: if self.has_come(watch.need()) {
        model.fetch(&mut returns_out, &mut came);
        if !steps.lists_first && came.is_empty() {
            model.join_waitlist();
        }
        while came.is_empty() {
            model.bell.wait();
            let (is_over, is_woken) = (model.over.load(SeqCst), model.woken.load(SeqCst));
            if is_over && !is_woken {
                witness.note(true);
                break;
            }
            model.fetch(&mut returns_out, &mut came);
        }
        owner.join().unwrap();
        model.fetch(&mut returns_out, &mut came);
        if let Published::Owner(mut owner) = model.cell.claim(0) {
            owner.with(|inside| {
                stock.region.give(&mut inside.device, &mut came, 1).unwrap();
            });
            owner.hand_over();
        }
        came.append(&mut model.depot.lock().unwrap().free);
        stock.free.lock().unwrap().append(&mut came);
        stock.assert_whole();
    })
}

const RIGHT: Steps = Steps { looks_at_fresh: true, lists_first: true };

#[test]
fn a_sender_that_waits_for_memory_is_woken() {
    assert!(!sleeps_for_good(RIGHT));
}

#[test]
fn not_looking_into_the_return_ring_is_found() {
    assert!(sleeps_for_good(Steps { looks_at_fresh: false, ..RIGHT }));
}

#[test]
fn joining_the_list_after_the_look_is_found() {
    assert!(sleeps_for_good(Steps { lists_first: false, ..RIGHT }));
}
