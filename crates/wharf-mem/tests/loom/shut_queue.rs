//! A transmit queue for the model of its end (`close.rs`): what its owner does, and the waiters that it serves.
//!
//! The device holds a frame, and one more waits: there is no room before the device completes.

use crate::{BUFFERS, CAPACITY, START, Stock};
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use loom::sync::{Arc, Mutex, Notify};
use std::sync::OnceLock;
use wharf_mem::inbox::Inbox;
use wharf_mem::lane::{LaneConsumer, LaneProducer, lane};
use wharf_mem::word::{CONTROL, READY, WAIT, WORK};
use wharf_mem::{Batch, OwnerCell, Ownership, Published};

/// Frames that may wait, and that the device holds.
const ROOM: u32 = 1;

/// The answer to a question: true if frames are inside.
pub type Answer = std::sync::Arc<OnceLock<bool>>;

/// A message of the closing thread to the owner.
pub enum Message {
    IsPending(Answer),
    Shut,
}

/// A wait of the sender.
#[derive(Default)]
pub struct Waiter {
    pub is_served: AtomicBool,
    pub wakes: AtomicUsize,
}

/// The lists of waiters, which the owner and the closing thread lock.
#[derive(Default)]
struct Lists {
    listed: Vec<Arc<Waiter>>,
    served: Vec<Arc<Waiter>>,
}

/// The owner's part. Frames that were in the lane are in `taken`.
pub struct State {
    lane: LaneConsumer,
    taken: Batch,
    is_announced: bool,
    backlog: u32,
    held: u32,
    sent: u32,
    returned: u32,
    waiting: bool,
    shut: bool,
}

impl State {
    /// Takes what the lane has, if it was announced.
    fn absorb(&mut self) {
        if std::mem::take(&mut self.is_announced) {
            self.backlog += self.lane.pop(&mut self.taken, usize::MAX) as u32;
        }
    }

    fn drain_unsent(&mut self) {
        // core/tx/queue/shared/control.rs drain_unsent: state.lanes.announce_all();
        self.is_announced = true;
        self.absorb();
        self.returned += std::mem::take(&mut self.backlog);
    }

    fn transmit(&mut self) {
        self.absorb();
        // A device that is closed takes nothing.
        let taken = if self.shut { 0 } else { self.backlog.min(ROOM - self.held) };
        self.held += taken;
        self.backlog -= taken;
    }

    /// The device completes what it holds.
    pub fn complete(&mut self) {
        self.sent += std::mem::take(&mut self.held);
    }
}

pub struct Queue {
    /// False for an owner that gives back nothing that comes after the end.
    pub drains_late: bool,
    pub cell: OwnerCell<State>,
    pub full_bands: AtomicU32,
    pub waiters: Inbox<Arc<Waiter>>,
    lists: Mutex<Lists>,
    pub messages: Inbox<Message>,
    /// Rings for the sender, which sleeps.
    pub bell: Notify,
}

impl Queue {
    pub fn new(drains_late: bool) -> (Self, LaneProducer) {
        let (lane_in, lane) = lane(CAPACITY, START);
        let state = State {
            lane,
            taken: Batch::new(BUFFERS as usize),
            is_announced: false,
            backlog: ROOM,
            held: ROOM,
            sent: 0,
            returned: 0,
            waiting: false,
            shut: false,
        };
        let this = Self {
            drains_late,
            cell: OwnerCell::new(state),
            full_bands: AtomicU32::new(1),
            waiters: Inbox::default(),
            lists: Mutex::default(),
            messages: Inbox::default(),
            bell: Notify::new(),
        };
        (this, lane_in)
    }

    /// Runs it for `bits` if this thread became its owner.
    pub fn serve_if_owner(&self, published: Published<'_, State>, bits: u64) {
        match published {
            Published::Owner(owner) => self.run(owner, bits),
            // The poller comes: `reserved.rs`.
            Published::Seen | Published::WakeOwner => {}
            Published::Dead => unreachable!("no owner panics"),
        }
    }

    /// Runs it as its owner.
    pub fn run(&self, mut owner: Ownership<'_, State>, mut bits: u64) {
        loop {
            // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
            bits |= owner.take_bits(WORK);
            let wakes = owner.with(|state| {
                self.handle_pending(state, bits);
                // core/tx/queue/qdisc_run.rs step_by: let (packets, pause) = owned.with(|state| state.engine.transmit(&mut state.lanes, quota));
                state.transmit();
                self.before_release(state)
            });
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            let left = owner.leave();
            if wakes {
                // core/tx/queue/qdisc_run.rs leave: self.wake_served();
                self.wake_served();
            }
            match left {
                Ok(()) => return,
                Err(back) => (owner, bits) = (back, 0),
            }
        }
    }

