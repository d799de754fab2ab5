//! A machine with a `cx5`.

use super::compress::{CompletionWriter, Compress};
use super::driver::Driver;
use super::formats::{Descriptors, Entries};
use super::half::{ReceiveHalf, Single};
use super::send_half::{SendHalf, Spec};
use super::slim::{Slim, SlimEntries};
use super::striding::{STRIDE_BYTES, Strides, Striding};
use crate::RunError;
use crate::engine::VirtualClock;
use crate::harness;
use crate::nic::buffers::Buffers;
use crate::nic::host_memory::HostMemory;
use crate::nic::machine::{CoreCosts, Job, Machine};
use crate::nic::port::{Arrivals, Port, PortCosts};
use crate::nic::receive::ReceiveFormat;
use crate::nic::send::SendFormat;
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_mem::lock;

/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;
/// 62 strides, headroom and colour.
const STRIDING_FRAME_BYTES: u32 = 16384;
/// Most frames that one processor holds.
const SPARE_FRAMES: u32 = 512;

/// Receive buffers that the driver of a NIC with entries of 16 bytes posts at a time.
const SLIM_POST: usize = 16;

/// The machine to build.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Queue pairs, each with a processor.
    pub queues: usize,
    /// The settings of each.
    pub spec: Spec,
    /// `rx_cqe_compress`: the settings of sessions of receive completions; `None` for off.
    pub rx_cqe_compress: Option<Compress>,
    /// The NIC's costs.
    pub port: PortCosts,
    /// The packets from the wire.
    pub arrivals: Arrivals,
    /// The processors' job.
    pub job: Job,
    /// The processors' costs.
    pub cores: CoreCosts,
}

/// The machine of a `cx5`.
pub type Cx5Machine = Machine<Driver<Single>, Entries, Descriptors>;

/// The machine of a `cx5` with striding receive.
pub type StridingMachine = Machine<Driver<Striding>, Entries, Strides>;

/// The machine of a NIC with entries of 16 bytes.
pub type SlimMachine = Machine<Driver<Single<SLIM_POST>, Slim>, SlimEntries, Descriptors>;

/// Builds a [`SlimMachine`] with rings of 2^[`Spec::log_receive`] both ways. The switches for multi-packet
/// entries do not apply.
///
/// # Errors
/// [`RunError`]: too little memory, or rings of an invalid size.
pub fn build_slim(setup: Setup) -> Result<SlimMachine, RunError> {
    let log = setup.spec.log_receive;
    if !(6..=15).contains(&log) {
        let what = "rings are of 2^6 to 2^15 entries".into();
        return Err(DeviceError::Unsupported { device: "cx5-slim".into(), what }.into());
    }
    let setup = Setup { spec: Spec { log_send_blocks: log, ..setup.spec }, ..setup };
    build_with(setup, 2 << log, (FRAME_BYTES, FRAME_BYTES), SlimEntries::new, Descriptors::new)
}

/// Builds a [`Cx5Machine`].
///
/// # Errors
/// [`RunError`]: too little memory, or rings of an invalid size.
pub fn build(setup: Setup) -> Result<Cx5Machine, RunError> {
    let frames = frames_per_queue(&setup.spec);
    build_with(setup, frames, (FRAME_BYTES, FRAME_BYTES), Entries::new, Descriptors::new)
}

/// Builds a [`StridingMachine`]: frames of many strides, 2^[`Spec::log_receive`] completions.
///
/// # Errors
/// [`RunError`]: too little memory, or rings of an invalid size.
pub fn build_striding(setup: Setup) -> Result<StridingMachine, RunError> {
    let frames = frames_per_queue(&setup.spec);
    build_with(setup, frames, (STRIDING_FRAME_BYTES, STRIDE_BYTES), Entries::new, Strides::new)
}

/// Returns the frames of a queue pair, without the spare ones: an entry of a block sends up to four packets.
fn frames_per_queue(spec: &Spec) -> u32 {
    (1 << spec.log_receive) + 4 * (1 << spec.log_send_blocks)
}

/// Builds a machine with `frames` for each queue, each of `frame_bytes`, in which packets may begin every
/// `granule_bytes`.
fn build_with<H: ReceiveHalf, W: SendHalf, S: SendFormat, R: ReceiveFormat>(
    setup: Setup, frames: u32, (frame_bytes, granule_bytes): (u32, u32),
    sends: fn(CompletionWriter, u32) -> S, receives: fn(CompletionWriter, u32, u64) -> R,
) -> Result<Machine<Driver<H, W>, S, R>, RunError> {
    let frames = (frames + SPARE_FRAMES) * setup.queues as u32;
    let clock = Arc::new(VirtualClock::default());
    let pool = harness::pool(frames, frame_bytes, &clock)?;
    let memory = HostMemory::shared();
    let buffers = Buffers::with_granule(pool.region(), granule_bytes, &mut lock(&memory));
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..setup.queues {
        let driver = Driver::new(number, &setup.spec, &memory, buffers)?;
        let queues = *driver.queues();
        let sent = CompletionWriter::new(queues.sent, None);
        send.push((queues.send, sends(sent, number as u32)));
        let at = queues.receive;
        let received = CompletionWriter::new(at.completions, setup.rx_cqe_compress);
        receive.push((at.ring, receives(received, number as u32, at.record)));
        drivers.push(driver);
    }
    let port = Port::new(&setup.port, memory, buffers, send, receive, setup.arrivals);
    Machine::new(port, drivers, pool, clock, setup.job, setup.cores)
}
