//! The driver's side of send queue, receive queue and their completions.

use super::{
    COMPLETION_BYTES, Completion, DOORBELL_BYTES, Next, OWNER_AT, OWNER_NIC, RECEIVE_BYTES,
    ROUTING_HEADER_BYTES, SEGMENT_BYTES, SEND_BYTES, SEND_STRIDE_BYTES, datagram,
};
use crate::nic::cx5::segment::Pointer;
use crate::nic::host::{HostMemory, MemoryFault};
use crate::nic::pair::{Kick, Lie, RingBytes};
use crate::nic::ring::Ring;

const KEY: u32 = 0x2000;

/// Where the queues lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Requests to send.
    pub send: Ring,
    /// Their completions.
    pub sent: Ring,
    /// Requests to receive.
    pub receive: Ring,
    /// Their completions.
    pub received: Ring,
}

impl Queues {
    /// Allocates queues of `units` requests each, a power of two; completions are the NIC's to write.
    pub fn allocate(units: u32, memory: &mut HostMemory) -> Self {
        let mut ring = |unit_bytes: usize, read_bytes: usize| {
            let address = memory.allocate(units as usize * unit_bytes);
            Ring { address, unit_bytes: unit_bytes as u32, read_bytes: read_bytes as u32, units }
        };
        let queues = Self {
            send: ring(SEND_STRIDE_BYTES, SEND_BYTES),
            sent: ring(COMPLETION_BYTES, COMPLETION_BYTES),
            receive: ring(RECEIVE_BYTES, RECEIVE_BYTES),
            received: ring(COMPLETION_BYTES, COMPLETION_BYTES),
        };
        for index in 0..units {
            for ring in [&queues.sent, &queues.received] {
                let written = memory.write(ring.at(index) + OWNER_AT as u64, &[OWNER_NIC]);
                debug_assert_eq!(written, Ok(()), "it was allocated");
            }
        }
        queues
    }
}

/// One queue of requests, in order, and its completions.
#[derive(Debug)]
struct Side {
    requests: Ring,
    completions: Ring,
    next: u32,
    told: u32,
    /// Oldest outstanding.
    oldest: u32,
    /// Completed up to here.
    done: u32,
    next_completion: u32,
}

impl Side {
    fn new(requests: Ring, completions: Ring) -> Self {
        Self { requests, completions, next: 0, told: 0, oldest: 0, done: 0, next_completion: 0 }
    }

    fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.oldest)
    }

    fn place(&self, index: u32) -> usize {
        (index & (self.requests.units - 1)) as usize
    }

    fn offset(&self, index: u32) -> u32 {
        self.place(index) as u32 * self.requests.unit_bytes
    }

    /// Reads one completion, and gives its slot back to the NIC.
    fn completion(&mut self, memory: &mut HostMemory) -> Result<Option<(u32, Completion)>, Lie> {
        let at = self.completions.at(self.next_completion);
        let Some(completion) = Completion::from_slot(&memory.read(at)?) else { return Ok(None) };
        memory.write(at + OWNER_AT as u64, &[OWNER_NIC])?;
        self.next_completion = self.next_completion.wrapping_add(1);
        let unit_bytes = self.requests.unit_bytes;
        let place = completion.offset / unit_bytes;
        let ahead = place.wrapping_sub(self.done) & (self.requests.units - 1);
        let there = completion.offset.is_multiple_of(unit_bytes) && place < self.requests.units;
        if !there || ahead >= self.told.wrapping_sub(self.done) {
            return Err(Lie(format!(
                "completion of a request at {}, which is not outstanding",
                completion.offset
            )));
        }
        Ok(Some((self.done.wrapping_add(ahead), completion)))
    }
}

/// Both queues.
#[derive(Debug)]
pub struct Requests {
    send: Side,
    receive: Side,
    queue: u32,
    /// A completion with each request, not only with the last of a post.
    completion_each: bool,
}

impl Requests {
    /// Of queue pair number `queue`.
    pub fn new(queues: &Queues, queue: u32, completion_each: bool) -> Self {
        let (send, receive) =
            (Side::new(queues.send, queues.sent), Side::new(queues.receive, queues.received));
        Self { send, receive, queue, completion_each }
    }

