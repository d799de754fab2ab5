//! The doorbell, and what the kernel answers to it.

use super::PacketSender;
use super::slots::Slots;
use crate::host::{ExactClock, HostClock};
use crate::link::{EAGAIN, EINTR, ENETDOWN, ENOBUFS, ENODEV, ENOMEM, ENXIO, GONE, State};
use std::io;
use wharf_core::host::Clock;

/// Doorbells between two looks at the interface: without any error it may have lost its carrier, or changed its MTU.
pub(super) const LOOK_EVERY: u32 = 64;
/// Time between two looks, at most, while frames are sent.
const LOOK_NS: u64 = 20_000_000;
/// How long the kernel may have no room for the frame that is next: a queueing discipline that lets less than a frame
/// go in that time is none, and a frame that the other end of a veth drops for its MTU never goes.
const STUCK_NS: u64 = 5_000_000_000;
/// Times that a doorbell is rung again at once although the interface was said to be down, and is not.
const TRIES: u32 = 3;

impl PacketSender {
    /// Rings the doorbell, and sees to what the kernel says.
    #[inline]
    pub(super) fn ring(&mut self) {
        let Some(slots) = &mut self.slots else { return };
        match slots.doorbell() {
            Ok(took_all) => self.refused = !took_all,
            Err(error) => self.ring_again(error),
        }
        if self.refused && self.is_stuck() {
            self.withdraw("refused");
        } else if !self.refused {
            self.stuck = None;
        }
        self.look_due = self.look_due.saturating_sub(1);
        if self.look_due == 0 {
            self.look_again();
        }
    }

    /// The kernel has no room: whether that is for so long with nothing leaving that it will not change. Then that is
    /// reported, and the interface given up for now.
    #[cold]
    pub(super) fn is_stuck(&mut self) -> bool {
        let (left, now_ns) = (self.slots.as_ref().map_or(0, Slots::left), ExactClock.now_ns());
        let since_ns = match self.stuck {
            Some((then, since_ns)) if then == left => since_ns,
            _ => now_ns,
        };
        self.stuck = Some((left, since_ns));
        let is_stuck = now_ns.saturating_sub(since_ns) >= STUCK_NS;
        if is_stuck {
            self.stuck = None;
            self.health.lose(
                "the kernel has dropped the same frame for 5 s: is the MTU of the interface's other end too small?",
                io::Error::from_raw_os_error(ENOBUFS),
            );
        }
        is_stuck
    }

    /// Before a doorbell, where they are few.
    #[inline]
    pub(super) fn look_after_a_while(&mut self) {
        let now_ns = HostClock.now_ns();
        if now_ns >= self.look_at_ns {
            self.look_at_ns = now_ns + LOOK_NS;
            self.look_again();
        }
    }

    /// Looks whether the interface is still as it was: a link without carrier drops frames in silence.
    #[cold]
    pub(super) fn look_again(&mut self) {
        self.look_due = LOOK_EVERY;
        if let Some(slots) = &self.slots {
            self.health.look(slots.socket().fd());
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
                self.health.look(slots.socket().fd());
                self.withdraw_if_down();
                false
            }
            Some(ENETDOWN | ENXIO | ENODEV) => {
                self.health.look(slots.socket().fd());
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
            State::Gone => self.withdraw(GONE),
        }
        true
    }

    fn withdraw(&mut self, reason: &'static str) {
        let Some(slots) = &mut self.slots else { return };
        self.failed.extend(std::iter::from_fn(|| slots.withdraw_last()).map(|frame| (frame, reason)));
        (self.refused, self.owes_doorbell) = (false, false);
    }
}
