//! Descriptions of NICs: the transfers of each packet over the bus, and their costs.
//!
//! A description is TOML: `lab/wharf-plan/nics/*.toml` are built in, others are read from files. Every
//! number carries its source and a mark: published, fitted or assumed. A way (`tx`, `rx`) is a list of
//! [`Transfer`]s. Each has its size and the number of packets that share it. A feature is a set of changes to
//! those. The planner adds up the same transfers that a model of the NIC charges one by one.
//!
//! ```toml
//! [tx.entry]               # the NIC fetches descriptors
//! by = "nic_read"
//! bytes = 16               # of one
//! batch = 40               # in one read
//! mark = "published"
//! source = "82599 data sheet, 7.2.3.4"
//! ```

mod description;
mod section;
mod transfer;

pub use description::{Choice, Description, FILE_BYTES_MAX, Feature, PlanDefaults};
pub use section::FileError;
pub use transfer::{Actor, Inline, Share, Transfer};

use crate::pcie::Link;
use serde::{Deserialize, Serialize};

/// The origin of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Stated by a data sheet, a driver's source, a paper or a talk.
    Published,
    /// Chosen so that a published figure comes out.
    Fitted,
    /// A guess, with its reason.
    Assumed,
    /// Given by the user.
    Given,
    /// Read from an interface.
    Read,
    /// Changed for this run of an experiment.
    Set,
}

impl Mark {
    /// The marks of a description, with their names in files.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("published", Self::Published),
        ("fitted", Self::Fitted),
        ("assumed", Self::Assumed),
        ("given", Self::Given),
        ("read", Self::Read),
    ];

    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).map_or("set", |name| name.0)
    }
}

/// A number with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Its name, with the unit last: `latency_ns`.
    pub key: String,
    /// The number.
    pub value: u64,
    /// The kind of origin.
    pub mark: Mark,
    /// The source.
    pub source: String,
}

/// A NIC in its host, with its features switched as chosen.
#[derive(Debug, Clone)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// A description in words.
    pub what: String,
    /// The kernel's drivers for it.
    pub drivers: Vec<String>,
    /// Vendor's and device's numbers on PCI, where its driver does not tell: `8086:10c9`.
    pub pci_ids: Vec<String>,
    /// Its link.
    pub link: Link,
    /// Bits a second on its wire.
    pub wire_bits_per_second: Figure,
    /// Bytes on the wire beyond a frame with its check sequence: preamble and gap.
    pub wire_overhead_bytes: Figure,
    /// Queues each way.
    pub queues: Figure,
    /// Read requests in flight.
    pub tags: Figure,
    /// From a read request to its data.
    pub latency_ns: Figure,
    /// Reads of descriptors that a queue has in flight.
    pub fetches_in_flight: Figure,
    /// Time that a doorbell costs a processor.
    pub doorbell_ns: Figure,
    /// Clock of the host's processors.
    pub clock_mhz: Figure,
    /// Transmitting.
    pub tx: Way,
    /// Receiving.
    pub rx: Way,
}

/// One way of packets.
#[derive(Debug, Clone)]
pub struct Way {
    /// The transfers over the bus.
    pub transfers: Vec<Transfer>,
    /// Cycles of a processor per packet, without doorbells.
    pub cpu_cycles: Figure,
    /// Memory is allocated in pieces of this size; a packet takes as many as it needs.
    pub buffer_bytes: Figure,
    /// Cycles of a processor per page taken.
    pub page_cycles: Figure,
    /// Time for which taking a page locks out all other processors.
    pub page_shared_ns: Figure,
}

/// The cost of one packet, in billionths, so that shares of batches add up without fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Bytes towards the NIC.
    pub to_nic_bytes: u64,
    /// Bytes towards the host.
    pub to_host_bytes: u64,
    /// Read requests of the NIC.
    pub reads: u64,
    /// Reads of descriptors.
    pub fetches: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Time of the busiest unit of the NIC, in picoseconds: its units work side by side.
    pub nic_ps: u64,
}

/// One whole, in a [`Cost`].
pub const ONE: u64 = 1_000_000_000;
const PAGE_BYTES: u64 = 4096;

impl std::ops::Add for Cost {
    type Output = Self;

    /// Saturates: descriptions may be absurd.
    fn add(self, other: Self) -> Self {
        let sum = |field: fn(&Self) -> u64| field(&self).saturating_add(field(&other));
        Self {
            to_nic_bytes: sum(|cost| cost.to_nic_bytes),
            to_host_bytes: sum(|cost| cost.to_host_bytes),
            reads: sum(|cost| cost.reads),
            fetches: sum(|cost| cost.fetches),
            doorbells: sum(|cost| cost.doorbells),
            pages: sum(|cost| cost.pages),
            nic_ps: self.nic_ps.max(other.nic_ps),
        }
    }
}

impl Way {
    fn figures(&self) -> [&Figure; 4] {
        [&self.cpu_cycles, &self.buffer_bytes, &self.page_cycles, &self.page_shared_ns]
    }

    /// Returns the cost of a packet of `size` bytes over `link`.
    pub fn cost(&self, link: &Link, size: u32) -> Cost {
        let moved = self.shares(link, size).into_iter().map(|share| share.cost);
        let buffer = self.buffer_bytes.value;
        let bytes = u64::from(size).div_ceil(buffer) * buffer;
        moved.fold(Cost { pages: bytes * ONE / PAGE_BYTES, ..Cost::default() }, |sum, cost| sum + cost)
    }

    /// Returns the share of each transfer in that, in the order of the file.
    pub fn shares(&self, link: &Link, size: u32) -> Vec<Share<'_>> {
        transfer::shares(&self.transfers, link, size)
    }
}

impl Nic {
    /// Returns all numbers that do not belong to a transfer.
    pub fn figures(&self) -> Vec<&Figure> {
        let own = [
            &self.wire_bits_per_second,
            &self.wire_overhead_bytes,
            &self.queues,
            &self.tags,
            &self.latency_ns,
            &self.fetches_in_flight,
            &self.doorbell_ns,
            &self.clock_mhz,
        ];
        let ways = || [&self.tx, &self.rx].into_iter();
        let served = ways().flat_map(|way| &way.transfers).filter_map(|transfer| transfer.nic_ps.as_ref());
        own.into_iter().chain(ways().flat_map(Way::figures)).chain(served).collect()
    }
}
