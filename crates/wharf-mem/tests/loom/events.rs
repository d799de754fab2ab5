//! Events of a port: an owner tells, a poller moves the news into the log, a reader reads, and another thread
//! closes the port. The descriptor is a flag that is swapped: the kernel writes and reads an event counter
//! under one lock, so that one follows the other. `crates/wharf/src/port/events/monitor.rs`.

use crate::{OF_THREE_THREADS, check, may};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Mutex};
use loom::thread;
use wharf_mem::inbox::Inbox;

#[derive(Default)]
struct Monitor {
    news: Inbox<u8>,
    /// Number of events in the log.
    log: Mutex<usize>,
    is_readable: AtomicBool,
    told: AtomicUsize,
    closed: AtomicBool,
}

impl Monitor {
    /// An owner tells: no lock.
    fn tell(&self) {
        // wharf/port/events/monitor.rs tell: self.news.push(event);
        self.news.push(0);
        self.told.fetch_add(1, SeqCst);
        // wharf/port/events/monitor.rs tell: self.ring();
        self.is_readable.swap(true, SeqCst);
    }

    /// A poller looks. It rings only for news of its own.
    fn look(&self) {
        // wharf/port/events/monitor.rs try_settled: let mut kept = self.kept.try_lock().ok()?;
        if let Ok(mut log) = self.log.try_lock() {
            // wharf/port/events/monitor.rs take: let kept = self.settled();
            // wharf/port/events/monitor.rs settle: self.news.take().for_each(|event| kept.hear(event));
            *log += self.news.take().count();
        }
    }

    /// A thread closes the port.
    fn close(&self) {
        // wharf/port/events/monitor.rs close: self.closed.store(true, SeqCst);
        self.closed.store(true, SeqCst);
        // wharf/port/events/monitor.rs close: self.ring();
        self.is_readable.swap(true, SeqCst);
    }

    /// A reader takes an event, and clears the descriptor when it has read all.
    fn read(&self, next: &mut usize, looks_for_the_end: bool) -> bool {
        let mut log = self.log.lock().unwrap();
        *log += self.news.take().count();
        let is_there = *next < *log;
        *next += usize::from(is_there);
        // wharf/port/events/monitor.rs take: if *next == kept.log.end() {
        if *next == *log {
            // wharf/port/events/monitor.rs take: listener.clear();
            self.is_readable.swap(false, SeqCst);
            // wharf/port/events/monitor.rs take: if !self.news.is_empty() || self.is_closed() {
            if !self.news.is_empty() || looks_for_the_end && self.closed.load(SeqCst) {
                self.is_readable.swap(true, SeqCst);
            }
        }
        is_there
    }
}

#[test]
fn a_reader_that_waits_for_the_descriptor_misses_no_event() {
    check(OF_THREE_THREADS, || {
        let monitor = Arc::new(Monitor::default());
        let owner = monitor.clone();
        let owner = thread::spawn(move || (0..2).for_each(|_| owner.tell()));
        let poller = monitor.clone();
        let poller = thread::spawn(move || (0..2).for_each(|_| poller.look()));
        let mut next = 0;
        (0..2).for_each(|_| _ = monitor.read(&mut next, true));
        owner.join().unwrap();
        poller.join().unwrap();
        // Waits for the descriptor, as in poll(2), and reads.
        while monitor.is_readable.load(SeqCst) {
            monitor.read(&mut next, true);
        }
        assert_eq!(next, monitor.told.load(SeqCst), "an event is left, and the descriptor is not readable");
    });
}

/// A reader takes an event while the port is closed. Returns true if in some interleaving it then waits for a
/// descriptor that is not readable, and never will be.
fn waits_after_the_end(looks_for_the_end: bool) -> bool {
    may(OF_THREE_THREADS, move |waits| {
        let monitor = Arc::new(Monitor::default());
        let owner = monitor.clone();
        let owner = thread::spawn(move || owner.tell());
        let closing = monitor.clone();
        let closing = thread::spawn(move || closing.close());
        let mut next = 0;
        monitor.read(&mut next, looks_for_the_end);
        owner.join().unwrap();
        closing.join().unwrap();
        while monitor.is_readable.load(SeqCst) && monitor.read(&mut next, looks_for_the_end) {}
        waits.note(!monitor.is_readable.load(SeqCst));
        assert_eq!(next, monitor.told.load(SeqCst), "an event is left");
    })
}

#[test]
fn a_reader_that_waits_for_the_descriptor_hears_of_the_end() {
    assert!(!waits_after_the_end(true));
}

#[test]
fn clearing_the_descriptor_without_a_look_for_the_end_is_found() {
    assert!(waits_after_the_end(false));
}
