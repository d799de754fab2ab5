//! `Sending`: frames on their way by the send queue.
//!
//! Slots from the oldest held one up to the head are in this order: posted, staged. A staged frame waits for the doorbell, which posts all
//! of them in one call, linked. Requests of one queue pair end in order. So only the last one of a post is signalled, and its completion
//! stands for all before it.

use super::Memory;
use super::encapsulation::{HEADER_AT, HEADER_BYTES, encapsulate};
use super::peers::Route;
use super::port::Port;
use crate::ibverbs::{Completion, SendRequest, Status};
use std::io;
use wharf_core::device::{DeviceError, LOST, Transmitted};
use wharf_core::offload;
use wharf_devices::iface::{ETHERNET_BYTES, StuckTimer, TxBook};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::errno::EIO;

/// Time after which a device that completes nothing is given up.
const STUCK_NS: u64 = 5_000_000_000;

#[derive(Debug)]
struct Slot {
    frame: Option<Frame>,
    /// Place of its peer, and the peer's queue pair when it was staged.
    to: usize,
    queue_pair: u32,
}

#[derive(Debug)]
pub(super) struct Sending {
    slots: Box<[Slot]>,
    /// Frames taken, posted, and given back; they wrap at 2^32.
    head: u32,
    posted: u32,
    tail: u32,
    /// False if each frame is posted by itself.
    batches: bool,
    stuck: StuckTimer,
    pub(super) book: TxBook,
}

impl Sending {
    /// Makes one of `ring_frames`, a power of two.
    pub(super) fn new(ring_frames: u32, batches: bool, first: u32) -> Self {
        let slots = (0..ring_frames).map(|_| Slot { frame: None, to: 0, queue_pair: 0 }).collect();
        let (head, posted, tail) = (first, first, first);
        let book = TxBook::new(ring_frames as usize);
        Self { slots, head, posted, tail, batches, stuck: StuckTimer::default(), book }
    }

