//! The thread that opens the device again.

use super::backoff::{ABSENT_PAUSE, ABSENT_SOON, PAUSE};
use super::{Change, OnGone, Reopener, is_absent, is_missing};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::host::outlive;
use wharf_mem::{Region, lock};

/// Time in which all sides are to have closed their device. The attempts begin without a side that nothing polls.
const CLOSING_MAX: Duration = Duration::from_secs(1);

impl Reopener {
    /// Opens the device again each time that it has gone or is reset. The thread's work, until all sides are closed.
    pub(super) fn serve(&self) {
        while self.wait_for_loss() {
            self.ready.clear();
            let mut is_first = true;
            while let Some(slots) = self.wait_for_turn(std::mem::take(&mut is_first)) {
                let (is_open, is_over) = self.attempt(slots);
                self.lock().is_opening = false;
                self.changed.notify_all();
                if is_over {
                    return;
                }
                if is_open {
                    break;
                }
            }
        }
        self.ready.clear(); // descriptors of closed sides stand for it
    }

    /// Opens the device, with the memory of each side, and hands it out. Returns true if it is open, and true if
    /// it is never to be opened again.
    fn attempt(&self, slots: Vec<Option<Arc<Region>>>) -> (bool, bool) {
        let attached = slots.iter().flatten().count();
        // A kind of the user's may panic.
        let opened =
            outlive(|| self.open(slots)).unwrap_or_else(|| Err(self.spec.unsupported("it panicked")));
        let mut state = self.lock();
        state.is_told &= opened.is_ok();
        let is_soon = state.since.is_some_and(|since| since.elapsed() < ABSENT_SOON);
        let is_often = is_soon && opened.as_ref().is_err_and(is_absent);
        state.pause = if is_often { ABSENT_PAUSE } else { PAUSE };
        drop(state);
        match opened {
            Ok(devices) => return (self.hand_out(devices, attached), false),
            Err(_) if self.lock().is_closed => {}
            // What a reset finds missing has gone.
            Err(error) if !self.is_automatic() && is_missing(&error) => {
                self.report(&Change::Gone(&error));
                return (false, self.on_gone == OnGone::Fail);
            }
            Err(error) => self.report(&Change::NotYet(&error)),
        }
        (false, false)
    }

    /// Waits until the device is to be opened again. Returns false once all sides are closed.
    fn wait_for_loss(&self) -> bool {
        let mut state = self.lock();
        while !state.is_closed && !(state.since.is_some() && (self.is_automatic() || state.is_reset)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_closed
    }

    /// Waits until the next attempt is due, as [`Backoff`] says or a reset asks, and not before the sides
    /// have closed their device. Returns the memory of each side; `None` if all are closed.
    fn wait_for_turn(&self, is_first: bool) -> Option<Vec<Option<Arc<Region>>>> {
        let mut state = self.lock();
        let began = state.since.filter(|_| is_first).unwrap_or_else(Instant::now);
        let closing_max = state.since.map_or(began, |since| since + CLOSING_MAX);
        let is_asked = state.is_reset;
        let pause = if is_first { state.backoff.lost(began, is_asked) } else { state.pause };
        while !state.is_closed {
            let now = Instant::now();
            let earliest = began + if state.is_reset { pause.min(PAUSE) } else { pause };
            let until = if state.is_retired() { earliest } else { closing_max.max(earliest) };
            if now >= until {
                // A reset from here on concerns the device that is opened now.
                (state.is_reset, state.is_opening) = (false, true);
                return Some(state.slots.iter().map(|slot| slot.region.clone()).collect());
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Opens the device, and attaches each side to its memory.
    fn open(&self, slots: Vec<Option<Arc<Region>>>) -> Result<Vec<AnyDevice>, DeviceError> {
        let opened = self.spec.open(self.opening)?;
        let sides = opened.into_iter().flat_map(|opened| {
            [Some(opened.device), opened.receiving.map(AnyDevice::from)].into_iter().flatten()
        });
        let mut devices: Vec<AnyDevice> = sides.collect();
        if devices.len() != slots.len() {
            return Err(self.spec.unsupported("it came back with another number of queues"));
        }
        for (device, region) in devices.iter_mut().zip(slots) {
            if self.lock().is_closed {
                return Err(self.spec.unsupported("it is closed"));
            }
            if let Some(region) = region {
                device.attach(region)?;
            }
        }
        Ok(devices)
    }

    /// Gives each side its device, `attached` of which are attached to memory. Returns false if all sides are closed,
    /// or more are attached by now, or a reset was asked for: another attempt is necessary.
    fn hand_out(&self, devices: Vec<AnyDevice>, attached: usize) -> bool {
        let after = self.away().unwrap_or_default();
        let reports = lock(&self.reports);
        let mut state = self.lock();
        if state.is_closed || state.is_reset || state.attached() != attached {
            return false;
        }
        let is_told = std::mem::replace(&mut state.is_told, true);
        drop(state);
        // Before a side can tell that its line is up, or that the new device has gone as well; once, if a
        // side has come meanwhile.
        if !is_told {
            self.tell(&Change::Reopened { after });
        }
        drop(reports);
        state = self.lock();
        if state.is_closed || state.attached() != attached {
            return false;
        }
        state.mode = devices.iter().find_map(|device| device.mode());
        let (generation, mut unused) = (self.asked(), Vec::new());
        for (slot, device) in state.slots.iter_mut().zip(devices) {
            if slot.is_gone {
                unused.push(device);
            } else {
                (slot.next, slot.is_retired) = (Some((generation, device)), false);
            }
        }
        (state.since, state.is_told) = (None, false);
        state.backoff.opened(Instant::now());
        // A reset that came with the news is one of the new device.
        let untaken = if std::mem::take(&mut state.is_reset) { state.ask(&self.asked) } else { Vec::new() };
        let is_reset = !untaken.is_empty();
        state.is_reset = is_reset;
        drop((state, unused, untaken));
        if is_reset {
            self.report(&Change::Reset);
        }
        self.ready.signal();
        self.notify();
        true
    }
}
