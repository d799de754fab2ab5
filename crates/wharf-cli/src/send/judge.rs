//! The figures of a run from which its verdict is judged.

use super::account::Sent;
use super::plan::Plan;
use crate::beside;
use crate::processor::ProcessorTime;
use crate::report::Report;
use crate::verdict::{self, Asked, CommandLine, SendFigures, Verdict};
use wharf_tools::traffic::Pace;

/// Judges a run. `receiving` is the processor time of the receiver in this process, `away_seconds` the time
/// for which the device was away, `link_bps` the speed of the wire behind it, if there is one.
pub(super) fn judge(
    plan: &Plan, report: &Report, sent: &Sent, receiving: Option<ProcessorTime>, away_seconds: f64,
    link_bps: Option<f64>,
) -> Verdict {
    let kind = plan.args.to.kind();
    verdict::send(&SendFigures {
        command: CommandLine::own(),
        kind,
        to: plan.args.to.to_string(),
        has_far_end: kind.can.far_end,
        has_bench: beside::is_there("wharf-bench"),
        asked: asked(plan, report),
        // A super-packet counts for the packets in it, as in the rate that was asked for.
        sent: report.counts.sent * plan.traffic.packets_each(),
        came_pps: report.mpps * 1e6 * plan.traffic.packets_each() as f64,
        came_bps: report.gbps * 1e9,
        seconds: report.seconds,
        link_bps,
        senders: plan.threads().into(),
        sending: sent.time,
        receiving,
        waits: report.senders.iter().map(|sender| sender.waits).sum(),
        requeues: report.counts.requeues,
        frames: plan.frames(),
        short_share: sent.short_share,
        drops: report.drops.by_reason.clone(),
        away_seconds,
        late_ns: report.timing_error_ns.as_ref().map_or(0, |timing| timing.p99),
        pauses: report.pauses.unwrap_or_default(),
        host_queue: report.host_queue.clone(),
        unrefused_seconds: sent.unrefused_seconds,
    })
}

/// Returns the pace of all senders together, that of the sparse flow included.
fn asked(plan: &Plan, report: &Report) -> Asked {
    let mean_bytes =
        report.counts.bytes as f64 / (report.counts.packets * plan.traffic.packets_each()).max(1) as f64;
    let pps = |pace: Pace| match pace {
        Pace::Packets(packets) => Some(packets as f64),
        Pace::Millipackets(rate) => Some(rate as f64 / 1e3),
        Pace::Bits(bits) if mean_bytes > 0.0 => Some(bits as f64 / 8.0 / mean_bytes),
        Pace::Top | Pace::Captured(_) | Pace::Bits(_) => None,
    };
    match plan.pace() {
        Pace::Captured(_) if plan.args.pcap.is_some() => Asked::Original,
        pace => pps(pace).map_or(Asked::Top, |of_all| {
            let of_sparse = plan.args.priority_rate.and_then(pps).unwrap_or(0.0);
            Asked::Rate { pps: of_all + of_sparse }
        }),
    }
}
