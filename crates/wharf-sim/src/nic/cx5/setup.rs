//! A machine with a `cx5`.

use super::compress::{CompletionWriter, Compress};
use super::driver::{Driver, Spec};
use super::formats::{Descriptors, Entries};
use super::half::{ReceiveHalf, Single};
use super::slim::{Queues, Slim, SlimEntries};
use super::striding::{STRIDE_BYTES, Strides, Striding};
use crate::RunError;
use crate::nic::host_memory::open;
use crate::nic::machine::{CoreCosts, Job, Machine};
use crate::nic::port::{Arrivals, Port, PortCosts};
use crate::nic::queue_pair::Pair;
use crate::nic::receive::ReceiveFormat;
use crate::nic::test_bed::TestBed;
use wharf_core::device::DeviceError;

/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;
/// 62 strides, headroom and colour.
const STRIDING_FRAME_BYTES: u32 = 16384;
/// Most frames that one processor holds.
const SPARE_FRAMES: u32 = 512;

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
pub type SlimMachine = Machine<Pair<Slim>, SlimEntries, Descriptors>;

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
    let frames = ((2 << log) + SPARE_FRAMES) * setup.queues as u32;
    let TestBed { clock, pool, memory, buffers } = TestBed::new(frames, FRAME_BYTES)?;
    let buffer_bytes = pool.region().data_bytes_max();
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..setup.queues {
        let mut there = open(&memory);
        let queues = Queues::allocate(log, &mut there);
        let rings = Slim::new(queues, &mut there)?;
        drop(there);
        drivers.push(Pair::new("cx5-slim", number, rings, &memory, buffers, buffer_bytes));
        let sent = CompletionWriter::new(queues.sent, None);
        send.push((queues.send, SlimEntries::new(sent, number as u32)));
        let at = queues.receive;
        let received = CompletionWriter::new(at.completions, setup.rx_cqe_compress);
        receive.push((at.ring, Descriptors::new(received, number as u32, at.record)));
    }
    let port = Port::new(&setup.port, memory, buffers, send, receive, setup.arrivals);
    Machine::new(port, drivers, pool, clock, setup.job, setup.cores)
}

/// Builds a [`Cx5Machine`].
///
/// # Errors
/// [`RunError`]: too little memory, or rings of an invalid size.
pub fn build(setup: Setup) -> Result<Cx5Machine, RunError> {
    build_with(setup, FRAME_BYTES, FRAME_BYTES, Descriptors::new)
}

/// Builds a [`StridingMachine`]: frames of many strides, 2^[`Spec::log_receive`] completions.
///
/// # Errors
/// [`RunError`]: too little memory, or rings of an invalid size.
pub fn build_striding(setup: Setup) -> Result<StridingMachine, RunError> {
    build_with(setup, STRIDING_FRAME_BYTES, STRIDE_BYTES, Strides::new)
}

fn build_with<H: ReceiveHalf, R: ReceiveFormat>(
    setup: Setup, frame_bytes: u32, granule_bytes: u32, format: fn(CompletionWriter, u32, u64) -> R,
) -> Result<Machine<Driver<H>, Entries, R>, RunError> {
    let per_queue =
        (1u32 << setup.spec.log_receive) + 4 * (1u32 << setup.spec.log_send_blocks) + SPARE_FRAMES;
    let frames = per_queue * setup.queues as u32;
    let TestBed { clock, pool, memory, buffers } = TestBed::with_granule(frames, frame_bytes, granule_bytes)?;
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..setup.queues {
        let driver = Driver::new(number, &setup.spec, &memory, buffers)?;
        let queues = *driver.queues();
        let sent = CompletionWriter::new(queues.sent, None);
        send.push((queues.send_ring(), Entries::new(sent, number as u32)));
        let at = queues.receive;
        let received = CompletionWriter::new(at.completions, setup.rx_cqe_compress);
        receive.push((at.ring, format(received, number as u32, at.record)));
        drivers.push(driver);
    }
    let port = Port::new(&setup.port, memory, buffers, send, receive, setup.arrivals);
    Machine::new(port, drivers, pool, clock, setup.job, setup.cores)
}
