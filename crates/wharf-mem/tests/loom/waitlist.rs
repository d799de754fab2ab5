//! The wait list of the pool: a frame in a mailbox as a thread begins to wait, a thread that gives up as it
//! is handed a frame, and a thread that comes as its frame is taken back. `core: pool/waiting.rs`,
//! `pool/waitlist.rs`, `pool/mailbox.rs`.
//!
//! (A) A waiter counts itself, then looks into mailboxes. (B) A thread that fills a mailbox notes that, then
//! looks for waiters. Both are sequentially consistent stores and loads, which loom takes for acquire and
//! release: here they have fences in between. A mailbox may be locked under the depot's lock, not the
//! reverse.

use crate::{OF_TWO_THREADS, Stock, may};
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;
use wharf_mem::FreeFrame;

#[derive(Default)]
struct Mailbox {
    /// Frames of its own that others have freed.
    frames: Vec<FreeFrame>,
    handed: Vec<FreeFrame>,
}

#[derive(Default)]
struct Depot {
    free: Vec<FreeFrame>,
    line: VecDeque<usize>,
}

/// Two threads that wait, and a third that has stopped, each with its mailbox.
#[derive(Default)]
struct Pool {
    depot: Mutex<Depot>,
    mailboxes: [Mutex<Mailbox>; 3],
    waited_for: AtomicUsize,
    mailed: AtomicUsize,
}

const STOPPED: usize = 2;

/// The steps that may be in the wrong order.
#[derive(Clone, Copy)]
struct Steps {
    /// A waiter counts itself before it looks into mailboxes.
    counts_first: bool,
    /// A thread that frees notes what it puts into a mailbox before it looks for waiters.
    notes_first: bool,
    /// A waiter that gives up leaves the list before it passes on its frame, in one step.
    leaves_at_once: bool,
    /// A waiter that finds its frame taken back joins the list again.
    stands_again: bool,
}

const RIGHT: Steps =
    Steps { counts_first: true, notes_first: true, leaves_at_once: true, stands_again: true };

impl Pool {
    fn serve(&self, depot: &mut Depot) {
        // core/pool/waiting.rs serve: depot.serve_waiters(now_ns);
        // core/pool/depot.rs serve_waiters: while let (free @ 1.., waiting @ 1..) = (self.len(), self.wait_list.waiting.len()) {
        while !depot.free.is_empty() {
            let Some(first) = depot.line.pop_front() else { break };
            // core/pool/depot.rs serve_waiters: if mailbox.hand(ticket, std::iter::from_fn(|| self.pop()).take(count)) {
            self.mailboxes[first].lock().unwrap().handed.extend(depot.free.pop());
        }
        // core/pool/waiting.rs serve: self.shared.wait_status.update(depot);
        self.waited_for.store(depot.line.len(), SeqCst);
    }

    fn deposit(&self, frames: &mut Vec<FreeFrame>) {
        let mut depot = self.depot.lock().unwrap();
        // core/pool/waiting.rs deposit_quietly: depot.extend(frames);
        depot.free.append(frames);
        // core/pool/waiting.rs deposit_quietly: self.serve(&mut depot);
        self.serve(&mut depot);
    }

    fn join(&self, who: usize) {
        let mut depot = self.depot.lock().unwrap();
        // core/pool/waiting.rs join: let ticket = depot.wait_list.join(wanted, mailbox.clone(), wake);
        // core/pool/waiting.rs join: self.shared.wait_status.update(&depot);
        depot.line.push_back(who);
        // core/pool/waiting.rs join: self.serve(&mut depot);
        self.serve(&mut depot);
    }

    /// (A)
    fn wait(&self, who: usize, steps: Steps) {
        let before = self.mailed.load(SeqCst);
        self.join(who);
        fence(SeqCst);
        let mailed = if steps.counts_first { self.mailed.load(SeqCst) } else { before };
        // core/pool/waiting.rs join: if !is_served && self.shared.mailed.load(SeqCst) > 0 {
        if mailed > 0 {
            // core/pool/mailbox.rs call_in: let mut contents = lock(&self.contents);
            let mut mailbox = self.mailboxes[STOPPED].lock().unwrap();
            let mut found = std::mem::take(&mut mailbox.frames);
            // core/pool/mailbox.rs call_in: pool.shared.mailed.fetch_sub(contents.frames.len(), Ordering::SeqCst);
            self.mailed.fetch_sub(found.len(), SeqCst);
            drop(mailbox);
            // core/pool/waiting.rs call_in: self.deposit(found.into_iter(), &mut PageCounters::default());
            self.deposit(&mut found);
        }
    }

    /// (B)
    fn post(&self, mut frames: Vec<FreeFrame>, steps: Steps) {
        // core/pool/mailbox.rs post: let mut contents = counters.locks.lock(&self.contents, &*pool.shared.clock);
        let mut mailbox = self.mailboxes[STOPPED].lock().unwrap();
        let waited_for = self.waited_for.load(SeqCst) > 0;
        // core/pool/mailbox.rs post: pool.shared.mailed.fetch_add(count, Ordering::SeqCst);
        self.mailed.fetch_add(1, SeqCst);
        fence(SeqCst);
        let waited_for = if steps.notes_first { self.waited_for.load(SeqCst) > 0 } else { waited_for };
        // core/pool/mailbox.rs post: if contents.frames.len() + count > pool.share_in_mail(self.yields()) {
        if !waited_for {
            return mailbox.frames.append(&mut frames);
        }
        // core/pool/mailbox.rs post: pool.shared.mailed.fetch_sub(count, Ordering::SeqCst);
        self.mailed.fetch_sub(1, SeqCst);
        drop(mailbox);
        // core/pool/mailbox.rs post: pool.deposit(from.drain(start..), counters);
        self.deposit(&mut frames);
    }

