//! A machine with a `cx5` in it.

use super::compress::{CompletionWriter, Compress};
use super::driver::{Driver, Spec};
use super::formats::{Descriptors, Entries};
use crate::engine::VirtualClock;
use crate::nic::buffers::Buffers;
use crate::nic::host::{HostMemory, open};
use crate::nic::machine::{CoreCosts, Job, Machine, MachineFault};
use crate::nic::port::{Arrivals, Port, PortCosts};
use std::sync::Arc;
use wharf_core::pool::PagePool;

/// Frames lie so many bytes apart.
const FRAME_BYTES: u32 = 2048;
/// Frames in the hands of one processor, at most.
const SPARE_FRAMES: u32 = 512;

/// What to build.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Queue pairs, each with a processor.
    pub queues: usize,
    /// How each is set up.
    pub spec: Spec,
    /// `rx_cqe_compress`: how sessions of received packets' completions are made; `None` for off.
    pub rx_cqe_compress: Option<Compress>,
    /// What the NIC takes its time over.
    pub port: PortCosts,
    /// What comes from the wire.
    pub arrivals: Arrivals,
    /// What the processors do with it.
    pub job: Job,
    /// And in what time.
    pub cores: CoreCosts,
}

/// The machine of a `cx5`.
pub type Cx5Machine = Machine<Driver, Entries, Descriptors>;

/// Builds it.
///
/// # Errors
/// [`MachineFault`]: no memory, or rings of a size that cannot be.
pub fn build(setup: Setup) -> Result<Cx5Machine, MachineFault> {
    let clock = Arc::new(VirtualClock::default());
    let per_queue =
        (1u32 << setup.spec.log_receive) + 16 * (1u32 << setup.spec.log_send_blocks) / 4 + SPARE_FRAMES;
    let pool = PagePool::builder()
        .frames(per_queue * setup.queues as u32)
        .frame_bytes(FRAME_BYTES)
        .huge_pages(false)
        .clock(clock.clone())
        .build()?;
    let memory = HostMemory::shared();
    let buffers = Buffers::new(pool.region(), &mut open(&memory));
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..setup.queues {
        let driver = Driver::new(number, &setup.spec, &memory, buffers)?;
        let queues = *driver.queues();
        let sent = CompletionWriter::new(queues.sent, None);
        send.push((queues.send_ring(), Entries::new(sent, number as u32)));
        let received = CompletionWriter::new(queues.received, setup.rx_cqe_compress);
        receive.push((queues.receive, Descriptors::new(received, number as u32)));
        drivers.push(driver);
    }
    let port = Port::new(&setup.port, memory, buffers, send, receive, setup.arrivals);
    Machine::new(port, drivers, pool, clock, setup.job, setup.cores)
}
