//! The times of a capture's frames, as a replay keeps them: the first at 0, and none before the one in front
//! of it.

use super::Reading;

/// A gap longer than this is told, at the capture's own pace.
pub const GAP_NS_TOLD: u64 = 10_000_000_000;
/// A time that goes back by more than this was set back: the gaps after it count from there. One that goes
/// back by less is of a frame that was captured out of order.
const SET_BACK_NS: i128 = 1_000_000_000;

/// What the times of a capture have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeFacts {
    /// Frames that are earlier than the one before.
    pub back: u64,
    /// Gaps that are told, after those have been shortened that are to be.
    pub long_gaps: u64,
    /// The longest of them.
    pub longest_gap_ns: u64,
    /// The number, from 1 on, of the frame after it.
    pub longest_before: u64,
}

/// Turns time stamps into times of a replay, round after round.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    max_gap_ns: i128,
    /// A longer gap is told.
    told_gap_ns: i128,
    /// Time between two rounds; the mean gap if `None`.
    loop_gap_ns: Option<i128>,
    /// What is added to a stamp to get its time; `None` before the first frame of a round.
    shift_ns: Option<i128>,
    /// Time of the first frame of the round, and of the last frame so far.
    start_ns: i128,
    last_ns: i128,
    /// Frames of the round.
    frames: u64,
    facts: TimeFacts,
}

impl Timeline {
    /// Makes one with the gaps that `how` has.
    pub(super) fn new(how: &Reading) -> Self {
        let gaps = [how.max_gap, how.told_gap, how.loop_gap];
        let [max_gap_ns, told_gap_ns, loop_gap_ns] = gaps.map(|gap| gap.map(|gap| gap.as_nanos() as i128));
        let max_gap_ns = max_gap_ns.unwrap_or(i128::MAX);
        let told_gap_ns = told_gap_ns.unwrap_or(GAP_NS_TOLD.into());
        let (shift_ns, start_ns, last_ns, frames, facts) = (None, 0, 0, 0, TimeFacts::default());
        Self { max_gap_ns, told_gap_ns, loop_gap_ns, shift_ns, start_ns, last_ns, frames, facts }
    }

    pub(super) fn facts(&self) -> TimeFacts {
        self.facts
    }

    /// Returns the time of the next frame, which has this stamp.
    #[inline]
    pub(super) fn next(&mut self, stamp_ns: u64) -> u64 {
        let stamp_ns = i128::from(stamp_ns);
        let shift_ns = *self.shift_ns.get_or_insert(self.start_ns - stamp_ns);
        let gap_ns = stamp_ns + shift_ns - self.last_ns;
        self.frames += 1;
        if gap_ns < 0 {
            self.go_back(gap_ns);
        } else {
            if gap_ns > self.max_gap_ns.min(self.told_gap_ns) {
                self.wait(gap_ns);
            }
            self.last_ns += gap_ns.min(self.max_gap_ns);
        }
        u64::try_from(self.last_ns).unwrap_or(u64::MAX)
    }

    #[cold]
    fn go_back(&mut self, gap_ns: i128) {
        self.facts.back += 1;
        if gap_ns < -SET_BACK_NS {
            self.shift_ns = self.shift_ns.map(|shift_ns| shift_ns - gap_ns);
        }
    }

    #[cold]
    fn wait(&mut self, gap_ns: i128) {
        if gap_ns > self.max_gap_ns {
            self.shift_ns = self.shift_ns.map(|shift_ns| shift_ns - (gap_ns - self.max_gap_ns));
        }
        let gap_ns = gap_ns.min(self.max_gap_ns);
        if gap_ns > self.told_gap_ns {
            let gap_ns = u64::try_from(gap_ns).unwrap_or(u64::MAX);
            self.facts.long_gaps += 1;
            if gap_ns > self.facts.longest_gap_ns {
                (self.facts.longest_gap_ns, self.facts.longest_before) = (gap_ns, self.frames);
            }
        }
    }

    /// Ends a round: the next one begins after the gap of rounds. Returns the time from its first
    /// frame to the first of the next.
    pub(super) fn end_round(&mut self) -> u64 {
        let gaps = self.frames.saturating_sub(1).max(1);
        self.last_ns += self.loop_gap_ns.unwrap_or((self.last_ns - self.start_ns) / i128::from(gaps));
        let round_ns = self.last_ns - self.start_ns;
        (self.start_ns, self.shift_ns, self.frames) = (self.last_ns, None, 0);
        u64::try_from(round_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn times<const N: usize>(max_gap: Option<Duration>, seconds: [u64; N]) -> ([u64; N], TimeFacts) {
        let mut timeline = Timeline::new(&Reading { max_gap, ..Reading::default() });
        let times = seconds.map(|second| timeline.next(second * 1_000_000_000) / 1_000_000_000);
        (times, timeline.facts())
    }

    #[test]
    fn the_order_is_kept_and_times_that_go_back_are_counted() {
        let (back, facts) = times(None, [10, 9, 8, 7]);
        assert_eq!((back, facts.back), ([0; 4], 3));
        // A clock that was set back by an hour: the gaps after it are kept.
        assert_eq!(times(None, [7200, 7201, 3600, 3603]).0, [0, 1, 1, 4]);
        // Two frames captured out of order move nothing.
        let mut timeline = Timeline::new(&Reading::default());
        let stamps = [1_000_000, 3_000_000, 2_000_000, 4_000_000].map(|stamp| timeline.next(stamp));
        assert_eq!((stamps, timeline.facts().back), ([0, 2_000_000, 2_000_000, 3_000_000], 1));
    }

    #[test]
    fn long_gaps_are_told_or_shortened() {
        let century = u64::from(u32::MAX);
        let (kept, facts) = times(None, [1, century, century + 1]);
        assert_eq!(kept, [0, century - 1, century]);
        assert_eq!((facts.long_gaps, facts.longest_before), (1, 2));
        let (shortened, facts) = times(Some(Duration::from_secs(5)), [1, century, century + 1]);
        assert_eq!((shortened, facts), ([0, 5, 6], TimeFacts::default()));
        let (kept, facts) = times(Some(Duration::from_secs(20)), [1, 12, 100]);
        assert_eq!((kept, facts.long_gaps, facts.longest_gap_ns), ([0, 11, 31], 2, 20_000_000_000));
    }

    #[test]
    fn a_round_begins_the_mean_gap_after_the_one_before() {
        let mut timeline = Timeline::new(&Reading::default());
        let first = [100, 110, 140].map(|stamp| timeline.next(stamp));
        assert_eq!((first, timeline.end_round()), ([0, 10, 40], 60));
        assert_eq!([100, 110].map(|stamp| timeline.next(stamp)), [60, 70]);
        assert_eq!(timeline.end_round(), 20);
        timeline.loop_gap_ns = Some(7);
        assert_eq!((timeline.next(100), timeline.end_round()), (80, 7));
    }
}