    /// Puts what `who` was handed back into the depot.
    fn recall(&self, depot: &mut Depot, who: usize) {
        // core/pool/depot.rs recall: mailbox.recall(ticket, |frames| self.extend(frames));
        depot.free.append(&mut self.mailboxes[who].lock().unwrap().handed);
    }

    fn cancel(&self, who: usize, steps: Steps) {
        if !steps.leaves_at_once {
            let mut depot = self.depot.lock().unwrap();
            self.recall(&mut depot, who);
            self.serve(&mut depot);
        }
        let mut depot = self.depot.lock().unwrap();
        // core/pool/waiting.rs leave: let gone = depot.wait_list.leave(ticket);
        depot.line.retain(|&other| other != who);
        if steps.leaves_at_once {
            // core/pool/waiting.rs leave: depot.recall(ticket, &mailbox);
            self.recall(&mut depot, who);
        }
        // core/pool/waiting.rs leave: pool.serve(&mut depot);
        self.serve(&mut depot);
    }

    /// `who` was served, and comes. Returns true if it has a frame, or joins the list again.
    fn come(&self, who: usize, came: &mut Vec<FreeFrame>, steps: Steps) {
        came.append(&mut self.mailboxes[who].lock().unwrap().handed);
        if !came.is_empty() {
            return;
        }
        if steps.stands_again {
            let mut depot = self.depot.lock().unwrap();
            // core/pool/waiting.rs rejoin: if depot.wait_list.position(self.ticket).is_some() || self.mailbox.len() > 0 {
            if !depot.line.contains(&who) && self.mailboxes[who].lock().unwrap().handed.is_empty() {
                depot.line.push_back(who);
            }
            // core/pool/waiting.rs rejoin: self.ticket = self.pool.join(depot, self.wanted, &self.mailbox, self.wake.clone());
            self.serve(&mut depot);
        }
    }

    fn has(&self, who: usize) -> bool {
        !self.mailboxes[who].lock().unwrap().handed.is_empty()
    }

    fn end(&self, stock: &Stock, mut came: Vec<FreeFrame>) {
        came.append(&mut self.depot.lock().unwrap().free);
        for mailbox in &self.mailboxes {
            let mut mailbox = mailbox.lock().unwrap();
            came.append(&mut mailbox.frames);
            came.append(&mut mailbox.handed);
        }
        stock.free.lock().unwrap().append(&mut came);
        stock.assert_whole();
    }
}

fn one(stock: &Stock) -> Vec<FreeFrame> {
    stock.free.lock().unwrap().pop().into_iter().collect()
}

/// Returns true if a frame may stay in the mailbox of a stopped thread while another waits.
fn strands_in_a_mailbox(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let pool = Arc::new(Pool::default());
        let (theirs, frames) = (pool.clone(), one(&stock));
        let frees = thread::spawn(move || theirs.post(frames, steps));
        pool.wait(0, steps);
        frees.join().unwrap();
        witness.note(!pool.has(0));
        pool.end(&stock, Vec::new());
    })
}

/// Returns true if a frame may be lost to the second waiter as the first gives up.
fn is_lost_with_a_waiter_that_gives_up(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let pool = Arc::new(Pool::default());
        (0..2).for_each(|who| pool.join(who));
        let (theirs, mut frames) = (pool.clone(), one(&stock));
        let frees = thread::spawn(move || theirs.deposit(&mut frames));
        pool.cancel(0, steps);
        frees.join().unwrap();
        witness.note(!pool.has(1));
        pool.end(&stock, Vec::new());
    })
}

/// Returns true if a waiter that comes as its frame is taken back may end with neither a frame nor a place.
fn is_forgotten_as_it_comes(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let pool = Arc::new(Pool::default());
        (0..2).for_each(|who| pool.join(who));
        pool.deposit(&mut one(&stock));
        let (theirs, mut late) = (pool.clone(), one(&stock));
        let recalls = thread::spawn(move || {
            let mut depot = theirs.depot.lock().unwrap();
            theirs.recall(&mut depot, 0);
            theirs.serve(&mut depot);
            drop(depot);
            // One more, for the next waiter.
            theirs.deposit(&mut late);
        });
        let mut came = Vec::new();
        pool.come(0, &mut came, steps);
        recalls.join().unwrap();
        witness.note(!pool.has(1) || (came.is_empty() && !pool.has(0)));
        pool.end(&stock, came);
    })
}

#[test]
fn a_frame_in_a_mailbox_reaches_a_waiter() {
    assert!(!strands_in_a_mailbox(RIGHT));
}

#[test]
fn looking_into_mailboxes_before_counting_is_found() {
    assert!(strands_in_a_mailbox(Steps { counts_first: false, ..RIGHT }));
}

#[test]
fn looking_for_waiters_before_noting_is_found() {
    assert!(strands_in_a_mailbox(Steps { notes_first: false, ..RIGHT }));
}

#[test]
fn a_waiter_that_gives_up_keeps_no_frame() {
    assert!(!is_lost_with_a_waiter_that_gives_up(RIGHT));
}

#[test]
fn passing_on_before_leaving_is_found() {
    assert!(is_lost_with_a_waiter_that_gives_up(Steps { leaves_at_once: false, ..RIGHT }));
}

#[test]
fn a_waiter_that_comes_late_has_a_frame_or_a_place() {
    assert!(!is_forgotten_as_it_comes(RIGHT));
}

#[test]
fn not_joining_the_list_again_is_found() {
    assert!(is_forgotten_as_it_comes(Steps { stands_again: false, ..RIGHT }));
}
