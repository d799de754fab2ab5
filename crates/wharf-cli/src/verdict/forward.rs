//! The verdict on one direction of `forward`.

use super::{Bound, CommandLine, Loss, REACHED_SHARE, Verdict, link_cause, processor_cause};
use crate::output::{bit_rate, packet_rate, time};
use crate::processor::ProcessorTime;
use std::collections::BTreeMap;
use wharf::qdisc::Rate;
use wharf_devices::spec::Kind;

/// Share of a rate from which on packets that were dropped waited for it, if the device never left any.
const HELD_SHARE: f64 = 0.5;

/// Time to transmit a packet from which on it is not the poller's own work, nor a system call.
const PAYS_NS: u64 = 5_000;

/// The reason of packets for a link that is down.
const LINK_DOWN: &str = "link-down";

/// The figures of a direction.
#[derive(Debug, Clone)]
pub(crate) struct ForwardFigures {
    pub(crate) command: CommandLine,
    /// More pollers than there were, if queues and processors are there for them.
    pub(crate) pollers: Option<usize>,
    /// Kinds of the ends, that which receives first.
    pub(crate) kinds: [&'static Kind; 2],
    pub(crate) from: String,
    pub(crate) to: String,
    /// `wharf bench` can be run here.
    pub(crate) has_bench: bool,
    /// The rate of `--rate`, or that of the last change.
    pub(crate) rate: Option<Rate>,
    pub(crate) rate_has_changed: bool,
    /// Nothing is received while the discipline is full.
    pub(crate) waits: bool,
    /// Packets received and sent, and the time in which there were any.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) seconds: f64,
    pub(crate) came_pps: f64,
    pub(crate) came_bps: f64,
    pub(crate) link_bps: Option<f64>,
    /// Time that it took a poller to transmit a packet while more came than left.
    pub(crate) transmit_ns: Option<u64>,
    /// Packets that the device left for later, and whether it has a byte limit, which holds packets back as well.
    pub(crate) requeues: u64,
    pub(crate) has_byte_limit: bool,
    /// Processor time of the pollers in that time; none if they never sleep.
    pub(crate) polling: Option<ProcessorTime>,
    /// Drops in this direction, at either end.
    pub(crate) drops: BTreeMap<String, u64>,
}

/// Judges a direction.
pub(crate) fn forward(figures: &ForwardFigures) -> Verdict {
    let loss = Loss::of(&figures.drops, &figures.kinds).map(|loss| figures.of_a_full_discipline(loss));
    let (bounded_by, cause) = figures.cause(loss.as_ref());
    let per_second =
        |packets: u64| if figures.seconds > 0.0 { packets as f64 / figures.seconds } else { 0.0 };
    let offered = figures.received + loss.as_ref().map_or(0, Loss::before_receiving);
    let (asked_pps, came_pps) = (per_second(offered), figures.came_pps);
    let first = match figures.received {
        0 => cause,
        _ => {
            let [asked, came] = [asked_pps, came_pps].map(packet_rate);
            format!("{} to {}: offered {asked}, came to {came}: {cause}.", figures.from, figures.to)
        }
    };
    let text = std::iter::once(first)
        .chain(loss.as_ref().map(|loss| loss.sentence(offered + loss.left_out())))
        .collect();
    let next = figures.next(bounded_by, loss.as_ref());
    Verdict { text, bounded_by, asked_pps: Some(asked_pps), came_pps, loss, next }
}

impl ForwardFigures {
    /// Returns what bounded the rate, and the evidence, as the end of a sentence.
    fn cause(&self, loss: Option<&Loss>) -> (Bound, String) {
        if self.received == 0 {
            return (Bound::Nothing, format!("Nothing arrived at {}.", self.from));
        }
        let (of_queue, of_receiver) = loss.map_or((0, 0), |loss| (loss.of_queue(), loss.of_receiver()));
        if self.rate_has_changed && of_queue > 0 && self.requeues == 0 {
            let now = self.rate.map_or("off".into(), rate_text);
            let cause =
                format!("the discipline dropped {of_queue} packets at a rate that changed, to {now} at last");
            return (Bound::Rate, cause);
        }
        if let Some(rate) = self.rate.filter(|&rate| self.is_held_to(rate, of_queue)) {
            let came = match rate.packets_per_second() {
                Some(_) => packet_rate(self.came_pps),
                None => bit_rate(self.came_bps),
            };
            return (Bound::Rate, format!("{came} of --rate {}", rate_text(rate)));
        }
        if let Some(loss) = loss.filter(|loss| loss.reason() == LINK_DOWN) {
            let packets = loss.packets;
            return (Bound::Link, format!("the link of {} was down while {packets} packets came", self.to));
        }
        if let Some(cause) = link_cause(self.link_bps, self.came_bps, self.came_pps) {
            return (Bound::Link, cause);
        }
        if of_queue + of_receiver == 0 {
            return self.unhindered(loss);
        }
        if let Some(cause) = self.polling.and_then(|time| processor_cause("each poller", time)) {
            let pays = self.transmit_ns.filter(|&ns| ns >= PAYS_NS).map(|ns| {
                let (time, to) = (time(ns), &self.to);
                format!(". A packet to {to} took {time} of it: the poller pays for the work of whoever receives there")
            });
            return (Bound::Processor, cause + &pays.unwrap_or_default());
        }
        if of_receiver > of_queue {
            let cause = format!("the ring of {} was full before packets were taken from it", self.from);
            return (Bound::Receiver, cause);
        }
        let dropped = format!("the discipline dropped {of_queue} packets");
        if self.requeues > 0 || self.has_byte_limit && self.rate.is_none() {
            (Bound::Device, format!("{} took no more, and {dropped}", self.to))
        } else {
            (Bound::Nothing, format!("{dropped}, and no counter shows a limit"))
        }
    }

