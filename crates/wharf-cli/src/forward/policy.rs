//! Checks of a forwarder's options, the discipline of each direction, and what it does at its limit.

use super::routed;
use crate::args::{ForwardArgs, WhenFull};
use crate::files::check_written;
use crate::sandbox;
use crate::session::check_cpus;
use crate::usage;
use wharf::forward::Forward;
use wharf::qdisc::{Order, QdiscRegistry, QdiscSpec};

/// Time that a full discipline which drops holds up a packet, at the rate and with the longest ordinary frames.
const SHORT_MS: u64 = 50;
/// Frames that such a discipline holds, at least and at most: at 100 Mbit/s the most last 60 ms, at 10 Gbit/s 0.6 ms.
const SHORT_PACKETS: std::ops::RangeInclusive<u64> = 50..=500;
/// Bits of the longest ordinary frame.
pub(crate) const FRAME_BITS: u64 = 1514 * 8;

/// Checks the command line before anything is opened or created.
pub(super) fn check(args: &ForwardArgs) -> anyhow::Result<()> {
    for (end, spec) in args.ends().into_iter().enumerate() {
        spec.check(Forward::direction_at(end, spec.kind())).map_err(usage)?;
    }
    check_ends(args)?;
    check_queues(args)?;
    routed::check(args)?;
    check_cpus(&args.cpu)?;
    sandbox::check(&args.sandbox)?;
    let mirror = args.mirror.as_deref().map(|path| ("--mirror", path));
    let further = args.ports.iter().map(|end| end.file().map(|path| ("a further end", path)));
    let written = [args.b.file().map(|path| ("the second end", path)), mirror, args.watch.written()];
    let written: Vec<_> = written.into_iter().chain(further).collect();
    check_written(args.a.file().map(|path| ("the first end", path)), &written)
}

/// Checks that the ends differ: arrivals would leave where they came from, by `lo` for ever. (The queues of one AF_XDP interface share
/// one program, which has one owner.)
fn check_ends(args: &ForwardArgs) -> anyhow::Result<()> {
    let ends = args.ends();
    let twice = |at: &usize| ends[..*at].iter().any(|other| other.is_same_end(ends[*at]));
    if let Some(at) = (1..ends.len()).find(twice) {
        let how_many = if ends.len() == 2 { "both" } else { "two" };
        let name = ends[at].name();
        return Err(usage(format!("{how_many} ends are {name}: name two, or nothing gets anywhere")));
    }
    let is_end = |name: &str| ends.iter().any(|end| end.name() == name);
    match args.vlan.iter().find(|(name, _)| ends.len() == 2 || !is_end(name)) {
        Some((name, _)) if ends.len() > 2 => Err(usage(format!("--vlan {name}: there is no such port"))),
        Some(_) => Err(usage("--vlan: VLANs are of ports of a switch, which has three ends and more")),
        None if ends.len() > 2 => Ok(()),
        None if args.flood_limit.is_some() => {
            Err(usage("--flood-limit: of a switch, which has three ends and more"))
        }
        None if args.forget_after.is_some() => {
            Err(usage("--forget-after: of a switch, which has three ends and more"))
        }
        None => Ok(()),
    }
}

/// Checks that other options go with several queues.
fn check_queues(args: &ForwardArgs) -> anyhow::Result<()> {
    let (ends, queues) = (args.ends().len(), args.queues as usize);
    match args.pollers {
        Some(pollers) if pollers > ends * queues => {
            let each = if ends == 2 { "two" } else { "as many as ports" };
            let most = ends * queues;
            Err(usage(format!("--pollers {pollers}: {each} for each queue at most, so 1 to {most}")))
        }
        _ => Ok(()),
    }
}

/// The discipline of each direction, and what it does at its limit.
pub(crate) struct Policy {
    /// The discipline that was asked for. One that drops gets a short limit later, with the rate in force.
    pub(crate) qdisc: QdiscSpec,
    pub(crate) when_full: WhenFull,
}

