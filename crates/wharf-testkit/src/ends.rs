//! Both ends of a wire with memory.

use crate::content::{len_of, read, write};
use crate::pool;
use wharf_core::device::{Completions, Device, RxDevice, Transmitted, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::{Batch, Frame};

/// Both ends of a wire, driven by hand.
pub struct Ends {
    /// The sending end.
    pub near: Wire,
    /// The receiving end, until a test drops it.
    pub far: Option<Wire>,
    /// Memory of the sending end.
    pub near_pool: PagePool,
    /// Memory of the receiving end.
    pub far_pool: PagePool,
    /// Frames to send.
    pub from: Cache,
    /// Frames to receive into.
    pub to: Cache,
    /// Packets offered.
    pub batch: Batch,
    /// Completions of the last reap.
    pub done: Completions,
    /// Packets of the last receive call.
    pub received: Batch,
    next: u32,
}

impl Ends {
    /// Makes both ends with large pools.
    pub fn new(spec: &WireSpec) -> Self {
        Self::with(spec, pool(8192), pool(8192))
    }

    /// Makes both ends with these pools.
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

    /// Receives up to `budget` packets, and returns their numbers. Checks their bytes.
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

    /// Reaps. Returns the numbers of the packets sent, and of those failed with their reasons.
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

    /// Asserts that the near end holds nothing and nothing is out of either pool.
    pub fn assert_all_home(&mut self) {
        self.from.give(&mut self.batch).unwrap();
        assert_eq!(self.near.outstanding(), 0);
        for pool in [&self.near_pool, &self.far_pool] {
            let audit = pool.audit();
            assert_eq!(audit.out(), 0, "{audit}");
        }
    }
}
