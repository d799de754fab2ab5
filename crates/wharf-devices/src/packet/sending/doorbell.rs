//! The doorbell, and the kernel's answers to it.

use super::PacketSender;
use super::slots::Slots;
use crate::iface::LookTimer;
use std::io;
use wharf_sys::errno::{EAGAIN, EINTR, ENETDOWN, ENOBUFS, ENODEV, ENOMEM, ENXIO};

/// Time that the kernel may have no room for the first frame. A queueing discipline that lets less than a
/// frame go in that time is broken, and a frame that the other end of a veth drops for its MTU never goes.
const STUCK_NS: u64 = 5_000_000_000;
/// Doorbells rung again at once after an error that said the interface was down although it is up.
const TRIES: u32 = 3;

impl PacketSender {
    /// Rings the doorbell, and handles the kernel's answer.
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
            self.stuck.clear();
        }
        if self.look.is_due() {
            self.look_again();
        }
    }

    /// Handles lack of room: if nothing has left for too long, that is reported, and the interface given up
    /// for now. Returns true then.
    #[cold]
    pub(super) fn is_stuck(&mut self) -> bool {
        let left = self.slots.as_ref().map_or(0, Slots::left);
        let is_stuck = self.stuck.is_stuck(left, STUCK_NS);
        if is_stuck {
            self.stuck.clear();
            self.health.lose(
                "the kernel has dropped the same frame for 5 s: is the MTU of the interface's other end too small?",
                io::Error::from_raw_os_error(ENOBUFS),
            );
        }
        is_stuck
    }

    /// Looks at the interface before a doorbell, if doorbells are rare.
    #[inline]
    pub(super) fn look_after_a_while(&mut self) {
        if self.look.is_late() {
            self.look_again();
        }
    }

    /// Looks at the interface: a link without carrier drops frames silently.
    #[cold]
    pub(super) fn look_again(&mut self) {
        self.look.restart(LookTimer::EVERY);
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

    /// Handles an error of the doorbell. Returns true if it should be rung again at once.
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
                // A stale error of an interface that is up again is reported once, at the first doorbell.
                !self.withdraw_if_down()
            }
            _ => {
                self.health.note("the kernel refuses a frame", error);
                match slots.take_refused() {
                    Some(frame) => {
                        self.book.fail([frame], "refused");
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

    /// Fails the frames requested if the interface is not there. Returns true if it is not.
    fn withdraw_if_down(&mut self) -> bool {
        let reason = self.health.state().reason();
        reason.into_iter().for_each(|reason| self.withdraw(reason));
        reason.is_some()
    }

    fn withdraw(&mut self, reason: &'static str) {
        let Some(slots) = &mut self.slots else { return };
        self.book.fail(std::iter::from_fn(|| slots.withdraw_last()), reason);
        (self.refused, self.owes_doorbell) = (false, false);
    }
}
