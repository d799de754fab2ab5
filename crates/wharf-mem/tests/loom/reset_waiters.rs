//! A sender that waits for space while the device is opened anew (`wharf-devices/src/reopen.rs`; `wharf-core`:
//! `tx/sender/waiting.rs`, `tx/queue/qdisc_run.rs`).
//!
//! The old device holds a frame that it never completes, and one more waits: there is no room. The frame in the old device is
//! lost, the one that waits leaves by the new device, and its leaving is what the sender waits for. Whichever thread owns the
//! queue meanwhile, the sender is woken, and each frame is accounted for once.

use crate::{OF_THREE_THREADS, may};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex, Notify};
use loom::thread;
use wharf_mem::word::{READY, WAIT, WORK, ready_bit};
use wharf_mem::{OwnerCell, Ownership, Published};

/// Frames that may wait, and that a device holds.
const ROOM: u32 = 1;

/// A transmit queue and its device, which has a number and completes nothing.
struct State {
    device: Option<u32>,
    /// Value of `asked` that the device is newer than.
    seen: u64,
    backlog: u32,
    held: u32,
    lost: u32,
    /// A sender waits.
    waiting: bool,
}

/// The place of the new device.
#[derive(Default)]
struct Slot {
    is_retired: bool,
    next: Option<u32>,
}

/// The steps that may be in the wrong order, or left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The owner serves the sender after it has transmitted by the new device.
    serves_last: bool,
    /// The sender registers, and tells the owner so, before it looks.
    registers_first: bool,
    /// An owner that the sender's notice keeps from leaving looks at the sender again.
    looks_again: bool,
}

const RIGHT: Steps = Steps { serves_last: true, registers_first: true, looks_again: true };

struct Model {
    steps: Steps,
    cell: OwnerCell<State>,
    asked: AtomicU64,
    slot: Mutex<Slot>,
    changed: Condvar,
    /// The sender has registered; it was served; and its bell.
    registered: AtomicBool,
    served: AtomicBool,
    wake: Notify,
    /// The poller is called; with the bell for it.
    called: AtomicBool,
    bell: Notify,
    /// No other thread will wake the sender.
    over: AtomicBool,
}

impl Model {
    fn new(steps: Steps) -> Self {
        let state = State { device: Some(0), seen: 0, backlog: ROOM, held: ROOM, lost: 0, waiting: false };
        Self {
            steps,
            cell: OwnerCell::new(state),
            asked: AtomicU64::new(0),
            slot: Mutex::default(),
            changed: Condvar::new(),
            registered: AtomicBool::new(false),
            served: AtomicBool::new(false),
            wake: Notify::new(),
            called: AtomicBool::new(false),
            bell: Notify::new(),
            over: AtomicBool::new(false),
        }
    }

    /// Closes the device if that is asked for, takes the new one if it is there, and transmits.
    fn run(&self, state: &mut State) {
        // devices/reopen/reopened.rs device: if self.inner.is_none() || self.reopener.asked() != self.seen {
        let asked = self.asked.load(SeqCst);
        if state.device.is_some() && asked != state.seen {
            // devices/reopen/reopened.rs retire: let Some(mut inner) = self.inner.take() else { return };
            // devices/reopen/reopened.rs retire: self.seen = self.reopener.asked();
            (state.device, state.seen) = (None, asked);
            state.lost += std::mem::take(&mut state.held);
            // devices/reopen/reopened.rs retire: self.reopener.retired(self.at);
            // devices/reopen.rs retired: self.lock().slots[at].is_retired = true;
            self.slot.lock().unwrap().is_retired = true;
            // devices/reopen.rs retired: self.changed.notify_all();
            self.changed.notify_one();
        }
        if state.device.is_none() {
            // devices/reopen/reopened.rs settle: let taken = self.reopener.take(self.at);
            state.device = self.slot.lock().unwrap().next.take();
        }
        if state.device.is_some() && state.held < ROOM {
            state.held += std::mem::take(&mut state.backlog);
        }
    }

    /// Serves the sender if it waits and there is room. Returns true if it is to be woken.
    fn serve_sender(&self, state: &mut State) -> bool {
        let is_served = state.waiting && state.backlog < ROOM && self.registered.swap(false, SeqCst);
        if is_served {
            state.waiting = false;
            self.served.store(true, SeqCst);
        }
        is_served
    }

