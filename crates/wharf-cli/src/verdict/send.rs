//! The verdict on `send`.

use super::loss::packets_text;
use super::{Bound, CommandLine, FRAMES_MIN, Loss, Verdict, came, link_cause, percent, processor_cause};
use crate::host_queue::HostQueueReport;
use crate::output::{packet_rate, time};
use crate::processor::ProcessorTime;
use std::collections::BTreeMap;
use wharf_core::device::LOST;
use wharf_devices::spec::Kind;
use wharf_tools::traffic::{PAUSE_NS, Pauses};

/// Share of a rate by which a run may miss it, and the time by which the last completion may come late.
const SLACK_SHARE: f64 = 0.03;
const SLACK_SECONDS: f64 = 0.005;
/// Shortest paced run in which the latter is no large part.
const PACED_SECONDS_MIN: f64 = 10.0 * SLACK_SECONDS;
/// A replay whose packets were later than this did not keep the capture's times.
const LATE_NS_MAX: u64 = 20_000_000;
/// Packets of a rate that were later than this left in a burst.
const HELD_UP_NS_MAX: u64 = 2 * PAUSE_NS;
/// Shortest run at top speed that shows what bounds it.
const SECONDS_MIN: f64 = 0.02;
/// Share of the time from which on a sender's waits count.
const WAITED_SHARE: f64 = 0.2;
/// Share of the looks from which on memory counts as short.
const SHORT_SHARE: f64 = 0.5;
/// Share of the time from which on the device's absence counts.
const AWAY_SHARE: f64 = 0.05;

/// Share of the packets sent from which on those that wait in the host's queue count.
const HELD_SHARE: f64 = 0.03;
/// Time without a refusal from which on packets arrive: hosts report one a second at least.
const ANSWERED_SECONDS: f64 = 2.0;

/// The reason of packets that were inside when the path was closed.
const CLOSED: &str = "closed";
/// Reasons of datagrams that the other side, or the way to it, refused.
const UNANSWERED: [&str; 2] = ["unreachable", "connection-refused"];

/// The pace that was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Asked {
    /// Top speed.
    Top,
    /// The times of a capture.
    Original,
    /// Packets per second.
    Rate { pps: f64 },
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub(crate) struct SendFigures {
    pub(crate) command: CommandLine,
    /// Kind of the device, its specification, and whether its other end is in this process.
    pub(crate) kind: &'static Kind,
    pub(crate) to: String,
    pub(crate) has_far_end: bool,
    /// `wharf bench` can be run here.
    pub(crate) has_bench: bool,
    pub(crate) asked: Asked,
    /// Packets sent, their rate, and that of their bits.
    pub(crate) sent: u64,
    pub(crate) came_pps: f64,
    pub(crate) came_bps: f64,
    pub(crate) seconds: f64,
    pub(crate) link_bps: Option<f64>,
    /// Sending threads, and their processor time together.
    pub(crate) senders: usize,
    pub(crate) sending: ProcessorTime,
    /// Processor time of the receiver in this process.
    pub(crate) receiving: Option<ProcessorTime>,
    /// Waits of senders for room or memory.
    pub(crate) waits: u64,
    /// Packets that the device left for later.
    pub(crate) requeues: u64,
    /// Frames of memory, and the share of looks at which all were in use.
    pub(crate) frames: u32,
    pub(crate) short_share: f64,
    pub(crate) drops: BTreeMap<String, u64>,
    /// Time for which the device was away.
    pub(crate) away_seconds: f64,
    /// Time by which 99 % of the packets were late at most, and pauses after which they were due later; at a
    /// pace.
    pub(crate) late_ns: u64,
    pub(crate) pauses: Pauses,
    /// The queue of the host's network stack behind the device, if it is known.
    pub(crate) host_queue: Option<HostQueueReport>,
    /// Time from the last refusal of a datagram to the end, if there was one.
    pub(crate) unrefused_seconds: Option<f64>,
}

/// Judges a run.
pub(crate) fn send(figures: &SendFigures) -> Verdict {
    let loss = Loss::of(&figures.drops, &[figures.kind]);
    let asked_pps = figures.asked_pps();
    let (bounded_by, first, next) = if figures.is_as_asked() {
        (Bound::Rate, figures.as_asked(), None)
    } else {
        let (bounded_by, cause) = figures.cause(loss.as_ref());
        (bounded_by, format!("{}: {cause}.", figures.began()), figures.next(bounded_by, loss.as_ref()))
    };
    let offered = figures.sent + loss.as_ref().map_or(0, |loss| loss.packets);
    let sentence = |loss: &Loss| match figures.is_refused(loss) {
        true => loss.least_sentence(figures.answered_since()),
        false => loss.sentence(offered),
    };
    let held = figures
        .held_by_host()
        .filter(|_| bounded_by != Bound::Host)
        .map(|held| format!("Behind the device, {held}."));
    let text = std::iter::once(first).chain(held).chain(loss.as_ref().map(sentence)).collect();
    let next = next.or_else(|| loss.as_ref().map(Loss::explain));
    Verdict { text, bounded_by, asked_pps, came_pps: figures.came_pps, loss, next }
}

