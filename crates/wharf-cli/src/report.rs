//! The report of `send`, `receive` and `forward` on one direction, as printed in JSON. `account.rs` of each
//! command fills it in. Its keys are a promise: they are added to, never renamed.

use crate::counts::Counts;
use crate::host_queue::HostQueueReport;
use crate::output::{bit_rate, grouped, limit, packet_rate, time};
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use wharf::queue::TxQueue;
use wharf_core::pool::Audit;
use wharf_core::qdisc::DscpBands;
use wharf_tools::trace::TraceCounts;
use wharf_tools::traffic::{Latencies, Latency, Pause, Pauses};

/// One direction.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Report {
    /// The device's name.
    pub(crate) device: String,
    /// The mode in which it works on this machine; null if there is only one.
    pub(crate) mode: Option<&'static str>,
    /// The cause that the mode is no better one; null if there is none, or if it is not known.
    pub(crate) mode_reason: Option<String>,
    /// Time from the first packet to the last.
    pub(crate) seconds: f64,
    /// What the queues counted; of a receiver the packets and bytes that came, and its calls.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Millions of packets per second, sent or received.
    pub(crate) mpps: f64,
    /// Billions of bits per second, of the same frames without preamble, gap and check sequence.
    pub(crate) gbps: f64,
    pub(crate) packets_per_doorbell: f64,
    pub(crate) drops: Drops,
    /// Records of a replayed capture that can be no frame, by reason, and are not sent: counted once, however often the capture
    /// is replayed. Null without one.
    pub(crate) skipped: Option<BTreeMap<String, u64>>,
    pub(crate) bql: BqlReport,
    /// The queueing discipline; null of a receiver.
    pub(crate) qdisc: Option<QdiscReport>,
    /// From the time stamp in generated packets; null for others.
    pub(crate) latency_ns: Option<LatencyReport>,
    /// The same by DSCP; empty if that is null.
    pub(crate) latency_by_dscp: Vec<ClassReport>,
    /// Time at which frames were handed to the device minus the time at which they were due; null at top speed.
    pub(crate) timing_error_ns: Option<TimingReport>,
    /// Pauses after which frames are due later, of the sender that paused for longest; null at top speed.
    pub(crate) pauses: Option<Pauses>,
    /// The queue of the host's network stack behind the device; null without one.
    pub(crate) host_queue: Option<HostQueueReport>,
    pub(crate) senders: Vec<SenderReport>,
    /// By transmit queue.
    pub(crate) queues: Vec<QueueReport>,
    /// By receive queue of the interface, where the device has numbered ones.
    pub(crate) rx_queues: Vec<RxQueueReport>,
    pub(crate) pool: PoolReport,
    /// Arrivals at a receiver in this process; null without one.
    pub(crate) received: Option<ReceivedReport>,
    /// Faults injected on demand; null without.
    pub(crate) faults: Option<FaultReport>,
    /// The capture of what the device took; null without one.
    pub(crate) trace: Option<TraceReport>,
    /// The same traffic without batching; null if it was not tried.
    pub(crate) compare: Option<serde_json::Value>,
    /// The rate that was asked for against the one that came, the bound, and the cause of loss.
    pub(crate) verdict: Option<Verdict>,
}

/// Packets that failed, or that a policy dropped.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Drops {
    pub(crate) total: u64,
    pub(crate) by_reason: BTreeMap<String, u64>,
}

/// The byte queue limit.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct BqlReport {
    /// False for a device that cannot say when a packet has left.
    pub(crate) enabled: bool,
    /// Limit at the end. Where the unit is packets, each counts as 1514 bytes.
    pub(crate) limit_bytes: u64,
    /// What it counts: `bytes` or `packets`.
    pub(crate) unit: &'static str,
    /// The limit in packets; null where it counts bytes.
    pub(crate) limit_packets: Option<u64>,
}

impl Drops {
    pub(crate) fn of(by_reason: BTreeMap<String, u64>) -> Self {
        Self { total: by_reason.values().sum(), by_reason }
    }
}

