//! A sender that waits for memory, beside an owner to whom its frame comes home.
//!
//! The sender stands in the pool's line, then on the queue's list, says so in the owner word, looks, and sleeps. The owner
//! gives what comes home to that line once it knows of somebody; what it sent home before may have come after the sender's
//! look: it looks itself, at whoever is new on the list. `core: tx/queue/waiters.rs`, `pool/waiting.rs`, `tx/queue/lanes/waiter_sink.rs`.

use crate::{OF_TWO_THREADS, START, Stock, may};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use wharf_mem::return_ring::{ReturnConsumer, ReturnProducer, return_ring};
use wharf_mem::word::{WAIT, WORK};
use wharf_mem::{Batch, FreeFrame, OwnerCell, Ownership, Published};

struct Inside {
    /// With the device.
    device: Batch,
    returns: ReturnProducer,
    waiting: bool,
}

/// What lies under the depot's lock.
#[derive(Default)]
struct Depot {
    free: Vec<FreeFrame>,
    /// The sender is in the line.
    in_line: bool,
    handed: Vec<FreeFrame>,
}

struct Model {
    cell: OwnerCell<Inside>,
    /// Whether the device is done with its frame.
    is_done: AtomicBool,
    depot: Mutex<Depot>,
    waited_for: AtomicUsize,
    /// The sender is on the queue's list, and new there.
    fresh: Mutex<bool>,
    bell: Notify,
    woken: AtomicBool,
    /// Nobody will do anything any more.
    over: AtomicBool,
}

/// The steps that may be left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The owner looks whether something has come home to who is new on its list.
    looks_at_fresh: bool,
    /// The sender stands in the pool's line before it is on the queue's list, or else after its look.
    line_first: bool,
}

impl Model {
    fn stand_in_line(&self) {
        let mut depot = self.depot.lock().unwrap();
        depot.in_line = true;
        self.waited_for.store(1, SeqCst);
        self.serve(&mut depot);
    }

    /// Whether the sender is to be woken.
    fn serve(&self, depot: &mut Depot) -> bool {
        if !depot.in_line || depot.free.is_empty() {
            return false;
        }
        let Depot { free, handed, in_line } = depot;
        handed.append(free);
        *in_line = false;
        self.waited_for.store(0, SeqCst);
        true
    }

    /// Frees the frame: to the line, or home. Whether the sender is to be woken.
    fn reap(&self, inside: &mut Inside, stock: &Stock) -> bool {
        if inside.device.is_empty() || !self.is_done.load(SeqCst) {
            return false;
        }
        if !inside.waiting || self.waited_for.load(SeqCst) == 0 {
            inside.returns.push(&mut inside.device, 1);
            return false;
        }
        let mut depot = self.depot.lock().unwrap();
        stock.region.give(&mut inside.device, &mut depot.free, 1).unwrap();
        self.serve(&mut depot)
    }

    fn run(&self, mut owner: Ownership<'_, Inside>, stock: &Stock, steps: Steps, bits: u64) {
        let mut bits = bits | owner.take_bits(WORK);
        let mut wakes = false;
        loop {
            owner.with(|inside| {
                inside.waiting |= bits & WAIT != 0;
                wakes |= self.reap(inside, stock);
                if inside.waiting && std::mem::take(&mut *self.fresh.lock().unwrap()) {
                    wakes |= steps.looks_at_fresh && inside.returns.waiting() > 0;
                }
            });
            match owner.leave() {
                Ok(()) => break,
                Err(back) => owner = back,
            }
            bits = owner.take_bits(WORK);
        }
        if wakes {
            self.woken.store(true, SeqCst);
            self.bell.notify();
        }
    }

    /// As the sender; whether it was the owner.
    fn claim(&self, bits: u64, stock: &Stock, steps: Steps) -> bool {
        match self.cell.claim(bits) {
            Published::Owner(owner) => self.run(owner, stock, steps, bits),
            Published::Seen => return false,
            Published::WakeOwner | Published::Dead => unreachable!(),
        }
        true
    }

    /// As a poller, which comes back when it finds the queue taken: once before the device is done, once afterwards.
    fn poll_twice(&self, stock: &Stock, steps: Steps) {
        self.claim(0, stock, steps);
        self.is_done.store(true, SeqCst);
        while !self.claim(0, stock, steps) {
            thread::yield_now();
        }
    }

    /// Whatever has come to the sender.
    fn fetch(&self, returns: &mut ReturnConsumer, to: &mut Vec<FreeFrame>) {
        to.append(&mut self.depot.lock().unwrap().handed);
        returns.pop(to, usize::MAX);
    }
}

/// Whether any interleaving leaves the sender asleep beside a free frame.
fn sleeps_for_good(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let (returns_in, mut returns_out) = return_ring(2, START);
        let inside = Inside { device: stock.frames(0, 1), returns: returns_in, waiting: false };
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
            theirs.bell.notify(); // ends the sleep that must not be, to tell of it
        });
        let mut came = Vec::new();
        if steps.line_first {
            model.stand_in_line();
        }
        *model.fresh.lock().unwrap() = true;
        model.claim(WAIT, &stock, steps);
        model.fetch(&mut returns_out, &mut came);
        if !steps.line_first && came.is_empty() {
            model.stand_in_line();
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

const RIGHT: Steps = Steps { looks_at_fresh: true, line_first: true };

#[test]
fn who_waits_for_memory_is_woken_for_it() {
    assert!(!sleeps_for_good(RIGHT));
}

#[test]
fn not_looking_what_has_come_home_before_would_be_found() {
    assert!(sleeps_for_good(Steps { looks_at_fresh: false, ..RIGHT }));
}

#[test]
fn standing_in_line_after_the_look_would_be_found() {
    assert!(sleeps_for_good(Steps { line_first: false, ..RIGHT }));
}
