//! A device with its memory, driven by hand.

use std::time::Duration;
use wharf_core::device::{Completions, Device, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_mem::{Batch, Frame, Meta};
use wharf_testkit::threads::eventually;
use wharf_testkit::{Scratch, pool};

pub struct Rig {
    pub socket: Scratch,
    pub device: VhostUser,
    pub pool: PagePool,
    pub cache: Cache,
    pub failed: Vec<&'static str>,
    pub sent: usize,
    pub errors: Vec<String>,
}

impl Rig {
    pub fn new(name: &str, pairs: u16) -> Self {
        let (socket, pool) = (Scratch::new(name), pool(1024));
        let options = VhostUserOptions { pairs, ..VhostUserOptions::default() };
        let mut device = VhostUser::open(&socket.path(), options).unwrap();
        device.attach(pool.region().clone()).unwrap();
        let cache = pool.cache("test").unwrap();
        Self { socket, device, pool, cache, failed: Vec::new(), sent: 0, errors: Vec::new() }
    }

    /// A frame of these bytes, in as many buffers as it takes.
    pub fn frame(&mut self, bytes: &[u8], meta: Meta) -> Frame {
        let region = self.pool.region().clone();
        let mut pieces = bytes.chunks(region.data_bytes_max() as usize).map(|chunk| {
            let mut one = Batch::new(1);
            self.cache.take(&mut one, 1, chunk.len() as u32).unwrap();
            let mut piece = one.pop().unwrap();
            region.bytes_mut(&mut piece).unwrap().copy_from_slice(chunk);
            piece
        });
        let mut head = pieces.next().unwrap();
        pieces.for_each(|piece| region.link(&mut head, piece).unwrap());
        if meta != Meta::default() {
            region.set_meta(&mut head, &meta).unwrap();
        }
        head
    }

    /// Hands frames over; those that the device leaves are given back: how many.
    pub fn transmit(&mut self, frames: impl IntoIterator<Item = Frame>) -> usize {
        let mut batch = Batch::new(256);
        for frame in frames {
            batch.push(frame).unwrap();
        }
        self.device.transmit(&mut batch, false);
        let left = batch.len();
        self.cache.give(&mut batch).unwrap();
        left
    }

    pub fn reap(&mut self) {
        let mut done = Completions::new(256);
        if let Err(error) = self.device.reap(256, false, &mut done) {
            self.errors.push(error.to_string());
        }
        self.sent += done.sent.len();
        self.cache.give(&mut done.sent).unwrap();
        for (frame, reason) in done.failed.drain(..) {
            self.failed.push(reason);
            self.cache.give_one(frame).unwrap();
        }
    }

    /// Receives once. Returns bytes and requests of the frames.
    pub fn receive(&mut self) -> Vec<(Vec<u8>, Meta)> {
        let mut batch = Batch::new(64);
        if let Err(error) = self.device.receive(&mut self.cache, &mut batch, 64) {
            self.errors.push(error.to_string());
        }
        let region = self.pool.region();
        let bytes = |frame: &Frame| region.chunks(frame).unwrap().flatten().copied().collect();
        let came = batch.frames().iter().map(|frame| (bytes(frame), region.meta(frame).unwrap())).collect();
        self.cache.give(&mut batch).unwrap();
        came
    }

    /// Waits until an error has been told; which.
    pub fn error(&mut self) -> String {
        until(|| {
            self.receive();
            self.reap();
            !self.errors.is_empty()
        });
        let error = self.errors.remove(0);
        assert!(!error.contains('\n'), "one line: {error:?}");
        error
    }

    /// Closes, and accounts for all memory.
    pub fn end(mut self) {
        close_receiver(&mut self.device, &mut self.cache).unwrap();
        self.reap();
        assert_eq!(self.device.outstanding(), 0);
        assert_eq!(self.pool.audit().out(), 0);
    }
}

/// Tries until it holds, at most 20 s.
#[track_caller]
pub fn until(holds: impl FnMut() -> bool) {
    eventually(Duration::from_secs(20), holds);
}