    /// Returns true if the rate was reached, or if packets waited for it and not for the device, as far as that shows.
    fn is_held_to(&self, rate: Rate, of_queue: u64) -> bool {
        if self.rate_has_changed {
            return false;
        }
        let is_starved = self.polling.is_some_and(|time| processor_cause("", time).is_some());
        let waited = of_queue > 0 && self.requeues == 0 && !is_starved;
        let share = match rate.packets_per_second() {
            Some(packets) => self.came_pps / packets as f64,
            None => self.came_bps / rate.bits_per_second() as f64,
        };
        share >= REACHED_SHARE || waited && share >= HELD_SHARE
    }

    /// Tells of packets that the receiving device dropped while the discipline was full, and nothing was received.
    fn of_a_full_discipline(&self, mut loss: Loss) -> Loss {
        if self.waits && loss.of_receiver() * 2 > loss.packets {
            loss.cause = "nothing was received while the discipline was full (`--when-full wait`). Have the discipline drop \
                (`--when-full drop-tail`), or raise what it leaves by; a larger ring makes packets wait longer."
                .into();
        }
        loss
    }

    fn next(&self, bounded_by: Bound, loss: Option<&Loss>) -> Option<String> {
        let loss = loss?;
        match (bounded_by, self.pollers) {
            // More pollers have no more of a processor that other work has.
            (Bound::Processor, Some(_)) if self.polling.is_some_and(ProcessorTime::is_behind_others) => None,
            (Bound::Processor, Some(more)) => Some(self.command.with("--pollers", &more.to_string())),
            (Bound::Device, _) if self.has_bench => {
                Some(format!("wharf bench device --to {}", super::quoted(&self.to)))
            }
            _ if loss.of_queue() == loss.packets => None,
            _ => Some(loss.explain()),
        }
    }

    /// Returns the bound of a direction that dropped nothing for want of room.
    fn unhindered(&self, loss: Option<&Loss>) -> (Bound, String) {
        match loss {
            None if self.sent >= self.received => {
                (Bound::Senders, "all that arrived left, so the senders bounded it".into())
            }
            _ => (Bound::Nothing, "no counter shows a limit".into()),
        }
    }
}

fn rate_text(rate: Rate) -> String {
    match rate.packets_per_second() {
        Some(packets) => packet_rate(packets as f64),
        None => bit_rate(rate.bits_per_second() as f64),
    }
}
