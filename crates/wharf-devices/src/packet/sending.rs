//! `PacketSender`: the transmit side.

mod slots;

use super::health::{Health, State};
use super::{
    EAGAIN, EINTR, ENETDOWN, ENOBUFS, ENODEV, ENOMEM, ENXIO, ETHERNET_BYTES, Opened, VLAN_BYTES, no_carrier,
};
use slots::Slots;
use std::io;
use std::sync::Arc;
use wharf_core::device::{Capabilities, Completions, Device, DeviceError, Transmitted};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::packet::SlotRing;

/// The kernel's account of one frame under way: its buffer and bookkeeping, bytes.
const CHARGE_BYTES: usize = 1024;
/// Longest frame that a slot is made for, whatever the MTU.
const SLOT_FRAME_BYTES_MAX: u32 = 9216;
/// Doorbells between two looks at the interface: without any error it may have lost its carrier, or changed its MTU.
const LOOK_EVERY: u32 = 64;
/// Times that a doorbell is rung again at once although the interface was said to be down, and is not.
const TRIES: u32 = 3;

/// How a [`PacketSender`] should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    /// Whether frames go past the host's queueing discipline, straight to the driver. Then traffic control does not
    /// shape them, and captures on the same interface do not see them. Off by default, as in the kernel: on a
    /// veth it gains nothing.
    pub bypass: bool,
    /// Frames that the ring holds, at least: 1024 by default.
    pub ring_frames: u32,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self { bypass: false, ring_frames: 1024 }
    }
}

/// Sends frames by PACKET_TX_RING, version 2.
///
/// The kernel looks at the ring only inside the doorbell. What it has no room for then stays requested, and every
/// reap asks again. A frame is complete when the kernel has let go of it: when the driver has sent it, or, on a
/// veth, the other end has taken it.
#[derive(Debug)]
pub struct PacketSender {
    name: String,
    /// `None` once closed.
    slots: Option<Slots>,
    region: Option<Arc<Region>>,
    health: Health,
    ring_frames: u32,
    owes_doorbell: bool,
    /// The kernel had no room for what was requested: ask again.
    refused: bool,
    /// Doorbells until the next look at the interface.
    look_due: u32,
    /// What had left when the device was closed.
    left: Vec<Frame>,
    failed: Vec<(Frame, &'static str)>,
}

impl PacketSender {
    /// Opens interface `interface`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] when there is no such interface, it is down or without carrier, or CAP_NET_RAW is
    /// lacking; [`DeviceError::Unsupported`] when it is no Ethernet.
    pub fn open(interface: &str, options: SendOptions) -> Result<Self, DeviceError> {
        let opened = Opened::new(interface)?;
        if !opened.state.is_running {
            return Err(opened.fault(&no_carrier(interface))(io::Error::from_raw_os_error(ENETDOWN)));
        }
        let longest_bytes = opened.state.mtu_bytes.saturating_add(ETHERNET_BYTES);
        let fault = opened.fault("cannot set up a transmit ring");
        let Opened { name, interface_name, socket, interface, .. } = opened;
        socket.bind_to_send(interface.index).map_err(&fault)?;
        socket.enable_vnet_header().map_err(&fault)?;
        if options.bypass {
            socket.bypass_qdisc().map_err(&fault)?;
        }
        socket.set_send_buffer(options.ring_frames as usize * CHARGE_BYTES);
        let slot_frame_bytes = longest_bytes.min(SLOT_FRAME_BYTES_MAX) + VLAN_BYTES;
        let ring = SlotRing::new(socket, options.ring_frames, slot_frame_bytes as usize).map_err(&fault)?;
        let ring_frames = ring.slots();
        Ok(Self {
            name: name.clone(),
            slots: Some(Slots::new(ring)),
            region: None,
            health: Health::new(name, interface_name, interface, longest_bytes),
            ring_frames,
            owes_doorbell: false,
            refused: false,
            look_due: LOOK_EVERY,
            left: Vec::new(),
            failed: Vec::with_capacity(ring_frames as usize),
        })
    }

    #[inline]
    fn held(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.held() as usize) + self.left.len() + self.failed.len()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.held() >= self.ring_frames as usize
    }

    /// Takes one frame, which there is room for: into a slot, or among the failed.
    #[inline]
    fn take(&mut self, frame: Frame) {
        let len_bytes = frame.len_bytes();
        let is_usual = len_bytes <= self.health.longest_bytes() && len_bytes > ETHERNET_BYTES;
        if !(is_usual && self.health.state() == State::Up)
            && let Some(reason) = self.fault_of(&frame)
        {
            return self.failed.push((frame, reason));
        }
        let (Some(slots), Some(region)) = (&mut self.slots, &self.region) else {
            return self.failed.push((frame, "not-attached"));
        };
        match slots.post(frame, region) {
            Ok(()) => self.owes_doorbell = true,
            Err((reason, frame)) => self.failed.push((frame, reason)),
        }
    }

