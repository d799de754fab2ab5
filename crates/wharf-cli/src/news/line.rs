//! `Line`: the line of a device, or its peer's connection: lines on standard error when it goes and when it is
//! back, and the end of a run that shall not wait.

use super::Device;
use crate::args::OnGone;
use crate::output::grouped_on_stderr;
use std::time::{Duration, Instant};
use wharf::Port;
use wharf::queue::TxQueue;

/// Least time between two lines that tell of it, for one that flaps.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for which a line that went down at the beginning may be down at the end of a run: a driver sets its adapter up anew
/// for an XDP program, and a run may be shorter than that.
const SETTLES: Duration = Duration::from_secs(1);
/// Time in which a port reports a line that is down from the beginning.
const REPORTED: Duration = Duration::from_millis(700);
/// Time for which a line is down before that ends a run: the kernel sets an interface down before it deletes it.
const GOES: Duration = Duration::from_millis(300);
/// Reasons of packets dropped because the line was down.
const LINK_DOWN: [&str; 2] = ["link-down", "not-enabled"];

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    /// A line that goes down does not end the run, whatever the treatment of a device that goes.
    pub(super) outlives_down: bool,
    began: Instant,
    /// It was seen up.
    was_up: bool,
    /// Since when it is down, and the device's words.
    down: Option<(Instant, String)>,
    /// Time of the last line that reported it down, and whether it is back since.
    told: Option<Instant>,
    is_told: bool,
    /// Packets dropped until a line last reported it back.
    dropped: u64,
    /// Packets that had left at the last look: a peer that was here for a moment only was never seen up.
    left: u64,
}

/// The packets that a line concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packets {
    /// They arrive.
    Arriving,
    /// They are to leave.
    Leaving {
        /// Those that have left.
        sent: u64,
        /// Those that were dropped because it was down, ever.
        dropped: u64,
    },
}

impl Packets {
    pub(super) fn of<'a>(ports: impl Iterator<Item = &'a Port> + Clone) -> Self {
        let counters = || ports.clone().filter_map(|port| port.queue().ok()).map(TxQueue::counters);
        if counters().next().is_none() {
            return Self::Arriving;
        }
        let lost = counters().flat_map(|counters| counters.failures());
        let dropped = lost.filter(|(reason, _)| LINK_DOWN.contains(reason)).map(|(_, count)| count);
        Self::Leaving { sent: counters().map(|counters| counters.sent.get()).sum(), dropped: dropped.sum() }
    }

    fn dropped(self) -> u64 {
        match self {
            Self::Arriving => 0,
            Self::Leaving { dropped, .. } => dropped,
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self {
            outlives_down: false,
            began: Instant::now(),
            was_up: false,
            down: None,
            told: None,
            is_told: false,
            dropped: 0,
            left: 0,
        }
    }
}

impl Line {
    /// Makes one that is known to be up, or of which nothing is known yet.
    pub(super) fn new(is_up: bool) -> Self {
        Self { was_up: is_up, ..Self::default() }
    }

    /// Returns the device's words while it is down.
    pub(super) fn why(&self) -> Option<&str> {
        self.down.as_ref().map(|(_, why)| why.as_str())
    }

