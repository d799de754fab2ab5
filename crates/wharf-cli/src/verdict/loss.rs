//! Lost packets, with the likely cause: from the table of reasons (`wharf explain`).

use super::percent;
use serde::Serialize;
use std::collections::BTreeMap;
use wharf_devices::pcap::{EMPTY, LINK_TYPE};
use wharf_devices::reasons::{self, Reason};
use wharf_devices::spec::Kind;

/// Parts of the path that count drops of any device.
const PARTS: [&str; 8] =
    ["any", "discipline", "fault", "receiver", "router", "segmenter", "sender", "switch"];
/// Reasons by which a discipline, or a sender in front of it, drops.
pub(crate) const OF_QUEUE: [&str; 8] =
    ["codel", "drop-head", "drop-tail", "expired", "flow-full", "horizon", "overlimit", THINNED];
/// The reason of packets that the kernel dropped in place of the discipline, before they were received.
const THINNED: &str = "thinned";
/// Reasons by which a device that receives drops: it had arrivals that nothing took in time.
pub(crate) const OF_RECEIVER: [&str; 4] = ["fill-ring-empty", "inbox-full", "ring-full", "socket-full"];

/// Loss of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Loss {
    pub(crate) packets: u64,
    pub(crate) by_reason: BTreeMap<String, u64>,
    /// The likely cause of most of it, and what to do.
    pub(crate) cause: String,
}

impl Loss {
    /// Returns the loss of a run whose drops are these, at devices of `kinds`, the receiving one first.
    /// `None` without any.
    pub(super) fn of(by_reason: &BTreeMap<String, u64>, kinds: &[&Kind]) -> Option<Self> {
        let by_reason: BTreeMap<String, u64> = by_reason
            .iter()
            .filter(|one| *one.1 > 0)
            .map(|(reason, count)| (reason.clone(), *count))
            .collect();
        let cause = explanation(top(&by_reason)?, kinds);
        Some(Self { packets: by_reason.values().sum(), by_reason, cause })
    }

    /// Returns the reason of most drops.
    pub(super) fn reason(&self) -> &str {
        top(&self.by_reason).unwrap_or_default()
    }

    /// Returns the packets that the queue in front of the device dropped.
    pub(super) fn of_queue(&self) -> u64 {
        self.sum(&OF_QUEUE)
    }

    /// Returns the packets that a receiving device dropped.
    pub(super) fn of_receiver(&self) -> u64 {
        self.sum(&OF_RECEIVER)
    }

    /// Returns the packets that were dropped before they were received.
    pub(super) fn before_receiving(&self) -> u64 {
        self.of_receiver() + self.sum(&[THINNED])
    }

    /// Returns the records of a capture that are no frames: they are not lost.
    pub(super) fn left_out(&self) -> u64 {
        self.sum(&[EMPTY, LINK_TYPE])
    }

    fn sum(&self, reasons: &[&str]) -> u64 {
        reasons.iter().filter_map(|reason| self.by_reason.get(*reason)).sum()
    }

    /// Returns a sentence on it, of `offered` packets.
    pub(super) fn sentence(&self, offered: u64) -> String {
        let share = percent_lost(self.packets, offered);
        let packets = packets_text(self.packets);
        let most = if self.by_reason.len() > 1 { ", most as" } else { ", as" };
        let what = if self.left_out() == self.packets { "Left out" } else { "Lost" };
        format!("{what} {packets} ({share}){most} {}: {}", self.reason(), self.cause)
    }

    /// Returns a sentence on a loss that the kernel tells of in part: an undelivered datagram is not always answered.
    /// In the last `answered_since` seconds, none was.
    pub(super) fn least_sentence(&self, answered_since: Option<f64>) -> String {
        let (packets, reason, cause) = (packets_text(self.packets), self.reason(), &self.cause);
        match answered_since {
            None => format!("Lost at least {packets}, and perhaps all, as {reason}: {cause}"),
            Some(seconds) => {
                format!("Lost at least {packets} as {reason}, but none in the last {seconds:.1} s: {cause}")
            }
        }
    }

    /// Returns the command that says more.
    pub(super) fn explain(&self) -> String {
        format!("wharf explain {}", self.reason())
    }
}

/// Returns a number of packets, in words.
pub(super) fn packets_text(packets: u64) -> String {
    if packets == 1 { "1 packet".into() } else { format!("{packets} packets") }
}

/// Returns a share in percent, one near 0 or 1 with more places: 100 % are all.
pub(super) fn percent_lost(packets: u64, offered: u64) -> String {
    match packets as f64 / offered.max(1) as f64 {
        _ if packets == 0 => "0 %".into(),
        share if share < 0.0001 => "less than 0.01 %".into(),
        share if share < 0.01 => format!("{:.2} %", share * 100.0),
        share if share >= 0.995 && packets < offered => {
            format!("{:.2} %", (share * 1e4).floor() / 100.0)
        }
        share => percent(share),
    }
}

fn top(by_reason: &BTreeMap<String, u64>) -> Option<&str> {
    by_reason.iter().max_by_key(|one| one.1).map(|(reason, _)| reason.as_str())
}

/// Returns the event and the remedy of a reason, as the table has them for one of `kinds`, or for a part of the
/// path. The receiving end's row explains a drop at that end; the sending end's, if it has one, any other.
fn explanation(reason: &str, kinds: &[&Kind]) -> String {
    let mut rows = reasons::with(kinds.iter().map(|kind| (kind.name, kind.reasons)));
    rows.retain(|row| row.word == reason);
    let of_kind = |kind: &&Kind| rows.iter().find(|row| row.devices.contains(&kind.name));
    let of_part = |row: &&Reason| row.devices.iter().any(|device| PARTS.contains(device));
    let row = match OF_RECEIVER.contains(&reason) {
        true => kinds.iter().find_map(of_kind),
        false => kinds.iter().rev().find_map(of_kind),
    };
    let row = row.or_else(|| rows.iter().find(of_part)).or_else(|| rows.first());
    row.map_or_else(
        || "no cause is known for this word.".into(),
        |row| format!("{} {}", row.what_happened, row.what_to_do),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_rounded_to_none_or_to_all() {
        for (packets, offered, share) in [
            (0, 9, "0 %"),
            (3, 83_417, "less than 0.01 %"),
            (1, 9_999, "0.01 %"),
            (1, 100, "1 %"),
            (57, 100, "57 %"),
            (7_232, 7_233, "99.98 %"),
            (999_999, 1_000_000, "99.99 %"),
            (9, 9, "100 %"),
        ] {
            assert_eq!(percent_lost(packets, offered), share);
        }
    }
}
