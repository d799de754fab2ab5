//! A modelled kernel that refuses at any place, and a device that sends to it.

use std::collections::VecDeque;
use std::io;
use wharf_core::device::{Completions, Transmitted};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::udp::addressing::Addressing;
use wharf_devices::udp::headers::Headers;
use wharf_devices::udp::sending::{Kernel, Sending};
use wharf_mem::Batch;
use wharf_sys::udp::{ErrorReport, Message, Writer};

/// A kernel that takes messages by a script, and segments joined ones.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Messages that each call takes, and the error if there are more.
    pub(super) script: VecDeque<(usize, i32)>,
    /// Never sends more than one datagram in a message.
    pub(super) never_joined: Option<i32>,
    /// Datagrams beginning with this byte are rejected for good.
    pub(super) forbidden: Option<(u8, i32)>,
    /// Reports of earlier datagrams, in its error queue.
    pub(super) reports: VecDeque<ErrorReport>,
    pub(super) calls: usize,
    pub(super) messages: usize,
    pub(super) got: Vec<(Vec<u8>, Message)>,
}

impl Model {
    fn take(&mut self, bytes: &[u8], message: Message) -> Result<(), i32> {
        let size = message.segment_bytes.map_or(bytes.len().max(1), usize::from);
        let joined = message.segment_bytes.is_some();
        let forbidden =
            self.forbidden.filter(|(byte, _)| bytes.chunks(size).any(|one| one.first() == Some(byte)));
        if let Some(errno) = self.never_joined.filter(|_| joined).or(forbidden.map(|(_, errno)| errno)) {
            return Err(errno);
        }
        assert!(!joined || bytes.len() > size && bytes.len() <= 65_507 && bytes.len().div_ceil(size) <= 64);
        if bytes.is_empty() {
            self.got.push((Vec::new(), message));
        }
        self.got.extend(bytes.chunks(size).map(|one| (one.to_vec(), message)));
        Ok(())
    }
}

impl Kernel for Model {
    fn next_report(&mut self) -> Option<ErrorReport> {
        self.reports.pop_front()
    }

    fn send(&mut self, messages: &mut Writer<'_, '_>) -> io::Result<usize> {
        self.calls += 1;
        assert!(!messages.is_empty());
        let (max, errno) = self.script.pop_front().unwrap_or((usize::MAX, 0));
        for at in 0..messages.len() {
            let sent = messages.written(at);
            let bytes: Vec<u8> = sent.pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            let taken = if at >= max { Err(errno) } else { self.take(&bytes, sent.message) };
            if let Err(errno) = taken {
                return if at == 0 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(at) };
            }
            self.messages += 1;
        }
        Ok(messages.len())
    }
}

pub(super) struct Rig {
    pub(super) pool: PagePool,
    pub(super) cache: Cache,
    pub(super) sending: Sending,
    pub(super) model: Model,
    pub(super) batch: Batch,
    pub(super) done: Completions,
    pub(super) failed: Vec<(Vec<u8>, &'static str)>,
    pub(super) completed: usize,
}

impl Rig {
    pub(super) fn new(addressing: Addressing) -> Self {
        let mut rig = Self::with(addressing);
        rig.sending.attach(rig.pool.region().clone());
        rig
    }

    pub(super) fn unattached() -> Self {
        Self::with(Addressing::Connected)
    }

    fn with(addressing: Addressing) -> Self {
        let pool = PagePool::builder().frames(512).huge_pages(false).build().unwrap();
        let cache = pool.cache("test").unwrap();
        let sending = Sending::new("udp:test:1", addressing, true);
        let (batch, done) = (Batch::new(256), Completions::new(256));
        Self { pool, cache, sending, model: Model::default(), batch, done, failed: Vec::new(), completed: 0 }
    }

    pub(super) fn connected() -> Self {
        Self::new(Addressing::Connected)
    }

    /// Adds a frame of these bytes.
    pub(super) fn offer_bytes(&mut self, bytes: &[u8]) {
        self.cache.take(&mut self.batch, 1, bytes.len() as u32).unwrap();
        let frame = self.batch.frames_mut().last_mut().unwrap();
        self.pool.region().bytes_mut(frame).unwrap().copy_from_slice(bytes);
    }

    pub(super) fn offer_to(&mut self, to: &str, payload: &[u8]) {
        let headers =
            Headers::new("192.0.2.1:7".parse().unwrap(), to.parse().unwrap(), 0, payload.len()).unwrap();
        let head = &headers.finish(payload, 1)[..headers.len_bytes()];
        self.offer_bytes(&[head, payload].concat());
    }

    pub(super) fn offer(&mut self, payload: &[u8]) {
        self.offer_to("192.0.2.9:9", payload);
    }

    /// A super-packet to be cut every `each` bytes, as a chain.
    pub(super) fn offer_super(&mut self, payload: &[u8], each: u16, kind: u8) {
        let (from, to) = ("192.0.2.1:7".parse().unwrap(), "192.0.2.9:9".parse().unwrap());
        let headers = Headers::new(from, to, 0, payload.len()).unwrap();
        let whole = [&headers.finish(payload, 1)[..headers.len_bytes()], payload].concat();
        let (region, mut rest) = (self.pool.region().clone(), Batch::new(64));
        let mut chunks = whole.chunks(1111);
        self.offer_bytes(chunks.next().unwrap());
        let mut head = self.batch.pop_back().unwrap();
        for chunk in chunks {
            assert_eq!(self.cache.take(&mut rest, 1, chunk.len() as u32).unwrap(), 1);
            let mut piece = rest.pop().unwrap();
            region.bytes_mut(&mut piece).unwrap().copy_from_slice(chunk);
            region.link(&mut head, piece).unwrap();
        }
        let meta = wharf_mem::Meta { gso_bytes: each, gso_kind: kind, ..Default::default() };
        region.set_meta(&mut head, &meta).unwrap();
        self.batch.push(head).unwrap();
    }

    pub(super) fn transmit(&mut self) -> Transmitted {
        self.sending.transmit(&mut self.model, &mut self.batch)
    }

    pub(super) fn reap(&mut self) -> Option<String> {
        let error = self.sending.reap(256, &mut self.done).err().map(|error| error.to_string());
        self.completed += self.done.sent.len();
        self.cache.give(&mut self.done.sent).unwrap();
        for (frame, reason) in self.done.failed.drain(..) {
            self.failed.push((self.pool.region().bytes(&frame).unwrap().to_vec(), reason));
            self.cache.give_one(frame).unwrap();
        }
        error
    }

    /// Transmits until all frames are gone; fails if that has no end.
    pub(super) fn send_all(&mut self) {
        for _ in 0..10_000 {
            if self.batch.is_empty() && self.sending.outstanding() == 0 {
                break;
            }
            self.transmit();
            self.reap();
        }
        assert_eq!((self.batch.len(), self.sending.outstanding()), (0, 0), "stuck");
        assert_eq!(self.pool.audit().out(), 0);
    }

    pub(super) fn payloads(&self) -> Vec<Vec<u8>> {
        self.model.got.iter().map(|(bytes, _)| bytes.clone()).collect()
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        self.failed.iter().map(|(_, reason)| *reason).collect()
    }
}