    /// Why a frame cannot be sent that is too long, too short, or for an interface that is down.
    #[cold]
    fn fault_of(&mut self, frame: &Frame) -> Option<&'static str> {
        // The interface may be back, or its MTU larger now.
        if self.health.state() != State::Gone
            && let Some(slots) = &self.slots
        {
            self.health.look(slots.socket());
        }
        let first = self.region.as_ref().and_then(|region| region.bytes(frame).ok()).unwrap_or_default();
        self.health.fault_of(first, frame.len_bytes())
    }

    /// Rings the doorbell, and sees to what the kernel says.
    #[inline]
    fn ring(&mut self) {
        let Some(slots) = &mut self.slots else { return };
        match slots.doorbell() {
            Ok(took_all) => self.refused = !took_all,
            Err(error) => self.ring_again(error),
        }
        self.look_due = self.look_due.saturating_sub(1);
        if self.look_due == 0 {
            self.look_again();
        }
    }

    /// Looks whether the interface is still as it was: a link without carrier drops frames in silence.
    #[cold]
    fn look_again(&mut self) {
        self.look_due = LOOK_EVERY;
        if let Some(slots) = &self.slots {
            self.health.look(slots.socket());
        }
        self.withdraw_if_down();
    }

    #[cold]
    fn ring_again(&mut self, mut error: io::Error) {
        for _ in 0..=self.ring_frames.saturating_add(TRIES) {
            if !self.may_ring_again(error) {
                return;
            }
            let Some(slots) = &mut self.slots else { return };
            error = match slots.doorbell() {
                Ok(took_all) => {
                    self.refused = !took_all;
                    return;
                }
                Err(error) => error,
            };
        }
        self.refused = true;
    }

    /// Sees to an error of the doorbell; whether it should be rung again at once.
    fn may_ring_again(&mut self, error: io::Error) -> bool {
        let Some(slots) = &mut self.slots else { return false };
        match error.raw_os_error() {
            Some(EINTR) => true,
            Some(EAGAIN | ENOBUFS | ENOMEM) => {
                self.refused = true;
                self.health.look(slots.socket());
                self.withdraw_if_down();
                false
            }
            Some(ENETDOWN | ENXIO | ENODEV) => {
                self.health.look(slots.socket());
                // An old error of an interface that is back is told once, with the first doorbell.
                !self.withdraw_if_down()
            }
            _ => {
                self.health.note("the kernel refuses a frame", error);
                match slots.take_refused() {
                    Some(frame) => {
                        self.failed.push((frame, "refused"));
                        true
                    }
                    None => {
                        self.withdraw("send-error");
                        false
                    }
                }
            }
        }
    }

    /// Fails what was requested of an interface that is not there; whether it is not.
    fn withdraw_if_down(&mut self) -> bool {
        match self.health.state() {
            State::Up => return false,
            State::Down => self.withdraw("link-down"),
            State::Gone => self.withdraw("gone"),
        }
        true
    }

    fn withdraw(&mut self, reason: &'static str) {
        let Some(slots) = &mut self.slots else { return };
        self.failed.extend(std::iter::from_fn(|| slots.withdraw_last()).map(|frame| (frame, reason)));
        (self.refused, self.owes_doorbell) = (false, false);
    }
}

impl Device for PacketSender {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ring_frames: Some(self.ring_frames),
            real_completions: true,
            segments_max: u16::MAX,
            segmentation: false,
            checksum: true,
        }
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        while !self.is_full() {
            let Some(frame) = batch.pop() else { break };
            self.take(frame);
        }
        let doorbell = (!more || self.is_full() || self.refused) && self.flush();
        Transmitted { doorbell, stopped: self.is_full() || self.refused }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        let owes_doorbell = std::mem::take(&mut self.owes_doorbell);
        if owes_doorbell {
            self.ring();
        }
        owes_doorbell
    }

    #[inline]
    fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        if self.refused {
            self.ring();
        }
        let mut room = budget.min(into.sent.room());
        while room > 0 {
            let next = self.slots.as_mut().map_or_else(|| self.left.pop(), Slots::next_sent);
            let Some(frame) = next else { break };
            if let Err(frame) = into.sent.push(frame) {
                unreachable!("there was room for {frame:?}");
            }
            room -= 1;
        }
        let count = self.failed.len().min(room);
        into.failed.extend(self.failed.drain(..count));
        self.health.take_error()
    }

    fn outstanding(&self) -> usize {
        self.held()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some(slots) = &self.slots {
            slots.visit(see);
        }
        self.left.iter().for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        if let Some(mut slots) = self.slots.take() {
            self.left.extend(std::iter::from_fn(|| slots.next_sent()));
            self.left.reverse();
            self.failed.extend(slots.into_held().map(|frame| (frame, "closed")));
        }
        Ok(())
    }
}
