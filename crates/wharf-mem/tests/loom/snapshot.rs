//! A snapshot of a port that is taken while its counters move, and while one owner hands the queue to the
//! next (`wharf/src/metrics/snapshot.rs`; `wharf-core`: `counters.rs`, `rx/counters.rs`).
//!
//! Each counter has one writer at a time, the owner, which adds by a plain load and store: what it has
//! counted, the next owner goes on from. A reader has no part in that. It reads the losses by reason under
//! their locks, then the counters, so that no packet counts twice, and none that left before is missing.

use crate::{OF_THREE_THREADS, may};
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use wharf_mem::word::{WORK, ready_bit};
use wharf_mem::{OwnerCell, Ownership, Published};

/// Packets that the senders hand over, and one that has left before.
const HANDED_OVER: u64 = 2;
const LEFT_BEFORE: u64 = 1;

/// The steps that may be in the wrong order, or left out.
#[derive(Clone, Copy)]
struct Steps {
    /// A reader reads losses before it reads what was sent.
    reads_losses_first: bool,
    /// A reader reads the losses behind the device once.
    reads_losses_once: bool,
    /// A thread that counts owns the queue.
    owns: bool,
}

const RIGHT: Steps = Steps { reads_losses_first: true, reads_losses_once: true, owns: true };

/// The owner's part: a packet that the device has sent, and of which it learns later that it was lost.
#[derive(Default)]
struct State {
    is_lost_behind: bool,
}

struct Model {
    steps: Steps,
    cell: OwnerCell<State>,
    sent: AtomicU64,
    /// Losses by reason: in the device, and behind it.
    failures: Mutex<u64>,
    undelivered: Mutex<u64>,
    /// By sender.
    packets: [AtomicU64; 2],
}

/// What a reader reports.
#[derive(Debug, Clone, Copy, Default)]
struct Snapshot {
    accepted: u64,
    sent: u64,
    failed: u64,
    inside: u64,
}

