//! The TLPs of transfers, and their bytes on the link.

use super::{Completions, Link};

/// Bytes of framing, sequence number and check, of a TLP that is not in a flit.
const FRAMING_BYTES: u64 = 8;
/// Bytes of the header of a memory write or a read request, with an address of 64 bits, no ECRC.
const REQUEST_HEADER_BYTES: u64 = 16;
/// Bytes of a completion's header.
const COMPLETION_HEADER_BYTES: u64 = 12;

/// No TLP crosses a boundary of this many bytes.
const PAGE_BYTES: u64 = 4096;

/// Bytes on the link, each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Towards the NIC.
    pub to_nic: u64,
    /// Towards the host.
    pub to_host: u64,
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { to_nic: self.to_nic + other.to_nic, to_host: self.to_host + other.to_host }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Returns the number of pieces of at most `most` bytes, none across a page, that `bytes` from `offset` on
/// are cut into. `most` is a power of two of at most a page.
fn pieces(offset: u64, bytes: u64, most: u64) -> u64 {
    let first = bytes.min(PAGE_BYTES - offset % PAGE_BYTES);
    let rest = bytes - first;
    let (pages, last) = (rest / PAGE_BYTES, rest % PAGE_BYTES);
    first.div_ceil(most) + pages * (PAGE_BYTES / most) + last.div_ceil(most)
}

impl Link {
    /// Returns the TLPs of a write of `bytes` to an address `offset` beyond a page's start.
    pub fn write_tlps(&self, offset: u64, bytes: u64) -> u64 {
        pieces(offset, bytes, self.mps_bytes().into())
    }

    /// Returns the requests of a read of `bytes` from an address `offset` beyond a page's start.
    pub fn read_requests(&self, offset: u64, bytes: u64) -> u64 {
        pieces(offset, bytes, self.mrrs_bytes().into())
    }

    /// Returns the completions that answer such a read: as few as the specification allows, or one for each
    /// completion boundary, by [`Link::completions`].
    pub fn read_completions(&self, offset: u64, bytes: u64) -> u64 {
        let (mut at, end) = (offset % PAGE_BYTES, offset % PAGE_BYTES + bytes);
        let most = u64::from(self.mrrs_bytes());
        let mut completions = 0;
        // A read that starts where requests end is cut evenly: all but the first and last request are alike.
        while at < end {
            let page_end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            let request = most.min(end - at).min(page_end - at);
            let alike = if at.is_multiple_of(most) { ((end - at) / most).max(1) } else { 1 };
            completions += alike * self.completions_of_request(at, request);
            at += alike * request;
        }
        completions
    }

    /// Returns the completions for one request.
    fn completions_of_request(&self, at: u64, bytes: u64) -> u64 {
        let (boundary, most) = (u64::from(self.rcb_bytes()), u64::from(self.mps_bytes()));
        let into = at % boundary;
        match self.completion_cut() {
            Completions::Boundary => (into + bytes).div_ceil(boundary),
            Completions::Payload if bytes <= most => 1,
            // All but the last end at a boundary.
            Completions::Payload => 1 + (bytes - (most - into)).div_ceil(most),
        }
    }

    /// Returns the bytes of a TLP with this header beyond its data.
    fn overhead_bytes(&self, header_bytes: u64) -> u64 {
        header_bytes + if self.in_flits() { 0 } else { FRAMING_BYTES }
    }

    /// Returns the bytes of a write.
    fn write_bytes(&self, offset: u64, bytes: u64) -> u64 {
        self.write_tlps(offset, bytes) * self.overhead_bytes(REQUEST_HEADER_BYTES) + bytes
    }

    /// Returns the traffic of a processor's write to the NIC: a doorbell, a tail pointer, a descriptor
    /// pushed.
    pub fn write_to_nic(&self, bytes: u64) -> Traffic {
        Traffic { to_nic: self.write_bytes(0, bytes), to_host: 0 }
    }

    /// Returns the traffic of the NIC's write to memory: a received packet, a completion, a descriptor
    /// written back, an interrupt.
    pub fn nic_write(&self, bytes: u64) -> Traffic {
        self.nic_write_at(0, bytes)
    }

    /// Works like [`Link::nic_write`], to an address `offset` beyond a page's start.
    pub fn nic_write_at(&self, offset: u64, bytes: u64) -> Traffic {
        Traffic { to_nic: 0, to_host: self.write_bytes(offset, bytes) }
    }

    /// Returns the traffic of the NIC's read of memory: descriptors, a packet to send.
    pub fn nic_read(&self, bytes: u64) -> Traffic {
        self.nic_read_at(0, bytes)
    }

    /// Works like [`Link::nic_read`], from an address `offset` beyond a page's start.
    pub fn nic_read_at(&self, offset: u64, bytes: u64) -> Traffic {
        Traffic {
            to_nic: self.read_completions(offset, bytes) * self.overhead_bytes(COMPLETION_HEADER_BYTES)
                + bytes,
            to_host: self.read_requests(offset, bytes) * self.overhead_bytes(REQUEST_HEADER_BYTES),
        }
    }

    /// Returns the traffic of a processor's read of a register of the NIC, of at most eight bytes.
    pub fn read_from_nic(&self, bytes: u64) -> Traffic {
        Traffic {
            to_nic: self.overhead_bytes(REQUEST_HEADER_BYTES),
            to_host: self.overhead_bytes(COMPLETION_HEADER_BYTES) + bytes,
        }
    }
}
