//! TCP's decisions on sending: congestion window, loss recovery, the size of super-packets, small queues.
//!
//! Assumptions: sequence numbers are 64-bit positions in the stream; the peer supports SACK; one connection,
//! already established. Goal: the amounts and times of the kernel's TCP, not all its details. It has:
//! - slow start and congestion avoidance by bytes (RFC 5681, RFC 3465), an initial window of ten packets (RFC
//!   6928), HyStart on demand;
//! - loss recovery by SACK (RFC 6675): a packet three packets below the highest that arrived is lost; one
//!   window cut per recovery; a timeout sends everything again, beginning with one packet (RFC 6298);
//! - super-packets of about 1 ms at the pacing rate, at least two packets (`tcp_tso_autosize`), deferred
//!   while most of the window is in flight (`tcp_tso_should_defer`);
//! - small queues (`tcp_small_queue_check`): unsent bytes in the host are bounded by 1 ms at the pacing rate
//!   or two super-packets, and by `small_queue_bytes_max`; in Linux 3.13 to 3.18 by 1 ms or
//!   `small_queue_bytes_min`, whichever is more;
//! - Nagle's algorithm (RFC 896) for programs that write small amounts.
//!
//! Sending is not paced: the rate only determines sizes.

mod receiver;
mod recovery;
mod rules;

pub use receiver::{Ack, Receiver};
pub use rules::{Rules, Truesize};

use super::round_trip::RoundTrip;
use recovery::Recovery;

/// The initial window (RFC 6928).
const FIRST_WINDOW_PACKETS: u64 = 10;
/// Small queues allow the pacing rate's bytes of 1 s / 2^this (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;

/// A super-packet, or one retransmitted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Position of its first byte.
    pub from: u64,
    /// Bytes of payload.
    pub len_bytes: u32,
    /// Packets on the wire.
    pub packets: u32,
    /// True if it was sent before.
    pub again: bool,
}

impl Piece {
    /// Returns the position behind its last byte.
    pub fn to(&self) -> u64 {
        self.from + u64::from(self.len_bytes)
    }
}

/// The sending end of one connection.
#[derive(Debug, Clone, Default)]
pub struct Source {
    rules: Rules,
    /// Positions up to which data are acknowledged, sent, and written by the program.
    acked: u64,
    sent: u64,
    written: u64,
    window_bytes: u64,
    threshold_bytes: u64,
    recovery: Recovery,
    trip: RoundTrip,
    least_trip_ns: u64,
    /// Bytes handed to the host that have not left it.
    queued_bytes: u64,
    /// Size of the last super-packet.
    last_bytes: u64,
    /// Time at which the oldest unacknowledged byte times out.
    timeout_at_ns: Option<u64>,
    /// True while small queues hold it back.
    throttled: bool,
    /// The window was cut because this host had no room; no further cut before all up to here is
    /// acknowledged.
    cut_until: u64,
}

impl Source {
    /// Creates a source without data; [`Source::write`] adds some.
    pub fn new(rules: Rules) -> Self {
        let window_bytes = FIRST_WINDOW_PACKETS * u64::from(rules.mss_bytes);
        Self { rules, window_bytes, threshold_bytes: u64::MAX, least_trip_ns: u64::MAX, ..Self::default() }
    }

    /// Adds `bytes` written by the program.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Returns the positions up to which the program has written and the peer has acknowledged.
    pub fn written_and_acked(&self) -> (u64, u64) {
        (self.written, self.acked)
    }

