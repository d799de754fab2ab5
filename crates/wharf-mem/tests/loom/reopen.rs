//! A device that is opened anew: a thread asks for it, the queue's owner closes the device and later takes the new one, and a
//! poller is called so that frames which wait meanwhile leave (`wharf-devices/src/reopen.rs`).

use crate::{OF_THREE_THREADS, may};
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex, Notify};
use loom::thread;
use wharf_mem::word::{WORK, ready_bit};
use wharf_mem::{OwnerCell, Ownership, Published};

/// A transmit queue and its device, which has a number and completes nothing by itself.
#[derive(Default)]
struct State {
    device: Option<u32>,
    /// Value of `asked` that the device is newer than.
    seen: u64,
    /// Frames that wait, that the device holds, and that were lost with it.
    backlog: u32,
    held: u32,
    lost: u32,
}

/// The place of the new device.
#[derive(Default)]
struct Slot {
    is_retired: bool,
    next: Option<u32>,
}

struct Model {
    cell: OwnerCell<State>,
    asked: AtomicU64,
    slot: Mutex<Slot>,
    changed: Condvar,
    /// True if the poller is called; with the bell for it.
    called: AtomicBool,
    bell: Notify,
    /// Threads that have ended.
    ended: AtomicUsize,
    /// False to call the poller before the new device is there.
    calls_after: bool,
}

impl Model {
    fn new(calls_after: bool) -> Self {
        let state = State { device: Some(0), ..State::default() };
        Self {
            cell: OwnerCell::new(state),
            asked: AtomicU64::new(0),
            slot: Mutex::default(),
            changed: Condvar::new(),
            called: AtomicBool::new(false),
            bell: Notify::new(),
            ended: AtomicUsize::new(0),
            calls_after,
        }
    }

    /// Closes the device if that is asked for, takes the new one if it is there, and transmits what waits.
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
        if state.device.is_some() {
            state.held += std::mem::take(&mut state.backlog);
        }
    }

    fn serve(&self, mut owner: Ownership<'_, State>) {
        loop {
            // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
            let has_frame = owner.take_bits(WORK) != 0;
            owner.with(|state| {
                state.backlog += u32::from(has_frame);
                self.run(state);
            });
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            match owner.leave() {
                // Frames that wait for the new device leave when the poller is called for it.
                Ok(()) => return,
                Err(back) => owner = back,
            }
        }
    }

    /// Sends one frame, as the owner or through the owner.
    fn send(&self) {
        if let Published::Owner(mut owner) = self.cell.claim(ready_bit(0)) {
            owner.take_bits(WORK);
            owner.with(|state| state.backlog += 1);
            self.serve(owner);
        }
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
        drop(slot);
        if !self.calls_after {
            self.call();
        }
        // devices/reopen/thread.rs hand_out: (slot.next, slot.is_retired) = (Some((generation, device)), false);
        self.slot.lock().unwrap().next = Some(1);
        // devices/reopen/thread.rs hand_out: self.notify();
        if self.calls_after {
            self.call();
        }
    }

    fn call(&self) {
        // devices/reopen.rs notify: pollers.into_iter().for_each(|poller| _ = outlive(|| poller.wake()));
        self.called.swap(true, SeqCst);
        self.bell.notify();
    }

    /// Notes the end of one of the two other threads.
    fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
        self.bell.notify(); // ends the sleep, so that the model can end
    }

    /// Polls when it is called, until the other threads have ended.
    fn poll_when_called(&self) {
        loop {
            self.bell.wait();
            // In this order: calls before the end are seen.
            let is_over = self.ended.load(SeqCst) == 2;
            if self.called.swap(false, SeqCst) {
                self.poll();
            }
            if is_over {
                return;
            }
        }
    }

    /// Polls once. A poller that finds the queue owned comes back.
    fn poll(&self) {
        loop {
            match self.cell.claim(0) {
                Published::Owner(owner) => return self.serve(owner),
                _ => thread::yield_now(),
            }
        }
    }
}

/// Runs the model. Returns true if in some interleaving the frame or the new device is left behind when all is quiet.
fn strands(calls_after: bool) -> bool {
    may(OF_THREE_THREADS, move |stranded| {
        let model = Arc::new(Model::new(calls_after));
        let theirs = model.clone();
        let resetting = thread::spawn(move || {
            theirs.reset();
            theirs.end();
        });
        let theirs = model.clone();
        let sending = thread::spawn(move || {
            theirs.send();
            theirs.end();
        });
        model.poll_when_called();
        resetting.join().unwrap();
        sending.join().unwrap();
        let Published::Owner(mut owner) = model.cell.claim(0) else { unreachable!("all is quiet") };
        owner.with(|state| {
            assert_eq!(state.backlog + state.held + state.lost, 1, "one frame, once");
            stranded.note(state.backlog > 0 || state.device != Some(1));
        });
        assert!(owner.leave().is_ok());
    })
}

#[test]
fn a_device_that_is_opened_anew_strands_no_frame() {
    assert!(!strands(true));
}

#[test]
fn calling_the_poller_before_the_new_device_is_there_is_found() {
    assert!(strands(false));
}
