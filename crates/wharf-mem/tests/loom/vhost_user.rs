//! Notifications of a `vhost-user` device: calls, by which a driver learns of used buffers while its VMM gives another event for them,
//! and kicks, by which a poller learns of available ones while a virtqueue starts. An event is a flag that is swapped: see `events.rs`.

use crate::{OF_THREE_THREADS, Witness, may};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

/// A thread that sleeps, the event that it waits for, and the threads that may still signal it.
struct Sleeper {
    event: AtomicBool,
    bell: Notify,
    others: AtomicUsize,
}

impl Sleeper {
    fn new(others: usize) -> Self {
        Self { event: AtomicBool::new(false), bell: Notify::new(), others: AtomicUsize::new(others) }
    }

    fn signal(&self) {
        self.event.swap(true, SeqCst);
        self.bell.notify();
    }

    /// Another thread does nothing more. It ends a sleep, so that the model can report it.
    fn leave(&self) {
        self.others.fetch_sub(1, SeqCst);
        self.bell.notify();
    }

    /// Sleeps until the event. Returns false if it never comes.
    fn sleep(&self) -> bool {
        loop {
            // In this order: signals before the end are seen.
            let is_over = self.others.load(SeqCst) == 0;
            match self.event.swap(false, SeqCst) {
                true => return true,
                false if is_over => return false,
                false => self.bell.wait(),
            }
        }
    }
}

/// A virtqueue, of which the device has used a buffer or a driver has made one available.
struct Queue {
    vring: Mutex<Vring>,
    /// The index that the one side publishes.
    index: AtomicUsize,
    /// True if the other side asks to be notified.
    is_asked: AtomicBool,
    sleeper: Sleeper,
}

/// What is under the lock of the virtqueue.
#[derive(Default)]
struct Vring {
    /// Its call is the event that the driver waits for, or else the one before.
    has_new_call: bool,
    is_running: bool,
}

impl Queue {
    fn new(is_asked: bool) -> Arc<Self> {
        let (vring, index, is_asked) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(is_asked));
        Arc::new(Self { vring, index, is_asked, sleeper: Sleeper::new(2) })
    }
}

/// The steps of calls that may be left out.
#[derive(Clone, Copy)]
struct CallSteps {
    /// A turn holds the lock from reading the event to the signal.
    turns_under_lock: bool,
    /// A new event is signalled.
    signals_new: bool,
}

impl Queue {
    /// A turn that uses a buffer.
    fn turn(&self, steps: CallSteps) {
        let vring = self.vring.lock().unwrap();
        let has_new_call = vring.has_new_call;
        let held = steps.turns_under_lock.then_some(vring);
        // devices/vhost_user/sending/turn.rs turn: lane.owes_call |= to.ring.publish();
        self.index.store(1, SeqCst);
        // devices/virtio/split/device.rs needs_notification: fence(Ordering::SeqCst);
        fence(SeqCst);
        // devices/vhost_user/sending/turn.rs turn: let rang = !more && tell(link, 2 * pair, running, lane, call);
        // devices/vhost_user/sending/turn.rs tell: let told = std::mem::take(&mut lane.owes_call) && running.tell(call);
        // devices/vhost_user/vring.rs tell: call.signal();
        if self.is_asked.load(SeqCst) && has_new_call {
            self.sleeper.signal();
        }
        drop(held);
        self.sleeper.leave();
    }

    fn set_vring_call(&self, steps: CallSteps) {
        // devices/vhost_user/session/messages.rs set_vring_call: if let Some(mut vring) = self.link.vring(index.into()) {
        let mut vring = self.vring.lock().unwrap();
        // devices/vhost_user/session/messages.rs set_vring_call: vring.call = call;
        vring.has_new_call = true;
        // devices/vhost_user/session/messages.rs set_vring_call: vring.call.iter().for_each(EventFd::signal);
        if steps.signals_new {
            self.sleeper.signal();
        }
        drop(vring);
        self.sleeper.leave();
    }

    /// A driver that reads the new event alone. Returns false if it sleeps for good.
    fn driver_sees_used(&self) -> bool {
        loop {
            self.is_asked.store(true, SeqCst);
            fence(SeqCst);
            if self.index.load(SeqCst) == 1 {
                return true;
            }
            if !self.sleeper.sleep() {
                return false;
            }
        }
    }
}

/// Returns true if some interleaving leaves the driver asleep for good with a used buffer.
fn driver_sleeps_for_good(steps: CallSteps) -> bool {
    may(OF_THREE_THREADS, move |witness: &Witness| {
        let queue = Queue::new(false);
        let (mover, message) = (queue.clone(), queue.clone());
        let mover = thread::spawn(move || mover.turn(steps));
        let message = thread::spawn(move || message.set_vring_call(steps));
        witness.note(!queue.driver_sees_used());
        mover.join().unwrap();
        message.join().unwrap();
    })
}

const RIGHT_CALLS: CallSteps = CallSteps { turns_under_lock: true, signals_new: true };

#[test]
fn a_driver_that_has_given_another_event_is_called() {
    assert!(!driver_sleeps_for_good(RIGHT_CALLS));
}

