//! `Sending`: the transmit side, over the kernel or a model of it.

use super::super::memory::PIECE_BYTES;
use super::super::metadata;
use super::super::table::TxStatus;
use super::rings::{Rings, TxReject};
use crate::iface::{ETHERNET_BYTES, LookTimer, State, TxBook};
use crate::link::Health;
use std::io;
use std::sync::Arc;
use wharf_core::device::{Completions, DeviceError, LOST, Transmitted};
use wharf_core::offload;
use wharf_mem::{Batch, Frame, Meta, Region};
use wharf_sys::xdp::TxMetadataRoom;

/// The calls to the kernel.
pub trait Kernel {
    /// Lets the kernel look at the transmit ring.
    fn kick(&self) -> io::Result<()>;
    /// Lets the driver look at the transmit ring of a socket that busy-polls: a kick polls the NAPI context that receives.
    fn wake(&self);
    /// Looks at the state of the interface.
    fn look(&self, health: &mut Health);
    /// Returns true if the kernel takes all that it can within the kick, as it does if it copies.
    fn takes_at_once(&self) -> bool;
}

#[derive(Debug)]
pub struct Sending<K> {
    /// `None` once closed, or when the interface is gone.
    pub(super) open: Option<(K, Rings)>,
    pub(super) health: Health,
    region: Arc<Region>,
    owes_doorbell: bool,
    /// True if the kernel has not taken all that was posted: ask again.
    pub(super) refused: bool,
    pub(super) look: LookTimer,
    /// True once dropped frames have been reported.
    pub(super) told_of_drops: bool,
    book: TxBook,
}

impl<K: Kernel> Sending<K> {
    pub fn new(kernel: K, rings: Rings, health: Health, region: Arc<Region>) -> Self {
        Self {
            open: Some((kernel, rings)),
            health,
            region,
            owes_doorbell: false,
            refused: false,
            look: LookTimer::new(LookTimer::EVERY),
            told_of_drops: false,
            book: TxBook::new(0),
        }
    }

    pub fn held(&self) -> usize {
        let in_rings = self.open.as_ref().map_or(0, |(_, rings)| rings.held() as usize);
        in_rings + self.book.len()
    }

    /// Returns true if a frame may have several buffers.
    pub fn gathers(&self) -> bool {
        self.open.as_ref().is_none_or(|(_, rings)| rings.gathers())
    }