impl Policy {
    /// Returns what was asked for, or the default: nothing that arrives waits in front of the discipline, unless an end is a capture.
    pub(super) fn of(args: &ForwardArgs) -> anyhow::Result<Self> {
        let has_capture = args.ports.is_empty() && args.ends().iter().any(|end| end.file().is_some());
        let is_lossless = args.when_full.map_or(has_capture, |when_full| when_full == WhenFull::Wait);
        // CoDel drops however much room there is.
        let by_default = if is_lossless { "fifo" } else { "fq_codel" };
        let asked = args.qdisc.clone().map_or_else(|| QdiscRegistry::default().parse(by_default), Ok);
        let qdisc = asked.map_err(usage)?;
        if is_lossless {
            return Ok(Self { qdisc, when_full: WhenFull::Wait });
        }
        let when_full = args.when_full.unwrap_or_else(|| own_when_full(&qdisc));
        Ok(Self { qdisc, when_full })
    }
}

/// Returns the way in which a full discipline drops if none is asked for.
pub(crate) fn own_when_full(qdisc: &QdiscSpec) -> WhenFull {
    // A discipline of flows knows which one to drop from. To others the newest packet is as good as any.
    if qdisc.kind().order == Order::Flow { WhenFull::DropHead } else { WhenFull::DropTail }
}

/// Returns the packets of a discipline that drops and has no limit of its own.
pub(crate) fn short_packets(rate: Option<u64>) -> usize {
    let at_rate = |bits_per_second: u64| bits_per_second.saturating_mul(SHORT_MS) / 1000 / FRAME_BITS;
    let packets = rate.map_or(*SHORT_PACKETS.end(), at_rate);
    packets.clamp(*SHORT_PACKETS.start(), *SHORT_PACKETS.end()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Settings;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ForwardArgs,
    }

    #[test]
    fn nothing_waits_in_front_of_the_discipline_unless_it_must() {
        use WhenFull::{DropHead, DropTail, Wait};
        for (line, name, when_full, packets) in [
            ("packet:a packet:b", "fq_codel", DropHead, 500),
            ("packet:a packet:b --rate 20mbit", "fq_codel", DropHead, 82),
            ("packet:a packet:b --rate 20mbit --qdisc fq_codel:limit=7", "fq_codel", DropHead, 7),
            ("packet:a tap:b --rate 20mbit --qdisc prio", "prio", DropTail, 3 * 82),
            ("packet:a tap:b --qdisc prio:limit=9 --when-full drop-head", "prio", DropHead, 27),
            ("packet:a tap:b --qdisc fifo:20", "fifo", DropTail, 20),
            ("packet:a packet:b --rate 20mbit --when-full drop-tail", "fq_codel", DropTail, 82),
            ("packet:a packet:b --rate 20mbit --when-full wait", "fifo", Wait, 1000),
            ("packet:a packet:b --qdisc prio --when-full wait", "prio", Wait, 3000),
            ("pcap:a packet:b --rate 20mbit", "fifo", Wait, 1000),
            ("packet:a pcap:b --qdisc prio", "prio", Wait, 3000),
            ("pcap:a null --when-full drop-tail", "fq_codel", DropTail, 500),
        ] {
            let args = Line::parse_from(std::iter::once("forward").chain(line.split(' '))).args;
            let policy = Policy::of(&args).unwrap();
            let (which, qdisc) = (policy.when_full, Settings::of_forwarder(&args, &policy).limited_qdisc());
            assert_eq!((qdisc.kind().name, which, qdisc.packets()), (name, when_full, packets), "{line}");
        }
    }

    #[test]
    fn a_short_discipline_lasts_as_long_at_any_rate_within_bounds() {
        let packets = [8_000, 20_000_000, 100_000_000, 10_000_000_000, u64::MAX].map(Some).map(short_packets);
        assert_eq!((packets, short_packets(None)), ([50, 82, 412, 500, 500], 500));
    }
}
