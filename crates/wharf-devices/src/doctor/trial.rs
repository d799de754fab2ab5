//! `Trial`: a device opened, attached to a pool and closed again, as a path does it.

use super::Exam;
use crate::iface::pool_fault;
use crate::spec::{DeviceSpec, Direction, Opened};
use wharf_core::device::{AnyDevice, DeviceError, ModeReason, close_receiver};
use wharf_core::pool::PagePool;

/// The verdict on one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The device was opened and closed again.
    Opened {
        /// The mode, as a device tells it: see [`Device::mode`](wharf_core::device::Device::mode).
        mode: Option<String>,
        /// The cause that the mode is no better one.
        reason: Option<ModeReason>,
        /// Frames of its transmit ring, if it sends by one.
        ring_frames: Option<u32>,
        /// True if it reports when frames have left, so that there is a byte queue limit.
        has_byte_limit: Option<bool>,
    },
    /// Opening it failed.
    Refused {
        /// The error.
        why: String,
    },
    /// It was not opened.
    Untried {
        /// The reason.
        why: String,
    },
}

/// Opens the device in `direction`, unless that would do more than disturb others for a moment.
pub(super) fn run(spec: &DeviceSpec, direction: Direction, exam: &Exam) -> Trial {
    let untried = exam.untried(spec, direction).map(|why| Trial::Untried { why });
    let refused = |error: DeviceError| Trial::Refused { why: error.to_string() };
    match spec.check(direction) {
        Err(error) if exam.opens => refused(error),
        _ => untried.unwrap_or_else(|| open(spec, direction, exam).unwrap_or_else(refused)),
    }
}

fn open(spec: &DeviceSpec, direction: Direction, exam: &Exam) -> Result<Trial, DeviceError> {
    let pool = exam.pool.clone().build().map_err(|error| pool_fault(spec.name(), error))?;
    let mut opened = spec.open(direction)?;
    let attached = opened.iter_mut().try_for_each(|one| attach(one, &pool));
    let trial = opened.first().map(|one| seen(one, direction));
    let closed = opened.iter_mut().try_for_each(|one| close(one, &pool));
    attached.and(closed)?;
    trial.ok_or_else(|| spec.unsupported("it has no queue"))
}

fn attach(opened: &mut Opened, pool: &PagePool) -> Result<(), DeviceError> {
    opened.device.attach(pool.region().clone())?;
    opened.receiving.as_mut().map_or(Ok(()), |receiving| receiving.attach(pool.region().clone()))
}

/// Returns the verdict on a device that is attached. One opened to receive may be able to send, too, which is not of interest.
fn seen(opened: &Opened, direction: Direction) -> Trial {
    let device = &opened.device;
    let info = device.as_tx().filter(|_| direction != Direction::Receive).map(|tx| tx.info());
    let receiving = || opened.receiving.as_ref().and_then(|receiving| receiving.mode());
    Trial::Opened {
        mode: device.mode().or_else(receiving).map(str::to_string),
        reason: device.mode_reason(),
        ring_frames: info.as_ref().and_then(|info| info.ring_frames),
        has_byte_limit: info.map(|info| info.has_real_completions()),
    }
}

/// Closes a device, and takes back the memory that it posted for arrivals.
fn close(opened: &mut Opened, pool: &PagePool) -> Result<(), DeviceError> {
    let mut cache = pool.cache("doctor").map_err(|error| pool_fault(opened.device.name(), error))?;
    if let Some(receiving) = &mut opened.receiving {
        close_receiver(&mut **receiving, &mut cache)?;
    }
    match &mut opened.device {
        AnyDevice::Tx(device) => device.close(),
        AnyDevice::Rx(device) => close_receiver(&mut **device, &mut cache),
        AnyDevice::Duplex(device) => close_receiver(&mut **device, &mut cache),
    }
}