impl SendFigures {
    fn asked_pps(&self) -> Option<f64> {
        match self.asked {
            Asked::Rate { pps } => Some(pps),
            Asked::Top | Asked::Original => None,
        }
    }

    fn is_as_asked(&self) -> bool {
        match self.asked {
            Asked::Top => false,
            _ if self.pauses != Pauses::default() || self.held_by_host().is_some() => false,
            Asked::Original => {
                let lost: u64 = self.drops.values().sum();
                let is_whole = lost as f64 <= SLACK_SHARE * (self.sent + lost) as f64;
                self.sent > 0 && is_whole && self.late_ns <= LATE_NS_MAX
            }
            Asked::Rate { pps } => !self.is_held_up() && self.keeps_rate(pps),
        }
    }

    /// True if the last packet left about when it was due.
    fn keeps_rate(&self, pps: f64) -> bool {
        let due_seconds = self.due_seconds(pps);
        let slack = if due_seconds >= PACED_SECONDS_MIN { SLACK_SECONDS } else { 0.0 };
        self.seconds <= due_seconds * (1.0 + SLACK_SHARE) + slack
    }

    /// True if packets kept their rate, but left in a burst that had been held up.
    fn is_held_up(&self) -> bool {
        self.late_ns > HELD_UP_NS_MAX
    }

    /// Returns the time at which the last packet was due.
    fn due_seconds(&self, pps: f64) -> f64 {
        self.sent.saturating_sub(1) as f64 / pps
    }

    /// True if the last completion may have come late, and no more than that is shown.
    fn is_too_short(&self) -> bool {
        let is_within_slack = self.asked_pps().is_some_and(|pps| {
            let due_seconds = self.due_seconds(pps);
            due_seconds < PACED_SECONDS_MIN && self.seconds <= due_seconds + SLACK_SECONDS
        });
        is_within_slack || self.seconds < SECONDS_MIN
    }

    fn as_asked(&self) -> String {
        match self.asked {
            Asked::Original => {
                format!("As asked: {}, at the times of the capture.", packet_rate(self.came_pps))
            }
            _ => format!("{}: as asked.", came(self.asked_pps(), self.came_pps)),
        }
    }

    fn began(&self) -> String {
        let (late, came) = (time(self.late_ns), came(self.asked_pps(), self.came_pps));
        match self.asked {
            Asked::Original if self.late_ns > LATE_NS_MAX => {
                format!("Packets left up to {late} (p99) after the times of the capture")
            }
            Asked::Original => format!("Came to {}", packet_rate(self.came_pps)),
            Asked::Rate { pps } if self.is_held_up() && self.keeps_rate(pps) => {
                format!("{came}, up to {late} late (p99)")
            }
            _ => came,
        }
    }

    /// True if the other side of a UDP socket, or the way to it, refused packets: the kernel is told of few of them.
    fn is_refused(&self, loss: &Loss) -> bool {
        self.kind.name == "udp" && UNANSWERED.contains(&loss.reason())
    }

    /// Returns the seconds at the end in which nothing was refused, if they are so many that packets arrived.
    fn answered_since(&self) -> Option<f64> {
        self.unrefused_seconds.filter(|&seconds| seconds >= ANSWERED_SECONDS)
    }

    /// True if it refused them up to the end.
    fn is_unanswered(&self, loss: &Loss) -> bool {
        self.is_refused(loss) && self.answered_since().is_none()
    }

    /// Returns what the host's queue kept from the wire, if that is more than passes by.
    fn held_by_host(&self) -> Option<String> {
        let HostQueueReport { kind, dropped, backlog, .. } = self.host_queue.as_ref()?;
        let holds = *backlog as f64 > HELD_SHARE * self.sent as f64;
        let dropped = (*dropped > 0).then(|| format!("dropped {}", packets_text(*dropped)));
        let held = holds.then(|| format!("held {} at the end", packets_text(*backlog)));
        let what: Vec<String> = dropped.into_iter().chain(held).collect();
        (!what.is_empty()).then(|| format!("the host's queue ({kind}) {}", what.join(" and ")))
    }