    /// Returns true if frames that ask for it get the time at which they are sent.
    pub fn stamps(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, rings)| rings.stamps())
    }

    fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, rings)| rings.is_full())
    }

    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.post_usual(batch);
        let mut is_full = self.is_full();
        while !is_full && !batch.is_empty() {
            is_full = self.take_unusual(batch);
            self.post_usual(batch);
        }
        let is_full = is_full || self.is_full();
        let doorbell = (!more || is_full || self.refused) && self.flush();
        Transmitted { doorbell, stopped: is_full || self.refused }
    }

    /// Posts frames from the front while there is room, up to the first that needs special treatment.
    #[inline(always)]
    fn post_usual(&mut self, batch: &mut Batch) {
        let (Some((_, rings)), State::Up) = (&mut self.open, self.health.state()) else { return };
        let lengths = ETHERNET_BYTES + 1..=self.health.longest_bytes().min(PIECE_BYTES as u32);
        let offered = batch.len();
        rings.post_while(batch, |frame| lengths.contains(&frame.len_bytes()) && !frame.has_meta());
        self.owes_doorbell |= batch.len() < offered;
    }

    /// Handles the first frame, an unusual one. Returns true if there was no room for it, so that it stays.
    #[cold]
    fn take_unusual(&mut self, batch: &mut Batch) -> bool {
        let Some(first) = batch.frames().first() else { return true };
        let fault = self.fault_of(first);
        let Some((_, rings)) = &mut self.open else {
            self.book.fail(batch.pop(), fault.unwrap_or("closed"));
            return false;
        };
        let fits = fault.map_or_else(|| rings.descriptors(first), Err).map(|needed| needed <= rings.room());
        if fits == Ok(false) {
            return true;
        }
        let Some(mut frame) = batch.pop() else { return true };
        let room = rings.metadata();
        let posted = match fits.and_then(|_| settle_requests(&self.region, &mut frame, room)) {
            Ok(metadata) => rings.post_chain(frame, metadata),
            Err(reason) => Err((TxReject::Failed(reason), frame)),
        };
        match posted {
            Ok(()) => self.owes_doorbell = true,
            Err((TxReject::Failed(reason), frame)) => self.book.fail([frame], reason),
            // There was room a moment ago: the kernel went backwards.
            Err((TxReject::Full, frame)) => self.book.fail([frame], "no-room"),
        }
        self.is_full()
    }

    /// Returns the reason that a frame cannot be sent: too long, too short, or for an interface that is down.
    fn fault_of(&mut self, frame: &Frame) -> Option<&'static str> {
        let region = self.region.clone();
        let first = region.bytes(frame).unwrap_or_default();
        // The interface may be up again, or its MTU larger now.
        let is_odd = self.health.state() != State::Up || !self.health.fits(first, frame.len_bytes());
        if let (true, Some((kernel, _))) = (is_odd, &self.open) {
            kernel.look(&mut self.health);
        }
        self.health.fault_of(first, frame.len_bytes())
    }

    #[inline]
    pub fn flush(&mut self) -> bool {
        if !std::mem::take(&mut self.owes_doorbell) {
            return false;
        }
        let Some((_, rings)) = &self.open else { return false };
        rings.publish();
        let rings_it = rings.needs_wakeup();
        if rings_it {
            self.ring();
        }
        rings_it
    }

    #[inline]
    pub fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        if let Some((kernel, rings)) = &self.open
            && (self.refused || (!kernel.takes_at_once() && rings.waiting() > 0 && rings.needs_wakeup()))
        {
            self.ring();
        }
        let mut room = budget.min(into.sent.room());
        let mut result = Ok(());
        if let Some((_, rings)) = &mut self.open {
            let (stamps, region) = (rings.stamps(), &self.region);
            let done = rings.take_done(&mut room, |mut frame, status| match status {
                TxStatus::Sent => {
                    if stamps && frame.has_meta() {
                        metadata::stamp(region, &mut frame);
                    }
                    into.sent.push_within(frame);
                }
                _ => fail(into, frame, status),
            });
            if let Err(not_held) = done {
                let (device, ring_frames) = (self.health.device().into(), rings.entries());
                result = Err(DeviceError::NotHeld { device, slot: not_held.0, ring_frames });
            }
        }
        self.book.reap(room, into);
        result.and_then(|()| self.health.take_error())
    }

    pub fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some((_, rings)) = &self.open {
            rings.visit(see);
        }
        self.book.visit(see);
    }

    /// Closes the socket: frames that the kernel has completed are sent. All others are lost: the kernel may have some of them.
    pub fn close(&mut self) {
        self.let_go(LOST);
    }

    /// Works like [`Sending::close`], with the reason of the failure.
    pub(super) fn let_go(&mut self, reason: &'static str) {
        let Some((kernel, mut rings)) = self.open.take() else { return };
        // After a completion of a frame that is not held, the rings are not read any more.
        let book = &mut self.book;
        let _ = rings.take_done(&mut { usize::MAX }, |frame, status| match status.reason() {
            None => book.sent(frame),
            Some(reason) => book.fail([frame], reason),
        });
        // The queue is released before its frames may be used.
        let held = rings.into_held();
        drop(kernel);
        self.book.fail(held, reason);
        (self.refused, self.owes_doorbell) = (false, false);
    }
}

#[cold]
fn fail(into: &mut Completions, frame: Frame, status: TxStatus) {
    into.failed.extend(status.reason().map(|reason| (frame, reason)));
}

/// Fills in a checksum that the sender has left to the device, or leaves it to driver or kernel in the metadata of `room`, which a stamp
/// is asked for in, too; super-packets cannot be sent. Returns true if the frame has metadata in front of it.
fn settle_requests(
    region: &Region, frame: &mut Frame, room: Option<TxMetadataRoom>,
) -> Result<bool, &'static str> {
    let meta = region.meta(frame).map_err(|_| "foreign-pool")?;
    if meta.gso_bytes > 0 {
        return Err("super-packet");
    }
    let asks_time = meta.time_ns == Meta::ASKS_TIME && room.is_some_and(|room| room.timestamps);
    let is_left = meta.needs_checksum
        && room.is_some_and(|room| metadata::takes_checksum(region, frame, &meta, room))
        && metadata::request(region, frame, Some(&meta), asks_time);
    if is_left {
        return Ok(true);
    }
    if meta.needs_checksum && !offload::complete_frame(region, frame).unwrap_or(false) {
        return Err("unfinished-checksum");
    }
    Ok(asks_time && metadata::request(region, frame, None, true))
}
