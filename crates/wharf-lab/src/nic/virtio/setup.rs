//! A machine with a virtio NIC in it.

use super::Split;
use super::driver::Rings;
use super::formats::Virtqueue;
use crate::nic::ground::Ground;
use crate::nic::host::open;
use crate::nic::machine::{CoreCosts, Job, Machine, MachineFault};
use crate::nic::pair::Pair;
use crate::nic::port::{Arrivals, Port, PortCosts};
use wharf_core::device::DeviceError;

const FRAME_BYTES: u32 = 2048;
const SPARE_FRAMES: u32 = 512;
/// Ethernet with a tag.
const BUFFER_BYTES: u32 = 1522;

/// What to build.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Queue pairs, each with a processor.
    pub queues: usize,
    /// Descriptors of each ring; a power of two, 16 to 4096.
    pub size: u32,
    /// Whether each new index comes with an interrupt.
    pub interrupts: bool,
    /// Where indices start: near 65536, they wrap early.
    pub start: u16,
    /// What the NIC takes its time over.
    pub port: PortCosts,
    /// What comes from the wire.
    pub arrivals: Arrivals,
    /// What the processors do with it.
    pub job: Job,
    /// And in what time.
    pub cores: CoreCosts,
}

/// The machine of a virtio NIC.
pub type VirtioMachine = Machine<Pair<Rings>, Virtqueue, Virtqueue>;

/// Builds it.
///
/// # Errors
/// [`MachineFault`]: no memory, or rings of a size that cannot be.
pub fn build(setup: Setup) -> Result<VirtioMachine, MachineFault> {
    let Setup { queues, size, interrupts, start, port, arrivals, job, cores } = setup;
    // The rings begin where index 0 would lie, also for indices that start elsewhere.
    if !size.is_power_of_two() || !(16..=4096).contains(&size) || !u32::from(start).is_multiple_of(size) {
        let what = "rings are of 16 to 4096 descriptors, a power of two; indices start at a multiple".into();
        return Err(DeviceError::Unsupported { device: "virtio".into(), what }.into());
    }
    let frames = (2 * size + SPARE_FRAMES) * queues as u32;
    let Ground { clock, pool, memory, buffers } = Ground::new(frames, FRAME_BYTES)?;
    let (mut drivers, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..queues {
        let mut there = open(&memory);
        let (sends, receives) = (Split::allocate(size, &mut there), Split::allocate(size, &mut there));
        sends.start_at(start, &mut there)?;
        receives.start_at(start, &mut there)?;
        let interrupt = interrupts.then(|| there.allocate(4));
        drop(there);
        let rings = Rings::new(sends, receives, start);
        drivers.push(Pair::new("virtio", number, rings, &memory, buffers, BUFFER_BYTES));
        let (sends, receives) =
            (Virtqueue::new(sends, interrupt, start), Virtqueue::new(receives, interrupt, start));
        send.push((sends.available(), sends));
        receive.push((receives.available(), receives));
    }
    let port = Port::new(&port, memory, buffers, send, receive, arrivals);
    Machine::new(port, drivers, pool, clock, job, cores)
}
