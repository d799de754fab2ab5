//! What devices share, those of other crates among them: the book of frames done with, drops, steps of
//! receiving, times to check the kernel or an adapter, the state of a line, and errors.

mod drops;
mod line;
mod timers;
mod tx_book;

pub use drops::Drops;
pub(crate) use drops::KernelDrops;
pub(crate) use line::ETHERTYPE_AT;
pub use line::{ETHERNET_BYTES, GONE, State, VLAN_BYTES, is_tagged};
pub use timers::{LookTimer, StuckTimer};
pub use tx_book::TxBook;

use std::io;
use wharf_core::device::DeviceError;
use wharf_core::pool::PoolError;
use wharf_core::sg_writer::Placement;

/// Outcome for the packet at hand of a device that receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Received,
    Dropped,
    /// The packet waits for memory.
    Waits,
    /// There is no packet.
    Empty,
}

impl Step {
    /// Returns the outcome for a packet that was copied into memory, and counts it if it is dropped.
    #[inline]
    pub(crate) fn placed(
        placed: Result<Placement, PoolError>, device: &str, drops: &mut Drops,
    ) -> Result<Self, DeviceError> {
        match placed {
            Ok(Placement::Done) => Ok(Self::Received),
            Ok(Placement::NoMemory) => Ok(Self::Waits),
            Ok(Placement::TooLong) => Ok(Self::dropped("too-long", drops)),
            Err(error) => Err(pool_fault(device, error)),
        }
    }

    /// Counts a packet that is dropped for `reason`.
    #[cold]
    pub(crate) fn dropped(reason: &'static str, drops: &mut Drops) -> Self {
        drops.add(reason);
        Self::Dropped
    }
}

/// Makes an error of `device` from a system call's; `what` says what failed.
pub fn io_fault(device: &str, what: &str) -> impl Fn(io::Error) -> DeviceError + Clone + use<> {
    let (device, what) = (device.to_string(), what.to_string());
    move |source| DeviceError::Io { device: device.clone(), what: what.clone(), source }
}

/// Returns the error to be reported, once.
#[inline]
pub fn take_error(error: &mut Option<DeviceError>) -> Result<(), DeviceError> {
    if error.is_none() { Ok(()) } else { error.take().map_or(Ok(()), Err) }
}

/// Makes an error of `device` from an error of the pool that it receives into.
#[cold]
pub fn pool_fault(device: impl Into<String>, error: PoolError) -> DeviceError {
    let device = device.into();
    match error {
        PoolError::Memory(source) => DeviceError::Memory { device, source },
        error => DeviceError::Unsupported { device, what: error.to_string() },
    }
}