    /// Runs the queue as its owner. Returns true if the new device is in use.
    fn serve(&self, mut owner: Ownership<'_, State>, mut bits: u64) -> bool {
        let mut is_first = true;
        loop {
            // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
            bits |= owner.take_bits(WORK);
            let wakes = owner.with(|state| {
                state.backlog += u32::from(bits & READY != 0);
                // core/tx/queue/qdisc_run.rs handle_rare: state.waiting |= bits & WAIT != 0;
                state.waiting |= bits & WAIT != 0 && (is_first || self.steps.looks_again);
                let early = !self.steps.serves_last && self.serve_sender(state);
                self.run(state);
                // core/tx/queue/qdisc_run.rs leave: self.before_release();
                early || (self.steps.serves_last && self.serve_sender(state))
            });
            let is_renewed = owner.with(|state| state.device == Some(1));
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            let left = owner.leave();
            if wakes {
                // core/tx/queue/qdisc_run.rs leave: self.wake_served();
                self.wake.notify();
            }
            match left {
                Ok(()) => return is_renewed,
                Err(back) => (owner, bits, is_first) = (back, 0, false),
            }
        }
    }

    fn claim(&self, bits: u64) {
        match self.cell.claim(bits) {
            Published::Owner(owner) => _ = self.serve(owner, bits),
            Published::Seen => {}
            Published::WakeOwner | Published::Dead => unreachable!(),
        }
    }

    /// Waits for room, then sends a frame. Asleep for good, it is woken by the model's end, and notes that.
    fn send(&self) -> bool {
        if self.steps.registers_first {
            // core/tx/sender/waiting.rs register: let waiter = shared.waiters().register(place, need, wake);
            self.registered.store(true, SeqCst);
            // core/tx/sender/waiting.rs look_once: match shared.cell().claim_unreserved(WAIT) {
            self.claim(WAIT);
        } else {
            self.claim(WAIT);
            self.registered.store(true, SeqCst);
        }
        let is_served = loop {
            // In this order: a service before the end is seen.
            let is_over = self.over.load(SeqCst);
            if self.served.load(SeqCst) || is_over {
                break self.served.load(SeqCst);
            }
            self.wake.wait(); // loom wakes without a reason, too
        };
        if is_served {
            self.claim(ready_bit(0));
        }
        is_served
    }

    /// Asks for the device to be opened anew, and opens it once it is closed.
    fn reset(&self) {
        // devices/reopen.rs lose: let untaken = state.ask(&self.asked);
        self.asked.fetch_add(1, SeqCst);
        // devices/reopen.rs reset: self.notify();
        self.call();
        let mut slot = self.slot.lock().unwrap();
        while !slot.is_retired {
            slot = self.changed.wait(slot).unwrap();
        }
        // devices/reopen/thread.rs hand_out: (slot.next, slot.is_retired) = (Some((generation, device)), false);
        slot.next = Some(1);
        drop(slot);
        // devices/reopen/thread.rs hand_out: self.notify();
        self.call();
    }

    fn call(&self) {
        self.called.swap(true, SeqCst);
        self.bell.notify();
    }

    /// Polls when it is called, until the new device is in use.
    fn poll_when_called(&self) {
        let mut is_renewed = false;
        while !is_renewed {
            self.bell.wait();
            while self.called.swap(false, SeqCst) {
                is_renewed = self.poll();
            }
        }
    }

    /// Polls once. A poller that finds the queue owned comes back. Returns true if the new device is in use.
    fn poll(&self) -> bool {
        loop {
            match self.cell.claim(0) {
                Published::Owner(owner) => return self.serve(owner, 0),
                _ => thread::yield_now(),
            }
        }
    }
}

/// Runs the model. Returns true if in some interleaving the sender sleeps for good.
fn sleeps_for_good(steps: Steps) -> bool {
    // As many as take seconds here; three take a minute.
    may(OF_THREE_THREADS, move |asleep| {
        let model = Arc::new(Model::new(steps));
        let theirs = model.clone();
        let resetting = thread::spawn(move || theirs.reset());
        let theirs = model.clone();
        let sending = thread::spawn(move || theirs.send());
        model.poll_when_called();
        resetting.join().unwrap();
        // All that could wake the sender has happened, unless it looks for itself.
        model.over.store(true, SeqCst);
        model.wake.notify();
        let is_served = sending.join().unwrap();
        asleep.note(!is_served);
        let Published::Owner(mut owner) = model.cell.claim(0) else { unreachable!("all is quiet") };
        owner.with(|state| {
            assert_eq!(state.device, Some(1));
            assert_eq!(
                state.backlog + state.held + state.lost,
                2 * ROOM + u32::from(is_served),
                "each frame, once"
            );
        });
        assert!(owner.leave().is_ok());
    })
}

#[test]
fn a_sender_that_waits_is_woken_by_the_new_device() {
    assert!(!sleeps_for_good(RIGHT));
}

#[test]
fn serving_before_the_new_device_is_taken_is_found() {
    assert!(sleeps_for_good(Steps { serves_last: false, ..RIGHT }));
}

#[test]
fn telling_the_owner_before_registering_is_found() {
    assert!(sleeps_for_good(Steps { registers_first: false, ..RIGHT }));
}

#[test]
fn an_owner_that_does_not_look_again_is_found() {
    assert!(sleeps_for_good(Steps { looks_again: false, ..RIGHT }));
}