    fn write_next(&self, index: u32, next: &Next, memory: &mut HostMemory) -> Result<(), MemoryFault> {
        let size = (SEND_BYTES / SEGMENT_BYTES) as u32;
        memory.write(self.send.requests.at(index), &next.to_segment(size))
    }
}

impl RingBytes for Requests {
    fn places(&self) -> usize {
        self.send.requests.units as usize
    }

    fn has_room(&self) -> bool {
        self.send.outstanding() < self.send.requests.units
    }

    /// Links it to the one before: without a doorbell of its own, unless a doorbell was rung for that one.
    fn send(&mut self, address: u64, len_bytes: u32, memory: &mut HostMemory) -> Result<usize, MemoryFault> {
        let index = self.send.next;
        let last = Next { offset: None, doorbell_due: false, completion: true };
        self.write_next(index, &last, memory)?;
        let pointer = Pointer { address, len_bytes, key: KEY };
        let behind = self.send.requests.at(index) + SEGMENT_BYTES as u64;
        memory.write(behind, &datagram(self.queue, pointer))?;
        if self.send.outstanding() > 0 {
            let first = index == self.send.told;
            let completion = first || self.completion_each;
            let offset = Some(self.send.offset(index));
            self.write_next(
                index.wrapping_sub(1),
                &Next { offset, doorbell_due: first, completion },
                memory,
            )?;
        }
        self.send.next = index.wrapping_add(1);
        Ok(self.send.place(index))
    }

    fn ring(&mut self, _memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        let first = std::mem::replace(&mut self.send.told, self.send.next);
        Ok((first != self.send.next).then(|| (self.send.offset(first), DOORBELL_BYTES)))
    }

    fn next_sent(&mut self, memory: &mut HostMemory) -> Result<Option<usize>, Lie> {
        if self.send.oldest == self.send.done {
            let Some((index, completion)) = self.send.completion(memory)? else { return Ok(None) };
            self.send.done = index.wrapping_add(1);
            if completion.error || !completion.send {
                return Err(Lie(format!("a request to send came back as {completion:?}")));
            }
        }
        let place = self.send.place(self.send.oldest);
        self.send.oldest = self.send.oldest.wrapping_add(1);
        Ok(Some(place))
    }

    fn post(
        &mut self, address: u64, len_bytes: u32, memory: &mut HostMemory,
    ) -> Result<Option<usize>, MemoryFault> {
        if self.receive.outstanding() >= self.receive.requests.units {
            return Ok(None);
        }
        let index = self.receive.next;
        let at = self.receive.requests.at(index);
        let next = Next { offset: None, doorbell_due: false, completion: true };
        memory.write(at, &next.to_segment(0))?;
        // The routing header goes before the packet, into the frame's headroom.
        let address = address - u64::from(ROUTING_HEADER_BYTES);
        let pointer = Pointer { address, len_bytes: len_bytes + ROUTING_HEADER_BYTES, key: KEY };
        memory.write(at + SEGMENT_BYTES as u64, &pointer.to_segment())?;
        self.receive.next = index.wrapping_add(1);
        Ok(Some(self.receive.place(index)))
    }

    fn ring_posted(&mut self, _memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        let before = std::mem::replace(&mut self.receive.told, self.receive.next);
        Ok((before != self.receive.next).then_some((self.receive.next, DOORBELL_BYTES)))
    }

    fn next_received(&mut self, memory: &mut HostMemory) -> Result<Option<(usize, u32)>, Lie> {
        let Some((index, completion)) = self.receive.completion(memory)? else { return Ok(None) };
        if index != self.receive.done || completion.send || completion.error {
            return Err(Lie(format!("a request to receive came back as {completion:?}")));
        }
        self.receive.done = index.wrapping_add(1);
        self.receive.oldest = self.receive.done;
        let len_bytes = completion.byte_count.saturating_sub(ROUTING_HEADER_BYTES);
        Ok(Some((self.receive.place(index), len_bytes)))
    }
}
