//! Loss recovery by SACK (RFC 6675): the bytes that arrived, are lost, and were sent again.

use super::Ack;
use crate::flows::Ranges;

/// Packets above a hole that make it a loss (RFC 6675, DupThresh).
const LOST_PACKETS: u64 = 3;

/// The scoreboard.
#[derive(Debug, Clone, Default)]
pub(super) struct Recovery {
    arrived: Ranges,
    sent_again: Ranges,
    /// Bytes below this that have not arrived are lost.
    lost_below: u64,
    /// Recovery ends when all below is acknowledged.
    until: Option<u64>,
    after_timeout: bool,
}

impl Recovery {
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn is_after_timeout(&self) -> bool {
        self.until.is_some() && self.after_timeout
    }

    /// Takes an acknowledgement up to `acked`, and the ranges in `ack` that arrived of the bytes `sent`.
    pub(super) fn arrived(&mut self, acked: u64, ack: &Ack, sent: u64) {
        for &(from, to) in ack.beyond.iter().flatten() {
            self.arrived.insert(from.max(acked), to.min(sent));
        }
        self.arrived.remove_below(acked);
        self.sent_again.remove_below(acked);
        self.lost_below = self.lost_below.max(acked);
    }

    /// Ends the recovery if `acked` reaches its end.
    pub(super) fn ends_at(&mut self, acked: u64) {
        if self.until.is_some_and(|until| acked >= until) {
            (self.until, self.after_timeout) = (None, false);
            self.sent_again.clear();
        }
    }

    /// True if there is a new loss that begins a recovery.
    pub(super) fn finds_loss(&mut self, acked: u64, sent: u64, mss_bytes: u64) -> bool {
        let highest = self.arrived.end().unwrap_or(acked);
        self.lost_below = self.lost_below.max(highest.saturating_sub(LOST_PACKETS * mss_bytes));
        let lost = self.lost_below.saturating_sub(acked) > self.arrived.bytes_within(acked, self.lost_below);
        let begins = lost && self.until.is_none();
        if begins {
            (self.until, self.after_timeout) = (Some(sent), false);
            self.sent_again.clear();
        }
        begins
    }

    /// Marks all bytes `sent` that have not arrived as lost.
    pub(super) fn times_out(&mut self, sent: u64) {
        (self.lost_below, self.until, self.after_timeout) = (sent, Some(sent), true);
        self.sent_again.clear();
    }

    /// Returns the next packet to send again.
    pub(super) fn next_hole(&self, acked: u64, mss_bytes: u64) -> Option<(u64, u64)> {
        self.until?;
        let mut from = acked;
        while from < self.lost_below {
            let inside = self.arrived.end_of(from).or_else(|| self.sent_again.end_of(from));
            let Some(end) = inside else { break };
            from = end;
        }
        if from >= self.lost_below {
            return None;
        }
        let next = [self.arrived.next_after(from), self.sent_again.next_after(from)];
        let end = next.into_iter().flatten().fold(self.lost_below, u64::min);
        Some((from, end.min(from + mss_bytes)))
    }

    pub(super) fn sends_again(&mut self, (from, to): (u64, u64)) {
        self.sent_again.insert(from, to);
    }

    /// Returns the bytes in flight: sent, not arrived and not lost, and those sent again that have not
    /// arrived.
    pub(super) fn flight_bytes(&self, acked: u64, sent: u64) -> u64 {
        let above = self.lost_below.max(acked);
        let first = sent.saturating_sub(above) - self.arrived.bytes_within(above, sent);
        let again: u64 =
            self.sent_again.iter().map(|(from, to)| to - from - self.arrived.bytes_within(from, to)).sum();
        first + again
    }
}
