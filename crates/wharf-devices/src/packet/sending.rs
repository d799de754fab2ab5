//! `PacketSender`: the transmit side of a packet socket.

mod doorbell;
mod slots;
mod whole;

use super::Opened;
use crate::iface::{GONE, LookTimer, State, StuckTimer, TxBook, VLAN_BYTES};
use crate::link::Health;
use slots::Slots;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, LOST, LimitUnit, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::errno::{EAGAIN, EINTR, ENETDOWN, ENOBUFS, ENOMEM};
use wharf_sys::packet::{PacketSocket, SlotRing};
use whole::{CHUNKS_MAX, TxReject, Whole};

/// Bytes that the kernel charges for one frame on its way: buffer and bookkeeping.
const CHARGE_BYTES: usize = 1024;
/// Bytes that the kernel charges for a few super-packets.
const SUPER_CHARGE_BYTES: usize = 1 << 20;
/// Time until a look at frames that were sent by calls of their own.
const WHOLE_LOOK_NS: u64 = 250_000;
/// Longest frame that a slot is made for, with any MTU.
const SLOT_FRAME_BYTES_MAX: u32 = 9216;

/// Settings of a [`PacketSender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    /// True if frames bypass the host's queueing discipline. Traffic control then does not shape them, and
    /// captures on the same interface do not see them. Off by default, as in the kernel: it gains nothing on
    /// a veth.
    pub bypass: bool,
    /// Frames that the ring holds, at least: 1024 by default.
    pub ring_frames: u32,
    /// Unit of the byte queue limit; bytes by default.
    pub limit_unit: Option<LimitUnit>,
}

/// Sends frames by PACKET_TX_RING, version 2. Super-packets, which the kernel or the adapter segments, and
/// frames longer than a slot go by a call of their own.
///
/// The kernel looks at the ring only inside the doorbell. Frames that it has no room for stay requested, and
/// every reap asks again. A frame is complete when the kernel has released it: the driver has sent it, or, on
/// a veth, the other end has taken it. The kernel also releases frames that its queueing discipline drops,
/// and frames for an interface without carrier. So frames sent in the at most 20 ms before a lost carrier is
/// seen count as sent.
#[derive(Debug)]
pub struct PacketSender {
    name: String,
    /// `None` once closed.
    slots: Option<Slots>,
    whole: Whole,
    region: Option<Arc<Region>>,
    health: Health,
    ring_frames: u32,
    limit_unit: LimitUnit,
    owes_doorbell: bool,
    /// True if the kernel had no room for requested frames: request them again.
    refused: bool,
    stuck: StuckTimer,
    look: LookTimer,
    book: TxBook,
}

impl PacketSender {
    /// Opens interface `interface`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down or without carrier, or CAP_NET_RAW is
    /// lacking; [`DeviceError::Unsupported`] if it is no Ethernet.
    pub fn open(interface: &str, options: SendOptions) -> Result<Self, DeviceError> {
        let Opened { socket, link } = Opened::new(interface)?;
        link.check_carrier()?;
        let (fault, longest_bytes) = (link.fault("cannot set up a transmit ring"), link.longest_bytes());
        let second = PacketSocket::open().map_err(&fault)?;
        for socket in [&socket, &second] {
            socket.bind_to_send(link.interface.index).map_err(&fault)?;
            socket.enable_vnet_header().map_err(&fault)?;
            if options.bypass {
                socket.bypass_qdisc().map_err(&fault)?;
            }
            socket.set_send_buffer((options.ring_frames as usize * CHARGE_BYTES).max(SUPER_CHARGE_BYTES));
        }
        let slot_frame_bytes = longest_bytes.min(SLOT_FRAME_BYTES_MAX) + VLAN_BYTES;
        let ring = SlotRing::new(socket, options.ring_frames, slot_frame_bytes as usize).map_err(&fault)?;
        let ring_frames = ring.slots();
        Ok(Self {
            limit_unit: options.limit_unit.unwrap_or_default(),
            name: link.name.clone(),
            slots: Some(Slots::new(ring)),
            whole: Whole::new(second, ring_frames as usize),
            region: None,
            health: Health::new(link),
            ring_frames,
            owes_doorbell: false,
            refused: false,
            stuck: StuckTimer::default(),
            look: LookTimer::new(LookTimer::EVERY),
            book: TxBook::new(ring_frames as usize),
        })
    }

