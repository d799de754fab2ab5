//! A link in use: its traffic, the reads in flight, and the times of transfers.

use super::{Link, Traffic};

/// The settings of a bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusSpec {
    /// The link.
    pub link: Link,
    /// Read requests that may be in flight at a time.
    pub tags: u32,
    /// From the end of a read request on the link to the start of its completion.
    pub latency_ps: u64,
}

/// The traffic of a bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusTotals {
    /// Bytes on the link, TLP headers counted.
    pub bytes: Traffic,
    /// Data without headers.
    pub data: Traffic,
    /// Read requests.
    pub read_requests: u64,
    /// Reads that found too few tags.
    pub refused: u64,
}

/// A bus with its two directions, each of which carries one TLP after another.
///
/// Times are in picoseconds. A transfer may be charged only at its start: `now` never goes back for one
/// direction. So a read is two calls, [`Bus::request`] and, `latency_ps` after the time that it returned,
/// [`Bus::complete`].
#[derive(Debug, Clone)]
pub struct Bus {
    spec: BusSpec,
    to_nic_free_ps: u64,
    to_host_free_ps: u64,
    tags_taken: u64,
    totals: BusTotals,
    /// Time of all traffic put on each direction so far.
    charged_ps: Traffic,
}

impl Bus {
    /// Creates an idle bus at time 0.
    pub fn new(spec: BusSpec) -> Self {
        let (totals, charged_ps) = (BusTotals::default(), Traffic::default());
        Self { spec, to_nic_free_ps: 0, to_host_free_ps: 0, tags_taken: 0, totals, charged_ps }
    }

    /// Returns its settings.
    pub fn spec(&self) -> &BusSpec {
        &self.spec
    }

    /// Returns its traffic so far.
    pub fn totals(&self) -> &BusTotals {
        &self.totals
    }

    /// Returns the picoseconds in which each direction was used, up to `now_ps`. Traffic that waits for its
    /// turn is not counted.
    pub fn busy_ps(&self, now_ps: u64) -> Traffic {
        Traffic {
            to_nic: self.charged_ps.to_nic - self.to_nic_free_ps.saturating_sub(now_ps),
            to_host: self.charged_ps.to_host - self.to_host_free_ps.saturating_sub(now_ps),
        }
    }

    /// Returns the number of read requests in flight.
    pub fn tags_taken(&self) -> u64 {
        self.tags_taken
    }

    /// Writes `bytes` from the processor to the NIC at `now_ps`. Returns the time at which all are there.
    pub fn write_to_nic(&mut self, now_ps: u64, bytes: u64) -> u64 {
        self.totals.data.to_nic += bytes;
        let traffic = self.spec.link.write_to_nic(bytes);
        self.send(now_ps, traffic)
    }

    /// Writes `bytes` from the NIC to memory at `now_ps`. Returns the time at which all are there.
    pub fn nic_write(&mut self, now_ps: u64, bytes: u64) -> u64 {
        self.totals.data.to_host += bytes;
        let traffic = self.spec.link.nic_write(bytes);
        self.send(now_ps, traffic)
    }

    /// Requests `bytes` for the NIC at `now_ps`. Returns the time at which the last request is at the host,
    /// or `None` if there are too few tags. A read that wants more tags than exist is let through alone.
    pub fn request(&mut self, now_ps: u64, bytes: u64) -> Option<u64> {
        let requests = self.spec.link.read_requests(0, bytes);
        if self.tags_taken > 0 && self.tags_taken + requests > u64::from(self.spec.tags) {
            self.totals.refused += 1;
            return None;
        }
        self.tags_taken += requests;
        self.totals.read_requests += requests;
        let to_host = self.spec.link.nic_read(bytes).to_host;
        Some(self.send(now_ps, Traffic { to_nic: 0, to_host }))
    }

    /// Answers a read of `bytes` at `now_ps`. Returns the time at which all data are at the NIC and the tags
    /// free.
    pub fn complete(&mut self, now_ps: u64, bytes: u64) -> u64 {
        self.tags_taken = self.tags_taken.saturating_sub(self.spec.link.read_requests(0, bytes));
        self.totals.data.to_nic += bytes;
        let to_nic = self.spec.link.nic_read(bytes).to_nic;
        self.send(now_ps, Traffic { to_nic, to_host: 0 })
    }

    /// Puts `traffic`, which goes one way, behind the traffic of that direction. Returns the time at which it
    /// is through.
    fn send(&mut self, now_ps: u64, traffic: Traffic) -> u64 {
        self.totals.bytes += traffic;
        let (free, charged, bytes) = match traffic.to_nic {
            0 => (&mut self.to_host_free_ps, &mut self.charged_ps.to_host, traffic.to_host),
            bytes => (&mut self.to_nic_free_ps, &mut self.charged_ps.to_nic, bytes),
        };
        let takes_ps = self.spec.link.picoseconds(bytes);
        *charged += takes_ps;
        *free = (*free).max(now_ps) + takes_ps;
        *free
    }
}
