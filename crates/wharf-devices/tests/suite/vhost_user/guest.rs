//! A driver that keeps the rules: queue pairs with buffers, frames both ways, each checked.

use super::peer::{GUEST, Peer, Queue};
use std::collections::HashMap;
use wharf_devices::virtio::packed::PackedDriver;
use wharf_devices::virtio::split::SplitDriver;
use wharf_devices::virtio::{DriverRing, Extent, Layout, Place, feature};

/// Bytes of memory for one pair.
const PAIR_BYTES: usize = 1 << 20;
/// Behind the rings of a pair: its receive buffers, then its transmit buffers.
const RECEIVE_AT: usize = 128 << 10;
const SEND_AT: usize = 512 << 10;
pub const HEADER_BYTES: usize = 12;

pub struct Pair {
    at: usize,
    buffer_bytes: usize,
    pub receive: Box<dyn DriverRing>,
    pub send: Box<dyn DriverRing>,
    pub receive_queue: Queue,
    pub send_queue: Queue,
    /// Which receive buffer a number names.
    buffers: HashMap<u16, usize>,
    free: Vec<usize>,
    /// Frames sent, for their places.
    sent: usize,
}

fn driver(peer: &Peer, place: &Place) -> Box<dyn DriverRing> {
    match peer.layout() {
        Layout::Split => Box::new(SplitDriver::new(place.clone(), peer.options()).unwrap()),
        Layout::Packed => Box::new(PackedDriver::new(place.clone(), peer.options()).unwrap()),
    }
}

impl Pair {
    /// Pair `number`, of rings of `size` with receive buffers of `buffer_bytes`.
    pub fn new(peer: &mut Peer, number: u32, size: u32, buffer_bytes: usize) -> Self {
        let pair = Self::unannounced(peer, number, size, buffer_bytes);
        assert!(pair.set_up(peer, number, if peer.layout() == Layout::Packed { 0x8000 } else { 0 }));
        pair
    }

    /// Makes one that the device has not heard of.
    pub fn unannounced(peer: &Peer, number: u32, size: u32, buffer_bytes: usize) -> Self {
        let at = number as usize * PAIR_BYTES;
        let places = [at, at + (64 << 10)];
        let [receive_queue, send_queue] = places.map(|at| peer.queue(at, size));
        let (receive, send) = (driver(peer, &receive_queue.place), driver(peer, &send_queue.place));
        Self {
            at,
            buffer_bytes,
            receive,
            send,
            receive_queue,
            send_queue,
            buffers: HashMap::new(),
            free: (0..size as usize).rev().collect(),
            sent: 0,
        }
    }

    /// Tells of both virtqueues.
    pub fn set_up(&self, peer: &mut Peer, number: u32, base: u32) -> bool {
        peer.set_up(2 * number, self.at, &self.receive_queue, base)
            && peer.set_up(2 * number + 1, self.at + (64 << 10), &self.send_queue, base)
    }

    /// Makes up to `count` receive buffers available.
    pub fn post(&mut self, count: usize) {
        for _ in 0..count {
            let Some(buffer) = self.free.pop() else { break };
            let address = GUEST + (self.at + RECEIVE_AT + buffer * self.buffer_bytes) as u64;
            let extent = Extent { address, len_bytes: self.buffer_bytes as u32 };
            let Some(id) = self.receive.add(&[], &[extent]) else {
                self.free.push(buffer);
                break;
            };
            self.buffers.insert(id, buffer);
        }
        self.receive.publish();
        if self.receive.needs_kick() {
            self.receive_queue.kick.signal();
        }
    }

    /// The next frame that has come, with the header before it, put together from its buffers.
    pub fn next(&mut self, peer: &Peer) -> Option<Vec<u8>> {
        let mut frame: Vec<u8> = Vec::new();
        let mut left = None;
        loop {
            let Some(used) = self.receive.next_used().unwrap() else {
                assert_eq!(left, None, "all buffers of a frame are used at once");
                return None;
            };
            let buffer = self.buffers.remove(&used.id).unwrap();
            let mut bytes = vec![0; used.written_bytes as usize];
            assert!(peer.view().copy_out(self.at + RECEIVE_AT + buffer * self.buffer_bytes, &mut bytes));
            self.free.push(buffer);
            frame.extend(bytes);
            let count = u16::from_le_bytes(frame[10..12].try_into().unwrap());
            let rest = left.unwrap_or(count) - 1;
            if rest == 0 {
                return Some(frame);
            }
            assert_ne!(peer.features & feature::MRG_RXBUF, 0);
            left = Some(rest);
        }
    }

    /// Sends a frame with `header` before it, in `parts` descriptors; whether there was room.
    pub fn send(&mut self, peer: &Peer, header: &[u8; HEADER_BYTES], frame: &[u8], parts: usize) -> bool {
        while self.send.next_used().unwrap().is_some() {}
        let place = self.at + SEND_AT + self.sent % 256 * 2048;
        let (bytes, count) = ([header, frame].concat(), parts.max(1));
        assert!(bytes.len() <= 2048 && peer.view().copy_in(place, &bytes));
        let cut = |part: usize| bytes.len() * part / count;
        let extents: Vec<Extent> = (0..count)
            .map(|part| Extent {
                address: GUEST + (place + cut(part)) as u64,
                len_bytes: (cut(part + 1) - cut(part)) as u32,
            })
            .collect();
        if self.send.add(&extents, &[]).is_none() {
            return false;
        }
        self.sent += 1;
        self.send.publish();
        if self.send.needs_kick() {
            self.send_queue.kick.signal();
        }
        true
    }
}
