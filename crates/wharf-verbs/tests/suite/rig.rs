//! A `verbs` device on a library that answers as the test says, driven by hand.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use wharf_core::device::{Completions, Device, DeviceError, Notify, TxDevice, close_receiver};
use wharf_core::pool::{Cache, PagePool};
use wharf_mem::Batch;
use wharf_verbs::fake::{FakeDevice, library};
use wharf_verbs::{PeerAddress, Verbs, VerbsOptions};

/// Queue pair of the peer.
pub const PEER_QUEUE_PAIR: u32 = 0x99;
/// Requests of each queue.
pub const RING_FRAMES: u32 = 16;
/// Last byte of the peer's address; devices have those from 1 on.
pub const PEER: u8 = 200;
/// Address of a destination that no peer has.
pub const ELSEWHERE: [u8; 6] = [2, 7, 7, 7, 7, 7];

pub fn gid(address: [u8; 4]) -> [u8; 16] {
    Ipv4Addr::from(address).to_ipv6_mapped().octets()
}

/// An address of this process's own: other runs of these tests, too, take the port of questions.
pub fn address(last: u8) -> [u8; 4] {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    [127, 64 | high & 63, low, last]
}

/// A route header as RoCE delivers it with IPv4: the header of IPv4 in its last 20 bytes.
pub fn route_from(address: [u8; 4]) -> [u8; 40] {
    let mut route = [0; 40];
    route[20] = 0x45;
    route[32..36].copy_from_slice(&address);
    route
}

pub struct Rig {
    pub device: Verbs,
    pub fake: FakeDevice,
    pub pool: PagePool,
    pub cache: Cache,
    pub batch: Batch,
    pub done: Completions,
    /// The device's own address.
    pub own: [u8; 4],
}

impl Rig {
    /// Makes one with a peer whose queue pair is known.
    pub fn new() -> Self {
        Self::with(|_| {}, 0)
    }

    /// Makes one whose options `change` changes, and whose rings begin at request `first`.
    pub fn with(change: impl FnOnce(&mut VerbsOptions), first: u32) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let own = address(NEXT.fetch_add(1, Relaxed));
        let fake = FakeDevice::new(gid(own));
        let peer = PeerAddress { gid: gid(address(PEER)), queue_pair: Some(PEER_QUEUE_PAIR) };
        let mut options =
            VerbsOptions { peer: Some(peer), ring_frames: RING_FRAMES, ..VerbsOptions::default() };
        change(&mut options);
        let mut device = Verbs::open_by(library(), &fake.name(), options, first).unwrap();
        let pool = wharf_testkit::pool(256);
        device.attach(pool.region().clone()).unwrap();
        // The kernel is asked for the known peer's address from the start.
        if options.peer.is_some_and(|peer| peer.queue_pair.is_some()) {
            while device.next_completion_ns().is_some() {
                device.arm();
                std::thread::yield_now();
            }
        }
        let cache = pool.cache("test").unwrap();
        Self { device, fake, pool, cache, batch: Batch::new(256), done: Completions::new(256), own }
    }

    /// Adds a frame to `destination` of `len` bytes, the last ones of which are `mark`.
    pub fn offer(&mut self, destination: [u8; 6], len: usize, mark: u8) {
        let mut one = Batch::new(1);
        self.cache.take(&mut one, 1, len as u32).unwrap();
        let mut frame = one.pop().unwrap();
        let bytes = self.pool.region().bytes_mut(&mut frame).unwrap();
        bytes.fill(mark);
        let header = [destination.as_slice(), &[2, 0, 0, 0, 0, 1], &[0x08, 0x00]].concat();
        let header_bytes = len.min(14);
        bytes[..header_bytes].copy_from_slice(&header[..header_bytes]);
        self.batch.push(frame).unwrap();
    }

    pub fn offer_many(&mut self, count: usize) {
        (0..count).for_each(|mark| self.offer(ELSEWHERE, 60, mark as u8));
    }

    /// Sends what was offered, and takes back what is complete. Returns the marks of frames sent, and the reasons of those that failed.
    pub fn reap(&mut self) -> (Vec<u8>, Vec<&'static str>, Result<(), DeviceError>) {
        let result = self.device.reap(256, false, &mut self.done);
        let region = self.pool.region();
        let sent = self.done.sent.frames().iter().map(|frame| *region.bytes(frame).unwrap().last().unwrap());
        let (sent, failed) = (sent.collect(), self.done.failed.iter().map(|(_, reason)| *reason).collect());
        self.give_back();
        (sent, failed, result)
    }

    fn give_back(&mut self) {
        self.cache.give(&mut self.done.sent).unwrap();
        for (frame, _) in self.done.failed.drain(..) {
            self.cache.give_one(frame).unwrap();
        }
    }

    /// Receives all that is there. Returns the frames' bytes.
    pub fn receive(&mut self) -> (Vec<Vec<u8>>, Result<(), DeviceError>) {
        use wharf_core::device::RxDevice;
        let mut to = Batch::new(256);
        let received = self.device.receive(&mut self.cache, &mut to, 256);
        let region = self.pool.region();
        let frames = to.frames().iter().map(|frame| region.bytes(frame).unwrap().to_vec()).collect();
        self.cache.give(&mut to).unwrap();
        (frames, received.map(drop))
    }

    pub fn drops(&mut self) -> Vec<(&'static str, u64)> {
        use wharf_core::device::RxDevice;
        let mut drops = Vec::new();
        self.device.drops(&mut |reason, count| drops.push((reason, count)));
        drops
    }

    /// Closes the device. All frames are home then.
    pub fn close(mut self) {
        close_receiver(&mut self.device, &mut self.cache).unwrap();
        self.device.reap(256, true, &mut self.done).unwrap();
        self.give_back();
        self.cache.give(&mut self.batch).unwrap();
        assert_eq!(self.device.outstanding(), 0);
        drop(self.cache);
        assert_eq!(self.pool.audit().out(), 0);
    }
}
