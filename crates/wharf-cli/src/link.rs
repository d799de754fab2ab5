//! `LinkWatch`: the line of a device, or its peer: lines on standard error when it goes and when it is back, and the end of a run that
//! shall not wait.

use crate::args::{OnGone, RecoveryArgs};
use crate::output::grouped_on_stderr;
use crate::recovery::Recovery;
use crate::repeats::Lines;
use std::time::{Duration, Instant};
use wharf::device::DeviceError;
use wharf_core::counters::QueueCounters;
use wharf_core::monitor::{Link, Watched};

/// Time between two looks at a line that was up, unless the device reports an error: a look asks the kernel.
const EVERY: Duration = Duration::from_millis(250);
/// Least time between two lines that tell of it, for one that flaps.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for which a line that was not up yet may be down at the end of a run: a driver sets its adapter up anew for an XDP program, and a
/// run may be shorter than that.
const SETTLES: Duration = Duration::from_secs(1);
/// Reasons of packets dropped because the line was down.
const LINK_DOWN: [&str; 2] = ["link-down", "not-enabled"];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LinkWatch {
    device: String,
    on_gone: OnGone,
    give_up: Option<Duration>,
    /// A line that goes down ends the run.
    ends_when_down: bool,
    /// Its line is a peer's connection.
    is_peer: bool,
    /// It was seen up.
    was_up: bool,
    /// Errors of the device, and the time, at the last look.
    errors: u64,
    looked: Option<Instant>,
    /// Time at which it was seen down; none while it is up.
    since: Option<Instant>,
    /// Time at which it was last told that it is down, and whether it is back since.
    told: Option<Instant>,
    is_told: bool,
    /// Packets dropped until it was last told that it is back.
    dropped: u64,
}

/// The packets that a line concerns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packets {
    /// They arrive.
    Arriving,
    /// They are to leave: so many were dropped because it was down, ever.
    Leaving(u64),
}

impl LinkWatch {
    /// Begins the watch over the device that `recovery` opens again.
    pub(crate) fn new(device: String, args: RecoveryArgs, recovery: &Recovery) -> Self {
        let RecoveryArgs { on_gone, give_up, .. } = args;
        Self {
            device,
            on_gone,
            give_up,
            ends_when_down: on_gone == OnGone::Fail,
            is_peer: recovery.is_of_peer(),
            ..Self::default()
        }
    }

    /// Lets a run go on whose line goes down, unless that is a peer that has gone: other ends go on.
    pub(crate) fn of_forward(self) -> Self {
        Self { ends_when_down: self.ends_when_down && self.is_peer, ..self }
    }

    /// Checks the line of the device that `queues` belong to, which has reported so many `errors`, and prints
    /// news to `lines`. Returns the error that ends the run.
    pub(crate) fn look<Q: Watched>(
        &mut self, queues: &[Q], errors: u64, packets: impl Fn() -> Packets, lines: &mut Lines,
    ) -> Option<String> {
        lines.look();
        let now = Instant::now();
        let has_error = std::mem::replace(&mut self.errors, errors) != errors;
        let is_due = self.looked.is_none_or(|looked| now.duration_since(looked) >= EVERY);
        if !(has_error || is_due || self.since.is_some()) {
            return None;
        }
        // Another thread may have the device just now, or it is being opened again: the next look tells. A queue that is asked forgets its
        // error once the line is up.
        let link = queues.iter().map(Watched::link).fold(None, Option::or)?;
        self.looked = Some(now);
        let (told, failure) = self.change(Some(link), now, &packets);
        told.iter().for_each(|line| lines.tell(line));
        failure
    }

