//! The account of a run: the counts of each direction, and a check that they add up.

use super::routed::RouteReport;
use crate::args::WhenFull;
use crate::queues::{of_queues, sum};
use crate::report::{Drops, LatencyReport, QdiscReport, Report, TraceReport};
use crate::session::Outcome;
use crate::watch::Settings;
use serde::Serialize;
use std::collections::HashSet;
use wharf::forward::Summary;
use wharf::qdisc::Order;
use wharf_tools::traffic::Latency;

/// Both directions, or the ports of a switch. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct ForwardReport {
    pub(super) directions: Vec<DirectionReport>,
    /// The capture of sent frames; null without one.
    pub(super) mirror: Option<TraceReport>,
    /// What the router did; null without `--route`.
    pub(super) route: Option<RouteReport>,
}

/// One direction, as `send` reports it; `device` is the end that frames left by. Of a switch, one port: what
/// arrived at it, and what left by it.
#[derive(Debug, Serialize)]
pub(super) struct DirectionReport {
    /// The end that frames arrived at.
    pub(super) from: String,
    /// Frames received.
    pub(super) received_packets: u64,
    /// Super-packets of these that were segmented before the queue, and their segments.
    pub(super) cut_packets: u64,
    pub(super) pieces: u64,
    /// `seconds` without pauses of a second and more with nothing inside. Rates are over this time.
    pub(super) active_seconds: f64,
    /// Treatment of packets when the discipline is full.
    pub(super) when_full: WhenFull,
    /// Time that packets which left had waited in the discipline, of one in 16; null if none left. The devices' rings are not in it.
    pub(super) queue_delay_ns: Option<LatencyReport>,
    /// The same of packets that the discipline held, by its bands; empty without bands.
    pub(super) queue_delay_by_band: Vec<BandReport>,
    /// Time that packets were in the device, from the call that took them until it reported them as sent; null if it does not report that,
    /// or none left. One packet of each band is followed at a time.
    pub(super) ring_delay_ns: Option<LatencyReport>,
    /// The same by band; empty without bands.
    pub(super) ring_delay_by_band: Vec<BandReport>,
    /// Packets among these whose time ended with a stamp of the device's.
    pub(super) ring_delays_stamped: u64,
    /// Time that it took a poller to transmit a packet while more came than left, on average; null if that
    /// never was.
    pub(super) transmit_ns: Option<u64>,
    #[serde(flatten)]
    pub(super) common: Report,
}

/// Delays of one band.
#[derive(Debug, Serialize)]
pub(super) struct BandReport {
    pub(super) band: u8,
    pub(super) delay_ns: LatencyReport,
}

/// Makes the report. `lost` is the error of the device that ended the run, if one did; `interrupted` says
/// that a signal did.
pub(super) fn outcome(
    summaries: Vec<Summary>, lost: Option<String>, interrupted: bool, mirror: Option<TraceReport>,
    settings: &[Settings], is_switch: bool,
) -> Outcome<ForwardReport> {
    let mut faults: Vec<String> = lost.into_iter().collect();
    match is_switch {
        true => faults.extend(Summary::missing_of(&summaries)),
        false => faults.extend(summaries.iter().filter_map(Summary::missing)),
    }
    for summary in &summaries {
        faults.extend(summary.errors.iter().map(ToString::to_string));
        let memory = format!("memory did not come back: {}", summary.audit);
        faults.extend((summary.audit.out() > 0).then_some(memory));
    }
    // Several queues of an interface may have the same error.
    let mut told = HashSet::new();
    faults.retain(|fault| told.insert(fault.clone()));
    let directions =
        summaries.into_iter().zip(settings).map(|(summary, settings)| direction(summary, settings)).collect();
    Outcome { report: ForwardReport { directions, mirror, route: None }, faults, interrupted }
}

/// `settings` are those in force at the end.
fn direction(summary: Summary, settings: &Settings) -> DirectionReport {
    let (span_ns, active_ns) = (summary.span_ns, summary.active_ns);
    let qdisc = QdiscReport::of(settings.qdisc.kind().name, &summary.queues);
    let uses_bands = settings.qdisc.kind().order == Order::Band;
    let common = Report {
        drops: Drops::of(summary.drops),
        qdisc: Some(QdiscReport { root: settings.rate.map(|_| "tbf"), ..qdisc }),
        seconds: span_ns as f64 / 1e9,
        ..of_queues(
            &summary.to,
            &summary.queues,
            Some(summary.returned),
            summary.can_limit && !settings.bql.is_off(),
            active_ns,
            &summary.audit,
        )
    };
    DirectionReport {
        from: summary.from,
        received_packets: summary.received,
        cut_packets: summary.cut,
        pieces: summary.pieces,
        active_seconds: active_ns as f64 / 1e9,
        when_full: settings.when_full,
        queue_delay_ns: delay(&summary.queue_delay),
        ring_delay_ns: delay(&all_of(&summary.ring_delay_by_band)),
        ring_delay_by_band: if uses_bands { bands(&summary.ring_delay_by_band) } else { Vec::new() },
        ring_delays_stamped: summary.ring_delays_stamped,
        transmit_ns: sum(&summary.queues, |all| all.overload_ns.get())
            .checked_div(sum(&summary.queues, |all| all.overload_packets.get())),
        queue_delay_by_band: if uses_bands { bands(&summary.queue_delay_by_band) } else { Vec::new() },
        common,
    }
}

fn all_of(by_band: &[Latency]) -> Latency {
    let mut all = Latency::default();
    by_band.iter().for_each(|band| all.add(band));
    all
}

fn delay(of: &Latency) -> Option<LatencyReport> {
    (of.packets() > 0).then(|| LatencyReport::of(of))
}

fn bands(by_band: &[Latency]) -> Vec<BandReport> {
    let one = |(band, of): (u8, &Latency)| Some(BandReport { band, delay_ns: delay(of)? });
    (0..).zip(by_band).filter_map(one).collect()
}
