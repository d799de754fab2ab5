//! A machine with an InfiniBand adapter in it.

use super::driver::{Queues, Requests};
use super::formats::Queue;
use crate::nic::ground::Ground;
use crate::nic::host::open;
use crate::nic::machine::{CoreCosts, Job, Machine, MachineFault};
use crate::nic::pair::Pair;
use crate::nic::port::{Arrivals, Port, PortCosts};
use wharf_core::device::DeviceError;

/// `IPOIB_PACKET_SIZE` and the routing header fit.
const FRAME_BYTES: u32 = 4096;
const BUFFER_BYTES: u32 = 2048;
const SPARE_FRAMES: u32 = 512;

/// What to build: one queue pair, as IPoIB had one.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Requests of each queue; a power of two, 16 to 4096 (`IPOIB_TX_RING_SIZE` 64, `IPOIB_RX_RING_SIZE` 128).
    pub requests: u32,
    /// A completion with each request sent, not only with the last of a post.
    pub completion_each: bool,
    /// What the adapter takes its time over.
    pub port: PortCosts,
    /// What comes from the link.
    pub arrivals: Arrivals,
    /// What the processor does with it.
    pub job: Job,
    /// And in what time.
    pub cores: CoreCosts,
}

/// The machine of an InfiniBand adapter.
pub type IpoibMachine = Machine<Pair<Requests>, Queue, Queue>;

/// Builds it.
///
/// # Errors
/// [`MachineFault`]: no memory, or queues of a size that cannot be.
pub fn build(setup: Setup) -> Result<IpoibMachine, MachineFault> {
    let Setup { requests, completion_each, mut port, arrivals, job, cores } = setup;
    if !requests.is_power_of_two() || !(16..=4096).contains(&requests) {
        let what = "queues are of 16 to 4096 requests, a power of two".into();
        return Err(DeviceError::Unsupported { device: "ipoib".into(), what }.into());
    }
    let frames = 2 * requests + SPARE_FRAMES;
    let Ground { clock, pool, memory, buffers } = Ground::new(frames, FRAME_BYTES)?;
    let queues = Queues::allocate(requests, &mut open(&memory));
    let rings = Requests::new(&queues, 0x48, completion_each);
    let driver = Pair::new("ipoib", 0, rings, &memory, buffers, BUFFER_BYTES);
    // A request is known by the link to it: one read at a time, of one request.
    port.send.fetch_bytes = queues.send.unit_bytes;
    port.receive.fetch_bytes = queues.receive.unit_bytes;
    let send = vec![(queues.send, Queue::new(queues.send, queues.sent))];
    let receive = vec![(queues.receive, Queue::new(queues.receive, queues.received))];
    let port = Port::new(&port, memory, buffers, send, receive, arrivals);
    Machine::new(port, vec![driver], pool, clock, job, cores)
}