    /// True if a line has told that it is down.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Returns the fault of a run that ends while the line is down. A peer may leave before.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault_after(self.since?.elapsed())
    }

    fn fault_after(&self, down: Duration) -> Option<String> {
        let (device, seconds) = (&self.device, down.as_secs_f64());
        let settles = !self.was_up && down < SETTLES;
        (!self.is_peer && !settles)
            .then(|| format!("{device}: its line was down when the run ended, for {seconds:.1} s by then"))
    }

    /// Returns what there is to tell, and the error that ends the run.
    fn change(
        &mut self, link: Link, now: Instant, packets: impl Fn() -> Packets,
    ) -> (Option<String>, Option<String>) {
        match link {
            None => (None, None),
            Some(Ok(())) => (self.up(now, packets), None),
            Some(Err(DeviceError::Down { what, source, .. })) => {
                let since = *self.since.get_or_insert(now);
                let error = format!("{}: {what}: {source}", self.device);
                // A peer that is still to come is no loss: a stall tells of it, if packets wait.
                let may_wait = self.is_peer && !self.was_up;
                let is_late = self.told.is_none_or(|told| now.duration_since(told) >= AGAIN);
                let told = (!self.is_told && !may_wait && is_late).then(|| error.clone());
                if told.is_some() {
                    (self.told, self.is_told) = (Some(now), true);
                }
                let is_lost = self.ends_when_down && self.was_up;
                let failure =
                    if is_lost { Some(error) } else { self.given_up(now.duration_since(since), packets) };
                (told.filter(|_| failure.is_none()), failure)
            }
            // A device that is opened again does not say so.
            Some(Err(error)) => {
                self.since = None;
                (None, (self.on_gone == OnGone::Fail).then(|| error.to_string()))
            }
        }
    }

    /// Returns the error once it has been down for longer than it may. That is no matter while nothing is to leave by it.
    fn given_up(&self, down: Duration, packets: impl Fn() -> Packets) -> Option<String> {
        let (device, seconds) = (&self.device, down.as_secs_f64());
        self.give_up.filter(|time| down >= *time)?;
        if self.is_peer {
            return self
                .was_up
                .then(|| format!("{device}: given up: its other side was away for {seconds:.1} s"));
        }
        let matters = match packets() {
            Packets::Arriving => true,
            Packets::Leaving(dropped) => dropped > self.dropped,
        };
        matters.then(|| format!("{device}: given up: its line was down for {seconds:.1} s"))
    }

    /// Notes that the line is up. Returns what there is to tell, if it was told that it was down.
    fn up(&mut self, now: Instant, packets: impl Fn() -> Packets) -> Option<String> {
        self.was_up = true;
        let away = now.duration_since(self.since.take()?).as_secs_f64();
        if !std::mem::take(&mut self.is_told) {
            return None;
        }
        let lost = match packets() {
            Packets::Arriving => 0,
            Packets::Leaving(dropped) => dropped - std::mem::replace(&mut self.dropped, dropped).min(dropped),
        };
        let lost = match lost {
            0 => String::new(),
            _ => format!(", {} dropped meanwhile", grouped_on_stderr(lost)),
        };
        let what = if self.is_peer { "its other side is here again" } else { "the interface is up again" };
        Some(format!("{}: {what} after {away:.1} s{lost}", self.device))
    }
}

