//! The line of those who wait for memory: what lies in a mailbox as somebody begins to wait, who gives up as it is handed a
//! frame, and who comes as what it was handed is taken back. `core: pool/waiting.rs`, `pool/waitlist.rs`, `pool/mailbox.rs`.
//!
//! (A) who waits counts itself, then looks what lies in mailboxes; (B) who puts some there notes that, then looks whether
//! anybody waits. Both by sequentially consistent stores and loads, which loom takes for acquire and release: here they have
//! fences in between. Under the depot's lock a mailbox may be locked, and not the other way round.

use crate::{OF_TWO_THREADS, Stock, may};
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;
use wharf_mem::FreeFrame;

#[derive(Default)]
struct Mailbox {
    /// Its own that others have freed.
    frames: Vec<FreeFrame>,
    handed: Vec<FreeFrame>,
}

#[derive(Default)]
struct Depot {
    free: Vec<FreeFrame>,
    line: VecDeque<usize>,
}

/// Two that wait, and a third that has stopped, each with its mailbox.
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
    /// Who waits counts itself before it looks what lies in mailboxes.
    counts_first: bool,
    /// Who frees notes what it puts into a mailbox before it looks whether anybody waits.
    notes_first: bool,
    /// Who gives up leaves the line before it passes on what it was handed, at one go.
    leaves_at_once: bool,
    /// Who has come for nothing stands in the line again.
    stands_again: bool,
}

const RIGHT: Steps =
    Steps { counts_first: true, notes_first: true, leaves_at_once: true, stands_again: true };

impl Pool {
    fn serve(&self, depot: &mut Depot) {
        while !depot.free.is_empty() {
            let Some(first) = depot.line.pop_front() else { break };
            self.mailboxes[first].lock().unwrap().handed.extend(depot.free.pop());
        }
        self.waited_for.store(depot.line.len(), SeqCst);
    }

    fn deposit(&self, frames: &mut Vec<FreeFrame>) {
        let mut depot = self.depot.lock().unwrap();
        depot.free.append(frames);
        self.serve(&mut depot);
    }

    fn join(&self, who: usize) {
        let mut depot = self.depot.lock().unwrap();
        depot.line.push_back(who);
        self.serve(&mut depot);
    }

    /// (A)
    fn wait(&self, who: usize, steps: Steps) {
        let before = self.mailed.load(SeqCst);
        self.join(who);
        fence(SeqCst);
        let mailed = if steps.counts_first { self.mailed.load(SeqCst) } else { before };
        if mailed > 0 {
            let mut mailbox = self.mailboxes[STOPPED].lock().unwrap();
            let mut found = std::mem::take(&mut mailbox.frames);
            self.mailed.fetch_sub(found.len(), SeqCst);
            drop(mailbox);
            self.deposit(&mut found);
        }
    }

    /// (B)
    fn post(&self, mut frames: Vec<FreeFrame>, steps: Steps) {
        let mut mailbox = self.mailboxes[STOPPED].lock().unwrap();
        let waited_for = self.waited_for.load(SeqCst) > 0;
        self.mailed.fetch_add(1, SeqCst);
        fence(SeqCst);
        let waited_for = if steps.notes_first { self.waited_for.load(SeqCst) > 0 } else { waited_for };
        if !waited_for {
            return mailbox.frames.append(&mut frames);
        }
        self.mailed.fetch_sub(1, SeqCst);
        drop(mailbox);
        self.deposit(&mut frames);
    }

    /// What `who` was handed goes back into the depot.
    fn recall(&self, depot: &mut Depot, who: usize) {
        depot.free.append(&mut self.mailboxes[who].lock().unwrap().handed);
    }

    fn give_up(&self, who: usize, steps: Steps) {
        if !steps.leaves_at_once {
            let mut depot = self.depot.lock().unwrap();
            self.recall(&mut depot, who);
            self.serve(&mut depot);
        }
        let mut depot = self.depot.lock().unwrap();
        depot.line.retain(|&other| other != who);
        if steps.leaves_at_once {
            self.recall(&mut depot, who);
        }
        self.serve(&mut depot);
    }

    /// `who` was served, and comes; whether it has a frame, or stands in the line again.
    fn come(&self, who: usize, came: &mut Vec<FreeFrame>, steps: Steps) {
        came.append(&mut self.mailboxes[who].lock().unwrap().handed);
        if !came.is_empty() {
            return;
        }
        if steps.stands_again {
            let mut depot = self.depot.lock().unwrap();
            if !depot.line.contains(&who) && self.mailboxes[who].lock().unwrap().handed.is_empty() {
                depot.line.push_back(who);
            }
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

/// Whether a frame may lie in the mailbox of one who has stopped, while another waits.
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

/// Whether a frame may be lost to the second in the line as the first gives up.
fn is_lost_with_who_gives_up(steps: Steps) -> bool {
    let stock = Stock::new();
    may(OF_TWO_THREADS, move |witness| {
        let pool = Arc::new(Pool::default());
        (0..2).for_each(|who| pool.join(who));
        let (theirs, mut frames) = (pool.clone(), one(&stock));
        let frees = thread::spawn(move || theirs.deposit(&mut frames));
        pool.give_up(0, steps);
        frees.join().unwrap();
        witness.note(!pool.has(1));
        pool.end(&stock, Vec::new());
    })
}

/// Whether one who comes, as what it was handed is taken back for the second, may end with neither a frame nor a place.
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
            // One more, for whoever is next.
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
fn nothing_lies_in_a_mailbox_while_somebody_waits() {
    assert!(!strands_in_a_mailbox(RIGHT));
}

#[test]
fn looking_into_mailboxes_before_being_counted_would_be_found() {
    assert!(strands_in_a_mailbox(Steps { counts_first: false, ..RIGHT }));
}

#[test]
fn looking_for_waiters_before_noting_would_be_found() {
    assert!(strands_in_a_mailbox(Steps { notes_first: false, ..RIGHT }));
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    assert!(!is_lost_with_who_gives_up(RIGHT));
}

#[test]
fn passing_on_before_leaving_would_be_found() {
    assert!(is_lost_with_who_gives_up(Steps { leaves_at_once: false, ..RIGHT }));
}

#[test]
fn who_comes_late_has_a_frame_or_a_place() {
    assert!(!is_forgotten_as_it_comes(RIGHT));
}

#[test]
fn not_standing_in_line_again_would_be_found() {
    assert!(is_forgotten_as_it_comes(Steps { stands_again: false, ..RIGHT }));
}
