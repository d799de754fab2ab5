//! The figures of a direction from which its verdict is judged.

use super::account::DirectionReport;
use crate::args::{ForwardArgs, WhenFull};
use crate::beside;
use crate::processor::ProcessorTime;
use crate::verdict::{self, CommandLine, ForwardFigures, Verdict};
use crate::watch::Settings;
use wharf_core::poller::Mode;
use wharf_devices::host::processors;

/// Judges a direction, whose `settings` at the end these are. `links` are the speeds of the wires behind the ends; `time` is what the
/// process used.
pub(super) fn judge(
    direction: &DirectionReport, args: &ForwardArgs, settings: &Settings, links: [Option<f64>; 2],
    time: ProcessorTime,
) -> Verdict {
    let common = &direction.common;
    let is_back = direction.from != args.a.name();
    let (ends, link_bps) =
        if is_back { ([&args.b, &args.a], links[0]) } else { ([&args.a, &args.b], links[1]) };
    let pollers = args.pollers.unwrap_or(args.queues as usize);
    let polling = (args.poll != Mode::Busy).then(|| time.within(direction.active_seconds, pollers));
    let more = (pollers < 2 * args.queues as usize && pollers < processors().len()).then_some(pollers + 1);
    verdict::forward(&ForwardFigures {
        command: CommandLine::own(),
        pollers: more,
        kinds: ends.map(|end| end.kind()),
        from: direction.from.clone(),
        to: common.device.clone(),
        has_bench: beside::is_there("wharf-bench"),
        rate: settings.rate,
        rate_has_changed: settings.rate_changes > 0,
        waits: settings.when_full == WhenFull::Wait,
        received: direction.received_packets,
        sent: common.counts.sent,
        seconds: direction.active_seconds,
        came_pps: common.mpps * 1e6,
        came_bps: common.gbps * 1e9,
        link_bps,
        transmit_ns: direction.transmit_ns,
        requeues: common.counts.requeues,
        has_byte_limit: common.bql.enabled,
        polling,
        drops: common.drops.by_reason.clone(),
    })
}
