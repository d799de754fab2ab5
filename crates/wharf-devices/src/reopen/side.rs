//! `Side`: a device of one kind of sides, as a box that [`Reopened`](super::Reopened) stands for.

use std::time::Duration;
use wharf_core::device::{AnyDevice, Completions, Device, DeviceError, Duplex, RxDevice, TxDevice, TxInfo};
use wharf_mem::Batch;
use wharf_mem::batch::BATCH_FRAMES_MAX;

/// What a closed device gives back: frames that it was sending, and memory that it had posted for arrivals.
pub struct Returned {
    pub(super) tx: Completions,
    pub(super) posted: Batch,
    /// Its error.
    pub(super) error: Option<DeviceError>,
}

impl Returned {
    pub(super) fn new() -> Self {
        let (tx, posted) = (Completions::new(BATCH_FRAMES_MAX), Batch::new(BATCH_FRAMES_MAX));
        Self { tx, posted, error: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tx.is_empty() && self.posted.is_empty()
    }
}

/// `dyn TxDevice`, `dyn RxDevice` or `dyn Duplex`.
pub trait Side: Device {
    /// Takes an opened device, if it has these sides.
    fn of(device: AnyDevice) -> Option<Box<Self>>;

    /// Takes back what the closed device gives, as far as there is room.
    fn take_back(&mut self, into: &mut Returned);

    /// Returns the number of frames that it still has to complete.
    fn owes(&self) -> usize;

    /// Returns what its transmit side can do, if it has one.
    fn tx_info(&self) -> Option<TxInfo>;

    /// Tells its transmit side how long frames may wait, if it has one.
    fn be_patient(&mut self, _patience: Option<Duration>) {}

    /// Shows what its receive side has dropped, if it has one.
    fn count_drops(&mut self, _see: &mut dyn FnMut(&'static str, u64)) {}
}

fn reap(device: &mut (impl TxDevice + ?Sized), into: &mut Returned) {
    into.error = device.reap(BATCH_FRAMES_MAX, true, &mut into.tx).err();
}

impl Side for dyn TxDevice {
    fn of(device: AnyDevice) -> Option<Box<Self>> {
        device.into_tx().ok()
    }

    fn take_back(&mut self, into: &mut Returned) {
        reap(self, into);
    }

    fn owes(&self) -> usize {
        self.outstanding()
    }

    fn tx_info(&self) -> Option<TxInfo> {
        Some(self.info())
    }

    fn be_patient(&mut self, patience: Option<Duration>) {
        self.set_patience(patience);
    }
}

impl Side for dyn RxDevice {
    fn of(device: AnyDevice) -> Option<Box<Self>> {
        device.into_rx().ok()
    }

    fn take_back(&mut self, into: &mut Returned) {
        self.reclaim(&mut into.posted);
    }

    fn owes(&self) -> usize {
        0
    }

    fn tx_info(&self) -> Option<TxInfo> {
        None
    }

    fn count_drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.drops(see);
    }
}

impl Side for dyn Duplex {
    fn of(device: AnyDevice) -> Option<Box<Self>> {
        device.into_duplex().ok()
    }

    fn take_back(&mut self, into: &mut Returned) {
        reap(self, into);
        self.reclaim(&mut into.posted);
    }

    fn owes(&self) -> usize {
        self.outstanding()
    }

    fn tx_info(&self) -> Option<TxInfo> {
        Some(self.info())
    }

    fn be_patient(&mut self, patience: Option<Duration>) {
        self.set_patience(patience);
    }

    fn count_drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.drops(see);
    }
}
