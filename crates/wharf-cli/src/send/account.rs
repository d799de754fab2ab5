//! The account of a run: its counters, and a check that they add up.

use super::plan::Plan;
use super::sending::Sending;
use crate::host_queue::HostQueueReport;
use crate::processor::ProcessorTime;
use crate::queues::{drops, of_queues, sum};
use crate::report::{ClassReport, LatencyReport, QdiscReport, ReceivedReport, Report, TimingReport};
use crate::session::Outcome;
use crate::watch::Running;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use wharf::queue::TxQueue;
use wharf::testing::FaultSpec;
use wharf_core::counters::add;
use wharf_core::device::{DeviceError, LOST};
use wharf_core::pool::Audit;
use wharf_tools::traffic::{Findings, Latency, Pauses};

/// Reasons of failed frames that are no faults: they were with the device when the path was closed early, or were injected.
const NO_FAULTS: [&str; 2] = ["closed", FaultSpec::INJECTED];
/// Another such reason, if the receiver hung up because the run was over.
const HUNG_UP: &str = "link-down";
/// Reason of packets to an interface that has been deleted.
const GONE: &str = "gone";

/// The remains of a run.
pub(super) struct Account<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) sending: &'a Sending,
    pub(super) sent: &'a Sent,
    /// With the settings at the end.
    pub(super) running: &'a Running,
    pub(super) audit: Audit,
    /// Timing errors, at a pace.
    pub(super) timing: Option<Latency>,
    pub(super) received: Option<Reception>,
    /// True if the receiver was ended with frames still on the way.
    pub(super) is_cut: bool,
}

/// The end of sending.
pub(super) struct Sent {
    /// Nanoseconds from the first frame to the last completion.
    pub(super) span_ns: u64,
    /// The error if the device was given up.
    pub(super) given_up: Option<String>,
    /// Frames that the device lost before the end. Frames that it still had when a signal or the time ended the run are no fault. `None`
    /// after a stall: all are.
    pub(super) lost: Option<u64>,
    /// Pauses of the sender that paused for longest.
    pub(super) pauses: Pauses,
    /// Processor time of the sending threads together.
    pub(super) time: ProcessorTime,
    /// Share of the supervisor's looks at which all memory was in use.
    pub(super) short_share: f64,
    /// The queue of the host's network stack, as the last packet had left.
    pub(super) host_queue: Option<HostQueueReport>,
    /// Seconds from the last refusal of a datagram to the end, if there was one.
    pub(super) unrefused_seconds: Option<f64>,
}

/// What arrived.
pub(super) struct Reception {
    pub(super) findings: Findings,
    /// Frames that the device dropped before they could be received, by reason.
    pub(super) drops: BTreeMap<String, u64>,
    /// The device's last error as it received.
    pub(super) device_error: Option<DeviceError>,
}

impl From<Findings> for Reception {
    fn from(findings: Findings) -> Self {
        Self { findings, drops: BTreeMap::new(), device_error: None }
    }
}

impl Account<'_> {
    /// Makes the report. The queues, of which there is at least one, are shut down.
    pub(super) fn close(mut self, interrupted: bool) -> Outcome<Report> {
        let faults = self.faults();
        Outcome { report: self.report(), faults, interrupted }
    }

    fn report(&mut self) -> Report {
        let Sending { name, queues, wrapped, .. } = self.sending;
        let qdisc = self.running.settings().map_or(self.plan.args.qdisc.kind(), |now| now.qdisc.kind());
        let lost = drops(queues);
        let latencies = self.received.as_ref().and_then(|reception| reception.findings.latencies.as_ref());
        let latencies = latencies.filter(|latencies| latencies.packets() > 0);
        Report {
            latency_ns: latencies.map(|latencies| LatencyReport::of(&latencies.all())),
            latency_by_dscp: latencies.map(ClassReport::all_of).unwrap_or_default(),
            pauses: self.timing.is_some().then_some(self.sent.pauses),
            host_queue: self.sent.host_queue.clone(),
            timing_error_ns: self.timing.as_mut().and_then(timing),
            received: self.received.as_ref().map(|reception| self.received(reception, queues, lost.total)),
            drops: lost,
            qdisc: Some(QdiscReport::of(qdisc.name, queues)),
            faults: wrapped.faults(),
            trace: wrapped.trace(),
            skipped: self.plan.skipped(),
            ..of_queues(name, queues, None, self.running.has_limit(), self.sent.span_ns, &self.audit)
        }
    }

    fn received(&self, reception: &Reception, queues: &[TxQueue], lost: u64) -> ReceivedReport {
        let Reception { findings, drops, .. } = reception;
        let under_way = sum(queues, |all| all.sent.get()).saturating_sub(findings.packets);
        ReceivedReport {
            packets: findings.packets,
            bytes: findings.bytes,
            errors: wrong(findings, lost),
            unchecked: findings.unchecked,
            not_arrived: if self.is_cut { under_way } else { 0 },
            drops: drops.clone(),
        }
    }

    fn faults(&self) -> Vec<String> {
        let queues = &self.sending.queues[..];
        let mut faults: Vec<String> = self.sent.given_up.iter().cloned().collect();
        let excused = match self.sent.lost {
            Some(before) if faults.is_empty() => lost(queues) - before,
            _ => 0,
        };
        let of_devices = device_faults(queues, excused, self.is_cut);
        let of_receiving = self.received.iter().filter_map(|reception| reception.device_error.as_ref());
        for fault in of_devices.into_iter().chain(of_receiving.map(ToString::to_string)) {
            // The error that gave the device up may be its last one, too.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let senders = queues.iter().flat_map(TxQueue::senders);
        let accepted: u64 = senders.map(|sender| sender.packets.get()).sum();
        let (sent, failed) = (sum(queues, |all| all.sent.get()), sum(queues, |all| all.failed.get()));
        let returned = sum(queues, |all| all.returned.get());
        if accepted != sent + failed + returned {
            let sum = format!("{sent} sent, {failed} failed and {returned} returned");
            faults.push(format!("the account does not add up: {accepted} packets accepted, but {sum}"));
        }
        if self.audit.out() > 0 {
            faults.push(format!("memory did not come back: {}", self.audit));
        }
        let dropped = drops(queues).total;
        // A frame that the device did not complete may have left, or not.
        let arrives = if self.is_cut { 0 } else { sent }..=sent + lost(queues);
        faults
            .extend(self.received.iter().flat_map(|reception| receiver_faults(reception, &arrives, dropped)));
        faults
    }
}