/// Adds one, as the only writer.
fn add(counter: &AtomicU64) {
    // core/counters/counter.rs add: self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

impl Model {
    fn new(steps: Steps) -> Self {
        Self {
            steps,
            cell: OwnerCell::new(State::default()),
            sent: AtomicU64::new(LEFT_BEFORE),
            failures: Mutex::default(),
            undelivered: Mutex::default(),
            packets: [AtomicU64::new(LEFT_BEFORE), AtomicU64::new(0)],
        }
    }

    /// Hands over the packet of sender `at`: the first one's is sent, and the other's fails in the device.
    fn send(&self, at: usize) {
        if !self.steps.owns {
            add(&self.sent);
        } else if let Published::Owner(owner) = self.cell.claim(ready_bit(at)) {
            self.serve(owner, ready_bit(at));
        }
        // core/tx/sender/transmit.rs transmit_as_owner: self.counters.packets.add((offered - batch.len()) as u64);
        add(&self.packets[at]);
    }

    fn serve(&self, mut owner: Ownership<'_, State>, mut bits: u64) {
        loop {
            // core/tx/queue/qdisc_run.rs handle_pending: let bits = bits | owned.take_bits(WORK);
            bits |= owner.take_bits(WORK);
            owner.with(|state| self.complete(state, bits));
            // core/tx/queue/qdisc_run.rs leave: match owned.leave() {
            match owner.leave() {
                Ok(()) => return,
                Err(back) => (owner, bits) = (back, 0),
            }
        }
    }

    /// Takes completions, and counts them.
    fn complete(&self, state: &mut State, bits: u64) {
        if std::mem::take(&mut state.is_lost_behind) {
            // core/counters.rs error: let mut reasons = lock(&self.undelivered_reasons);
            *self.undelivered.lock().unwrap() += 1;
        }
        if bits & ready_bit(0) != 0 {
            add(&self.sent);
            state.is_lost_behind = true;
        }
        if bits & ready_bit(1) != 0 {
            // core/counters.rs fail: add(&mut lock(&self.reasons), reason, 1);
            *self.failures.lock().unwrap() += 1;
        }
    }

    fn snapshot(&self) -> Snapshot {
        let early = if self.steps.reads_losses_first { None } else { Some(self.sent.load(Relaxed)) };
        // wharf/metrics/snapshot.rs add_queue: let failed = self.add_losses(counters.failures());
        let failed = *self.failures.lock().unwrap();
        // wharf/metrics/snapshot.rs add_queue: let undelivered = self.add_losses(counters.undelivered_by_reason());
        let undelivered = *self.undelivered.lock().unwrap();
        // wharf/metrics/snapshot.rs add_queue: self.sent += of(|all| all.sent.get()).saturating_sub(undelivered);
        let sent = early.unwrap_or_else(|| self.sent.load(Relaxed)).saturating_sub(undelivered);
        let undelivered =
            if self.steps.reads_losses_once { undelivered } else { *self.undelivered.lock().unwrap() };
        // wharf/metrics/snapshot.rs add_queue: self.failed += failed + undelivered;
        let failed = failed + undelivered;
        let packets: u64 = self.packets.iter().map(|packets| packets.load(Relaxed)).sum();
        // wharf/metrics/snapshot.rs add_queue: let gone = self.sent + self.failed + self.returned;
        let gone = sent + failed;
        // wharf/metrics/snapshot.rs add_queue: self.accepted = (self.accepted + packets.get()).max(gone);
        let accepted = packets.max(gone);
        // wharf/metrics/snapshot.rs add_queue: self.inside = self.accepted - gone;
        Snapshot { accepted, sent, failed, inside: accepted - gone }
    }
}

impl Snapshot {
    /// True if it has no packet too many, each one that had left before, and none less than `before`.
    fn is_true(&self, before: &Self) -> bool {
        let Self { accepted, sent, failed, .. } = *self;
        let is_within = accepted <= LEFT_BEFORE + HANDED_OVER && sent >= LEFT_BEFORE;
        is_within && accepted >= before.accepted && failed >= before.failed
    }
}

/// Runs the model: two senders, the first of which polls once more, and a reader. Returns true if in some
/// interleaving the reader reports what cannot be, or a count is lost.
fn misreports(steps: Steps) -> bool {
    may(OF_THREE_THREADS, move |wrong| {
        let model = Arc::new(Model::new(steps));
        let first = model.clone();
        let first = thread::spawn(move || {
            first.send(0);
            if let Published::Owner(owner) = first.cell.claim(0) {
                first.serve(owner, 0);
            }
        });
        let second = model.clone();
        let second = thread::spawn(move || second.send(1));
        let reader = model.clone();
        let reader = thread::spawn(move || [reader.snapshot(), reader.snapshot()]);
        first.join().unwrap();
        second.join().unwrap();
        let [early, later] = reader.join().unwrap();
        wrong.note(!early.is_true(&Snapshot::default()) || !later.is_true(&early));
        let end = model.snapshot();
        wrong.note((end.accepted, end.inside) != (LEFT_BEFORE + HANDED_OVER, 0));
    })
}

#[test]
fn a_snapshot_adds_up_while_owners_hand_over() {
    assert!(!misreports(RIGHT));
}

#[test]
fn reading_what_was_sent_before_the_losses_is_found() {
    assert!(misreports(Steps { reads_losses_first: false, ..RIGHT }));
}

#[test]
fn reading_losses_twice_is_found() {
    assert!(misreports(Steps { reads_losses_once: false, ..RIGHT }));
}

#[test]
fn counting_without_owning_is_found() {
    assert!(misreports(Steps { owns: false, ..RIGHT }));
}

/// The receive side: a poller, a receiver and a reader. Packets received are in the inbox, or were taken.
#[derive(Default)]
struct Inbox {
    waiting: u64,
    taken: u64,
}

/// Returns true if in some interleaving the reader has more taken than received.
fn takes_more_than_came(reads_taken_first: bool) -> bool {
    may(OF_THREE_THREADS, move |wrong| {
        let shared = Arc::new((AtomicU64::new(0), Mutex::new(Inbox::default())));
        let polling = shared.clone();
        let polling = thread::spawn(move || {
            // core/rx/polled.rs note: self.counters.count(received as u64, dropped);
            add(&polling.0);
            // core/rx/inbox.rs one: (vec![inbox], Box::new(move |burst: &mut Burst| lock(&mine).put(burst)))
            polling.1.lock().unwrap().waiting += 1;
        });
        let taking = shared.clone();
        let taking = thread::spawn(move || {
            // core/rx/receiver.rs take: let mut inbox = lock(&self.inbox);
            let mut inbox = taking.1.lock().unwrap();
            inbox.taken += std::mem::take(&mut inbox.waiting);
        });
        let early = if reads_taken_first { None } else { Some(shared.0.load(Relaxed)) };
        // core/rx/counters.rs received_waiting_dropped: let inbox = lock(inbox);
        let taken = shared.1.lock().unwrap().taken;
        // core/rx/counters.rs received_waiting_dropped: let received = self.received();
        let received = early.unwrap_or_else(|| shared.0.load(Relaxed));
        wrong.note(taken > received);
        polling.join().unwrap();
        taking.join().unwrap();
    })
}

#[test]
fn no_more_packets_are_taken_than_were_received() {
    assert!(!takes_more_than_came(true));
}

#[test]
fn reading_what_was_received_first_is_found() {
    assert!(takes_more_than_came(false));
}
