//! NICs with their real descriptor bytes, over a modelled PCI Express link.
//!
//! A driver and a NIC are separate code that meets in memory: [`host_memory`] is that memory, addressed by bytes. The driver
//! half is a [`Device`] and writes descriptors; the hardware half reads what was
//! written, as bytes, and writes its completions back. Whatever crosses the bus is charged by its size.
//!
//! What all NICs have in common: [`fabric`] is the bus and what is under way on it, [`ring`] a queue that a driver
//! fills, [`send`] and [`receive`] are the halves of the hardware, generic over what descriptors look like, and
//! [`port`] puts them together. [`cx5`] is a ConnectX-5. [`queue_pair`] is a driver for rings whose descriptors name a buffer
//! each.

pub mod buffers;
pub mod cx5;
pub mod fabric;
pub mod host_memory;
pub mod machine;
pub mod port;
pub mod queue_pair;
pub mod receive;
pub mod ring;
pub mod send;
pub mod simple;
mod test_bed;

use wharf_core::device::{DeviceError, RxDevice, TxDevice};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame};

/// A driver that posts buffers to receive into.
pub trait NicDriver: TxDevice + RxDevice {
    /// Posts buffers from `cache` while there are places for them. [`RxDevice::receive`] does so by itself; this is for
    /// the start.
    fn post(&mut self, cache: &mut Cache);

    /// Takes back all buffers that are posted: the queue is torn down.
    fn unpost(&mut self, cache: &mut Cache);
}

/// Receives into `to` what `take` gives, `budget` frames at most; how many. After an error there may be some in `to`.
fn fill(
    to: &mut Batch, budget: usize, mut take: impl FnMut() -> Result<Option<Frame>, DeviceError>,
) -> Result<usize, DeviceError> {
    let mut count = 0;
    while count < budget && to.room() > 0 {
        let Some(frame) = take()? else { break };
        let pushed = to.push(frame);
        debug_assert!(pushed.is_ok(), "there was room");
        count += 1;
    }
    Ok(count)
}