/// The queueing discipline.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QdiscReport {
    /// The discipline asked for.
    pub(crate) name: &'static str,
    /// The root discipline, if it wraps the one asked for: `tbf` with `--rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<&'static str>,
    /// Its statistics, of all queues together.
    #[serde(flatten)]
    pub(crate) stats: BTreeMap<&'static str, u64>,
    /// Those of them whose names are keys of this object.
    #[serde(rename = "stats", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) namesakes: BTreeMap<&'static str, u64>,
}

impl QdiscReport {
    const KEYS: [&'static str; 3] = ["name", "root", "stats"];

    /// Returns the report of the discipline `name` in front of these queues.
    pub(crate) fn of(name: &'static str, queues: &[TxQueue]) -> Self {
        let mut stats = BTreeMap::new();
        for (name, value) in queues.iter().flat_map(TxQueue::qdisc_stats) {
            let all: &mut u64 = stats.entry(name).or_default();
            *all = if name.ends_with("_max") { value.max(*all) } else { *all + value };
        }
        Self::new(name, stats)
    }

    fn new(name: &'static str, stats: BTreeMap<&'static str, u64>) -> Self {
        let (namesakes, stats) = stats.into_iter().partition(|(name, _)| Self::KEYS.contains(name));
        Self { name, root: None, stats, namesakes }
    }

    /// Returns a line for each statistic that is not 0, for people; nothing if it has none.
    fn text(&self) -> String {
        let stats = || self.stats.iter().chain(&self.namesakes);
        if stats().next().is_none() {
            return String::new();
        }
        let stats = stats().filter(|stat| *stat.1 > 0);
        let stats = stats.map(|(name, &value)| match name.strip_suffix("_ns_max") {
            Some(stem) => format!("{} max: {}", stem.replace('_', " "), time(value)),
            None => format!("{}: {}", name.replace('_', " "), grouped(value)),
        });
        std::iter::once(self.name.to_string()).chain(stats).collect::<Vec<_>>().join("\n")
    }
}

/// Latencies of packets.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct LatencyReport {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
}

/// Latencies of packets of one DSCP.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ClassReport {
    pub(crate) dscp: u8,
    /// Band of `prio` by its default map.
    pub(crate) band: u8,
    pub(crate) packets: u64,
    pub(crate) latency_ns: LatencyReport,
}

impl LatencyReport {
    pub(crate) fn of(latency: &Latency) -> Self {
        let mut latency = latency.clone();
        let mut at = |share| latency.quantile_ns(share);
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

impl ClassReport {
    /// Returns a report for each DSCP.
    pub(crate) fn all_of(latencies: &Latencies) -> Vec<Self> {
        let one = |(dscp, latency): (u8, &Latency)| Self {
            dscp,
            band: DscpBands::default().band(dscp),
            packets: latency.packets(),
            latency_ns: LatencyReport::of(latency),
        };
        latencies.by_dscp().map(one).collect()
    }

    /// Returns a line for each DSCP, for people, if there are several.
    pub(crate) fn text(classes: &[Self], which: fn(&LatencyReport) -> u64) -> String {
        let line = |class: &Self| {
            format!("DSCP {}, band {}: {}", class.dscp, class.band, time(which(&class.latency_ns)))
        };
        if classes.len() < 2 {
            String::new()
        } else {
            classes.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Timing errors of frames.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TimingReport {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// Counts of one sender.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct SenderReport {
    pub(crate) packets: u64,
    /// Times that it had to wait.
    pub(crate) waits: u64,
    /// Packets that a policy made it drop.
    pub(crate) drops: u64,
    /// Those of them for which the path was full, and those whose time was over.
    pub(crate) full_drops: u64,
    pub(crate) deadline_drops: u64,
    /// Packets that a policy did not make, without memory.
    pub(crate) memory_drops: u64,
    /// Packets that it handed to the device, for itself and other senders.
    pub(crate) drained_packets: u64,
    /// The most bytes that it could have inside at last; null if that was never looked at.
    pub(crate) small_queue_bytes: Option<u64>,
}

/// Counts of one receive queue of an interface.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RxQueueReport {
    /// Its number.
    pub(crate) queue: u32,
    /// Packets that came by it.
    pub(crate) packets: u64,
}

/// Counts of one transmit queue.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QueueReport {
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Packets that came back when a thread polled to receive.
    pub(crate) cleaned_from_receive: u64,
    /// Notifications from the device, and to it; null if it counts none.
    pub(crate) interrupts: Option<u64>,
    pub(crate) kicks: Option<u64>,
}

/// The pool's memory at the end.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct PoolReport {
    pub(crate) frames: u32,
    /// Frames that did not come back.
    pub(crate) out: u64,
}

impl PoolReport {
    pub(crate) fn of(audit: &Audit) -> Self {
        Self { frames: audit.frames, out: audit.out() as u64 }
    }
}

/// Arrivals.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReceivedReport {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that differ, that are missing though none has failed, or that came out of order.
    pub(crate) errors: u64,
    /// Packets whose length and order were checked, but not their bytes: more were under way than are kept.
    pub(crate) unchecked: u64,
    /// Sent packets that were still on the way when a signal, or the time, ended the run.
    pub(crate) not_arrived: u64,
    /// Packets that the device dropped before they could be received, by reason.
    pub(crate) drops: BTreeMap<String, u64>,
}

/// Faults injected.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultReport {
    pub(crate) seed: u64,
    /// Counts by kind of fault.
    pub(crate) injected: BTreeMap<String, u64>,
}

