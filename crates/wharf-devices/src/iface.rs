//! Book-keeping that devices share: frames done with, drops, and times to look at the kernel.

mod drops;
mod timers;
mod tx_book;

pub use drops::Drops;
pub(crate) use drops::KernelDrops;
pub(crate) use timers::{LookTimer, StuckTimer};
pub(crate) use tx_book::TxBook;

use wharf_core::device::DeviceError;
use wharf_core::pool::PoolError;

/// Makes an error of `device` from an error of the pool that it receives into.
#[cold]
pub(crate) fn pool_fault(device: impl Into<String>, error: PoolError) -> DeviceError {
    let device = device.into();
    match error {
        PoolError::Memory(source) => DeviceError::Memory { device, source },
        error => DeviceError::Unsupported { device, what: error.to_string() },
    }
}