    pub(super) fn ring_frames(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of frames staged or posted.
    #[inline]
    fn held(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        self.held() as usize + self.book.len()
    }

    /// Returns true if frames wait for the doorbell.
    #[inline]
    pub(super) fn has_staged(&self) -> bool {
        self.head != self.posted
    }

    /// Returns true if frames are posted.
    #[inline]
    pub(super) fn has_posted(&self) -> bool {
        self.posted != self.tail
    }

    #[inline]
    fn slot(&mut self, number: u32) -> &mut Slot {
        let mask = self.slots.len() - 1;
        &mut self.slots[number as usize & mask]
    }

    /// Takes frames from the front of `batch` at `now_ns`, and rings the doorbell unless `more` follow. Counts posts in `posts`.
    #[inline]
    pub(super) fn transmit(
        &mut self, port: &mut Port, memory: &Memory, batch: &mut Batch, more: bool, now_ns: u64,
        posts: &mut u64,
    ) -> Transmitted {
        if let Some(reason) = port.state().reason() {
            return self.refuse(batch, reason);
        }
        let (mut stopped, posts_before) = (false, *posts);
        port.peers.is_in_use = self.held() > 0;
        while self.outstanding() < self.slots.len() {
            let Some(frame) = batch.frames_mut().first_mut() else { break };
            match prepare(port, &memory.1, frame, now_ns) {
                Route::To(to, queue_pair) => {
                    let (head, frame) = (self.head, batch.pop());
                    *self.slot(head) = Slot { frame, to, queue_pair };
                    self.head = head.wrapping_add(1);
                    port.peers.is_in_use = true;
                    if !self.batches {
                        *posts += u64::from(self.flush(port, memory));
                    }
                }
                Route::Failed(reason) => self.book.fail(batch.pop(), reason),
                Route::Waits => {
                    stopped = true;
                    break;
                }
            }
        }
        stopped |= self.outstanding() >= self.slots.len();
        if !more || stopped {
            *posts += u64::from(self.flush(port, memory));
        }
        Transmitted { doorbell: *posts > posts_before, stopped }
    }

    /// Fails the frames of `batch` that there is room for.
    #[cold]
    pub(super) fn refuse(&mut self, batch: &mut Batch, reason: &'static str) -> Transmitted {
        while self.outstanding() < self.slots.len() {
            let Some(frame) = batch.pop() else { break };
            self.book.fail([frame], reason);
        }
        Transmitted { doorbell: false, stopped: self.outstanding() >= self.slots.len() }
    }

    /// Posts the frames that are staged. Returns true if there were any.
    #[inline]
    pub(super) fn flush(&mut self, port: &mut Port, (registered, region): &Memory) -> bool {
        let (first, count) = (self.posted, self.head.wrapping_sub(self.posted));
        if count == 0 {
            return false;
        }
        let Port { queue_pair, peers, .. } = &mut *port;
        let (slots, inline_bytes) = (&self.slots, queue_pair.inline_bytes());
        // One that cannot be ends the list: a device names requests that it has not taken by their place.
        let requests = (0..count).map_while(|at| {
            let id = first.wrapping_add(at);
            let slot = &slots[id as usize & (slots.len() - 1)];
            let (frame, address) = (slot.frame.as_ref()?, peers.address(slot.to)?);
            let len_bytes = frame.len_bytes() - HEADER_AT as u32;
            Some(SendRequest {
                id: id.into(),
                at: region.offset_bytes(frame).ok()? + HEADER_AT,
                len_bytes,
                address,
                queue_pair: slot.queue_pair,
                is_signaled: at + 1 == count,
                is_inline: len_bytes <= inline_bytes,
            })
        });
        match queue_pair.post_sends(registered, requests) {
            Ok(posted) if posted == count as usize => self.posted = self.head,
            Ok(posted) => self.refused(port, posted, &io::Error::from_raw_os_error(EIO)),
            Err(error) => self.refused(port, error.taken, &error.source),
        }
        true
    }

    /// Handles a post of which the device has taken the first `taken` frames only. Its queue pair is given up: the frames that it has
    /// taken may not be signalled.
    #[cold]
    fn refused(&mut self, port: &mut Port, taken: usize, error: &io::Error) {
        port.lose_unless_known("the device refuses to send", error.raw_os_error().unwrap_or(EIO));
        self.posted = self.posted.wrapping_add(taken as u32);
        let (from, to) = (self.posted, self.head);
        for number in 0..to.wrapping_sub(from) {
            let frame = self.slot(from.wrapping_add(number)).frame.take();
            self.book.fail(frame, "refused");
        }
        self.head = from;
    }

    /// Takes up to `budget` completions. Returns their number.
    #[inline]
    pub(super) fn poll(&mut self, port: &mut Port, budget: usize) -> Result<usize, DeviceError> {
        let (queue, mut fault, mut failed) = (port.sent.clone(), None, None);
        let polled = queue.poll(budget, |completion| match self.complete(&completion) {
            Err(slot) => fault = Some(slot),
            Ok(()) => failed = worse(failed, completion.status),
        });
        if let Some(status) = failed {
            port.lose_by(status);
        }
        port.peers.is_in_use = self.held() > 0;
        match (polled, fault) {
            (Err(error), _) => {
                port.lose_unless_known(
                    "its completion queue is in error",
                    error.raw_os_error().unwrap_or(EIO),
                );
                Ok(0)
            }
            (Ok(_), Some(slot)) => {
                Err(DeviceError::NotHeld { device: port.name.clone(), slot, ring_frames: self.ring_frames() })
            }
            (Ok(count), None) => Ok(count),
        }
    }

    /// Handles one completion.
    ///
    /// # Errors
    /// The number of a request that is not posted.
    #[inline]
    fn complete(&mut self, completion: &Completion) -> Result<(), u32> {
        let slot = completion.id as u32;
        let number = u32::try_from(completion.id).map_err(|_| slot)?;
        let before = number.wrapping_sub(self.tail);
        if before >= self.posted.wrapping_sub(self.tail) {
            return Err(slot);
        }
        for _ in 0..=before {
            let tail = self.tail;
            let frame = self.slot(tail).frame.take();
            self.tail = tail.wrapping_add(1);
            match completion.status {
                Status::Success => frame.into_iter().for_each(|frame| self.book.sent(frame)),
                _ if tail != number => frame.into_iter().for_each(|frame| self.book.sent(frame)),
                Status::Flushed => self.book.fail(frame, "flushed"),
                Status::Failed(_) => self.book.fail(frame, "send-error"),
            }
        }
        self.stuck.clear();
        Ok(())
    }

    /// Gives up a device that has completed nothing for too long though frames are posted.
    #[cold]
    pub(super) fn check_stuck(&mut self, port: &mut Port, now_ns: u64) {
        if !self.has_posted() {
            self.stuck.clear();
        } else if self.stuck.is_stuck_at(now_ns, self.tail.into(), STUCK_NS) {
            self.stuck.clear();
            port.lose("it has completed nothing for 5 s", EIO);
        }
    }

    /// Takes back all frames, once the queue pair is no more.
    pub(super) fn close(&mut self) {
        while self.tail != self.head {
            let tail = self.tail;
            let frame = self.slot(tail).frame.take();
            self.book.fail(frame, LOST);
            self.tail = tail.wrapping_add(1);
        }
        self.posted = self.tail;
    }

    /// Leaves frames to a queue pair that cannot be destroyed.
    pub(super) fn abandon(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.frame = None);
        (self.posted, self.tail) = (self.head, self.head);
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.slots.iter().filter_map(|slot| slot.frame.as_ref()).for_each(&mut *see);
        self.book.visit(see);
    }
}

