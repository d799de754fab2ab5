//! The transmit side over rings in memory of our own, with a stand-in for the kernel at their other end.

mod answers;
mod arrivals;
mod chains;
mod kernel;

use kernel::Mock;
use wharf_core::device::{Completions, DeviceError};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::link::{Health, Link};
use wharf_devices::xdp::sending::rings::Rings;
use wharf_devices::xdp::sending::tx::Sending;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::interface::{Interface, InterfaceState};
use wharf_sys::xdp::{Consumer, Descriptor, Producer, Shared};

/// A device, its memory, and the frames that came back.
struct Bench {
    sending: Sending<Mock>,
    mock: Mock,
    pool: PagePool,
    cache: Cache,
    batch: Batch,
    done: Completions,
    /// Numbers of the frames that came back, with why they failed.
    sent: Vec<u32>,
    failed: Vec<(u32, &'static str)>,
    given: u32,
}

fn number_of(region: &Region, frame: &Frame) -> u32 {
    u32::from_be_bytes(region.bytes(frame).unwrap()[..4].try_into().unwrap())
}

fn link() -> Link {
    Link {
        name: "xdp:x".into(),
        interface_name: "x".into(),
        interface: Interface { index: 1, is_ethernet: true },
        state: InterfaceState { mtu_bytes: 9000, is_up: true, is_running: true },
    }
}

impl Bench {
    /// Rings of `entries` whose indices begin at `start`; the completion ring has `completions`.
    fn new(entries: u32, completions: u32, start: u32) -> Self {
        let transmit = Shared::<Descriptor>::own(entries, start).unwrap();
        let completion = Shared::<u64>::own(completions, start.wrapping_add(5)).unwrap();
        transmit.set_needs_wakeup(true);
        let pool = PagePool::builder().frames(256).frame_bytes(8192).huge_pages(false).build().unwrap();
        let region = pool.region().clone();
        let mock = Mock::new(&transmit, &completion);
        let (producer, consumer) = (Producer::new(transmit), Consumer::new(completion));
        let rings = Rings::new(producer, consumer, region.clone(), true, completions);
        let sending = Sending::new(mock.clone(), rings, Health::new(link()), region);
        let cache = pool.cache("test").unwrap();
        let (batch, done) = (Batch::new(256), Completions::new(256));
        Self { sending, mock, pool, cache, batch, done, sent: vec![], failed: vec![], given: 0 }
    }

    /// Adds `count` frames of 64 bytes, each with its number in it, to the batch.
    fn offer(&mut self, count: u32) {
        for _ in 0..count {
            assert_eq!(self.cache.take(&mut self.batch, 1, 64).unwrap(), 1);
            let frame = self.batch.frames_mut().last_mut().unwrap();
            self.pool.region().bytes_mut(frame).unwrap()[..4].copy_from_slice(&self.given.to_be_bytes());
            self.given += 1;
        }
        self.batch.refresh();
    }

    fn transmit(&mut self) -> bool {
        self.sending.transmit(&mut self.batch, false).stopped
    }

    fn reap(&mut self) -> Result<(), DeviceError> {
        let result = self.sending.reap(256, &mut self.done);
        let region = self.pool.region().clone();
        let number = |frame: &Frame| number_of(&region, frame);
        self.sent.extend(self.done.sent.frames().iter().map(number));
        self.cache.give(&mut self.done.sent).unwrap();
        for (frame, reason) in self.done.failed.drain(..) {
            self.failed.push((number(&frame), reason));
            self.cache.give_one(frame).unwrap();
        }
        result
    }

    /// Every frame given came back once, and the kernel agrees which way.
    fn assert_conserved(&mut self) {
        self.cache.give(&mut self.batch).unwrap();
        assert_eq!(self.sending.held(), 0);
        let mut all: Vec<u32> =
            self.sent.iter().copied().chain(self.failed.iter().map(|one| one.0)).collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..self.given), "{all:?}");
        assert_eq!(self.pool.audit().out(), 0);
    }
}