/// Returns the failures of all queues by reason, but `excused` lost ones, and the last error of each.
fn device_faults(queues: &[TxQueue], excused: u64, is_cut: bool) -> Vec<String> {
    let is_none = |reason: &str| NO_FAULTS.contains(&reason) || (is_cut && reason == HUNG_UP);
    let mut failures = Vec::new();
    for (reason, count) in queues.iter().flat_map(|queue| queue.counters().device_failures()) {
        add(&mut failures, reason, count);
    }
    // The kernel sets an interface down before it deletes it: of one that has gone, that is no news.
    let is_gone = failures.iter().any(|(reason, _)| *reason == GONE);
    let last_error = |queue: &TxQueue| match is_gone {
        true => queue.counters().last_error_beside_line(),
        false => queue.counters().last_error(),
    };
    let failures = failures.into_iter().filter(|(reason, _)| !is_none(reason));
    let failures =
        failures.map(|(reason, count)| (reason, if reason == LOST { count - excused } else { count }));
    let failures = failures.filter(|(_, count)| *count > 0);
    let failures =
        failures.map(|(reason, count)| format!("{count} packet{} failed: {reason}", plural(count)));
    failures.chain(queues.iter().filter_map(last_error)).collect()
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns the frames of which the device did not say that it had sent them: they may have arrived.
pub(super) fn lost(queues: &[TxQueue]) -> u64 {
    let failures = queues.iter().flat_map(|queue| queue.counters().device_failures());
    failures.filter(|(reason, _)| *reason == LOST).map(|(_, count)| count).sum()
}

/// Returns the receiver's faults; `arrives` is the number of frames that have to arrive.
fn receiver_faults(reception: &Reception, arrives: &RangeInclusive<u64>, lost: u64) -> Vec<String> {
    let findings = &reception.findings;
    let mut faults = Vec::new();
    let missing = findings.missing.saturating_sub(lost);
    let damaged = findings.errors - findings.missing;
    match (damaged, missing, &findings.first_error) {
        (0, 1.., Some(first)) => faults.push(format!("{missing} packets are missing; {first}")),
        (1.., _, Some(first)) => {
            faults.push(format!("{damaged} of {} packets received are wrong; {first}", findings.packets));
        }
        _ => {}
    }
    if !arrives.contains(&findings.packets) {
        let sent = if findings.packets < *arrives.start() { arrives.start() } else { arrives.end() };
        faults.push(format!("{sent} packets were sent, but {} received", findings.packets));
    }
    if !faults.is_empty() {
        let drops = reception.drops.iter().filter(|(_, count)| **count > 0);
        faults.extend(
            drops.map(|(reason, count)| {
                format!("{count} packet{} dropped on arrival: {reason}", plural(*count))
            }),
        );
    }
    faults
}

fn timing(errors: &mut Latency) -> Option<TimingReport> {
    let report =
        TimingReport { p50: errors.quantile_ns(0.5), p99: errors.quantile_ns(0.99), max: errors.max_ns() };
    (errors.packets() > 0).then_some(report)
}

/// Returns the packets that are wrong, or missing although fewer are known to have failed or been dropped.
fn wrong(findings: &Findings, lost: u64) -> u64 {
    findings.errors - findings.missing.min(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packets_are_told_with_the_drops_of_the_device_that_received() {
        let findings = Findings { packets: 7, errors: 3, missing: 3, ..Findings::default() };
        let findings = Findings { first_error: Some("sender 0: 3 lost".into()), ..findings };
        let drops = [("ring-full".to_string(), 3), ("malformed".to_string(), 0)].into();
        let reception = Reception { drops, ..findings.into() };
        let faults = receiver_faults(&reception, &(10..=10), 0);
        let [missing, received, dropped] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!(missing, "3 packets are missing; sender 0: 3 lost");
        assert_eq!(received, "10 packets were sent, but 7 received");
        assert_eq!(dropped, "3 packets dropped on arrival: ring-full");
        // All packets of this run have come back: the device dropped other hosts' packets.
        let whole = Findings { packets: 10, ..Findings::default() };
        assert!(
            receiver_faults(&Reception { drops: reception.drops, ..whole.into() }, &(10..=10), 0).is_empty()
        );
    }
}
