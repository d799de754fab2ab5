//! The account of a reception: arrivals, and known losses.

use crate::args::ReceiveArgs;
use crate::counts::Counts;
use crate::processor::ProcessorTime;
use crate::queues::rounded;
use crate::report::{ClassReport, Drops, LatencyReport, PoolReport, Report, RxQueueReport, SenderReport};
use crate::session::Outcome;
use crate::verdict::{self, CommandLine, ReceiveFigures, Verdict};
use crate::wrap::Wrapped;
use serde::Serialize;
use std::collections::BTreeMap;
use wharf_core::pool::Audit;
use wharf_devices::pcap::{EMPTY, LINK_TYPE};
use wharf_devices::spec::Place;
use wharf_tools::traffic::{Amount, Arrivals, SequenceCounts, StreamReport};

/// The remains of a reception besides its arrivals.
#[derive(Default)]
pub(super) struct Account {
    pub(super) device: String,
    pub(super) mode: Option<&'static str>,
    pub(super) mode_reason: Option<String>,
    pub(super) batches: u64,
    /// Drops before reception.
    pub(super) drops: BTreeMap<String, u64>,
    /// Packets by receive queue of the interface.
    pub(super) by_queue: Vec<RxQueueReport>,
    pub(super) faults: Vec<String>,
    pub(super) wrapped: Wrapped,
}

/// One direction, with the evidence of the stamps of generated packets. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct ReceiveReport {
    #[serde(flatten)]
    pub(super) common: Report,
    /// Generated packets that did not arrive, before the last that did.
    pub(super) lost: u64,
    /// Lost packets whose number is lower than the first that arrived of their sender: perhaps this receiver began later.
    pub(super) lost_before_first: u64,
    /// Generated packets that came after one sent later.
    pub(super) reordered: u64,
    /// Generated packets that had come before.
    pub(super) duplicated: u64,
    /// Packets without a stamp.
    pub(super) unstamped: u64,
    /// Generated packets alone: other traffic, whose first packet may come long before, is not in their time.
    pub(super) generated: Rates,
    /// Unstamped packets that hosts send by themselves: ARP, neighbour and listener discovery of IPv6, IGMP, LLDP.
    pub(super) host_packets: u64,
    /// Packets of the burst alone, without `host_packets`. A capture without generated packets counts whole.
    pub(super) traffic: Rates,
    /// Generated packets by sender, in the order in which the senders appeared; as `senders`, with losses.
    pub(super) streams: Vec<StreamReport>,
}

/// Packets, bytes, time and rates; the keys are those of all packets.
#[derive(Debug, Serialize)]
pub(super) struct Rates {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) mpps: f64,
    pub(super) gbps: f64,
}

impl Account {
    /// Notes a fault, if there is one.
    pub(super) fn fault(&mut self, what: Option<String>) {
        // The receiver and the watch over its device may say the same.
        self.faults.extend(what.filter(|what| !self.faults.contains(what)));
    }

    /// Makes the report. The device is closed.
    pub(super) fn close(
        mut self, arrivals: &Arrivals, is_file: bool, audit: &Audit, interrupted: bool,
    ) -> Outcome<ReceiveReport> {
        let SequenceCounts { packets, lost, reordered, duplicated, lost_before_first } = arrivals.counts();
        if lost > 0 {
            // The numbers of a forged stamp may make any loss.
            let sent = (packets - duplicated).saturating_add(lost);
            self.faults.push(format!("{lost} of {sent} generated packets were lost"));
        }
        // A record of length 0 is no packet that could be lost.
        let is_none = |reason: &str| [EMPTY, LINK_TYPE].contains(&reason);
        let dropped = self.drops.iter().filter(|(reason, count)| **count > 0 && !is_none(reason));
        self.faults.extend(dropped.map(|(reason, count)| format!("{count} packets were dropped: {reason}")));
        if audit.out() > 0 {
            self.faults.push(format!("memory did not come back: {audit}"));
        }
        let report = ReceiveReport {
            lost,
            lost_before_first,
            reordered,
            duplicated,
            unstamped: arrivals.unstamped(),
            generated: arrivals.stamped().into(),
            host_packets: arrivals.of_hosts().packets,
            // A capture without generated packets has the hosts' own packets as part of its traffic.
            traffic: if is_file && arrivals.stamped().packets == 0 {
                arrivals.all()
            } else {
                arrivals.traffic()
            }
            .into(),
            streams: arrivals.streams().collect(),
            common: self.common(arrivals, audit),
        };
        Outcome { report, faults: self.faults, interrupted }
    }

    fn common(&mut self, arrivals: &Arrivals, audit: &Audit) -> Report {
        let Rates { packets, bytes, seconds, mpps, gbps } = arrivals.all().into();
        let sender =
            |stream: StreamReport| SenderReport { packets: stream.counts.packets, ..SenderReport::default() };
        Report {
            device: self.device.clone(),
            mode: self.mode,
            mode_reason: self.mode_reason.clone(),
            seconds,
            counts: Counts { packets, bytes, batches: self.batches, ..Counts::default() },
            mpps,
            gbps,
            drops: Drops::of(std::mem::take(&mut self.drops)),
            latency_ns: arrivals.latencies().map(|latencies| LatencyReport::of(&latencies.all())),
            latency_by_dscp: arrivals.latencies().map(ClassReport::all_of).unwrap_or_default(),
            senders: arrivals.streams().map(sender).collect(),
            rx_queues: std::mem::take(&mut self.by_queue),
            pool: PoolReport::of(audit),
            faults: self.wrapped.faults(),
            trace: self.wrapped.trace(),
            ..Report::default()
        }
    }
}

impl ReceiveReport {
    /// Judges the reception, whose thread used `time` if it had none to wait for packets.
    pub(super) fn judge(&self, args: &ReceiveArgs, time: Option<ProcessorTime>) -> Verdict {
        let (kind, traffic) = (args.from.kind(), &self.traffic);
        let generated = self.generated.packets - self.duplicated.min(self.generated.packets);
        let has_interface = matches!(kind.place, Place::Interface(_));
        verdict::receive(&ReceiveFigures {
            command: CommandLine::own(),
            kind,
            interface: has_interface.then(|| args.from.place().to_string()),
            is_file: args.from.file().is_some(),
            packets: traffic.packets,
            host_packets: self.host_packets,
            left_out: self.common.counts.packets - traffic.packets,
            seconds: traffic.seconds,
            came_pps: traffic.mpps * 1e6,
            generated,
            lost: self.lost,
            lost_before_first: self.lost_before_first,
            receiving: time,
            frames: args.memory.frames,
            drops: self.common.drops.by_reason.clone(),
        })
    }
}

impl From<Amount> for Rates {
    fn from(amount: Amount) -> Self {
        let Amount { packets, bytes, .. } = amount;
        let seconds = amount.span_ns() as f64 / 1e9;
        let per_second = |amount: f64| if seconds > 0.0 { rounded(amount / seconds) } else { 0.0 };
        let (mpps, gbps) = (per_second(packets as f64 / 1e6), per_second(bytes as f64 * 8.0 / 1e9));
        Self { packets, bytes, seconds, mpps, gbps }
    }
}