    /// Returns the next piece if one may leave at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Option<Piece> {
        self.throttled = self.queued_bytes > 0 && self.queued_bytes >= self.small_queue_bytes();
        if self.throttled {
            return None;
        }
        let piece = self.next_lost().or_else(|| self.next_new())?;
        self.queued_bytes += self.charge(&piece);
        if !piece.again {
            self.sent = piece.to();
            self.last_bytes = piece.len_bytes.into();
        }
        if self.timeout_at_ns.is_none() {
            self.timeout_at_ns = Some(now_ns + self.trip.timeout_ns());
        }
        Some(piece)
    }

    /// Notes that the host's queue has no room for the next piece, which stays here. The window is cut, once
    /// per round trip (`tcp_enter_cwr`).
    pub fn refused(&mut self) {
        if self.acked >= self.cut_until && !self.recovery.is_on() {
            self.cut_until = self.sent.max(self.acked + 1);
            self.cut_window();
        }
    }

    /// Notes that `piece` left the host or was dropped. True if the source may continue.
    pub fn completed(&mut self, piece: &Piece) -> bool {
        self.queued_bytes = self.queued_bytes.saturating_sub(self.charge(piece));
        self.throttled && self.queued_bytes < self.small_queue_bytes()
    }

    /// Takes an acknowledgement. Returns the number of bytes newly acknowledged in order.
    pub fn acked(&mut self, now_ns: u64, ack: &Ack) -> u64 {
        let newly_bytes = ack.next.saturating_sub(self.acked).min(self.sent - self.acked);
        self.acked += newly_bytes;
        self.recovery.arrived(self.acked, ack, self.sent);
        if let Some(echo_ns) = ack.echo_ns {
            let trip_ns = now_ns.saturating_sub(echo_ns);
            self.trip.measured(trip_ns);
            self.leaves_slow_start(trip_ns);
        }
        let was_recovering = self.recovery.is_on();
        if newly_bytes > 0 {
            self.recovery.ends_at(self.acked);
            self.timeout_at_ns = (self.acked < self.sent).then(|| now_ns + self.trip.timeout_ns());
        }
        if self.recovery.finds_loss(self.acked, self.sent, self.rules.mss_bytes.into()) {
            self.cut_window();
        } else if newly_bytes > 0 && (!was_recovering || self.recovery.is_after_timeout()) {
            self.grow_window(newly_bytes);
        }
        newly_bytes
    }

    /// Returns the time of the timeout, if nothing else happens.
    pub fn timeout_at_ns(&self) -> Option<u64> {
        self.timeout_at_ns
    }

    /// Handles the timeout: sends everything again that is not known to have arrived.
    pub fn timed_out(&mut self, now_ns: u64) {
        if self.timeout_at_ns.is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        self.trip.timed_out();
        self.threshold_bytes = self.half_of_flight();
        self.window_bytes = self.rules.mss_bytes.into();
        self.recovery.times_out(self.sent);
        self.timeout_at_ns = Some(now_ns + self.trip.timeout_ns());
    }

    /// Returns the congestion window.
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Returns the bytes in flight (RFC 6675, pipe).
    pub fn flight_bytes(&self) -> u64 {
        self.recovery.flight_bytes(self.acked, self.sent)
    }

    /// Returns the pacing rate in bytes a second: per round trip twice the window in slow start, else 1.2
    /// times.
    pub fn pacing_bytes_per_s(&self) -> u64 {
        let slow_start = self.window_bytes < self.threshold_bytes / 2;
        let percent = if slow_start { 200 } else { self.rules.pacing_percent };
        let trip_ns = self.trip.smoothed_ns().unwrap_or(1_000_000);
        let rate = u128::from(self.window_bytes) * 10_000_000 * u128::from(percent) / u128::from(trip_ns);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Returns the bytes that the host holds.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Returns the bytes charged for a piece.
    fn charge(&self, piece: &Piece) -> u64 {
        self.rules.truesize.of(piece.len_bytes, piece.packets)
    }

    fn small_queue_bytes(&self) -> u64 {
        let Some(most) = self.rules.small_queue_bytes_max else { return u64::MAX };
        let last = self.rules.truesize.of(self.last_bytes as u32, self.packets_of(self.last_bytes));
        let rate = self.pacing_bytes_per_s() >> PACING_SHIFT;
        (2 * last).max(rate).min(most.max(1)).max(self.rules.small_queue_bytes_min)
    }

    fn packets_of(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.rules.mss_bytes.into()) as u32
    }

    /// Returns the largest payload of a super-packet now: a whole number of packets.
    fn goal_bytes(&self) -> u64 {
        let mss = u64::from(self.rules.mss_bytes);
        let most = u64::from(self.rules.super_bytes_max).max(mss) / mss;
        let rate = self.pacing_bytes_per_s() / u64::from(self.rules.size_parts.max(1)) / mss;
        rate.max(self.rules.super_packets_min.into()).min(most) * mss
    }

    fn next_lost(&mut self) -> Option<Piece> {
        let mss = u64::from(self.rules.mss_bytes);
        let hole = self.recovery.next_hole(self.acked, mss)?;
        let flight = self.flight_bytes();
        if flight > 0 && flight + mss > self.window_bytes {
            return None;
        }
        self.recovery.sends_again(hole);
        let len_bytes = (hole.1 - hole.0) as u32;
        Some(Piece { from: hole.0, len_bytes, packets: 1, again: true })
    }

    fn next_new(&self) -> Option<Piece> {
        let mss = u64::from(self.rules.mss_bytes);
        let flight = self.flight_bytes();
        let peer_bytes = (self.acked + self.rules.peer_window_bytes).saturating_sub(self.sent);
        let open_bytes = self.window_bytes.saturating_sub(flight).min(peer_bytes);
        let (left, goal) = (self.written - self.sent, self.goal_bytes());
        let bytes = left.min(open_bytes).min(goal);
        let ends_it = bytes == left;
        // Whole packets only, unless the data end; a small last packet waits for more (Nagle).
        let bytes = if ends_it { bytes } else { bytes / mss * mss };
        let waits = ends_it && bytes < mss && self.rules.nagle && flight > 0;
        // A window that opens in small steps is not filled in small steps.
        let defers = !ends_it && flight > 0 && bytes < goal && open_bytes < self.window_bytes / 3;
        if bytes == 0 || waits || defers {
            return None;
        }
        Some(Piece {
            from: self.sent,
            len_bytes: bytes as u32,
            packets: self.packets_of(bytes),
            again: false,
        })
    }

    fn grow_window(&mut self, acked_bytes: u64) {
        let mss = u64::from(self.rules.mss_bytes);
        // An unused window does not grow.
        if self.window_bytes > 2 * (self.flight_bytes() + acked_bytes) {
            return;
        }
        let grown = if self.window_bytes < self.threshold_bytes {
            (self.window_bytes + acked_bytes).min(self.threshold_bytes.saturating_add(mss))
        } else {
            self.window_bytes + (mss * acked_bytes / self.window_bytes).max(1)
        };
        self.window_bytes = grown.min(self.rules.peer_window_bytes.max(mss));
    }

    /// Ends slow start when a round trip takes an eighth more than the shortest one, 4 to 16 ms of it
    /// (`hystart_update`).
    fn leaves_slow_start(&mut self, trip_ns: u64) {
        self.least_trip_ns = self.least_trip_ns.min(trip_ns);
        let grown_ns = (self.least_trip_ns / 8).clamp(4_000_000, 16_000_000);
        if self.rules.hystart && trip_ns > self.least_trip_ns + grown_ns {
            self.threshold_bytes = self.threshold_bytes.min(self.window_bytes);
        }
    }

    fn half_of_flight(&self) -> u64 {
        ((self.sent - self.acked) / 2).max(2 * u64::from(self.rules.mss_bytes))
    }

    fn cut_window(&mut self) {
        self.threshold_bytes =
            self.half_of_flight().min(self.window_bytes / 2).max(2 * u64::from(self.rules.mss_bytes));
        self.window_bytes = self.threshold_bytes;
    }

    /// True if the peer has acknowledged all that was written.
    pub fn is_done(&self) -> bool {
        self.acked == self.written
    }
}
