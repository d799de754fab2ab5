//! The verdict under a summary: the rate asked against the rate that came, the bound, the likely cause of loss, and the next command.
//!
//! It is a pure function of figures: `send`, `receive` and `forward`. It claims only what the
//! figures show: "no counter shows a limit" is an answer, too.

mod forward;
mod loss;
mod receive;
mod send;
#[cfg(test)]
mod tests;

pub(crate) use forward::{ForwardFigures, forward};
pub(crate) use loss::{Loss, OF_QUEUE, OF_RECEIVER};
pub(crate) use receive::{ReceiveFigures, receive};
pub(crate) use send::{Asked, SendFigures, send};

use crate::fold::paragraph;
use crate::output::{bit_rate, packet_rate};
use crate::processor::ProcessorTime;
use serde::Serialize;
use wharf_devices::interfaces::HostInterface;
use wharf_devices::spec::{DeviceSpec, Place};

/// Share of the time from which on a thread counts as bound by its processor.
const BUSY_SHARE: f64 = 0.8;
/// Share of the time from which on a wait for a processor is worth a word.
const QUEUED_SHARE: f64 = 0.1;
/// Share of a rate or a link from which on it counts as reached.
const REACHED_SHARE: f64 = 0.95;
/// Fewest frames to suggest where memory was short.
const FRAMES_MIN: u32 = 4096;
/// Bytes on an Ethernet beside each frame: preamble, check sequence and gap (IEEE 802.3).
const ETHERNET_BYTES: f64 = 24.0;
/// Drivers whose speed is a number without a wire behind it.
const WITHOUT_WIRE: [&str; 6] = ["veth", "tun", "bridge", "dummy", "virtio_net", "bonding"];

/// The part that bounded a run. The names are a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Bound {
    /// The rate that was asked for.
    Rate,
    /// The device took no more, or memory for its frames was short.
    Device,
    /// The queue of the host's network stack behind it.
    Host,
    /// The wire behind it.
    Link,
    /// The receiver was too slow.
    Receiver,
    /// A thread had no more of a processor.
    Processor,
    /// The senders offered no more.
    Senders,
    /// The run was too short to show a bound.
    Count,
    /// Nothing is shown to limit it.
    Nothing,
}

/// A verdict. The keys are a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Sentences, for people.
    pub(crate) text: Vec<String>,
    pub(crate) bounded_by: Bound,
    /// Packets per second that were asked for, or offered; null at top speed.
    pub(crate) asked_pps: Option<f64>,
    /// Packets per second that came through.
    pub(crate) came_pps: f64,
    /// Null if nothing was lost.
    pub(crate) loss: Option<Loss>,
    /// A command to try next; null if there is none to suggest.
    pub(crate) next: Option<String>,
}

impl Verdict {
    /// Returns it as lines of the summary.
    pub(crate) fn lines(&self) -> String {
        let next = self.next.iter().map(|next| format!("Next: {next}"));
        self.text.iter().map(|text| paragraph(text)).chain(next).collect::<Vec<_>>().join("\n")
    }
}

/// The command line of the run, for a next one with another option.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandLine(Vec<String>);

impl CommandLine {
    /// Returns this process's own.
    pub(crate) fn own() -> Self {
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        Self(std::iter::once("wharf".to_string()).chain(words).collect())
    }

    /// Returns it with `option` set to `value`, in place of a value that it has.
    fn with(&self, option: &str, value: &str) -> String {
        let prefix = format!("{option}=");
        let mut words: Vec<&str> = Vec::new();
        let mut rest = self.0.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            if word == option {
                rest.next();
            } else if !word.starts_with(&prefix) {
                words.push(word);
            }
        }
        words.extend([option, value]);
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+#[]".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the speed of the wire behind a device, bits per second, if there is a wire.
pub(crate) fn link_bps(spec: &DeviceSpec) -> Option<f64> {
    if !matches!(spec.kind().place, Place::Interface(_)) {
        return None;
    }
    let interface = HostInterface::find(spec.place())?;
    let has_wire = interface.driver.as_deref().is_some_and(|driver| !WITHOUT_WIRE.contains(&driver));
    interface.speed_mbit.filter(|_| has_wire).map(|speed| speed as f64 * 1e6)
}

/// Returns a sentence if the link carried as much as it can.
fn link_cause(link_bps: Option<f64>, frame_bps: f64, pps: f64) -> Option<String> {
    let (link_bps, wire_bps) = (link_bps?, frame_bps + pps * ETHERNET_BYTES * 8.0);
    let of_link = percent(wire_bps / link_bps);
    (wire_bps >= REACHED_SHARE * link_bps).then(|| {
        format!(
            "that is {of_link} of the link's {}, with preamble, gap and check sequence",
            bit_rate(link_bps)
        )
    })
}

/// Returns a sentence if threads, called `which`, had no more of a processor.
fn processor_cause(which: &str, time: ProcessorTime) -> Option<String> {
    let (busy, queued) = (time.busy_share(), time.queued_share());
    if busy + queued < BUSY_SHARE {
        return None;
    }
    let kernel = percent(time.kernel_share());
    let used =
        format!("{which} used a processor {} of the time ({kernel} of that in the kernel)", percent(busy));
    let waited = format!(", and waited for one {} of it, since other work ran there", percent(queued));
    Some(if queued >= QUEUED_SHARE { format!("{used}{waited}") } else { used })
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Returns asked and come rates as the begin of a sentence.
fn came(asked_pps: Option<f64>, came_pps: f64) -> String {
    match asked_pps {
        Some(asked) => format!("Asked {}, came to {}", packet_rate(asked), packet_rate(came_pps)),
        None => format!("Came to {}, as fast as it went", packet_rate(came_pps)),
    }
}