    /// True if a line has reported that it is down.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    pub(super) fn goes_down(&mut self, since: Instant, why: String) {
        self.down.get_or_insert((since, why));
    }

    /// The device has gone, or is opened anew: other lines report that.
    pub(super) fn goes_away(&mut self) {
        (self.down, self.is_told) = (None, false);
    }

    /// Returns that it is down, where that is news. A peer that is still to come is no loss: a stall tells of
    /// it, if packets wait.
    fn tell(&mut self, device: &Device, now: Instant) -> Option<String> {
        let may_wait = device.is_peer && !self.was_up;
        let is_late = self.told.is_none_or(|told| now.saturating_duration_since(told) >= AGAIN);
        let (_, why) = self.down.as_ref().filter(|_| !self.is_told && !may_wait && is_late)?;
        (self.told, self.is_told) = (Some(now), true);
        Some(why.clone())
    }

    /// Returns what there is to tell, and the error that ends the run.
    pub(super) fn look(
        &mut self, device: &Device, is_away: bool, packets: &Packets, now: Instant,
    ) -> (Option<String>, Option<String>) {
        self.note_left(device, is_away, packets, now);
        let Some((since, why)) = &self.down else {
            let has_left = matches!(packets, Packets::Leaving { sent: 1.., .. });
            self.was_up |= !is_away && (has_left || now.saturating_duration_since(self.began) >= REPORTED);
            return (None, None);
        };
        let down = now.saturating_duration_since(*since);
        if device.on_gone == OnGone::Fail && !self.outlives_down && self.was_here() {
            return (None, (down >= GOES).then(|| why.clone()));
        }
        let given_up = self.given_up(device, down, packets);
        (if given_up.is_none() { self.tell(device, now) } else { None }, given_up)
    }

    /// Notes that packets have left: a peer has taken them, and has gone since then at the earliest.
    fn note_left(&mut self, device: &Device, is_away: bool, packets: &Packets, now: Instant) {
        if let Packets::Leaving { sent, .. } = *packets
            && sent > self.left
            && device.is_peer
            && !is_away
        {
            self.left = sent;
            self.down.iter_mut().for_each(|(since, _)| *since = now);
        }
    }

    /// True if the device, or its peer, was ever here.
    fn was_here(&self) -> bool {
        self.was_up || self.left > 0
    }

    /// Returns the error once it has been down for longer than it may. That is no matter while nothing is to leave by it.
    fn given_up(&self, device: &Device, down: Duration, packets: &Packets) -> Option<String> {
        let (name, seconds) = (&device.name, down.as_secs_f64());
        device.give_up.filter(|time| down >= *time)?;
        if device.is_peer {
            let given_up = || format!("{name}: given up: its other side was away for {seconds:.1} s");
            return self.was_here().then(given_up);
        }
        let matters = *packets == Packets::Arriving || packets.dropped() > self.dropped;
        matters.then(|| format!("{name}: given up: its line was down for {seconds:.1} s"))
    }

    /// The line is up: returns what there is to tell, if it was told that it was down.
    pub(super) fn is_up(&mut self, device: &Device, packets: &Packets, now: Instant) -> Option<String> {
        self.was_up = true;
        let (since, _) = self.down.take()?;
        if !std::mem::take(&mut self.is_told) {
            return None;
        }
        let dropped = packets.dropped();
        let lost = match dropped - std::mem::replace(&mut self.dropped, dropped).min(dropped) {
            0 => String::new(),
            lost => format!(", {} dropped meanwhile", grouped_on_stderr(lost)),
        };
        let (name, away) = (&device.name, now.saturating_duration_since(since).as_secs_f64());
        let what = if device.is_peer { "its other side is here again" } else { "the interface is up again" };
        Some(format!("{name}: {what} after {away:.1} s{lost}"))
    }

    /// Returns the fault of a run that ends while it is down. A peer may leave before.
    pub(super) fn fault(&self, device: &Device, now: Instant) -> Option<String> {
        let (since, _) = self.down.as_ref()?;
        let down = now.saturating_duration_since(*since);
        let settles = since.saturating_duration_since(self.began) < REPORTED && down < SETTLES;
        let (name, seconds) = (&device.name, down.as_secs_f64());
        (!device.is_peer && !settles)
            .then(|| format!("{name}: its line was down when the run ended, for {seconds:.1} s by then"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::OnStall;

    fn device(on_gone: OnGone, is_peer: bool, give_up_ms: u64) -> Device {
        let (name, give_up) = ("packet:b0".into(), Some(Duration::from_millis(give_up_ms)));
        Device { name, is_peer, reopens: true, on_gone, on_stall: OnStall::Report, give_up }
    }

    /// A line whose device is seen at times in ms, while so many packets were dropped because it was down.
    struct Seen {
        line: Line,
        device: Device,
        began: Instant,
    }

    impl Seen {
        fn new(on_gone: OnGone, is_peer: bool, give_up_ms: u64) -> Self {
            let (line, device) = (Line::default(), device(on_gone, is_peer, give_up_ms));
            Self { began: line.began, line, device }
        }

        fn at(&self, ms: u64) -> Instant {
            self.began + Duration::from_millis(ms)
        }

        fn looks(&mut self, ms: u64, packets: Packets) -> (Option<String>, Option<String>) {
            let now = self.at(ms);
            self.line.look(&self.device, false, &packets, now)
        }

        fn down(&mut self, ms: u64, packets: Packets) -> (Option<String>, Option<String>) {
            self.line.goes_down(self.at(ms), "packet:b0: b0 has no carrier: down".into());
            self.looks(ms, packets)
        }

        fn up(&mut self, ms: u64, packets: Packets) -> Option<String> {
            let now = self.at(ms);
            self.line.is_up(&self.device, &packets, now)
        }
    }

    fn dropped(dropped: u64) -> Packets {
        Packets::Leaving { sent: 1, dropped }
    }

    fn line(text: &str) -> Option<String> {
        Some(format!("packet:b0: {text}"))
    }

    #[test]
    fn a_line_that_goes_down_and_comes_up_is_told_twice_with_its_own_drops() {
        let mut seen = Seen::new(OnGone::Reopen, false, 60_000);
        assert_eq!(seen.looks(0, dropped(0)), (None, None), "it was never down");
        assert_eq!(seen.down(0, dropped(0)), (line("b0 has no carrier: down"), None));
        assert_eq!(
            [seen.looks(1000, dropped(9)), seen.looks(2000, dropped(9))],
            [(None, None), (None, None)]
        );
        let up = line("the interface is up again after 2.1 s, 2520 dropped meanwhile");
        assert_eq!(seen.up(2100, dropped(2520)), up);
        assert_eq!(seen.down(4000, dropped(2520)).0, line("b0 has no carrier: down"));
        assert_eq!(seen.up(4500, dropped(2520)), line("the interface is up again after 0.5 s"));
    }

    #[test]
    fn a_run_that_ends_while_the_line_is_down_fails_unless_the_line_had_no_time_to_come_up() {
        let mut seen = Seen::new(OnGone::Reopen, false, 60_000);
        seen.down(0, Packets::Arriving);
        assert_eq!(seen.line.fault(&seen.device, seen.at(200)), None);
        assert!(seen.line.fault(&seen.device, seen.at(1000)).is_some());
        seen.up(1000, Packets::Arriving);
        seen.down(1000, Packets::Arriving);
        let fault = line("its line was down when the run ended, for 0.2 s by then");
        assert_eq!(seen.line.fault(&seen.device, seen.at(1200)), fault);
        seen.device.is_peer = true;
        assert_eq!(seen.line.fault(&seen.device, seen.at(9000)), None);
    }

    #[test]
    fn a_line_that_flaps_is_told_once_a_second_and_each_time_twice() {
        let mut seen = Seen::new(OnGone::Reopen, false, 60_000);
        let (mut downs, mut ups) = (0, 0);
        for step in 0..100 {
            match step % 2 {
                0 => downs += u32::from(seen.down(50 * step, dropped(step)).0.is_some()),
                _ => ups += u32::from(seen.up(50 * step, dropped(step)).is_some()),
            }
        }
        assert_eq!((downs, ups), (5, 5));
    }

    #[test]
    fn a_line_is_given_up_once_packets_are_lost_by_it_and_a_peer_once_it_was_here() {
        let mut seen = Seen::new(OnGone::Fail, false, 500);
        seen.line.outlives_down = true;
        seen.looks(0, dropped(0));
        seen.down(0, dropped(0));
        assert_eq!(seen.looks(600, dropped(0)), (None, None));
        let failure = line("given up: its line was down for 0.7 s");
        assert_eq!(seen.looks(700, dropped(1)).1, failure);
        assert_eq!(seen.looks(700, Packets::Arriving).1, failure);

        let mut peer = Seen::new(OnGone::Reopen, true, 500);
        assert_eq!(peer.down(0, Packets::Arriving), (None, None), "it is still to come");
        assert_eq!(peer.looks(600, Packets::Arriving), (None, None));
        assert_eq!(peer.up(700, Packets::Arriving), None);
        assert_eq!(peer.down(800, Packets::Arriving).0, line("b0 has no carrier: down"));
        let away = line("given up: its other side was away for 0.6 s");
        assert_eq!(peer.looks(1400, Packets::Arriving), (None, away));

        let mut strict = Seen::new(OnGone::Fail, true, 500);
        strict.looks(0, dropped(0));
        assert_eq!(strict.down(100, Packets::Arriving), (None, None), "it may be going");
        assert_eq!(strict.looks(399, Packets::Arriving), (None, None));
        assert_eq!(strict.looks(400, Packets::Arriving), (None, line("b0 has no carrier: down")));
    }
    #[test]
    fn a_peer_that_went_before_anyone_saw_it_is_missed_by_what_it_took() {
        let left = |sent| Packets::Leaving { sent, dropped: 0 };
        let failure = || line("b0 has no carrier: down");
        let mut seen = Seen::new(OnGone::Fail, true, 60_000);
        assert_eq!(seen.down(0, left(0)), (None, None));
        assert_eq!(seen.looks(5000, left(0)), (None, None), "it is still to come");
        assert_eq!(seen.looks(5100, left(16)), (None, None), "it takes packets");
        assert_eq!(seen.looks(5399, left(16)), (None, None));
        assert_eq!(seen.looks(5400, left(16)), (None, failure()));

        let mut waits = Seen::new(OnGone::Reopen, true, 500);
        waits.down(0, left(0));
        assert_eq!(waits.looks(600, left(16)), (None, None), "it may be here: no line says that it is down");
        let away = line("given up: its other side was away for 0.5 s");
        assert_eq!(waits.looks(1100, left(16)), (None, away));
    }
}
