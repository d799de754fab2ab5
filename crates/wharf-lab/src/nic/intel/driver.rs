//! The driver's side of a ring to send from and one to receive into.

use super::formats::Report;
use super::{DESCRIPTOR_BYTES, Descriptor, Layout, ToSend};
use crate::nic::host::{HostMemory, MemoryFault};
use crate::nic::pair::{Kick, Lie, Pair, RingBytes};
use crate::nic::ring::Ring;
use std::marker::PhantomData;
use wharf_core::device::DeviceError;

/// A tail register.
const TAIL_BYTES: u64 = 4;

/// How a queue pair is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Descriptors of each ring; a power of two, 64 to 4096.
    pub descriptors: u32,
    /// Buffers that are posted at a time, with one write to the tail; up to 64.
    pub post: usize,
    /// The NIC writes its head to memory, in place of descriptors.
    pub head_write_back: bool,
}

/// Where a queue pair lies, and how sending is reported: what the hardware is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// To send from.
    pub send: Ring,
    /// To receive into.
    pub receive: Ring,
    /// How sending is reported.
    pub report: Report,
}

/// The driver of one queue pair.
pub type Driver<L> = Pair<Rings<L>>;

/// Both rings.
#[derive(Debug)]
pub struct Rings<L> {
    queues: Queues,
    post: usize,
    /// Free-running indices of the send ring: next to write, next to clean; what the tail register was told.
    next_to_use: u32,
    next_to_clean: u32,
    told: u32,
    /// And of the other: next to post, next to be filled, what the tail register was told.
    next_post: u32,
    next_receive: u32,
    told_posted: u32,
    layout: PhantomData<L>,
}

impl<L: Layout> Rings<L> {
    /// Allocates them for the NIC called `name`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]: a ring of a size that cannot be.
    pub fn new(name: &str, spec: &Spec, memory: &mut HostMemory) -> Result<Self, DeviceError> {
        let units = spec.descriptors;
        if !units.is_power_of_two() || !(64..=4096).contains(&units) || !(1..=64).contains(&spec.post) {
            let what =
                "rings are of 64 to 4096 descriptors, a power of two; 1 to 64 buffers are posted at a time";
            return Err(DeviceError::Unsupported { device: name.into(), what: what.into() });
        }
        let mut ring = || {
            let address = memory.allocate(units as usize * DESCRIPTOR_BYTES);
            let bytes = DESCRIPTOR_BYTES as u32;
            Ring { address, unit_bytes: bytes, read_bytes: bytes, units }
        };
        let (send, receive) = (ring(), ring());
        let report =
            if spec.head_write_back { Report::Head(memory.allocate(4)) } else { Report::Descriptors };
        Ok(Self {
            queues: Queues { send, receive, report },
            post: spec.post,
            next_to_use: 0,
            next_to_clean: 0,
            told: 0,
            next_post: 0,
            next_receive: 0,
            told_posted: 0,
            layout: PhantomData,
        })
    }

    /// Where they lie.
    pub fn queues(&self) -> Queues {
        self.queues
    }

    fn place(&self, index: u32) -> usize {
        (index & (self.queues.send.units - 1)) as usize
    }

    /// Whether the descriptor at `next_to_clean` has been sent.
    fn is_sent(&self, memory: &HostMemory) -> Result<bool, Lie> {
        let outstanding = self.told.wrapping_sub(self.next_to_clean);
        let Report::Head(address) = self.queues.report else {
            let at = self.queues.send.at(self.next_to_clean);
            return Ok(outstanding > 0 && L::is_sent(&memory.read::<DESCRIPTOR_BYTES>(at)?));
        };
        let head = u32::from_le_bytes(memory.read(address)?);
        let units = self.queues.send.units;
        let count = head.wrapping_sub(self.next_to_clean) & (units - 1);
        if head >= units || count > outstanding {
            return Err(Lie(format!(
                "a head of {head} in a ring of {units}, with {outstanding} outstanding"
            )));
        }
        Ok(count > 0)
    }
}

/// What a tail register is told: a place, where the ring has them, if it is not the one before.
fn tail(ring: &Ring, told: &mut u32, next: u32) -> Option<Kick> {
    let before = std::mem::replace(told, next);
    (before != next).then_some((next & (ring.units - 1), TAIL_BYTES))
}

impl<L: Layout> RingBytes for Rings<L> {
    fn places(&self) -> usize {
        self.queues.send.units as usize
    }

    /// A full ring would look like an empty one.
    fn fits(&self) -> usize {
        self.places() - 1
    }

    fn posts(&self) -> usize {
        self.post
    }

    fn has_room(&self) -> bool {
        (self.next_to_use.wrapping_sub(self.next_to_clean) as usize) < self.fits()
    }

    fn send(&mut self, address: u64, len_bytes: u32, memory: &mut HostMemory) -> Result<usize, MemoryFault> {
        let index = self.next_to_use;
        let what = ToSend { address, len_bytes, last: true, report: true };
        memory.write(self.queues.send.at(index), &L::to_send(&what))?;
        self.next_to_use = index.wrapping_add(1);
        Ok(self.place(index))
    }

    fn ring(&mut self, _memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        Ok(tail(&self.queues.send, &mut self.told, self.next_to_use))
    }

    fn next_sent(&mut self, memory: &mut HostMemory) -> Result<Option<usize>, Lie> {
        if !self.is_sent(memory)? {
            return Ok(None);
        }
        let place = self.place(self.next_to_clean);
        self.next_to_clean = self.next_to_clean.wrapping_add(1);
        Ok(Some(place))
    }

    fn post(
        &mut self, address: u64, _len_bytes: u32, memory: &mut HostMemory,
    ) -> Result<Option<usize>, MemoryFault> {
        let index = self.next_post;
        if index.wrapping_sub(self.next_receive) as usize >= self.fits() {
            return Ok(None);
        }
        memory.write(self.queues.receive.at(index), &L::to_receive(address))?;
        self.next_post = index.wrapping_add(1);
        Ok(Some(self.place(index)))
    }

    fn ring_posted(&mut self, _memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        Ok(tail(&self.queues.receive, &mut self.told_posted, self.next_post))
    }

    /// A packet with errors, or without an end, has no length.
    fn next_received(&mut self, memory: &mut HostMemory) -> Result<Option<(usize, u32)>, Lie> {
        if self.next_receive == self.told_posted {
            return Ok(None);
        }
        let descriptor: Descriptor = memory.read(self.queues.receive.at(self.next_receive))?;
        let Some(received) = L::read_received(&descriptor) else { return Ok(None) };
        let place = self.place(self.next_receive);
        self.next_receive = self.next_receive.wrapping_add(1);
        let is_good = received.last && received.errors == 0;
        Ok(Some((place, if is_good { received.len_bytes } else { 0 })))
    }
}
