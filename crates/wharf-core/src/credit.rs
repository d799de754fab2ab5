//! Small queues: how many bytes one sender may have inside (lane, qdisc, ring) before it waits.
//!
//! Assumptions: one sender counts what it sends; the owner of the queue counts what has left, in one sum that
//! the sender reads when it believes itself over the limit, and not before. Goal: about a millisecond of the
//! sender's own recent rate, so that what it cannot send yet stays with the application, where it can still be
//! changed, and does not delay others (`net/ipv4/tcp_output.c`, `tcp_small_queue_check`).
//!
//! The rate is what left in the last window: at least 1 ms, and until all is home that was inside at its start. While the limit does not bind, it only grows: a
//! sender that pauses has a low rate for no fault of the queue. How much of the rate may be inside is the *horizon*.
//! A device that completes later than it sends needs more than 1 ms: a sender that was held up and then finds all of
//! its bytes gone was held up for nothing, and the horizon doubles (as the byte limit grows when a device has run
//! dry). Where bytes trickle home late that is never seen: so from time to time the horizon is doubled, or halved,
//! for a window, and kept if the rate says so.
//!
//! The sum of what has left is a u32 and wraps. Frames of an earlier sender in the same place that come home late are
//! counted, too: what is in flight then comes out too small, at worst 0, by less than that sender's own limit.

use std::ops::RangeInclusive;
use wharf_mem::{Batch, Frame};

/// The limit never falls below this many bytes: at 64 B a packet, a burst.
const FLOOR_BYTES: u32 = 4096;
/// The limit before any rate is known: what the kernel lets a UDP socket have inside (`net.core.wmem_default`).
const FIRST_BYTES: u32 = 212_992;
/// The default of the most that the limit may grow to: the kernel's `tcp_limit_output_bytes`.
pub const SMALL_QUEUE_BYTES: u32 = 1 << 20;
/// What such a bound may be: bytes in flight compare as signed 32-bit numbers.
pub const SMALL_QUEUE_BOUNDS: RangeInclusive<u32> = FLOOR_BYTES..=1 << 30;
/// The shortest time that a rate is measured over, and the least of the rate that may be inside.
const WINDOW_NS: u64 = 1_000_000;
/// The most of the rate that may be inside.
const HORIZON_MAX: u32 = 64;
/// Windows between two trials of another horizon.
const TRIAL_EVERY: u8 = 16;
/// Windows of a trial: one until the horizon is felt, and one that is judged.
const TRIAL_WINDOWS: u8 = 2;

/// One sender's account.
#[derive(Debug, Clone)]
pub(crate) struct Credit {
    /// What may still go in, as far as is known; below zero where the limit has fallen, or two packets exceed it.
    room_bytes: i64,
    /// The sum of what has left, which wraps, when it was last looked at.
    home_bytes: u32,
    limit_bytes: u32,
    max_bytes: u32,
    /// The packet that was refused last.
    wanted_bytes: u32,
    /// In windows: how much of the rate may be inside.
    horizon: u32,
    trial: Trial,
    window_start_ns: u64,
    window_home_bytes: u32,
    /// What was inside at the window's start.
    window_inside_bytes: i64,
    /// It waits for what is inside to leave.
    is_held: bool,
    /// It did so in this window.
    was_held: bool,
    /// In this window it was held up although nothing was inside any more.
    was_starved: bool,
}

/// Another horizon on trial.
#[derive(Debug, Clone)]
struct Trial {
    /// Bytes per window without it.
    rate_bytes: u64,
    /// Of twice the horizon; else of half.
    is_up: bool,
    is_on: bool,
    /// Windows until the next one, or until this one is judged.
    due: u8,
}

impl Credit {
    /// A fresh account, where what has left is counted from `start`: at most `max_bytes` inside; `None` for no
    /// limit.
    pub(crate) fn new(max_bytes: Option<u32>, start: u32, now_ns: u64) -> Self {
        let unlimited = i32::MAX as u32;
        let limit_bytes = max_bytes.map_or(unlimited, |max_bytes| FIRST_BYTES.min(max_bytes));
        Self {
            room_bytes: limit_bytes.into(),
            home_bytes: start,
            limit_bytes,
            max_bytes: max_bytes.unwrap_or(unlimited),
            wanted_bytes: 1,
            horizon: 1,
            trial: Trial { rate_bytes: 0, is_up: false, is_on: false, due: TRIAL_EVERY },
            window_start_ns: now_ns,
            window_home_bytes: start,
            window_inside_bytes: 0,
            is_held: false,
            was_held: false,
            was_starved: false,
        }
    }

