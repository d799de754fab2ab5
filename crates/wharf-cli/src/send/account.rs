//! The account of a run: what its counters say, and whether it adds up.

use crate::report::{
    BqlReport, Drops, LatencyReport, PoolReport, ReceivedReport, Report, SenderReport, TimingReport,
};
use crate::wrap::Wrapped;
use wharf::counters::QueueCounters;
use wharf::devices::fault::INJECTED;
use wharf::devices::traffic::{Findings, Latency};
use wharf::pool::Audit;
use wharf::qdisc::DROP_HEAD;
use wharf::queue::TxQueue;
use wharf::run::Batching;
use wharf::sender::DROP_TAIL;

/// Why frames fail that is no fault: they were with the device when the path was closed early, or were made to.
const NO_FAULTS: [&str; 3] = ["closed", INJECTED, DROP_HEAD];

/// What a run leaves behind, besides its queue.
pub(super) struct Account {
    pub(super) device: String,
    /// Whether the device's completions are real, so that there is a byte limit.
    pub(super) has_bql: bool,
    /// From the first frame to the last completion.
    pub(super) span_ns: u64,
    pub(super) audit: Audit,
    /// How late frames were, at a pace.
    pub(super) timing: Option<Latency>,
    pub(super) received: Option<Findings>,
    pub(super) wrapped: Wrapped,
}

/// What a run came to.
pub(super) struct Outcome {
    pub(super) batching: Batching,
    pub(super) report: Report,
    /// What is wrong, a line each.
    pub(super) faults: Vec<String>,
    /// A signal ended it.
    pub(super) interrupted: bool,
}

impl Account {
    /// Draws it up. The queue is shut down.
    pub(super) fn close(mut self, queue: &TxQueue, batching: Batching, interrupted: bool) -> Outcome {
        let faults = self.faults(queue);
        Outcome { batching, report: self.report(queue), faults, interrupted }
    }

    fn report(&mut self, queue: &TxQueue) -> Report {
        let counters = queue.counters();
        let (packets, bytes, seconds) =
            (counters.packets.get(), counters.bytes.get(), self.span_ns as f64 / 1e9);
        let per_second = |amount: f64| if self.span_ns == 0 { 0.0 } else { rounded(amount / seconds) };
        let limit_bytes = if self.has_bql { counters.bql_limit_bytes.get() } else { 0 };
        Report {
            device: self.device.clone(),
            mode: queue.device_mode(),
            seconds,
            packets,
            bytes,
            mpps: per_second(packets as f64 / 1e6),
            gbps: per_second(bytes as f64 * 8.0 / 1e9),
            batches: counters.batches.get(),
            doorbells: counters.doorbells.get(),
            packets_per_doorbell: rounded(counters.packets_per_doorbell()),
            requeues: counters.requeues.get(),
            drops: drops(queue),
            returned: counters.returned.get(),
            bql: BqlReport { enabled: self.has_bql, limit_bytes },
            latency_ns: self.received.as_mut().and_then(|findings| latency(findings.latency.as_mut()?)),
            timing_error_ns: self.timing.as_mut().and_then(timing),
            senders: senders(queue),
            pool: PoolReport { frames: self.audit.frames, out: self.audit.out() as u64 },
            received: self.received.as_ref().map(|findings| received(findings, drops(queue).total)),
            faults: self.wrapped.faults(),
            trace: self.wrapped.trace(),
            compare: None,
        }
    }

    fn faults(&self, queue: &TxQueue) -> Vec<String> {
        let counters = queue.counters();
        let mut faults = device_faults(counters);
        let accepted: u64 = queue.senders().iter().map(|sender| sender.packets.get()).sum();
        let (sent, failed, returned) = (counters.sent.get(), counters.failed.get(), counters.returned.get());
        if accepted != sent + failed + returned {
            let sum = format!("{sent} sent, {failed} failed and {returned} returned");
            faults.push(format!("the account does not add up: {accepted} packets accepted, but {sum}"));
        }
        if self.audit.out() > 0 {
            faults.push(format!("memory did not come back: {}", self.audit));
        }
        let lost = drops(queue).total;
        faults.extend(self.received.iter().flat_map(|findings| receiver_faults(findings, sent, lost)));
        faults
    }
}

fn device_faults(counters: &QueueCounters) -> Vec<String> {
    let failures = counters.failures().into_iter().filter(|(reason, _)| !NO_FAULTS.contains(reason));
    let mut faults: Vec<String> =
        failures.map(|(reason, count)| format!("{count} packets failed: {reason}")).collect();
    faults.extend(counters.last_error());
    faults
}

fn receiver_faults(findings: &Findings, sent: u64, lost: u64) -> Vec<String> {
    let mut faults = Vec::new();
    let wrong = wrong(findings, lost);
    if let (1.., Some(first)) = (wrong, &findings.first_error) {
        faults.push(format!("{wrong} of {} packets received are wrong; {first}", findings.packets));
    }
    if findings.packets != sent {
        faults.push(format!("{sent} packets were sent, but {} received", findings.packets));
    }
    faults
}

/// What failed in the queue or beyond, and what senders dropped before it.
fn drops(queue: &TxQueue) -> Drops {
    let at_senders = queue.senders().iter().map(|sender| sender.drops.get()).sum::<u64>();
    let at_senders = at_senders + queue.past_senders().drops.get();
    let tail = (at_senders > 0).then_some((DROP_TAIL, at_senders));
    let failures = queue.counters().failures().into_iter().chain(tail);
    let by_reason = failures.map(|(reason, count)| (reason.to_string(), count)).collect();
    Drops { total: queue.counters().failed.get() + at_senders, by_reason }
}

fn senders(queue: &TxQueue) -> Vec<SenderReport> {
    let report = |counters: &wharf::counters::SenderCounters| SenderReport {
        packets: counters.packets.get(),
        waits: counters.waits.get(),
        drops: counters.drops.get(),
        drained_packets: counters.drained_packets.get(),
        small_queue_bytes: Some(counters.small_queue_bytes.get()).filter(|&bytes| bytes > 0),
    };
    queue.senders().iter().map(|counters| report(counters)).collect()
}

fn latency(latency: &mut Latency) -> Option<LatencyReport> {
    let mut at = |share| latency.quantile_ns(share);
    let report = LatencyReport { p50: at(0.5), p99: at(0.99), p999: at(0.999) };
    (latency.packets() > 0).then_some(report)
}

fn timing(errors: &mut Latency) -> Option<TimingReport> {
    let report =
        TimingReport { p50: errors.quantile_ns(0.5), p99: errors.quantile_ns(0.99), max: errors.max_ns() };
    (errors.packets() > 0).then_some(report)
}

fn received(findings: &Findings, lost: u64) -> ReceivedReport {
    ReceivedReport { packets: findings.packets, bytes: findings.bytes, errors: wrong(findings, lost) }
}

/// Packets that are wrong, or missing though fewer are known to have failed or been dropped.
fn wrong(findings: &Findings, lost: u64) -> u64 {
    findings.errors - findings.missing.min(lost)
}

/// To six places: what is measured is not better than that.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