    #[inline]
    fn held(&self) -> usize {
        let in_slots = self.slots.as_ref().map_or(0, |slots| slots.held() as usize);
        in_slots + self.whole.held() + self.book.len()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.slots.is_none() || self.held() >= self.ring_frames as usize
    }

    /// Takes the first frame of `batch`, which there is room for: into a slot, by a call of its own, or among
    /// the failed. Returns false if the kernel has no room for it now: then it stays.
    #[cold]
    fn take_unusual(&mut self, batch: &mut Batch) -> bool {
        let Some(frame) = batch.frames().first() else { return false };
        let meta = self.region.as_ref().and_then(|region| region.meta(frame).ok()).unwrap_or_default();
        let is_super = meta.gso_bytes > 0;
        let sent = match self.fault_of(frame, is_super) {
            Some(reason) => Err(reason),
            None if is_super || self.is_beyond_slots(frame) => match self.send_whole(frame, is_super) {
                Ok(Some(charge_bytes)) => Ok(charge_bytes),
                Ok(None) => return false,
                Err(reason) => Err(reason),
            },
            None => {
                batch.pop().into_iter().for_each(|frame| self.post(frame));
                return true;
            }
        };
        let posted = self.slots.as_ref().map_or(0, Slots::posted);
        if let Some(frame) = batch.pop() {
            match sent {
                Err(reason) => self.book.fail([frame], reason),
                Ok(charge_bytes) => self.whole.hold(frame, posted, charge_bytes),
            }
        }
        true
    }

    /// Returns true if a frame is longer than a slot, as is possible with a very large MTU.
    fn is_beyond_slots(&self, frame: &Frame) -> bool {
        self.slots.as_ref().is_some_and(|slots| frame.len_bytes() as usize > slots.frame_bytes_max())
    }

    /// Sends a frame by a call of its own, after all frames posted. Returns the bytes that the kernel charges
    /// for it; `None` if it has no room now.
    fn send_whole(&mut self, frame: &Frame, is_super: bool) -> Result<Option<usize>, &'static str> {
        let Some(region) = self.region.clone() else { return Err("not-attached") };
        if std::mem::take(&mut self.owes_doorbell) || self.refused {
            self.ring();
        }
        if self.refused {
            return Ok(None);
        }
        let error = match self.whole.send(frame, &region) {
            Ok(charge_bytes) => {
                self.stuck.clear();
                return Ok(Some(charge_bytes));
            }
            Err(TxReject::Failed(reason)) => return Err(reason),
            Err(TxReject::Refused(error)) => error,
        };
        self.look_again();
        match (self.health.state(), error.raw_os_error()) {
            (State::Gone, _) => Err(GONE),
            (State::Down, _) => Err("link-down"),
            (State::Up, Some(EAGAIN | EINTR | ENOBUFS | ENOMEM | ENETDOWN)) => {
                if self.is_stuck() {
                    Err("refused")
                } else {
                    Ok(None)
                }
            }
            (State::Up, _) if is_super => {
                self.health.note("the kernel refuses a super-packet", error);
                Err("refused")
            }
            // The MTU may be smaller by now.
            (State::Up, _) => Err(self.fault_of(frame, false).unwrap_or_else(|| {
                self.health.note("the kernel refuses a long frame", error);
                "refused"
            })),
        }
    }

    /// Takes one frame, which there is room for: into a slot, or among the failed.
    #[inline]
    fn post(&mut self, frame: Frame) {
        let (Some(slots), Some(region)) = (&mut self.slots, &self.region) else {
            return self.book.fail([frame], "not-attached");
        };
        match slots.post(frame, region) {
            Ok(()) => self.owes_doorbell = true,
            Err((reason, frame)) => self.book.fail([frame], reason),
        }
    }

    /// Returns the reason that a frame cannot be sent: too long, too short, or for an interface that is down.
    fn fault_of(&mut self, frame: &Frame, is_super: bool) -> Option<&'static str> {
        let first = self.region.as_ref().and_then(|region| region.bytes(frame).ok()).unwrap_or_default();
        // The interface may be up again, or its MTU larger now.
        let is_odd = self.health.state() != State::Up || !self.health.fits(first, frame.len_bytes());
        if is_odd
            && !is_super
            && self.health.state() != State::Gone
            && let Some(slots) = &self.slots
        {
            self.health.look(slots.socket().fd());
        }
        // A super-packet may be of any length.
        let len_bytes =
            if is_super { frame.len_bytes().min(self.health.longest_bytes()) } else { frame.len_bytes() };
        self.health.fault_of(first, len_bytes)
    }

    /// Returns the next frame that has left, in the order in which they were taken.
    #[inline]
    fn next_sent(&mut self) -> Option<Frame> {
        let slots = self.slots.as_mut()?;
        if self.whole.held() > 0
            && let Some(frame) = self.whole.next_sent(slots.left())
        {
            return Some(frame);
        }
        slots.next_sent()
    }
}

