//! `Receiving`: memory posted for datagrams, and frames that have arrived in it.
//!
//! A datagram arrives with a route header of 40 bytes in front. Memory is posted so that both headers lie before the place where the
//! payload of an Ethernet frame is: nothing is copied.

use super::Memory;
use super::encapsulation::{HEADER_AT, HEADROOM_BYTES, decapsulate, frame_bytes, source};
use super::port::Port;
use crate::ibverbs::{Completion, MemoryRegion, ReceiveRequest, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_devices::iface::{Drops, pool_fault};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Posting, Region};
use wharf_sys::errno::EIO;

/// Requests that are posted at a time, at least; a quarter of those wanted where these are few.
const BULK: u32 = 32;
/// Completions that are taken before anything receives, at most.
const EARLY: usize = 32;

#[derive(Debug)]
pub(super) struct Receiving {
    slots: Box<[Option<Frame>]>,
    /// Requests posted so far; it wraps at 2^32.
    head: u32,
    /// Requests that wait for datagrams, and their most.
    posted: u32,
    wanted: u32,
    posting: Option<Posting>,
    /// Completions found when notifications were armed.
    early: VecDeque<Completion>,
    /// On their way from a cache.
    passing: Batch,
    pub(super) drops: Drops,
}

impl Receiving {
    /// Makes one of `ring_frames`, a power of two.
    pub(super) fn new(ring_frames: u32, first: u32) -> Self {
        Self {
            slots: (0..ring_frames).map(|_| None).collect(),
            head: first,
            posted: 0,
            wanted: 0,
            posting: None,
            early: VecDeque::with_capacity(EARLY),
            passing: Batch::new(BATCH_FRAMES_MAX),
            drops: Drops::default(),
        }
    }

    /// Wants memory posted for up to `quarters` of the pool of `region`, divided by `shared_by` devices that receive into it.
    pub(super) fn keep(&mut self, region: &Arc<Region>, quarters: u32, shared_by: u32) {
        let share = region.spec().frames / 4 * quarters / shared_by.max(1);
        self.posting = None;
        let posting = Posting::of(region, share.max(1).min(self.slots.len() as u32));
        self.wanted = posting.frames(0);
        self.posting = Some(posting);
    }

    /// Posts no more.
    pub(super) fn close(&mut self) {
        (self.wanted, self.posting) = (0, None);
    }

