//! NICs with their real descriptor bytes, over a modelled PCI Express link.
//!
//! A driver and a NIC are separate code that meets in memory, which [`host_memory`] models byte by byte. The
//! driver half is a device and writes descriptors. The hardware half reads those bytes and writes its
//! completions back. Everything that crosses the bus is charged by its size.
//!
//! [`fabric`] is the bus with its transfers in flight, and [`ring`] a queue that a driver fills. [`send`] and
//! [`receive`] are the halves of the hardware, generic over the layout of descriptors. [`port`] joins them.
//! [`cx5`] is a ConnectX-5.
//! [`simple`] is a transmit-only NIC without a bus.

pub mod buffers;
pub mod cx5;
pub mod fabric;
pub mod host_memory;
pub mod machine;
pub mod port;
pub mod receive;
pub mod ring;
pub mod send;
pub mod simple;

use wharf_core::device::{DeviceError, RxDevice, TxDevice};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame};

/// A driver that posts receive buffers.
pub trait NicDriver: TxDevice + RxDevice {
    /// Posts buffers from `cache` while there are free descriptors. [`RxDevice::receive`] does so by itself;
    /// this is for the start.
    fn post(&mut self, cache: &mut Cache);

    /// Takes back all posted buffers: the queue is torn down.
    fn unpost(&mut self, cache: &mut Cache);
}

/// Receives up to `budget` frames from `take` into `to`. Returns their number. After an error `to` may hold
/// some.
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
