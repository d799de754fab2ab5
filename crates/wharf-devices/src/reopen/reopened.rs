//! `Reopened`: a device that is replaced by a new one of the same specification.

mod receiving;

use super::counts::Counts;
use super::side::{Returned, Side};
use super::{OnGone, Reopener};
use crate::iface::TxBook;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{
    Completions, Device, DeviceError, LOST, ModeReason, Notify, Signals, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::stable_fd::StableFd;

/// Time between two looks for the new device, ns: a poller is called when it is there.
const LOOK_NS: u64 = 20_000_000;

/// A device that is closed when it has gone, and replaced once the [`Reopener`] has opened it again.
pub struct Reopened<D: ?Sized + Side> {
    /// `None` from the end of one to the beginning of the next.
    inner: Option<Box<D>>,
    /// Closed devices that have not given back all frames.
    closed: Vec<Box<D>>,
    reopener: Arc<Reopener>,
    /// Number of this side.
    at: usize,
    /// Value of [`Reopener::asked`] that the device is newer than.
    seen: u64,
    name: String,
    mode: Option<&'static str>,
    mode_reason: Option<ModeReason>,
    tx_info: TxInfo,
    /// Stands for the device's descriptor, or for the reopener's while there is no device.
    wait_fd: Option<StableFd>,
    /// It does so. The kernel refuses that while the process's limit of descriptors is below the number of `wait_fd`.
    is_pointed: bool,
    /// A new device that `wait_fd` does not stand for yet, with the value of `seen` that it brings.
    next: Option<(u64, Box<D>)>,
    is_armed: bool,
    patience: Option<Duration>,
    /// Frames to be reaped.
    done: TxBook,
    /// Memory that was posted for arrivals.
    posted: Vec<Frame>,
    /// Counts of the devices before.
    before: Counts,
    /// Their account of frames that were lost behind them, for the next reap.
    undelivered: Option<DeviceError>,
    is_ended: bool,
}

impl<D: ?Sized + Side> Reopened<D> {
    pub(super) fn new(inner: Box<D>, reopener: Arc<Reopener>, at: usize) -> Self {
        Self {
            name: inner.name(),
            mode: inner.mode(),
            mode_reason: inner.mode_reason(),
            tx_info: inner.tx_info().unwrap_or_default(),
            inner: Some(inner),
            closed: Vec::new(),
            seen: reopener.asked(),
            reopener,
            at,
            wait_fd: None,
            is_pointed: true,
            next: None,
            is_armed: false,
            patience: None,
            done: TxBook::new(0),
            posted: Vec::new(),
            before: Counts::default(),
            undelivered: None,
            is_ended: false,
        }
    }

    /// Returns the device, if there is one: closes it if that was asked for, and takes the new one if it is there.
    #[inline(always)]
    fn device(&mut self) -> Option<&mut D> {
        if self.inner.is_none() || self.reopener.asked() != self.seen {
            self.settle();
        }
        self.inner.as_deref_mut()
    }

    #[cold]
    fn settle(&mut self) {
        if self.is_ended {
            return;
        }
        self.retire();
        self.take_back();
        if !self.is_pointed {
            self.point_to_reopener();
        }
        // The byte limit begins anew once all frames of the device before are back.
        if self.done.is_empty() && self.closed.iter().all(|device| device.owes() == 0) {
            let taken = self.reopener.take(self.at);
            let taken = taken.and_then(|(newer_than, device)| Some((newer_than, D::of(device)?)));
            if let Some((newer_than, device)) = taken.or_else(|| self.next.take()) {
                self.install(newer_than, device);
            }
        }
    }

    /// Lets go of the device's file, which would keep its queue taken.
    fn point_to_reopener(&mut self) {
        let ready = self.reopener.ready.as_fd().as_raw_fd();
        self.is_pointed = self.wait_fd.as_ref().is_none_or(|fd| fd.point_to(ready).is_ok());
    }

    /// Closes the device, if there is one. Its frames are lost.
    fn retire(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        self.seen = self.reopener.asked();
        if let Some(info) = inner.tx_info() {
            self.tx_info = info;
        }
        self.before.signals = self.before.signals_with(inner.signals());
        inner.count_drops(&mut |reason, count| self.before.drops.add_count(reason, count));
        // What it has done with by now keeps its reasons.
        self.drain(&mut inner, |reason| reason);
        // The file is let go of before the device is closed.
        self.point_to_reopener();
        // A reset has no time to hear of frames that are on their way.
        inner.be_patient(Some(Duration::ZERO));
        let _ = self.keep(inner.close());
        self.closed.push(inner);
        self.take_back();
        self.reopener.retired(self.at);
    }

    /// Takes back frames of closed devices.
    fn take_back(&mut self) {
        for mut device in std::mem::take(&mut self.closed) {
            self.drain(&mut device, |_| LOST);
            if device.owes() > 0 {
                self.closed.push(device);
            }
        }
    }

    /// Takes all that `device` gives back. `name` names the reason of frames that have failed.
    fn drain(&mut self, device: &mut Box<D>, name: impl Fn(&'static str) -> &'static str) {
        loop {
            let mut returned = Returned::new();
            device.take_back(&mut returned);
            let _ = self.keep(returned.error.take().map_or(Ok(()), Err));
            if returned.is_empty() {
                return;
            }
            returned.tx.sent.pop_each().for_each(|frame| self.done.sent(frame));
            let failed = returned.tx.failed.drain(..);
            failed.for_each(|(frame, reason)| self.done.fail([frame], name(reason)));
            self.posted.extend(returned.posted.pop_each());
        }
    }

    /// Begins with `device`, which is newer than `newer_than` times that the sides were asked to close theirs.
    fn install(&mut self, newer_than: u64, mut device: Box<D>) {
        if let (Some(stable), Some(fd)) = (&self.wait_fd, device.wait_fd())
            && stable.point_to(fd).is_err()
        {
            // A poller would sleep through what the device tells.
            self.next = Some((newer_than, device));
            return;
        }
        if self.is_armed {
            // The poll in which this happens finds what came before.
            let _ = device.arm();
        }
        device.be_patient(self.patience);
        (self.seen, self.inner) = (newer_than, Some(device));
    }

    /// Keeps the error of a device that is closed if it counts frames, with those that are kept. A false
    /// completion, which is returned, concerns no frame then.
    fn keep(&mut self, closed: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let Err(mut error @ DeviceError::Undelivered { .. }) = closed else { return closed };
        if let DeviceError::Undelivered { counts, .. } = &mut error
            && let Some(DeviceError::Undelivered { counts: before, .. }) = self.undelivered.take()
        {
            counts.extend(before);
        }
        self.undelivered = Some(error);
        Ok(())
    }

    /// True if the device is to be replaced after this error.
    fn replaces(&self, error: &DeviceError) -> bool {
        matches!(error, DeviceError::Gone { .. }) && self.reopener.on_gone != OnGone::Fail
    }

    /// Handles an error of the device: that it has gone is told as news, and no error.
    #[cold]
    fn failed(&mut self, error: DeviceError) -> Result<(), DeviceError> {
        if !self.replaces(&error) {
            return Err(error);
        }
        self.reopener.gone(&error);
        self.retire();
        Ok(())
    }
}

impl<D: ?Sized + Side> Drop for Reopened<D> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.reopener.closed(self.at);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: ?Sized + Side> Notify for Reopened<D> {
    fn arm(&mut self) -> bool {
        self.is_armed = true;
        self.device().is_none_or(|device| device.arm())
    }

    fn disarm(&mut self) {
        self.is_armed = false;
        self.device().into_iter().for_each(|device| device.disarm());
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.wait_fd.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn signals(&mut self) -> Option<Signals> {
        self.before.signals_with(self.inner.as_mut().and_then(|inner| inner.signals()))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: ?Sized + Side> Device for Reopened<D> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        self.inner.as_ref().map_or(self.mode, |inner| inner.mode())
    }

    fn mode_reason(&self) -> Option<ModeReason> {
        self.inner.as_ref().map_or_else(|| self.mode_reason.clone(), |inner| inner.mode_reason())
    }

    fn facts(&self, see: &mut dyn FnMut(&'static str, Option<u32>, u64)) {
        self.inner.iter().for_each(|inner| inner.facts(&mut *see));
    }

    fn set_line(&mut self, is_up: bool) -> bool {
        self.device().is_some_and(|device| device.set_line(is_up))
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        // The next device is attached as it is opened.
        self.reopener.attach(self.at, &region);
        self.device();
        let Some(inner) = &mut self.inner else { return Ok(()) };
        inner.attach(region)?;
        (self.mode, self.mode_reason) = (inner.mode(), inner.mode_reason());
        let stable = inner.wait_fd().map(StableFd::of).transpose();
        self.wait_fd = stable.map_err(crate::iface::io_fault(&self.name, "no descriptor to wait for it"))?;
        Ok(())
    }

    /// Tells nothing while there is no device: observers hear of its end and of the next one.
    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        match self.device()?.link() {
            Some(Err(error)) if self.replaces(&error) => self.failed(error).ok().and(None),
            link => link,
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.inner.iter().chain(&self.closed).for_each(|device| device.visit(see));
        self.done.visit(see);
        self.posted.iter().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.reopener.closed(self.at);
        }
        self.next = None;
        // The descriptor that pollers keep would keep the device's file open.
        self.point_to_reopener();
        let closed = self.inner.as_mut().map_or(Ok(()), |inner| inner.close());
        let closed = self.keep(closed);
        self.undelivered.take().map_or(closed, Err)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: ?Sized + Side + TxDevice> TxDevice for Reopened<D> {
    fn info(&self) -> TxInfo {
        self.inner.as_ref().map_or(self.tx_info, |inner| inner.info())
    }

    /// Asks for the device alone: a reap follows, which also finds that the device is to be closed.
    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        match &mut self.inner {
            Some(inner) => inner.transmit(batch, more),
            None => self.transmit_by_next(batch, more),
        }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        self.inner.as_mut().is_some_and(|inner| inner.flush())
    }

    #[inline]
    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        if self.reopener.asked() == self.seen
            && self.undelivered.is_none()
            && let Some(inner) = &mut self.inner
        {
            let result = inner.reap(budget, urgent, into);
            return if result.is_ok() { result } else { result.or_else(|error| self.failed(error)) };
        }
        self.reap_closed(budget, urgent, into)
    }

    fn outstanding(&self) -> usize {
        let devices = self.inner.iter().chain(&self.closed).map(|device| device.outstanding());
        devices.sum::<usize>() + self.done.len()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        match &self.inner {
            Some(inner) => inner.next_completion_ns(),
            // Frames that are back are taken at once.
            None if !self.done.is_empty() => Some(0),
            None if self.is_ended => None,
            // The reopener calls the poller when the new device is there.
            None if self.is_pointed && self.closed.is_empty() && self.next.is_none() => Some(u64::MAX),
            None => Some(LOOK_NS),
        }
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
        self.device().into_iter().for_each(|device| device.set_patience(patience));
    }
}

impl<D: ?Sized + Side + TxDevice> Reopened<D> {
    /// Transmits by the next device, if it is there.
    #[cold]
    fn transmit_by_next(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        match self.device() {
            Some(device) => device.transmit(batch, more),
            None => Transmitted { doorbell: false, stopped: true },
        }
    }

    /// Closes the device if that was asked for, and gives back frames of the devices before.
    #[cold]
    fn reap_closed(
        &mut self, budget: usize, urgent: bool, into: &mut Completions,
    ) -> Result<(), DeviceError> {
        self.settle();
        let reaped = match &mut self.inner {
            Some(inner) => inner.reap(budget, urgent, into),
            None => Ok(()),
        };
        // A device that has gone just now gives its frames back, too.
        let result = reaped.or_else(|error| self.failed(error));
        if self.inner.is_none() {
            self.take_back();
            self.done.reap(budget.saturating_sub(into.len()), into);
        }
        result.and_then(|()| self.undelivered.take().map_or(Ok(()), Err))
    }
}
