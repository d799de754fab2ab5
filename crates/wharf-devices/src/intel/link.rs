//! `Line`: the state of the adapter and its link as far as it has been noticed, and the error to be reported.

use super::bus::Bus;
use super::registers::{STATUS, STATUS_LU};
use crate::iface::{LookTimer, StuckTimer, take_error};
use crate::link::{ENETDOWN, ENODEV, GONE, State};
use std::io;
use wharf_core::device::DeviceError;

/// Time that the adapter may report nothing while it has frames to send: the kernel's drivers give it as long (`e1000_clean_tx_irq`
/// looks once a second, and for two).
const HANGS_AFTER_NS: u64 = 2_000_000_000;
/// The word that the bus reads where no adapter answers.
const NOTHING: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Line {
    device: String,
    state: State,
    why: &'static str,
    error: Option<DeviceError>,
    look: LookTimer,
    stuck: StuckTimer,
}

impl Line {
    pub(super) fn new(device: String) -> Self {
        let (look, stuck) = (LookTimer::new(LookTimer::EVERY), StuckTimer::default());
        Self { device, state: State::Up, why: "", error: None, look, stuck }
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    #[inline(always)]
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Counts a call. Returns true if a look is due.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.look.is_due();
        if is_due {
            self.look.restart(LookTimer::EVERY);
        }
        is_due && self.look.is_late()
    }

    /// Makes the next call a look.
    pub(super) fn look_soon(&mut self) {
        self.look = LookTimer::new(1);
    }

    /// Looks at the adapter, which holds `held` frames to be sent and has done `done` descriptors.
    #[cold]
    pub(super) fn look(&mut self, bus: &impl Bus, held: usize, done: u32) {
        let status = bus.read(STATUS);
        if status == NOTHING {
            return self.change(State::Gone, "the adapter does not answer any more");
        }
        if bus.is_requested() {
            return self.change(State::Gone, "the adapter is to be removed");
        }
        if status & STATUS_LU == 0 {
            return self.change(State::Down, "no carrier: its other end is down or not plugged in");
        }
        self.change(State::Up, "");
        if held == 0 {
            self.stuck.clear();
        } else if self.stuck.is_stuck(done.into(), HANGS_AFTER_NS) {
            self.change(State::Gone, "the adapter hangs: it has sent nothing for 2 s");
        }
    }

    fn change(&mut self, state: State, why: &'static str) {
        if self.state == state || self.state == State::Gone {
            return;
        }
        (self.state, self.why) = (state, why);
        self.error = self.fault();
    }

    fn fault(&self) -> Option<DeviceError> {
        let (device, what) = (self.device.clone(), self.why.to_string());
        let error = io::Error::from_raw_os_error;
        match self.state {
            State::Up => None,
            State::Down => Some(DeviceError::Down { device, what, source: error(ENETDOWN) }),
            State::Gone => Some(DeviceError::Gone { device, what, source: error(ENODEV) }),
        }
    }

    /// Returns the error to be reported, once.
    #[inline]
    pub(super) fn take_error(&mut self) -> Result<(), DeviceError> {
        take_error(&mut self.error)
    }

    /// Returns the state as of the last look.
    pub(super) fn link(&self) -> Result<(), DeviceError> {
        self.fault().map_or(Ok(()), Err)
    }

    /// Returns the reason that no frame can be sent now.
    #[cold]
    pub(super) fn fault_of_sending(&self) -> Option<&'static str> {
        match self.state {
            State::Up => None,
            State::Down => Some("link-down"),
            State::Gone => Some(GONE),
        }
    }
}