    fn handle_pending(&self, state: &mut State, bits: u64) {
        // core/tx/queue/qdisc_run.rs handle_rare: let messages = if bits & CONTROL != 0 { shared.apply_control(state) } else { 0 };
        if bits & CONTROL != 0 {
            self.apply_control(state);
        }
        // core/tx/queue/qdisc_run.rs handle_rare: state.waiting |= bits & WAIT != 0;
        state.waiting |= bits & WAIT != 0;
        // core/tx/queue/qdisc_run.rs handle_pending: state.lanes.announce(bits & READY);
        state.is_announced |= bits & READY != 0;
        // core/tx/queue/qdisc_run.rs handle_pending: if state.shut {
        if state.shut && self.drains_late {
            // core/tx/queue/qdisc_run.rs handle_pending: shared.drain_unsent(state);
            state.drain_unsent();
        }
    }

    fn apply_control(&self, state: &mut State) {
        // core/tx/queue/shared/control.rs apply_control: for message in self.messages.take() {
        for message in self.messages.take() {
            match message {
                // core/tx/queue/shared/control.rs apply_control: ControlMessage::Shut => self.shut(state),
                Message::Shut => {
                    // core/tx/queue/shared/control.rs shut: state.shut = true;
                    state.shut = true;
                    // core/tx/queue/shared/control.rs shut: self.drain_unsent(state);
                    state.drain_unsent();
                }
                // core/tx/queue/shared/control.rs apply_control: _ = answer.set(state.is_pending() || state.lanes.len() > 0);
                Message::IsPending(answer) => {
                    let is_pending = state.backlog + state.held > 0 || state.lane.ready_now() > 0;
                    _ = answer.set(is_pending);
                }
            }
        }
    }

    /// Serves the sender if there is room. Returns true if it is to be woken.
    fn before_release(&self, state: &mut State) -> bool {
        let mut wakes = false;
        if state.waiting {
            let lists = &mut *self.lists.lock().unwrap();
            // core/tx/queue/waiters.rs serve: self.take_messages(lists);
            lists.listed.extend(self.waiters.take());
            if state.backlog < ROOM {
                lists.listed.iter().for_each(|waiter| waiter.is_served.store(true, SeqCst));
                lists.served.append(&mut lists.listed);
            }
            // core/tx/queue/waiters.rs serve: let wakes = !lists.served.is_empty() || !lists.over.is_empty() || pool.has_served();
            (state.waiting, wakes) = (!lists.listed.is_empty(), !lists.served.is_empty());
        }
        let is_full = state.backlog >= ROOM || state.waiting;
        // core/tx/queue/qdisc_run.rs before_release: shared.set_full_bands(full);
        self.full_bands.store(is_full.into(), Relaxed);
        wakes
    }

    fn wake_served(&self) {
        loop {
            // core/tx/queue/waiters.rs wake_served: let Some(served) = lock(&self.lists).served.pop_front() else { break };
            let served = self.lists.lock().unwrap().served.pop();
            let Some(served) = served else { return };
            served.wakes.fetch_add(1, SeqCst);
            self.bell.notify();
        }
    }

    /// Wakes all waiters, as the closing thread.
    pub fn wake_all(&self) {
        let mut lists = self.lists.lock().unwrap();
        // core/tx/queue/waiters.rs wake_all: self.take_messages(lists);
        lists.listed.extend(self.waiters.take());
        let all = std::mem::take(&mut lists.listed);
        // core/tx/queue/waiters.rs wake_all: lists.served.extend(all);
        lists.served.extend(all);
        drop(lists);
        // core/tx/queue/waiters.rs wake_all: self.wake_served();
        self.wake_served();
    }

    /// Ends an interleaving in which the sender has handed over so many frames. Returns true if the queue was
    /// shut, and no frame is in it.
    pub fn finish(&self, stock: &Stock, handed_over: u32) -> bool {
        let Published::Owner(mut owner) = self.cell.claim(0) else { panic!("still owned: {:?}", self.cell) };
        let is_shut_and_empty = owner.with(|state| {
            let left = state.lane.ready_now() as u32 + state.backlog;
            let all = left + state.held + state.sent + state.returned;
            assert_eq!(all, 2 * ROOM + handed_over, "each frame, once");
            let is_shut_and_empty = state.shut && left == 0;
            state.drain_unsent();
            stock.give(std::mem::replace(&mut state.taken, Batch::new(0)));
            is_shut_and_empty
        });
        owner.hand_over();
        stock.assert_whole();
        is_shut_and_empty
    }
}