/// Returns the packets of a queue that were dropped because its line was down.
pub(crate) fn dropped(counters: &QueueCounters) -> u64 {
    counters.failures().iter().filter(|(reason, _)| LINK_DOWN.contains(reason)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::OnStall;

    fn down() -> Link {
        let (device, what) = ("packet:b0".into(), "b0 has no carrier".into());
        Some(Err(DeviceError::Down { device, what, source: std::io::Error::other("down") }))
    }

    fn watch(on_gone: OnGone, is_peer: bool, give_up_ms: u64) -> LinkWatch {
        let give_up = Some(Duration::from_millis(give_up_ms));
        let args = RecoveryArgs { on_gone, on_stall: Some(OnStall::Report), give_up };
        LinkWatch { is_peer, ..LinkWatch::new("packet:b0".into(), args, &Recovery::default()) }
    }

    fn none() -> (Option<String>, Option<String>) {
        (None, None)
    }

    fn told(line: &str) -> (Option<String>, Option<String>) {
        (Some(format!("packet:b0: {line}")), None)
    }

    #[test]
    fn a_line_that_goes_down_and_comes_up_is_told_twice_with_its_own_drops() {
        let (mut watch, began) = (watch(OnGone::Reopen, false, 60_000), Instant::now());
        let mut look = |link, ms, dropped| {
            watch.change(link, began + Duration::from_millis(ms), || Packets::Leaving(dropped))
        };
        assert_eq!(look(Some(Ok(())), 0, 0), none(), "it was never down");
        assert_eq!(look(down(), 0, 0), told("b0 has no carrier: down"));
        assert_eq!([look(None, 1000, 9), look(down(), 2000, 9)], [none(), none()]);
        let up = told("the interface is up again after 2.1 s, 2520 dropped meanwhile");
        assert_eq!(look(Some(Ok(())), 2100, 2520), up);
        assert_eq!(look(Some(Ok(())), 2200, 2520), none());
        assert_eq!(look(down(), 4000, 2520), told("b0 has no carrier: down"));
        assert_eq!(look(Some(Ok(())), 4500, 2520), told("the interface is up again after 0.5 s"));
    }

    #[test]
    fn a_run_that_ends_while_the_line_is_down_fails_unless_the_line_had_no_time_to_come_up() {
        let (mut line, began) = (watch(OnGone::Reopen, false, 60_000), Instant::now());
        line.change(down(), began, || Packets::Arriving);
        let fault = Some("packet:b0: its line was down when the run ended, for 0.2 s by then".into());
        assert_eq!(line.fault_after(Duration::from_millis(200)), None);
        assert!(line.fault_after(Duration::from_millis(1000)).is_some());
        line.change(Some(Ok(())), began, || Packets::Arriving);
        line.change(down(), began, || Packets::Arriving);
        assert_eq!(line.fault_after(Duration::from_millis(200)), fault);
        assert_eq!(watch(OnGone::Reopen, true, 60_000).fault_after(Duration::from_secs(9)), None);
    }

    #[test]
    fn a_line_that_flaps_is_told_once_a_second_and_each_time_twice() {
        let (mut watch, began) = (watch(OnGone::Reopen, false, 60_000), Instant::now());
        let (mut downs, mut ups) = (0, 0);
        for step in 0..100_u64 {
            let link = if step % 2 == 0 { down() } else { Some(Ok(())) };
            let at = began + Duration::from_millis(50 * step);
            let (line, _) = watch.change(link, at, || Packets::Leaving(step));
            downs += usize::from(line.as_ref().is_some_and(|line| line.contains("no carrier")));
            ups += usize::from(line.is_some_and(|line| line.contains("up again")));
        }
        assert_eq!((downs, ups), (5, 5));
    }

    #[test]
    fn a_line_is_given_up_once_packets_are_lost_by_it_and_a_peer_once_it_was_here() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut line = watch(OnGone::Fail, false, 500).of_forward();
        line.change(Some(Ok(())), at(0), || Packets::Leaving(0));
        line.change(down(), at(0), || Packets::Leaving(0));
        assert_eq!(line.change(down(), at(600), || Packets::Leaving(0)), none());
        let failure = Some("packet:b0: given up: its line was down for 0.7 s".into());
        assert_eq!(line.change(down(), at(700), || Packets::Leaving(1)).1, failure);
        assert_eq!(line.change(down(), at(700), || Packets::Arriving).1, failure);

        let mut peer = watch(OnGone::Reopen, true, 500);
        assert_eq!(peer.change(down(), at(0), || Packets::Arriving), none(), "it is still to come");
        assert_eq!(peer.change(down(), at(600), || Packets::Arriving), none());
        peer.change(Some(Ok(())), at(700), || Packets::Arriving);
        assert_eq!(peer.change(down(), at(800), || Packets::Arriving), told("b0 has no carrier: down"));
        let away = Some("packet:b0: given up: its other side was away for 0.6 s".into());
        assert_eq!(peer.change(down(), at(1400), || Packets::Arriving), (None, away));

        let mut strict = watch(OnGone::Fail, true, 500);
        strict.change(Some(Ok(())), at(0), || Packets::Arriving);
        let gone = Some("packet:b0: b0 has no carrier: down".into());
        assert_eq!(strict.change(down(), at(100), || Packets::Arriving), (None, gone));
    }
}