#[test]
fn an_event_that_is_set_beside_the_lock_is_found() {
    assert!(driver_sleeps_for_good(CallSteps { turns_under_lock: false, ..RIGHT_CALLS }));
}

#[test]
fn a_new_event_that_is_not_signalled_is_found() {
    assert!(driver_sleeps_for_good(CallSteps { signals_new: false, ..RIGHT_CALLS }));
}

/// The steps of kicks that may be left out.
#[derive(Clone, Copy)]
struct KickSteps {
    /// The poller checks the ring after it has asked for a kick.
    looks_after: bool,
    /// The start of a virtqueue is reported to the poller.
    tells_start: bool,
}

impl Queue {
    /// Starts the virtqueue.
    fn start(&self, is_armed: &AtomicBool, steps: KickSteps) {
        // devices/vhost_user/link.rs start: let Some(mut vring) = self.vring(index) else { return Ok(()) };
        let mut vring = self.vring.lock().unwrap();
        // devices/vhost_user/link.rs start: let started = vring.start(memory, agreed, self.is_armed.load(Ordering::Relaxed));
        // devices/vhost_user/vring.rs start: with_ring!(&mut ring, ring => match is_armed {
        // devices/vhost_user/vring.rs start: true => _ = ring.enable_notification(),
        // devices/vhost_user/vring.rs start: false => ring.disable_notification(),
        self.is_asked.store(is_armed.load(Relaxed), SeqCst);
        // devices/vhost_user/vring.rs start: self.running = Some(Running {
        vring.is_running = true;
        // devices/vhost_user/link.rs start: drop(vring);
        drop(vring);
        // devices/vhost_user/link.rs start: self.changed();
        // devices/vhost_user/link.rs settle: self.change.signal();
        if steps.tells_start {
            self.sleeper.signal();
        }
        self.sleeper.leave();
    }

    /// A driver makes a buffer available.
    fn post(&self) {
        self.index.store(1, SeqCst);
        fence(SeqCst);
        if self.is_asked.load(SeqCst) {
            self.sleeper.signal();
        }
        self.sleeper.leave();
    }

    /// Receives what is in the ring, if it runs.
    fn receive(&self) -> bool {
        let vring = self.vring.lock().unwrap();
        // devices/vhost_user/receiving.rs turn: let Some((running, call)) = vring.serving() else { return Ok(true) };
        vring.is_running && self.index.load(SeqCst) == 1
    }

    /// Returns true if the ring has nothing yet.
    fn arm(&self, is_armed: &AtomicBool, steps: KickSteps) -> bool {
        // devices/vhost_user.rs arm: self.link.look();
        self.sleeper.event.swap(false, SeqCst);
        // devices/vhost_user.rs arm: self.link.set_armed(true);
        is_armed.store(true, Relaxed);
        // devices/vhost_user.rs arm: let nothing_came = self.receiving.arm(&self.link);
        let vring = self.vring.lock().unwrap();
        // devices/vhost_user/receiving.rs arm: if let Some((running, _)) = vring.serving() {
        if !vring.is_running {
            return true;
        }
        // devices/vhost_user/receiving.rs arm: let ask = |ring: &mut Ring| with_ring!(ring, ring => ring.enable_notification());
        let came_before = self.index.load(SeqCst) == 1;
        self.is_asked.store(true, SeqCst);
        // devices/virtio/split/device.rs enable_notification_behind: fence(Ordering::SeqCst);
        fence(SeqCst);
        if steps.looks_after { self.index.load(SeqCst) == 0 } else { !came_before }
    }

    /// A poller that sleeps while it has nothing to do. Returns false if it sleeps for good.
    fn poller_receives(&self, is_armed: &AtomicBool, steps: KickSteps) -> bool {
        loop {
            if self.receive() {
                return true;
            }
            if self.arm(is_armed, steps) && !self.sleeper.sleep() {
                return false;
            }
        }
    }
}

/// Returns true if some interleaving leaves the poller asleep for good with a buffer in the ring.
fn poller_sleeps_for_good(steps: KickSteps) -> bool {
    may(OF_THREE_THREADS, move |witness: &Witness| {
        // A new ring notifies of all buffers.
        let (queue, is_armed) = (Queue::new(true), Arc::new(AtomicBool::new(false)));
        let (message, driver, armed) = (queue.clone(), queue.clone(), is_armed.clone());
        let message = thread::spawn(move || message.start(&armed, steps));
        let driver = thread::spawn(move || driver.post());
        witness.note(!queue.poller_receives(&is_armed, steps));
        message.join().unwrap();
        driver.join().unwrap();
    })
}

const RIGHT_KICKS: KickSteps = KickSteps { looks_after: true, tells_start: true };

#[test]
fn a_poller_beside_a_virtqueue_that_starts_is_woken() {
    assert!(!poller_sleeps_for_good(RIGHT_KICKS));
}

#[test]
fn looking_before_asking_for_a_kick_is_found() {
    assert!(poller_sleeps_for_good(KickSteps { looks_after: false, ..RIGHT_KICKS }));
}

#[test]
fn a_start_that_is_not_told_is_found() {
    assert!(poller_sleeps_for_good(KickSteps { tells_start: false, ..RIGHT_KICKS }));
}