/// Returns the status that says most of why a queue pair is in error: requests behind the one that failed are flushed.
#[inline]
fn worse(known: Option<Status>, status: Status) -> Option<Status> {
    match (known, status) {
        (known, Status::Success) => known,
        (None | Some(Status::Flushed), status) => Some(status),
        (known, _) => known,
    }
}

/// Finds the way of `frame`, and writes its header.
#[inline]
fn prepare(port: &mut Port, region: &Region, frame: &mut Frame, now_ns: u64) -> Route {
    let len_bytes = frame.len_bytes();
    if len_bytes < ETHERNET_BYTES {
        return Route::Failed("too-short");
    }
    if len_bytes - HEADER_AT as u32 > port.mtu_bytes {
        return Route::Failed("too-long");
    }
    // Super-packets, chains and checksums that are left to the device take a `Segmenter` in front.
    let Ok(meta) = region.meta(frame) else { return Route::Failed("foreign-pool") };
    if meta.gso_bytes > 0 {
        return Route::Failed("super-packet");
    }
    if meta.needs_checksum && !offload::complete_frame(region, frame).unwrap_or(false) {
        return Route::Failed("unfinished-checksum");
    }
    let Ok(bytes) = region.bytes_mut(frame) else { return Route::Failed("foreign-pool") };
    if bytes.len() != len_bytes as usize {
        return Route::Failed("too-many-chunks");
    }
    let Port { peers, neighbours, .. } = port;
    let ask = |gid: &_| neighbours.iter_mut().for_each(|neighbours| neighbours.ask(gid));
    let route = peers.route(&bytes[..6], now_ns, ask);
    if matches!(route, Route::To(..)) && encapsulate(bytes).is_none() {
        return Route::Failed("too-short");
    }
    route
}

// `HEADER_AT` leaves the header's own bytes of the Ethernet header.
const _: () = assert!(HEADER_AT + HEADER_BYTES == ETHERNET_BYTES as usize);
