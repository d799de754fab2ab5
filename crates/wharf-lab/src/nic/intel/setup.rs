//! A machine with one of Intel's NICs in it.

use super::Layout;
use super::driver::{Driver, Queues, Rings, Spec};
use super::formats::{ReceiveDescriptors, SendDescriptors};
use crate::nic::ground::Ground;
use crate::nic::host::open;
use crate::nic::machine::{CoreCosts, Job, Machine, MachineFault};
use crate::nic::pair::Pair;
use crate::nic::port::{Arrivals, Port, PortCosts};

const FRAME_BYTES: u32 = 2048;
const SPARE_FRAMES: u32 = 512;

/// How many descriptors a family moves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Bytes of descriptors fetched at a time, to send and to receive.
    pub send_fetch_bytes: u32,
    /// See [`Family::send_fetch_bytes`].
    pub receive_fetch_bytes: u32,
    /// Descriptors written back at a time.
    pub send_write_back: usize,
    /// See [`Family::send_write_back`].
    pub receive_write_back: usize,
    /// Buffers posted with one write to the tail.
    pub post: usize,
}

/// 82599: fetches up to 40 descriptors (82599 data sheet, PTHRESH), writes back 8 sent (WTHRESH 8 of Linux `ixgbe`)
/// and each received; 16 buffers posted at a time (`IXGBE_RX_BUFFER_WRITE`). To be used with [`super::advanced`].
pub const IXGBE: Family = Family {
    name: "ixgbe",
    send_fetch_bytes: 640,
    receive_fetch_bytes: 512,
    send_write_back: 8,
    receive_write_back: 1,
    post: 16,
};

/// I350: PTHRESH 8 both ways, WTHRESH 16 sent (of which 8 go into one write here) and 4 received (Linux `igb.h`); 16
/// buffers posted at a time (`IGB_RX_BUFFER_WRITE`). To be used with [`super::advanced`].
pub const IGB: Family = Family {
    name: "igb",
    send_fetch_bytes: 128,
    receive_fetch_bytes: 128,
    send_write_back: 8,
    receive_write_back: 4,
    post: 16,
};

/// 8257x with legacy descriptors: a cache line of 4 fetched, each written back, 16 buffers posted at a time (Linux
/// `e1000.h`, `E1000_RX_BUFFER_WRITE`). To be used with [`super::legacy`].
pub const E1000: Family = Family {
    name: "e1000",
    send_fetch_bytes: 64,
    receive_fetch_bytes: 64,
    send_write_back: 1,
    receive_write_back: 1,
    post: 16,
};

/// What to build.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Which NIC.
    pub family: Family,
    /// Queue pairs, each with a processor.
    pub queues: usize,
    /// Descriptors of each ring; a power of two, 64 to 4096.
    pub descriptors: u32,
    /// The NIC writes its head to memory, in place of descriptors that were sent.
    pub head_write_back: bool,
    /// What the NIC takes its time over; the family's fetches are put in.
    pub port: PortCosts,
    /// What comes from the wire.
    pub arrivals: Arrivals,
    /// What the processors do with it.
    pub job: Job,
    /// And in what time.
    pub cores: CoreCosts,
}

/// The machine of an Intel NIC.
pub type IntelMachine<L> = Machine<Driver<L>, SendDescriptors<L>, ReceiveDescriptors<L>>;

/// Builds it.
///
/// # Errors
/// [`MachineFault`]: no memory, or rings of a size that cannot be.
pub fn build<L: Layout>(setup: Setup) -> Result<IntelMachine<L>, MachineFault> {
    let Setup { family, queues, descriptors, head_write_back, mut port, arrivals, job, cores } = setup;
    let frames = (2 * descriptors + SPARE_FRAMES) * queues as u32;
    let Ground { clock, pool, memory, buffers } = Ground::new(frames, FRAME_BYTES)?;
    let buffer_bytes = pool.region().data_bytes_max();
    let spec = Spec { descriptors, post: family.post, head_write_back };
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..queues {
        let rings = Rings::<L>::new(family.name, &spec, &mut open(&memory))?;
        let Queues { send: sends, receive: receives, report } = rings.queues();
        send.push((sends, SendDescriptors::new(sends, report, family.send_write_back)));
        receive.push((receives, ReceiveDescriptors::new(receives, buffer_bytes, family.receive_write_back)));
        drivers.push(Pair::new(family.name, number, rings, &memory, buffers, buffer_bytes));
    }
    port.send.fetch_bytes = family.send_fetch_bytes;
    port.receive.fetch_bytes = family.receive_fetch_bytes;
    let port = Port::new(&port, memory, buffers, send, receive, arrivals);
    Machine::new(port, drivers, pool, clock, job, cores)
}