impl Notify for PacketSender {
    /// The kernel notifies each time that it releases a frame, unless most of the send buffer is taken.
    fn wait_fd(&self) -> Option<RawFd> {
        self.slots.as_ref().map(|slots| slots.socket().fd().as_raw_fd())
    }
}

impl Device for PacketSender {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.look_again();
        self.health.link()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some(slots) = &self.slots {
            slots.visit(see);
        }
        self.whole.visit(see);
        self.book.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        while let Some(frame) = self.next_sent() {
            self.book.sent(frame);
        }
        while let Some(frame) = self.whole.take_oldest() {
            self.book.sent(frame);
        }
        if let Some(slots) = self.slots.take() {
            self.book.fail(slots.into_held(), LOST);
        }
        Ok(())
    }
}

impl TxDevice for PacketSender {
    fn info(&self) -> TxInfo {
        let any = TxInfo::of_any_frame(self.ring_frames as usize, CompletionMode::Real);
        TxInfo { limit_unit: self.limit_unit, segments_max: CHUNKS_MAX as u16, ..any }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let (mut waits, whole) = (false, self.whole.held());
        while !self.is_full() && !waits {
            match batch.frames().first() {
                None => break,
                Some(frame) if self.health.is_usual(frame) && !self.is_beyond_slots(frame) => {
                    batch.pop().into_iter().for_each(|frame| self.post(frame));
                }
                Some(_) => waits = !self.take_unusual(batch),
            }
        }
        let doorbell = (!more || self.is_full() || self.refused || waits) && self.flush();
        let doorbell = doorbell || self.whole.held() > whole;
        Transmitted { doorbell, stopped: self.is_full() || self.refused || waits }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        if self.owes_doorbell {
            self.look_after_a_while();
        }
        // No doorbell is due if the interface was found to be down.
        let owes_doorbell = std::mem::take(&mut self.owes_doorbell);
        if owes_doorbell {
            self.ring();
        }
        owes_doorbell
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if self.refused {
            self.ring();
        }
        if self.whole.held() > 0 {
            self.whole.look();
        }
        let mut room = budget.min(into.sent.room());
        while room > 0 {
            let Some(frame) = self.next_sent() else { break };
            into.sent.push_within(frame);
            room -= 1;
        }
        self.book.reap(room, into);
        self.health.take_error()
    }

    fn outstanding(&self) -> usize {
        self.held()
    }

    /// The kernel does not notify of frames that are sent whole.
    fn next_completion_ns(&self) -> Option<u64> {
        (self.whole.held() > 0).then_some(WHOLE_LOOK_NS)
    }
}