    /// True once memory has been posted.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.posted > 0
    }

    /// Receives up to `budget` frames, for which `to` has room, and posts new memory.
    #[inline]
    pub(super) fn receive(
        &mut self, port: &mut Port, (registered, region): &Memory, cache: &mut Cache, to: &mut Batch,
        budget: usize, now_ns: u64,
    ) -> Result<usize, DeviceError> {
        let (before, budget) = (to.len(), budget.min(to.room()));
        let mut fault = Ok(());
        while to.len() - before < budget {
            let Some(completion) = self.early.pop_front() else { break };
            fault = fault.and(self.take(port, region, cache, to, &completion, now_ns));
        }
        // As many completions as there is room for frames: each is one frame at most.
        let (queue, room) = (port.received.clone(), budget - (to.len() - before));
        let polled = queue.poll(room, |completion| {
            if let Err(error) = self.take(port, region, cache, to, &completion, now_ns)
                && fault.is_ok()
            {
                fault = Err(error);
            }
        });
        if let Err(error) = polled {
            port.lose_unless_known("its completion queue is in error", error.raw_os_error().unwrap_or(EIO));
        }
        let result = fault.and_then(|()| self.refill(port, registered, region, cache));
        match (result, to.len() - before) {
            (Err(error), 0) => Err(error),
            (result, received) => {
                // Frames that are there are counted first: the error is that of the next call.
                result.err().into_iter().for_each(|error| port.report(error));
                Ok(received)
            }
        }
    }

    /// Handles one completion: its frame goes to the back of `to`, or back to `cache`.
    #[inline]
    fn take(
        &mut self, port: &mut Port, region: &Region, cache: &mut Cache, to: &mut Batch,
        completion: &Completion, now_ns: u64,
    ) -> Result<(), DeviceError> {
        let slot = completion.id as u32;
        let place = slot as usize & (self.slots.len() - 1);
        let is_ours = u64::from(slot) == completion.id
            && self.head.wrapping_sub(slot).wrapping_sub(1) < self.slots.len() as u32;
        let Some(mut frame) = self.slots[place].take_if(|_| is_ours) else {
            let ring_frames = self.slots.len() as u32;
            return Err(DeviceError::NotHeld { device: port.name.clone(), slot, ring_frames });
        };
        self.posted -= 1;
        let arrived = match completion.status {
            Status::Success => frame_of(port, region, &mut frame, completion, now_ns),
            status => {
                port.lose_by(status);
                Err(None)
            }
        };
        let frame = match arrived {
            Ok(()) => to.push(frame),
            Err(reason) => {
                reason.into_iter().for_each(|reason| self.drops.add(reason));
                Err(frame)
            }
        };
        match frame {
            Ok(()) => Ok(()),
            Err(frame) => cache.give_one(frame).map_err(|(error, _)| pool_fault(&port.name, error)),
        }
    }

    /// Posts memory for datagrams, if enough is wanted.
    #[inline]
    fn refill(
        &mut self, port: &mut Port, registered: &MemoryRegion, region: &Region, cache: &mut Cache,
    ) -> Result<(), DeviceError> {
        let bulk = BULK.min(self.wanted.div_ceil(4));
        if self.wanted.saturating_sub(self.posted) < bulk {
            return Ok(());
        }
        // Others that receive into this memory have come or gone.
        self.wanted = self.posting.as_ref().map_or(0, |posting| posting.frames(self.posted));
        while self.wanted.saturating_sub(self.posted) >= bulk && port.state().reason().is_none() {
            let count = (self.wanted - self.posted).min(BATCH_FRAMES_MAX as u32);
            match cache.take(&mut self.passing, count as usize, region.data_bytes_max()) {
                Ok(_) | Err(PoolError::Exhausted { .. }) => {}
                Err(error) => return Err(pool_fault(&port.name, error)),
            }
            if !self.post(port, registered, region, cache)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Posts the frames of `passing`. Returns true if there were any, and all are posted.
    fn post(
        &mut self, port: &mut Port, registered: &MemoryRegion, region: &Region, cache: &mut Cache,
    ) -> Result<bool, DeviceError> {
        let first = self.head;
        let mask = self.slots.len() - 1;
        while self.slots[self.head as usize & mask].is_none() {
            let Some(frame) = self.passing.pop() else { break };
            self.slots[self.head as usize & mask] = Some(frame);
            self.head = self.head.wrapping_add(1);
        }
        let count = self.head.wrapping_sub(first);
        let slots = &self.slots;
        let requests = (0..count).map_while(|at| {
            let id = first.wrapping_add(at);
            let at = region.offset_bytes(slots[id as usize & mask].as_ref()?).ok()? - HEADROOM_BYTES;
            Some(ReceiveRequest {
                id: id.into(),
                at,
                len_bytes: HEADROOM_BYTES as u32 + region.data_bytes_max(),
            })
        });
        let taken = match port.queue_pair.post_receives(registered, requests) {
            Ok(taken) => taken as u32,
            Err(error) => {
                port.lose_unless_known(
                    "the device refuses memory to receive into",
                    error.source.raw_os_error().unwrap_or(EIO),
                );
                error.taken as u32
            }
        };
        self.posted += taken;
        // The others go back, last first.
        while self.head != first.wrapping_add(taken) {
            self.head = self.head.wrapping_sub(1);
            if let Some(frame) = self.slots[self.head as usize & mask].take()
                && let Err(frame) = self.passing.push(frame)
            {
                cache.give_one(frame).map_err(|(error, _)| pool_fault(&port.name, error))?;
            }
        }
        let is_whole = self.passing.is_empty();
        if !is_whole {
            cache.give(&mut self.passing).map_err(|error| pool_fault(&port.name, error))?;
        }
        Ok(count > 0 && is_whole)
    }

    /// Takes completions that are there. Returns true if there are any: the caller then receives them.
    pub(super) fn find(&mut self, port: &mut Port) -> bool {
        let (queue, early) = (&port.received, &mut self.early);
        // An error shows again when it is polled to receive.
        let _ = queue.poll(EARLY - early.len(), |completion| early.push_back(completion));
        !self.early.is_empty()
    }

    /// Moves memory to the back of `to`, once the queue pair is no more. Returns the number of frames.
    pub(super) fn reclaim(&mut self, to: &mut Batch) -> usize {
        let before = to.len();
        self.early.clear();
        for slot in &mut self.slots {
            if to.room() == 0 {
                break;
            }
            if let Some(frame) = slot.take() {
                self.posted = self.posted.saturating_sub(1);
                let _ = to.push(frame);
            }
        }
        to.len() - before
    }

    /// Leaves memory to a queue pair that cannot be destroyed.
    pub(super) fn abandon(&mut self) {
        self.early.clear();
        self.slots.iter_mut().for_each(|slot| *slot = None);
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.slots.iter().flatten().for_each(see);
    }
}

/// Checks that frames of `region` have room for the datagrams of a port with an MTU of `mtu_bytes`, and for their headers.
///
/// # Errors
/// The reason.
pub(super) fn check_room(region: &Region, mtu_bytes: u32) -> Result<(), String> {
    if (region.spec().headroom_bytes as usize) < HEADROOM_BYTES {
        return Err(format!("frames want a headroom of {HEADROOM_BYTES} bytes to receive into"));
    }
    let (wanted_bytes, bytes) = (mtu_bytes + HEADER_AT as u32, region.data_bytes_max());
    if bytes < wanted_bytes {
        let frame_bytes = (region.spec().frame_bytes - bytes + wanted_bytes).next_multiple_of(64);
        return Err(format!(
            "memory for frames of {bytes} bytes is too short for datagrams of its port (MTU {mtu_bytes}): use --frame-bytes {frame_bytes}, or lower the interface's MTU"
        ));
    }
    Ok(())
}

/// Makes an Ethernet frame of what has arrived in `frame`, and learns its sender.
///
/// # Errors
/// The reason that it is dropped.
#[inline]
fn frame_of(
    port: &mut Port, region: &Region, frame: &mut Frame, completion: &Completion, now_ns: u64,
) -> Result<(), Option<&'static str>> {
    // The device's word on the length is checked against the memory that was posted.
    let len_bytes = frame_bytes(completion.len_bytes).ok_or(Some("truncated"))?;
    if !completion.has_route_header {
        return Err(Some("malformed"));
    }
    region.set_len(frame, len_bytes).map_err(|_| Some("malformed"))?;
    let bytes = region.bytes_and_before_mut(frame, HEADROOM_BYTES).map_err(|_| Some("malformed"))?;
    let gid = source(bytes).ok_or(Some("malformed"))?;
    let mac = port.peers.learn(&gid, completion.source_queue_pair, now_ns);
    decapsulate(bytes, &port.mac, &mac).ok_or(Some("truncated"))
}