impl Report {
    /// Returns the device's name, with its mode if it has several.
    pub(crate) fn device_text(&self) -> String {
        device_text(&self.device, self.mode)
    }

    /// Returns the packets per second, for people.
    pub(crate) fn packet_rate_text(&self) -> String {
        packet_rate(self.mpps * 1e6)
    }

    /// Returns the bits per second, for people.
    pub(crate) fn bit_rate_text(&self) -> String {
        bit_rate(self.gbps * 1e9)
    }

    /// Returns the byte queue limit, for people.
    pub(crate) fn limit_text(&self) -> String {
        match self.bql {
            BqlReport { enabled: false, .. } => "none".into(),
            BqlReport { limit_bytes, limit_packets, .. } => {
                limit(limit_bytes, limit_packets.unwrap_or_default())
            }
        }
    }

    /// Returns the discipline with its statistics, for people.
    pub(crate) fn qdisc_text(&self) -> String {
        self.qdisc.as_ref().map_or(String::new(), QdiscReport::text)
    }
}

pub(crate) fn device_text(device: &str, mode: Option<&str>) -> String {
    mode.map_or_else(|| device.to_string(), |mode| format!("{device} ({mode})"))
}

impl FaultReport {
    /// Returns the faults with their counts, for people.
    pub(crate) fn text(&self) -> String {
        let kinds = counts_text(&self.injected);
        if kinds.is_empty() { "none".into() } else { kinds }
    }
}

/// Returns a line for each count that is not 0, for people.
pub(crate) fn counts_text(counts: &BTreeMap<String, u64>) -> String {
    let counts = counts.iter().filter(|count| *count.1 > 0);
    let lines: Vec<String> = counts.map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    lines.join("\n")
}

/// Returns a line for each cause of pauses that occurred, for people.
pub(crate) fn pauses_text(pauses: &Pauses) -> String {
    let pauses = pauses.by_cause().into_iter().filter(|(_, pause)| pause.count > 0);
    let line = |(cause, pause): (&str, Pause)| {
        format!("{cause} {}, {:.1} s", grouped(pause.count), pause.total_ns as f64 / 1e9)
    };
    pauses.map(line).collect::<Vec<_>>().join("\n")
}

/// A capture of the frames that the device took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TraceReport {
    pub(crate) file: String,
    /// Frames in it.
    pub(crate) frames: u64,
    /// Frames that are missing in it because the disk was too slow or full.
    pub(crate) missed: u64,
}

impl TraceReport {
    pub(crate) fn of(file: &Path, counts: &TraceCounts) -> Self {
        let file = file.to_string_lossy().into_owned();
        Self { file, frames: counts.frames(), missed: counts.missed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statistic_named_as_a_key_is_nested() {
        let report = QdiscReport::new("own", BTreeMap::from([("marks", 1), ("name", 2), ("stats", 3)]));
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(json, r#"{"name":"own","marks":1,"stats":{"name":2,"stats":3}}"#);
        assert_eq!(report.text(), "own\nmarks: 1\nname: 2\nstats: 3");
    }
}
