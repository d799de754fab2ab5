//! A poller that sleeps: it unmasks, looks once more, and notes in the same ownership whether a sender must
//! call it.

use crate::{OF_TWO_THREADS, may};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;
use wharf_mem::word::{WORK, ready_bit};
use wharf_mem::{OwnerCell, Ownership, Published};

/// A transmit queue: the number of frames in its device, and whether its poller sleeps until it is called.
#[derive(Default)]
struct State {
    in_device: usize,
    asleep: bool,
}

struct Model {
    cell: OwnerCell<State>,
    /// Frames that the device has completed.
    done: AtomicUsize,
    /// True if the device may signal.
    unmasked: AtomicBool,
    /// True if a sender has called, or the device has signalled; with the bell for it.
    called: AtomicBool,
    bell: Notify,
    /// True once no other thread will do anything.
    over: AtomicBool,
}

/// The steps that may be left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The poller looks after unmasking, or else before it.
    looks_after: bool,
    /// The poller notes that it sleeps while it owns the queue, or else afterwards.
    notes_inside: bool,
}

impl Model {
    fn call(&self) {
        // core/wakeup.rs call: self.called.store(true, SeqCst);
        self.called.store(true, Ordering::SeqCst);
        // core/wakeup.rs call: host::wake(self.wake.clone());
        self.bell.notify();
    }

    /// Leaves as a sender: calls the poller if it sleeps and the device has frames.
    fn leave(&self, mut owner: Ownership<'_, State>) {
        loop {
            // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
            if owner.take_bits(WORK) != 0 {
                owner.with(|inside| inside.in_device += 1);
            }
            // core/tx/queue/qdisc_run.rs before_release: (PollerState::Asleep, OwnerKind::Sender) if pending => {
            // core/tx/queue/qdisc_run.rs before_release: state.poller = PollerState::Awake;
            let wakes = owner.with(|inside| inside.in_device > 0 && std::mem::take(&mut inside.asleep));
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            match owner.leave() {
                // core/tx/queue/qdisc_run.rs after_release: self.shared.wake_poller();
                Ok(()) if wakes => return self.call(),
                Ok(()) => return,
                Err(back) => {
                    owner = back;
                    // A poller that was to be called still is.
                    owner.with(|inside| inside.asleep |= wakes);
                }
            }
        }
    }

    /// Sends one frame, as the owner or through the owner.
    fn send(&self) {
        // core/tx/sender/transmit.rs publish: match self.shared.cell().publish(self.bit) {
        match self.cell.claim(ready_bit(0)) {
            Published::Owner(mut owner) => {
                owner.take_bits(WORK);
                owner.with(|inside| inside.in_device += 1);
                self.leave(owner);
            }
            Published::Seen => {}
            Published::WakeOwner | Published::Dead => unreachable!(),
        }
    }

    /// Completes one frame, and signals if the device may.
    fn complete(&self) {
        self.done.fetch_add(1, Ordering::SeqCst);
        // The kernel puts a frame back under a lock that unmasking takes, too.
        fence(Ordering::SeqCst);
        if self.unmasked.load(Ordering::SeqCst) {
            self.call();
        }
    }

    fn unmask(&self, unmasked: bool) {
        self.unmasked.store(unmasked, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Polls once. Returns the frames taken back, and whether the device has more. A poller that finds the
    /// queue owned comes back.
    fn poll(&self, steps: Steps) -> (usize, bool) {
        let mut reaped = 0;
        let mut owner = loop {
            // core/tx/queue/qdisc_run/poll.rs poll_queue: let owned = match queue.cell().claim(0) {
            match self.cell.claim(0) {
                Published::Owner(owner) => break owner,
                _ => thread::yield_now(),
            }
        };
        loop {
            if owner.take_bits(WORK) != 0 {
                owner.with(|inside| inside.in_device += 1);
            }
            let held = owner.with(|inside| {
                let count = self.done.load(Ordering::SeqCst).min(inside.in_device);
                // core/tx/queue/qdisc_run.rs step_by: let (packets, open) = owned.with(QueueState::reap);
                self.done.fetch_sub(count, Ordering::SeqCst);
                (inside.in_device, reaped) = (inside.in_device - count, reaped + count);
                // core/tx/queue/qdisc_run.rs before_release: (false, _) => PollerState::Asleep,
                inside.asleep = steps.notes_inside && inside.in_device == 0;
                inside.in_device
            });
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            match owner.leave() {
                Ok(()) => return (reaped, held > 0),
                Err(back) => owner = back,
            }
        }
    }

    fn note_asleep(&self) {
        if let Published::Owner(mut owner) = self.cell.claim(0) {
            owner.with(|inside| inside.asleep = true);
            self.leave(owner);
        }
    }
}

/// Returns true if some interleaving leaves the poller asleep for good with a frame to take back.
fn sleeps_for_good(steps: Steps) -> bool {
    may(OF_TWO_THREADS, move |witness| {
        let model = Arc::new(Model {
            cell: OwnerCell::new(State::default()),
            done: AtomicUsize::new(0),
            unmasked: AtomicBool::new(false),
            called: AtomicBool::new(false),
            bell: Notify::new(),
            over: AtomicBool::new(false),
        });
        let theirs = model.clone();
        let other = thread::spawn(move || {
            theirs.send();
            theirs.complete();
            theirs.over.store(true, Ordering::SeqCst);
            theirs.bell.notify(); // ends the sleep, so that the model can report it
        });
        loop {
            model.unmask(false);
            let (mut reaped, mut pending) = model.poll(steps);
            if reaped == 0 && pending {
                // core/tx/queue/qdisc_run/poll.rs begin: IrqChange::Unmask => found.unarmed = !state.engine.device_mut().arm(),
                if steps.looks_after {
                    model.unmask(true);
                }
                // core/tx/queue/qdisc_run/poll.rs begin: let (reaped, _) = state.reap();
                (reaped, pending) = model.poll(steps);
                if !steps.looks_after {
                    model.unmask(true);
                }
            }
            if reaped > 0 {
                break;
            }
            if !pending && !steps.notes_inside {
                model.note_asleep();
            }
            model.bell.wait();
            // In this order: calls before the end are seen.
            let is_over = model.over.load(Ordering::SeqCst);
            // core/poller.rs step: self.enrolled.take_calls(&self.bell, |at| self.schedule.called(now_ns, at));
            // core/wakeup.rs take: self.called.swap(false, SeqCst)
            if !model.called.swap(false, Ordering::SeqCst) && is_over {
                witness.note(true);
                break;
            }
        }
        other.join().unwrap();
    })
}

const RIGHT: Steps = Steps { looks_after: true, notes_inside: true };

#[test]
fn a_poller_that_looks_after_unmasking_is_woken() {
    assert!(!sleeps_for_good(RIGHT));
}

#[test]
fn looking_before_unmasking_is_found() {
    assert!(sleeps_for_good(Steps { looks_after: false, ..RIGHT }));
}

#[test]
fn noting_the_sleep_after_leaving_is_found() {
    assert!(sleeps_for_good(Steps { notes_inside: false, ..RIGHT }));
}
