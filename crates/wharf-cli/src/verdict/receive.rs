//! The verdict on `receive`.

use super::loss::{packets_text, percent_lost};
use super::{Bound, CommandLine, Loss, Verdict, processor_cause};
use crate::output::packet_rate;
use crate::processor::ProcessorTime;
use std::collections::BTreeMap;
use wharf_devices::spec::Kind;

/// The figures of a reception.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveFigures {
    pub(crate) command: CommandLine,
    /// Kind of the device, and its interface, if it has one.
    pub(crate) kind: &'static Kind,
    pub(crate) interface: Option<String>,
    /// It reads a file.
    pub(crate) is_file: bool,
    /// Packets that arrived, without those of hosts themselves, and their time and rate.
    pub(crate) packets: u64,
    /// Packets of hosts themselves.
    pub(crate) host_packets: u64,
    /// Packets that time and rates leave out.
    pub(crate) left_out: u64,
    pub(crate) seconds: f64,
    pub(crate) came_pps: f64,
    /// Generated packets that arrived, each once, and those that did not.
    pub(crate) generated: u64,
    pub(crate) lost: u64,
    /// Lost packets whose number is lower than the first that arrived of their sender.
    pub(crate) lost_before_first: u64,
    /// Processor time of the receiving thread while packets arrived; none if it never sleeps.
    pub(crate) receiving: Option<ProcessorTime>,
    /// Frames of memory.
    pub(crate) frames: u32,
    /// Drops at this receiver.
    pub(crate) drops: BTreeMap<String, u64>,
}

/// Judges a reception.
pub(crate) fn receive(figures: &ReceiveFigures) -> Verdict {
    let loss = figures.loss();
    let here = loss.as_ref().map_or(0, Loss::of_receiver);
    let (bounded_by, first) = figures.bound(here);
    let mut text = vec![first];
    text.extend(loss.as_ref().filter(|_| here > 0).and_then(|_| figures.processor()));
    let sentence = |loss: &Loss| match loss.by_reason.is_empty() {
        true => format!("Lost {}: {}", packets_text(loss.packets), loss.cause),
        false => loss.sentence(figures.packets + loss.packets),
    };
    text.extend(loss.as_ref().map(sentence));
    text.extend(figures.without_hosts());
    let next = figures.next(loss.as_ref(), here);
    Verdict { text, bounded_by, asked_pps: figures.offered_pps(), came_pps: figures.came_pps, loss, next }
}

impl ReceiveFigures {
    /// Returns the rate at which generated packets were sent, as far as their numbers tell.
    fn offered_pps(&self) -> Option<f64> {
        let offered = self.generated.saturating_add(self.lost);
        (self.generated > 0 && self.seconds > 0.0).then(|| offered as f64 / self.seconds)
    }

    /// Returns the loss: drops at this receiver, or generated packets that never came to it.
    fn loss(&self) -> Option<Loss> {
        if let Some(loss) = Loss::of(&self.drops, &[self.kind]) {
            return Some(loss);
        }
        let before = || Loss { packets: self.lost, by_reason: BTreeMap::new(), cause: self.cause_before() };
        (self.lost > 0).then(before)
    }

    /// Returns the likely cause of a loss that no counter here shows.
    fn cause_before(&self) -> String {
        let first = match self.lost_before_first {
            0 if self.is_file => {
                return "the capture lacks them: they were lost before it, or it was cut.".into();
            }
            0 => {
                return "no counter of this receiver shows them, so they were lost before it: at the sender, or on the way.".into();
            }
            first if first == self.lost => "all of them have".into(),
            first => format!("{first} of them have"),
        };
        let first = format!("{first} lower numbers than the first that arrived");
        if self.is_file {
            return format!("{first}: the capture began later than the sender, or they were lost.");
        }
        format!(
            "{first}, so the sender sent them before this receiver began, or they were lost at the sender or on the way. Start the \
             receiver first."
        )
    }

    fn bound(&self, here: u64) -> (Bound, String) {
        let (packets, rate) = (self.packets, packet_rate(self.came_pps));
        match () {
            () if packets == 0 && here == 0 && self.host_packets > 0 => {
                (Bound::Nothing, "Only packets of host protocols arrived.".into())
            }
            () if packets == 0 && here == 0 => (Bound::Nothing, "No packet arrived.".into()),
            () if here > 0 => {
                let share = percent_lost(here, packets.saturating_add(here));
                (
                    Bound::Receiver,
                    format!("Came to {rate}: the receiver was too slow for {share} of the arrivals."),
                )
            }
            () if self.is_file => {
                (Bound::Nothing, format!("Read {packets} packets of traffic; by their times, {rate}."))
            }
            () if self.seconds == 0.0 => {
                let packets = packets_text(packets);
                (Bound::Count, format!("Received {packets} at one time: too short to show a rate."))
            }
            () if self.lost > 0 => {
                (Bound::Nothing, format!("Came to {rate}: no counter here shows a limit."))
            }
            () => (
                Bound::Senders,
                format!("Came to {rate}: nothing that arrived was dropped here, so the senders bounded it."),
            ),
        }
    }

    /// Returns a sentence on the receiving thread, if it had no more of a processor.
    fn processor(&self) -> Option<String> {
        let cause = processor_cause("the receiving thread", self.receiving?)?;
        Some(format!("{}{}.", cause[..1].to_uppercase(), &cause[1..]))
    }

    /// Returns a sentence on the packets that time and rates leave out.
    fn without_hosts(&self) -> Option<String> {
        let hosts = packets_text(self.left_out);
        (self.left_out > 0 && self.packets > 0).then(|| {
            format!("Time and rates are without {hosts} of host protocols (`wharf explain host-protocols`).")
        })
    }

    fn next(&self, loss: Option<&Loss>, here: u64) -> Option<String> {
        let loss = loss?;
        let more = self.frames.saturating_mul(4).max(super::FRAMES_MIN);
        match &self.interface {
            // Where other work has the thread's processor, more frames would fill up, too.
            _ if here > 0 && loss.reason() == "fill-ring-empty" => {
                let is_behind = self.receiving.is_some_and(ProcessorTime::is_behind_others);
                (!is_behind).then(|| self.command.with("--frames", &more.to_string()))
            }
            _ if !loss.by_reason.is_empty() => Some(loss.explain()),
            Some(interface) => Some(format!("ethtool -S {interface}")),
            None => None,
        }
    }
}
