//! A driver's queue, and the device at its other side, driven by hand.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{Completions, Device, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::{Cache, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_mem::Batch;
use wharf_testkit::threads::eventually;
use wharf_testkit::{Scratch, assert_conserved, pool};

/// A directory of a test's own, and in it a socket.
pub struct Socket(Scratch);

impl Socket {
    pub fn new() -> Self {
        Self(Scratch::new("vu"))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The driver's specification, with further options.
    pub fn driver(&self, options: &str) -> String {
        format!("virtio-user:{}{options}", self.path().display())
    }
}

/// The device's side.
pub struct Far {
    pub device: VhostUser,
    pub pool: PagePool,
    pub cache: Cache,
}

impl Far {
    pub fn new(socket: &Socket, pairs: u16) -> Self {
        let options = VhostUserOptions { pairs, ..VhostUserOptions::default() };
        Self::of(VhostUser::open(&socket.path(), options).unwrap())
    }

    /// One that connects, once the driver listens.
    pub fn connecting(socket: &Socket) -> Self {
        let options = VhostUserOptions { client: true, ..VhostUserOptions::default() };
        let mut device = None;
        eventually(Duration::from_secs(50), || {
            device = VhostUser::open(&socket.path(), options).ok();
            device.is_some()
        });
        Self::of(device.unwrap())
    }

    pub fn of(mut device: VhostUser) -> Self {
        let pool = pool(1024);
        device.attach(pool.region().clone()).unwrap();
        let cache = pool.cache("far").unwrap();
        Self { device, pool, cache }
    }

    /// Receives once, at most 64. Returns the number of frames.
    pub fn receive(&mut self) -> usize {
        let mut batch = Batch::new(64);
        let count = self.device.receive(&mut self.cache, &mut batch, 64).unwrap();
        self.cache.give(&mut batch).unwrap();
        count
    }

    /// Receives until nothing comes. Returns the number of frames.
    pub fn receive_all(&mut self) -> usize {
        std::iter::from_fn(|| Some(self.receive()).filter(|&count| count > 0)).sum()
    }

    /// Sends a frame of 60 bytes.
    pub fn send(&mut self) {
        let mut batch = Batch::new(1);
        self.cache.take(&mut batch, 1, 60).unwrap();
        self.device.transmit(&mut batch, false);
        assert!(batch.is_empty());
        // It waits for the driver to have given memory.
        while self.device.outstanding() > 0 {
            self.reap();
        }
    }

    pub fn reap(&mut self) {
        let mut done = Completions::new(64);
        self.device.reap(64, false, &mut done).unwrap();
        self.cache.give(&mut done.sent).unwrap();
    }

    /// Closes, and accounts for all memory.
    pub fn end(mut self) {
        close_receiver(&mut self.device, &mut self.cache).unwrap();
        assert_eq!(self.pool.audit().out(), 0);
    }
}

/// A driver's queue over `spec`, with memory of `frames`.
pub fn queue(spec: &str, frames: u32) -> TxQueue {
    let device = open(spec, Direction::Send).unwrap_or_else(|error| panic!("{error}")).device;
    TxQueue::builder_of(&pool(frames), device, Arc::new(HostClock), Arc::new(HostPark))
        .unwrap()
        .build()
        .unwrap()
}

/// Sends `count` frames of `len_bytes`. Returns the number that went in.
pub fn send(sender: &mut Sender, count: usize, len_bytes: u32) -> usize {
    let mut burst = sender.burst(64);
    sender.fill(&mut burst, count, len_bytes, Wait::Never).unwrap();
    let sent = sender.send(&mut burst, Wait::Never).unwrap().accepted;
    burst.clear();
    sent
}

/// Ends the queue when all has left: nothing is lost.
pub fn end(queue: &TxQueue, sent: u64) {
    assert!(queue.drain(Duration::MAX));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(queue);
    assert_eq!(queue.counters().sent.get(), sent);
}

/// A packet whose headroom is used up has no room for the virtio header: it fails, and the next one goes.
#[test]
fn a_packet_without_headroom_for_the_header_fails_by_name() {
    let socket = Socket::new();
    let mut far = Far::new(&socket, 1);
    let queue = queue(&socket.driver(""), 256);
    let mut sender = queue.sender("test").unwrap();
    for left in [0, 11, 12] {
        let mut packet = sender.packet(60, Wait::Never).unwrap();
        let used = packet.headroom() - left;
        packet.prepend(used).unwrap().fill(2);
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
        queue.poll();
    }
    assert_eq!(far.receive_all(), 1);
    let counters = queue.counters();
    while counters.sent.get() + counters.failed.get() < 3 {
        far.receive();
        queue.poll();
    }
    assert_eq!((counters.sent.get(), counters.failures()), (1, vec![("no-headroom", 2)]));
    drop(sender);
    end(&queue, 1);
    far.end();
}
