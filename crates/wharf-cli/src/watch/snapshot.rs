//! `Snapshot`: the counters of a run at one time, as JSON. The keys are a promise: they are added to, never renamed.

use super::rates::Rates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wharf::counters::QueueCounters;
use wharf_tools::forward::QueueDelay;
use wharf_tools::traffic::Latency;

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Time since the run began.
    pub(super) time_s: f64,
    /// Time that the rates are of: since the snapshot before, or since the run began.
    #[serde(default)]
    pub(super) rates_over_s: f64,
    pub(super) pid: u32,
    /// `send`, `receive` or `forward`.
    pub(super) command: String,
    /// By direction; empty before the devices are open.
    pub(crate) paths: Vec<PathCounters>,
}

/// The counters of one direction. Values are of slightly different moments; they add up once the path is at rest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PathCounters {
    /// Name: `a-b` and `b-a` of a forwarder, else the command's.
    pub(super) path: String,
    pub(super) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) received_packets: u64,
    /// Their bytes, from the Ethernet header on.
    pub(crate) received_bytes: u64,
    /// Packets that the device took, whether it sent them or dropped them, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets of these that it sent, and their bytes.
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Packets that failed, in the device or in the discipline.
    pub(super) failed: u64,
    /// Packets that came back unsent at the end.
    pub(super) returned: u64,
    pub(super) batches: u64,
    pub(super) doorbells: u64,
    pub(super) requeues: u64,
    /// Packets that wait in the discipline and the requeue slot.
    pub(crate) backlog_packets: u64,
    /// Packets in the device.
    pub(crate) device_packets: u64,
    /// The byte queue limit; 0 without one.
    pub(crate) limit_bytes: u64,
    /// Frames of the pool that are in use.
    pub(super) frames_out: u64,
    /// Packets lost, by reason.
    pub(crate) drops: BTreeMap<String, u64>,
    /// Time that packets waited in the discipline since the run began, by band; without bands all are in band 1.
    pub(super) delay_ns_by_band: Vec<BandDelay>,
    /// The same since the snapshot before.
    pub(crate) recent_delay_ns_by_band: Vec<BandDelay>,
    /// The times themselves.
    #[serde(skip)]
    pub(super) delay: QueueDelay,
    /// Settings in force, as `wharf set` takes them.
    pub(super) settings: BTreeMap<String, String>,
    /// Rates since the snapshot before, or since the run began.
    pub(super) rates: Rates,
    /// By transmit queue.
    pub(crate) queues: Vec<QueueRow>,
}

/// Times that the packets of one band waited, ns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BandDelay {
    pub(crate) band: u8,
    pub(super) p50: u64,
    pub(crate) p99: u64,
}

/// The counters of one transmit queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueRow {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) sent: u64,
    pub(super) failed: u64,
    pub(super) requeues: u64,
    pub(super) limit_bytes: u64,
    /// Rates since the snapshot before, or since the run began.
    pub(super) sent_pps: f64,
    pub(super) sent_bps: f64,
}

impl BandDelay {
    /// Returns the percentiles of each band that has packets.
    pub(super) fn of(by_band: impl IntoIterator<Item = Latency>) -> Vec<Self> {
        let row = |(band, mut delay): (u8, Latency)| {
            let (p50, p99) = (delay.quantile_ns(0.5), delay.quantile_ns(0.99));
            (delay.packets() > 0).then_some(Self { band, p50, p99 })
        };
        (0..).zip(by_band).filter_map(row).collect()
    }
}

impl QueueRow {
    pub(super) fn of(counters: &QueueCounters) -> Self {
        Self {
            packets: counters.packets.get(),
            bytes: counters.bytes.get().saturating_sub(counters.failed_bytes.get()),
            sent: counters.sent_packets(),
            failed: counters.lost_packets(),
            requeues: counters.requeues.get(),
            limit_bytes: counters.bql_limit_bytes.get(),
            sent_pps: 0.0,
            sent_bps: 0.0,
        }
    }
}

impl PathCounters {
    /// Returns the packets lost.
    pub(super) fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}
