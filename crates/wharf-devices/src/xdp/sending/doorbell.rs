//! The doorbell, and the kernel's answers to it.

use super::super::table::TxStatus;
use super::tx::{Kernel, Sending};
use crate::iface::{GONE, LookTimer, State};
use std::io;
use wharf_core::device::DeviceError;
use wharf_sys::errno::{EAGAIN, EBUSY, EINTR, ENETDOWN, ENOBUFS, ENODEV, ENOMEM, ENXIO};

impl<K: Kernel> Sending<K> {
    /// Rings the doorbell, and handles the kernel's answer.
    #[inline]
    pub(super) fn ring(&mut self) {
        let Some((kernel, rings)) = &mut self.open else { return };
        match kernel.kick() {
            Ok(()) => {
                rings.look();
                if rings.waiting() > 0 {
                    kernel.wake();
                }
                self.refused = kernel.takes_at_once() && rings.waiting() > 0;
            }
            Err(error) => self.ring_again(&error),
        }
        if self.look.is_due() || self.health.state() != State::Up {
            self.look_again();
        }
    }

    /// Looks at the interface now: see [`Device::link`](wharf_core::device::Device::link).
    pub(in super::super) fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.look_again();
        self.health.link()
    }

    #[cold]
    fn look_again(&mut self) {
        self.look.restart(LookTimer::EVERY);
        if let Some((kernel, _)) = &self.open {
            kernel.look(&mut self.health);
        }
        if self.health.state() == State::Gone {
            self.let_go(GONE);
        }
    }

    /// Handles an error: rings again as long as that helps, once for every descriptor at most.
    #[cold]
    fn ring_again(&mut self, error: &io::Error) {
        let mut tries = self.open.as_ref().map_or(0, |(_, rings)| rings.waiting()).saturating_add(1);
        let mut is_answered = self.answer(error);
        while is_answered && tries > 0 {
            let Some((kernel, rings)) = &mut self.open else { return };
            is_answered = match kernel.kick() {
                Ok(()) => {
                    rings.look();
                    false
                }
                Err(error) => self.answer(&error),
            };
            tries -= 1;
        }
        self.refused =
            self.open.as_ref().is_some_and(|(kernel, rings)| kernel.takes_at_once() && rings.waiting() > 0);
    }

    /// Handles an error of the doorbell. Returns true if it should be rung again at once.
    fn answer(&mut self, error: &io::Error) -> bool {
        let Some((_, rings)) = &mut self.open else { return false };
        match error.raw_os_error() {
            Some(EINTR) => {
                rings.look();
                true
            }
            // The kernel took as many as it does in one call, or none, since it has no room.
            Some(EAGAIN | ENOBUFS | ENOMEM) => {
                let goes_on = rings.look();
                if !goes_on {
                    self.look_again();
                }
                goes_on
            }
            Some(EBUSY) => {
                self.look_again();
                self.note_drop();
                true
            }
            Some(ENETDOWN | ENXIO | ENODEV) => {
                self.look_again();
                if error.raw_os_error() != Some(ENETDOWN) && self.health.state() != State::Gone {
                    let source = io::Error::from_raw_os_error(ENXIO);
                    self.health.change(State::Gone, "the kernel has let go of its queue", source);
                    self.let_go(GONE);
                }
                false
            }
            code => {
                let source =
                    code.map_or_else(|| io::Error::other("no error number"), io::Error::from_raw_os_error);
                self.health.note("the kernel refuses to send", source);
                false
            }
        }
    }

    /// Notes that the interface has dropped a frame, which then comes back as if it had been sent.
    fn note_drop(&mut self) {
        let status = match self.health.state() {
            State::Up => TxStatus::Refused,
            State::Down => TxStatus::LinkDown,
            State::Gone => TxStatus::Gone,
        };
        if let Some((_, rings)) = &mut self.open {
            rings.dropped(status);
        }
        if status == TxStatus::Refused && !std::mem::replace(&mut self.told_of_drops, true) {
            let what = "the interface drops frames: the MTU of its other end is too small, or it is overrun";
            self.health.note(what, io::Error::from_raw_os_error(EBUSY));
        }
    }
}