    fn in_flight_bytes(&self) -> i64 {
        i64::from(self.limit_bytes) - self.room_bytes
    }

    /// The limit in force.
    pub(crate) fn limit_bytes(&self) -> u32 {
        self.limit_bytes
    }

    /// Whether `bytes` more are within the limit, as far as is known.
    #[inline(always)]
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        bytes as i64 <= self.room_bytes
    }

    /// `bytes` went in.
    #[inline(always)]
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.room_bytes -= bytes as i64;
    }

    /// `bytes` went in, and `home_bytes`, of these or earlier ones, came home by the sender's own hand.
    #[inline(always)]
    pub(crate) fn charge_but(&mut self, bytes: u64, home_bytes: u64) {
        self.room_bytes += home_bytes as i64 - bytes as i64;
    }

    /// Whether what was refused last, or one byte more, would be refused again.
    pub(crate) fn is_short(&self) -> bool {
        let bytes = i64::from(self.wanted_bytes);
        self.in_flight_bytes() + bytes > self.most_inside(bytes)
    }

    /// The most that may be inside with a packet of `bytes`: two of these are within any limit.
    fn most_inside(&self, bytes: i64) -> i64 {
        i64::from(self.limit_bytes).max(2 * bytes)
    }

    /// How many frames from the front of `batch` are within the limit: two in flight always are, and those that
    /// `is_urgent`, which would else wait behind what they are to overtake.
    pub(crate) fn admitted(&mut self, batch: &Batch, is_urgent: impl Fn(&Frame) -> bool) -> usize {
        let mut in_flight_bytes = self.in_flight_bytes();
        let fits = |frame: &&Frame| {
            let bytes = i64::from(frame.len_bytes());
            in_flight_bytes += bytes;
            in_flight_bytes <= self.most_inside(bytes) || is_urgent(frame)
        };
        let count = batch.frames().iter().take_while(fits).count();
        self.wanted_bytes = batch.frames().get(count).map_or(1, Frame::len_bytes);
        count
    }

    /// Over the limit, or so it seemed: by `now_ns`, the sum of what has left is `home_bytes`.
    pub(crate) fn look(&mut self, home_bytes: u32, now_ns: u64) {
        let left_bytes = home_bytes.wrapping_sub(self.home_bytes);
        let in_flight_bytes = (self.in_flight_bytes() - i64::from(left_bytes)).max(0);
        self.home_bytes = home_bytes;
        self.was_starved |= self.is_held && in_flight_bytes == 0;
        self.is_held = false;
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        let left_bytes = home_bytes.wrapping_sub(self.window_home_bytes);
        if elapsed_ns >= WINDOW_NS && i64::from(left_bytes) >= self.window_inside_bytes {
            self.end_window(left_bytes, elapsed_ns);
            (self.window_start_ns, self.window_home_bytes) = (now_ns, home_bytes);
            self.window_inside_bytes = in_flight_bytes;
        }
        self.room_bytes = i64::from(self.limit_bytes) - in_flight_bytes;
    }

    /// The sender waits: what the sum of bytes that have left must reach for it to go on. Half the limit is free then.
    pub(crate) fn hold(&mut self) -> u32 {
        (self.is_held, self.was_held) = (true, true);
        let surplus_bytes = (self.in_flight_bytes() - i64::from(self.limit_bytes / 2)).max(0);
        self.home_bytes.wrapping_add(surplus_bytes as u32)
    }

    fn end_window(&mut self, left_bytes: u32, elapsed_ns: u64) {
        let rate_bytes = u64::from(left_bytes) * WINDOW_NS / elapsed_ns;
        if self.was_starved {
            self.horizon = (2 * self.horizon).min(HORIZON_MAX);
            (self.trial.is_on, self.trial.due) = (false, TRIAL_EVERY);
        } else if self.was_held {
            self.try_horizons(rate_bytes);
        }
        let wanted_bytes = (rate_bytes * u64::from(self.horizon)).min(i32::MAX as u64) as u32;
        let least_bytes = match (self.was_starved, self.was_held) {
            (true, _) => self.limit_bytes.saturating_mul(2),
            (false, true) => FLOOR_BYTES,
            (false, false) => self.limit_bytes,
        };
        self.limit_bytes = wanted_bytes.max(least_bytes).min(self.max_bytes);
        (self.was_held, self.was_starved) = (false, false);
    }

    /// After a window in which the limit bound: judges the trial under way, or begins one in its time.
    fn try_horizons(&mut self, rate_bytes: u64) {
        let (horizon, trial) = (self.horizon, &mut self.trial);
        trial.due -= 1;
        if trial.due > 0 {
            return;
        }
        if trial.is_on && !trial.is_better(rate_bytes) {
            self.horizon = if trial.is_up { horizon / 2 } else { horizon * 2 };
            (trial.is_on, trial.due) = (false, TRIAL_EVERY);
            return;
        }
        if !trial.is_on {
            // Up and down in turn, down only from where there is something below.
            trial.is_up = !trial.is_up || horizon == 1;
        }
        let tried = if trial.is_up { (2 * horizon).min(HORIZON_MAX) } else { (horizon / 2).max(1) };
        (trial.rate_bytes, trial.is_on) = (rate_bytes, tried != horizon);
        trial.due = if trial.is_on { TRIAL_WINDOWS } else { TRIAL_EVERY };
        self.horizon = tried;
    }
}