    /// Returns what bounded the rate, and the evidence, as the end of a sentence.
    fn cause(&self, loss: Option<&Loss>) -> (Bound, String) {
        if self.sent == 0 {
            return (Bound::Nothing, "nothing was sent".into());
        }
        if let Some(cause) = link_cause(self.link_bps, self.came_bps, self.came_pps) {
            return (Bound::Link, cause);
        }
        if self.away_seconds > AWAY_SHARE * self.seconds {
            let (away, all) = (self.away_seconds, self.seconds);
            return (Bound::Device, format!("the device was away for {away:.1} s of {all:.1} s"));
        }
        if let Some(cause) = self.paused().filter(|_| self.is_as_asked_between_pauses()) {
            return cause;
        }
        if let Some(held) = self.held_by_host() {
            return (Bound::Host, held);
        }
        if let Some(loss) = loss.filter(|loss| self.is_unanswered(loss)) {
            return (Bound::Receiver, format!("{} takes no packets ({})", self.to, loss.reason()));
        }
        // A sender that drops does not wait: it uses a processor all the time, whatever the device does.
        if let Some(dropped) = loss.map(Loss::of_queue).filter(|&dropped| dropped > 0) {
            return (
                Bound::Device,
                format!(
                    "the device took no more, and the queue in front of it was full for {dropped} packets"
                ),
            );
        }
        if let Some(loss) = loss.filter(|loss| [CLOSED, LOST].contains(&loss.reason())) {
            let packets = loss.packets;
            return (
                Bound::Device,
                format!("the device took no more: it did not complete {packets} packets"),
            );
        }
        if self.is_too_short() {
            return (
                Bound::Count,
                format!("a run of {:.0} ms is too short to show a limit", self.seconds * 1e3),
            );
        }
        let which = if self.senders == 1 { "the sending thread" } else { "each sending thread" };
        if let Some(cause) = processor_cause(which, self.sending) {
            return (Bound::Processor, cause);
        }
        let paused = || self.paused().unwrap_or((Bound::Nothing, "no counter shows a limit".into()));
        self.waited().unwrap_or_else(paused)
    }

    /// True if nothing but pauses kept the run from being as asked.
    fn is_as_asked_between_pauses(&self) -> bool {
        let seconds = self.seconds - self.pauses.total_ns() as f64 / 1e9;
        let late_ns = self.late_ns.saturating_sub(PAUSE_NS);
        Self { seconds, late_ns, pauses: Pauses::default(), ..self.clone() }.is_as_asked()
    }

    /// Returns the pauses of the cause that took longest, if there were any.
    fn paused(&self) -> Option<(Bound, String)> {
        let (cause, pause) = self.pauses.by_cause().into_iter().max_by_key(|(_, pause)| pause.total_ns)?;
        let times = if pause.count == 1 { "once".into() } else { format!("{} times", pause.count) };
        let (bound, what) = match cause {
            "process" => (Bound::Processor, format!("this process did not run {times}")),
            "device" => (Bound::Device, format!("the device took nothing {times}")),
            _ => (Bound::Senders, format!("the stream had no packet {times}")),
        };
        let (seconds, all) = (pause.total_ns as f64 / 1e9, self.seconds);
        (pause.count > 0).then(|| (bound, format!("{what}, for {seconds:.1} s of {all:.1} s")))
    }

    /// Returns what the senders waited for, if they waited.
    fn waited(&self) -> Option<(Bound, String)> {
        let share = self.sending.idle_share();
        if self.waits == 0 || share < WAITED_SHARE {
            return None;
        }
        let waited = format!("the senders waited {} of the time", percent(share));
        if self.short_share >= SHORT_SHARE {
            let cause = format!("{waited} for memory: all of the {} frames were in use", self.frames);
            return Some((Bound::Device, cause));
        }
        let receiver = self.receiving.and_then(|time| processor_cause("the receiver in this process", time));
        if let Some(receiver) = receiver {
            return Some((Bound::Receiver, format!("{waited}, and {receiver}")));
        }
        let ring = match self.requeues {
            0 => String::new(),
            requeues => format!(", and its ring was full for {requeues} packets"),
        };
        Some((Bound::Device, format!("{waited} for the device, which took no more{ring}")))
    }

    fn next(&self, bounded_by: Bound, loss: Option<&Loss>) -> Option<String> {
        let bench = || {
            let device = || format!("wharf bench device --to {}", super::quoted(&self.to));
            (self.has_bench && !self.has_far_end).then(device)
        };
        match bounded_by {
            Bound::Device if loss.is_some_and(|loss| loss.of_queue() > 0) => {
                Some(self.command.with("--when-full", "wait"))
            }
            _ if loss.is_some() => None,
            Bound::Device if self.short_share >= SHORT_SHARE => {
                let more = self.frames.saturating_mul(4).max(FRAMES_MIN);
                Some(self.command.with("--frames", &more.to_string()))
            }
            Bound::Device => {
                bench().or_else(|| (self.requeues > 0).then(|| "wharf explain offered-again".into()))
            }
            Bound::Processor => {
                let path = || self.has_bench.then(|| "wharf bench path".into());
                bench().filter(|_| self.kind.name != "null").or_else(path)
            }
            Bound::Receiver => Some(self.command.with("--to", "null")),
            _ => None,
        }
    }
}
