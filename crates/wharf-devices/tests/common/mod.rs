//! Packets with a header of their own, a clock that a test moves, and a pair of ends with memory.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod packets;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;
use wharf_core::device::{Completions, Device, RxDevice, Transmitted, TxDevice};
use wharf_core::host::Clock;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::queue::TxQueue;
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::{Batch, Frame};

/// Runs `body`, and fails if it takes a minute.
pub fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        // The receiver is gone only if the test has failed already.
        let _ = done.send(());
    });
    match waits.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hung"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// A clock that a test moves.
#[derive(Debug, Default)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn set(&self, now_ns: u64) {
        self.0.store(now_ns, SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// A clock that must not be read.
#[derive(Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now_ns(&self) -> u64 {
        panic!("a wire without a rate reads no clock");
    }
}

pub fn pool(frames: u32) -> PagePool {
    PagePool::builder().frames(frames).huge_pages(false).build().unwrap()
}

/// A pool whose frames hold `bytes` each.
pub fn pool_of(frames: u32, bytes: u32) -> PagePool {
    PagePool::builder()
        .frames(frames)
        .frame_bytes(bytes + 64)
        .headroom_bytes(64)
        .huge_pages(false)
        .build()
        .unwrap()
}

/// Bytes of packet `number` of sender `who`: its header, then bytes derived from it.
pub fn content(who: u32, number: u32, len: usize) -> impl Iterator<Item = u8> {
    let header = u64::from(who) << 32 | u64::from(number);
    let mut state = header.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let body = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    header.to_be_bytes().into_iter().chain(body).take(len)
}

/// Length of packet `number`: all sorts, from 60 to 1514.
pub fn len_of(number: u32) -> usize {
    60 + number.wrapping_mul(2_654_435_761) as usize % 1455
}

pub fn write(bytes: &mut [u8], who: u32, number: u32) {
    let len = bytes.len();
    bytes.iter_mut().zip(content(who, number, len)).for_each(|(to, from)| *to = from);
}

/// Whose packet it is, and which; its bytes and its length have been compared.
pub fn read(bytes: &[u8]) -> (u32, u32) {
    let header = u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let (who, number) = ((header >> 32) as u32, header as u32);
    assert_eq!(bytes.len(), len_of(number), "length of packet {number} of {who}");
    assert!(bytes.iter().copied().eq(content(who, number, bytes.len())), "packet {number} of {who}");
    (who, number)
}

/// Both ends of a wire, driven by hand.
pub struct Ends {
    pub near: Wire,
    pub far: Option<Wire>,
    pub near_pool: PagePool,
    pub far_pool: PagePool,
    pub from: Cache,
    pub to: Cache,
    pub batch: Batch,
    pub done: Completions,
    pub received: Batch,
    next: u32,
}

impl Ends {
    pub fn new(spec: &WireSpec) -> Self {
        Self::with(spec, pool(8192), pool(8192))
    }

    pub fn with(spec: &WireSpec, near_pool: PagePool, far_pool: PagePool) -> Self {
        let (mut near, far) = wire(spec);
        near.attach(near_pool.region().clone()).unwrap();
        let (from, to) = (near_pool.cache("near").unwrap(), far_pool.cache("far").unwrap());
        let (batch, done, received) = (Batch::new(256), Completions::new(256), Batch::new(256));
        Self { near, far: Some(far), near_pool, far_pool, from, to, batch, done, received, next: 0 }
    }

    /// Adds `count` further packets to the batch.
    pub fn offer(&mut self, count: u32) {
        for number in self.next..self.next + count {
            self.from.take(&mut self.batch, 1, len_of(number) as u32).unwrap();
            let frame = self.batch.frames_mut().last_mut().unwrap();
            write(self.near_pool.region().bytes_mut(frame).unwrap(), 1, number);
        }
        self.next += count;
    }

    /// Offers `count` packets and transmits.
    pub fn send(&mut self, count: u32) -> Transmitted {
        self.offer(count);
        self.near.transmit(&mut self.batch, false)
    }

    /// Numbers of the packets that the far end gets, up to `budget`; their bytes are compared.
    pub fn receive(&mut self, budget: usize) -> Vec<u32> {
        let far = self.far.as_mut().unwrap();
        let count = far.receive(&mut self.to, &mut self.received, budget).unwrap();
        assert_eq!(count, self.received.len());
        let region = self.far_pool.region();
        let bytes = |frame: &Frame| region.chunks(frame).unwrap().flatten().copied().collect::<Vec<u8>>();
        let numbers = self.received.frames().iter().map(|frame| read(&bytes(frame)).1).collect();
        self.to.give(&mut self.received).unwrap();
        numbers
    }

    /// Numbers of the packets completed as sent, and of those failed with their reasons.
    pub fn reap(&mut self) -> (Vec<u32>, Vec<(u32, &'static str)>) {
        self.near.reap(usize::MAX, false, &mut self.done).unwrap();
        let region = self.near_pool.region();
        let number =
            |frame: &Frame| u32::from_be_bytes(region.bytes(frame).unwrap()[4..8].try_into().unwrap());
        let sent = self.done.sent.frames().iter().map(number).collect();
        let failed = self.done.failed.iter().map(|(frame, reason)| (number(frame), *reason)).collect();
        self.from.give(&mut self.done.sent).unwrap();
        for (frame, _) in self.done.failed.drain(..) {
            self.from.give_one(frame).unwrap();
        }
        (sent, failed)
    }

    /// Nothing is with the near end, and nothing out of either pool.
    pub fn assert_all_home(&mut self) {
        self.from.give(&mut self.batch).unwrap();
        assert_eq!(self.near.outstanding(), 0);
        for pool in [&self.near_pool, &self.far_pool] {
            let audit = pool.audit();
            assert_eq!(audit.out(), 0, "{audit}");
        }
    }
}

/// Rule 1, once nothing is inside any more: accepted = sent + failed + returned, and nothing is out of the
/// pool.
pub fn assert_conserved(queue: &TxQueue) {
    let counters = queue.counters();
    let (sent, failed, returned) = (counters.sent.get(), counters.failed.get(), counters.returned.get());
    assert_eq!(counters.accepted.get(), sent + failed + returned, "conservation");
    let by_reason: u64 = counters.failures().iter().map(|(_, count)| count).sum();
    assert_eq!(failed, by_reason, "every failure has a reason");
    let by_senders: u64 = queue.senders().iter().map(|sender| sender.packets.get()).sum();
    let by_senders = by_senders + queue.past_senders().packets.get();
    assert_eq!(counters.accepted.get(), by_senders, "frames from senders were accepted");
    let audit = queue.audit();
    assert_eq!(audit.out(), 0, "{audit}");
}

/// A directory of a test's own, and in it a socket's name.
pub struct Socket(PathBuf);

impl Socket {
    pub fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("wharf-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A rest is removed by the next reboot.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