impl Trial {
    /// Whether `rate_bytes` speaks for the horizon on trial: more is worth a quarter, less costs at most a tenth.
    fn is_better(&self, rate_bytes: u64) -> bool {
        if self.is_up {
            rate_bytes * 4 >= self.rate_bytes * 5
        } else {
            rate_bytes * 10 >= self.rate_bytes * 9
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A sender that always has more, on a wire of `bytes_per_ms` that completes `delay_ms` late; its limit after
    /// `time_ms`.
    fn limit_of(bytes_per_ms: u32, delay_ms: usize, time_ms: u64) -> u32 {
        let mut credit = Credit::new(Some(SMALL_QUEUE_BYTES), 0, 0);
        // What leaves the wire reaches the account `delay_ms` later.
        let (mut waiting, mut late, mut home) = (0, vec![0u32; delay_ms], 0u32);
        let mut resume = 0;
        for at in 0..time_ms * 4 {
            let leaves = (bytes_per_ms / 4).min(waiting);
            waiting -= leaves;
            late.insert(0, leaves);
            home += late.pop().unwrap_or(0);
            if home.wrapping_sub(resume) as i32 >= 0 {
                credit.look(home, at * MS / 4);
                while credit.admits(100) {
                    credit.charge(100);
                    waiting += 100;
                }
                resume = credit.hold();
            }
        }
        credit.limit_bytes()
    }

    #[test]
    fn the_limit_becomes_a_millisecond_of_the_rate() {
        // 100 Mbit/s and 1 Gbit/s.
        for bytes_per_ms in [12_500, 125_000] {
            let limit_bytes = limit_of(bytes_per_ms, 0, 200);
            let wanted = bytes_per_ms * 3 / 4..=bytes_per_ms * 5 / 4;
            assert!(wanted.contains(&limit_bytes), "{limit_bytes} for {bytes_per_ms}");
        }
        assert_eq!(limit_of(100, 0, 4000), FLOOR_BYTES);
        assert_eq!(limit_of(100_000_000, 0, 400), SMALL_QUEUE_BYTES);
    }

    #[test]
    fn late_completions_do_not_choke_the_sender() {
        // 8 quarters of a millisecond: to keep the wire busy, twice a millisecond's worth must be inside.
        let limits_bytes: Vec<u32> = (400..500).map(|time_ms| limit_of(12_500, 8, time_ms)).collect();
        let enough = limits_bytes.iter().filter(|&&bytes| bytes >= 25_000).count();
        assert!(enough > 80, "{limits_bytes:?}");
        assert!(limits_bytes.iter().all(|&bytes| bytes <= 16 * 12_500), "{limits_bytes:?}");
    }

    #[test]
    fn a_sender_that_pauses_keeps_its_limit_and_one_that_never_waits_has_it_grow() {
        let mut credit = Credit::new(Some(SMALL_QUEUE_BYTES), 0, 0);
        credit.charge(FIRST_BYTES.into());
        credit.look(FIRST_BYTES, 10_000 * MS);
        assert_eq!(credit.limit_bytes(), FIRST_BYTES);
        credit.charge(FIRST_BYTES.into());
        credit.look(2 * FIRST_BYTES, 10_001 * MS - 1);
        credit.charge(FIRST_BYTES.into());
        credit.look(3 * FIRST_BYTES, 10_001 * MS);
        assert_eq!(credit.limit_bytes(), 2 * FIRST_BYTES);
    }

    #[test]
    fn bytes_of_an_earlier_sender_are_no_debt() {
        let mut credit = Credit::new(Some(4096), 7, 0);
        credit.look(5007, 1);
        assert!(credit.admits(4096) && !credit.admits(4097));
    }
}
