//! `AdapterLink`: the state of the adapter and its link as far as it has been noticed, and the error to be reported.

use super::bus::Bus;
use super::registers::{STATUS, STATUS_LU};
use crate::vfio::Bar;
use wharf_core::device::{DeviceError, LOST};
use wharf_devices::iface::{LookTimer, State, StuckTimer, take_error};
use wharf_sys::errno::{EIO, ENETDOWN, ENODEV};

/// Time that the adapter may report nothing while it has frames to send: the kernel's drivers give it as long
/// (`e1000_clean_tx_irq` looks once a second, and for two). They also reset an adapter without carrier that has frames.
const HANGS_AFTER_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub(super) struct AdapterLink {
    device: String,
    state: State,
    /// The cause, and the number of the error that is nearest to it.
    why: (&'static str, i32),
    error: Option<DeviceError>,
    look: LookTimer,
    stuck: StuckTimer,
    /// Reason by which frames fail that the adapter still has when the device is closed.
    unsent: &'static str,
}

impl AdapterLink {
    pub(super) fn new(device: String) -> Self {
        let (look, stuck) = (LookTimer::new(LookTimer::EVERY), StuckTimer::default());
        Self { device, state: State::Up, why: ("", 0), error: None, look, stuck, unsent: LOST }
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

    /// Makes the next call a look, unless the last one was a moment ago.
    pub(super) fn look_soon(&mut self) {
        self.look.restart(1);
    }

    /// Ends the use of the adapter.
    #[cold]
    pub(super) fn end(&mut self, why: &'static str) {
        self.change(State::Gone, (why, EIO));
    }

    /// Returns the reason by which frames fail that the adapter still has when the device is closed.
    pub(super) fn unsent(&self) -> &'static str {
        self.unsent
    }

    /// Looks at the adapter, which holds `held` frames to be sent and has done `done` descriptors.
    #[cold]
    pub(super) fn look(&mut self, bus: &impl Bus, held: usize, done: u32) {
        let status = bus.read(STATUS);
        if status == Bar::NOTHING {
            return self.change(State::Gone, ("the adapter does not answer any more", ENODEV));
        }
        if bus.is_requested() {
            return self.change(State::Gone, ("the adapter is to be removed", ENODEV));
        }
        if status & STATUS_LU == 0 {
            self.change(State::Down, ("no carrier: its other end is down or not plugged in", ENETDOWN));
            // The adapter sends nothing, and keeps what it has: only a reset takes that back.
            if self.is_stuck(bus.now_ns(), held, done) {
                self.unsent = "link-down";
                let why = "no carrier for 2 s, and frames in the adapter: it is to be reset";
                self.change(State::Gone, (why, ENETDOWN));
            }
            return;
        }
        self.change(State::Up, ("", 0));
        if self.is_stuck(bus.now_ns(), held, done) {
            self.change(State::Gone, ("the adapter hangs: it has sent nothing for 2 s", EIO));
        }
    }

    /// True if the adapter has had frames for too long, in the same state of the link, and has sent none.
    fn is_stuck(&mut self, now_ns: u64, held: usize, done: u32) -> bool {
        if held == 0 {
            self.stuck.clear();
        }
        held > 0 && self.stuck.is_stuck_at(now_ns, done.into(), HANGS_AFTER_NS)
    }

    fn change(&mut self, state: State, why: (&'static str, i32)) {
        if self.state == state || self.state == State::Gone {
            return;
        }
        self.stuck.clear();
        (self.state, self.why) = (state, why);
        self.error = self.fault();
    }

    fn fault(&self) -> Option<DeviceError> {
        self.state.error(&self.device, self.why.0, self.why.1)
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
}
