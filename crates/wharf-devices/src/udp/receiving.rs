//! `Receiving`: the receive side. The kernel may deliver several datagrams of a flow as one, so messages lie
//! in buffers of the device first. They are then copied into frames, each behind headers of its own.

use super::headers::{HEADERS_BYTES_MAX, Headers};
use crate::iface::{Drops, pool_fault};
use std::net::SocketAddr;
use std::{io, iter};
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_core::sg_writer::{Placement, SgWriter};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Meta};
use wharf_sys::udp::{Incoming, Received, UdpSocket};

/// Messages in one call.
const MESSAGES: usize = 32;

#[derive(Debug)]
pub(super) struct Receiving {
    incoming: Incoming,
    /// Messages of the last call, the current one, and the number of its bytes that have been received.
    messages: usize,
    at: usize,
    done_bytes: usize,
    /// Headers of the current message, once it has been examined.
    headers: Option<Headers>,
    /// True if the last call emptied the socket.
    is_drained: bool,
    identification: u16,
    placer: SgWriter,
    taken: Batch,
    pub(super) drops: Drops,
}

impl Receiving {
    pub(super) fn new() -> Self {
        Self {
            incoming: Incoming::new(MESSAGES),
            messages: 0,
            at: 0,
            done_bytes: 0,
            headers: None,
            is_drained: false,
            identification: 0,
            placer: SgWriter::default(),
            taken: Batch::new(BATCH_FRAMES_MAX),
            drops: Drops::default(),
        }
    }

    /// Receives up to `budget` frames, which `to` has room for. Returns the number of frames. `told` gets
    /// ICMP reports.
    #[inline]
    pub(super) fn receive(
        &mut self, socket: &UdpSocket, cache: &mut Cache, to: &mut Batch, budget: usize, name: &str,
        told: &mut dyn FnMut(io::Error),
    ) -> Result<usize, DeviceError> {
        let before = to.len();
        self.is_drained = false;
        while to.len() - before < budget && self.has_message(socket, told) {
            let left = budget - (to.len() - before);
            match self.step(socket, cache, to, left) {
                Ok(true) => {}
                // Waits for memory.
                Ok(false) => break,
                Err(error) => return Err(pool_fault(name, error)),
            }
        }
        Ok(to.len() - before)
    }

    /// Returns true if there is a current message, after a call if need be.
    #[inline]
    fn has_message(&mut self, socket: &UdpSocket, told: &mut dyn FnMut(io::Error)) -> bool {
        if self.at < self.messages {
            return true;
        }
        (self.messages, self.at, self.done_bytes, self.headers) = (0, 0, 0, None);
        // Each ICMP report of an earlier datagram is an error of this call, and no end.
        for _ in 0..MESSAGES {
            if self.is_drained {
                break;
            }
            match self.incoming.receive(socket) {
                Ok(count) => {
                    self.messages = count;
                    self.is_drained = count < MESSAGES;
                    return count > 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_drained = true,
                Err(error) => told(error),
            }
        }
        false
    }

    /// Receives from the current message. Returns false if it waits for memory.
    #[inline]
    fn step(
        &mut self, socket: &UdpSocket, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<bool, PoolError> {
        let Some(message) = self.incoming.message(self.at) else {
            self.at += 1;
            return Ok(true);
        };
        let message_bytes = message.bytes.len();
        let rest = &message.bytes[self.done_bytes.min(message_bytes)..];
        let bytes = message.segment_bytes.min(rest.len());
        // The last datagram may be shorter.
        if self.headers.is_none() || bytes < message.segment_bytes {
            self.headers = headers(&message, socket.local(), bytes);
        }
        let Some(headers) = self.headers else {
            self.drops.add("malformed");
            self.next_message();
            return Ok(true);
        };
        let frame_bytes = headers.len_bytes() + bytes;
        if bytes == 0 || frame_bytes > cache.pool().region().data_bytes_max() as usize {
            return self.step_by_one(cache, to, bytes, &headers);
        }
        let count = (rest.len() / bytes).min(budget);
        let count = match cache.take(&mut self.taken, count, frame_bytes as u32) {
            Ok(count) => count,
            Err(PoolError::Exhausted { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let frames = cache.pool().region().each_bytes_mut(&mut self.taken);
        for (frame, payload) in frames.zip(rest.chunks_exact(bytes)) {
            let (head, body) = frame.split_at_mut(headers.len_bytes());
            self.identification = self.identification.wrapping_add(1);
            head.copy_from_slice(&headers.finish(payload, self.identification)[..head.len()]);
            body.copy_from_slice(payload);
        }
        to.append(&mut self.taken, usize::MAX);
        self.advance(count * bytes, message_bytes);
        Ok(true)
    }

    /// Drops a datagram without bytes, or one longer than a frame.
    #[cold]
    fn step_by_one(
        &mut self, cache: &mut Cache, to: &mut Batch, bytes: usize, headers: &Headers,
    ) -> Result<bool, PoolError> {
        let Some(message) = self.incoming.message(self.at) else { return Ok(true) };
        let message_bytes = message.bytes.len();
        let payload = &message.bytes[self.done_bytes..self.done_bytes + bytes];
        let identification = self.identification.wrapping_add(1);
        let head: [u8; HEADERS_BYTES_MAX] = headers.finish(payload, identification);
        let chunks = iter::once(&head[..headers.len_bytes()]).chain(iter::once(payload));
        let len_bytes = (headers.len_bytes() + bytes) as u32;
        match self.placer.place(cache, to, chunks, len_bytes, &Meta::default())? {
            Placement::Done => self.identification = identification,
            Placement::NoMemory => return Ok(false),
            Placement::TooLong => self.drops.add("too-long"),
        }
        self.advance(bytes, message_bytes);
        Ok(true)
    }

    #[inline]
    fn advance(&mut self, bytes: usize, message_bytes: usize) {
        self.done_bytes += bytes;
        if self.done_bytes >= message_bytes {
            self.next_message();
        }
    }

    fn next_message(&mut self) {
        (self.at, self.done_bytes, self.headers) = (self.at + 1, 0, None);
    }
}

/// Makes the headers of a message's datagrams of `bytes`; `None` if the kernel has not reported both ends.
fn headers(message: &Received<'_>, local: SocketAddr, bytes: usize) -> Option<Headers> {
    if message.is_cut_short {
        return None;
    }
    let from = message.from?;
    let to = SocketAddr::from((message.to.unwrap_or(local.ip()), local.port()));
    // IPv4 at an IPv6 socket.
    let canonical = |address: SocketAddr| SocketAddr::from((address.ip().to_canonical(), address.port()));
    Headers::new(canonical(from), canonical(to), message.interface, bytes)
}
