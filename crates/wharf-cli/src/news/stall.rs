//! `Stall`: a queue whose packets wait: its device completes none, or its peer has not come. One line reports
//! that after `TOLD_AFTER`, and another one what is done about it after `PATIENCE`.

use super::Device;
use super::line::Line;
use crate::args::OnStall;
use crate::output::warn;
use std::time::{Duration, Instant};
use wharf::Port;
use wharf_core::counters::QueueCounters;

/// Time without a completion that is told.
pub(super) const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Least time between two such lines: a slow device may stall with each packet.
const AGAIN: Duration = Duration::from_secs(10);
/// Time without a completion after which something is done about it: twice as long as before Linux's watchdog speaks up
/// (net/sched/sch_generic.c, `dev_watchdog`: 5 s unless the driver has its own).
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// When the device completed a frame last, while the port says that it stalls.
    since: Option<Instant>,
    /// Since when frames wait for a peer or a line that is not there, and those completed by then.
    held: Option<(Instant, u64)>,
    /// Frames in the device at the last look.
    frames: u64,
    /// When the last line was printed, and the packets sent by then, until the stall is over.
    told: Option<(Instant, Option<u64>)>,
    /// That line was about an absent peer, and not about one that completes nothing.
    is_of_line: bool,
    /// What is done about it was told.
    is_treated: bool,
}

impl Stall {
    pub(super) fn begin(&mut self, since: Instant) {
        (self.since, self.is_treated) = (Some(since), false);
    }

    /// True if it was told, and not its end.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.told, Some((_, Some(_))))
    }

    /// Prints what is due. Returns the error that ends the run.
    pub(super) fn look(
        &mut self, device: &Device, counters: &QueueCounters, line: &Line, now: Instant,
    ) -> Option<String> {
        let (frames, completed) = counters.device_frames();
        (self.frames, self.held) = match self.held {
            Some((held, before)) if frames == 0 || completed != before => {
                self.ends_after(device, now - held, counters);
                (frames, None)
            }
            None if frames > 0 && line.why().is_some() => (frames, Some((now, completed))),
            held => (frames, held),
        };
        if self.since.is_none() && self.held.is_none() {
            // It was opened anew since.
            let takes =
                |(_, sent): &(Instant, Option<u64>)| sent.is_some_and(|sent| counters.sent.get() > sent);
            if let Some((told, _)) = self.told.filter(takes) {
                self.ends_after(device, TOLD_AFTER + (now - told), counters);
            }
        }
        let waited = now - self.since.or(self.held.map(|(held, _)| held))?;
        if waited >= TOLD_AFTER {
            self.tell(device, counters, line, now);
        }
        if let Some(time) = device.give_up.filter(|time| waited >= *time) {
            let (name, frames) = (&device.name, self.frames);
            let why = line.why().map_or(String::new(), |why| format!(" ({why})"));
            return Some(format!(
                "{name}: given up: no completion for {time:?}, frames in the device: {frames}{why}"
            ));
        }
        if waited < PATIENCE || self.since.is_none() || std::mem::replace(&mut self.is_treated, true) {
            return None;
        }
        match device.on_stall {
            OnStall::Fail => return Some(self.none_of(device, PATIENCE)),
            OnStall::Reset if !device.reopens => warn(&format!(
                "{}: this kind of device cannot be opened anew; packets wait (--give-up ends)",
                self.none_of(device, PATIENCE)
            )),
            // The port resets it, and says so.
            OnStall::Reset => self.is_treated = false,
            OnStall::Report => {}
        }
        None
    }

    fn tell(&mut self, device: &Device, counters: &QueueCounters, line: &Line, now: Instant) {
        if self.is_told() {
            return;
        }
        let is_of_line = line.why().is_some();
        let is_alike = std::mem::replace(&mut self.is_of_line, is_of_line) == is_of_line;
        let is_soon = self.told.is_some_and(|(last, _)| is_alike && now - last < AGAIN);
        if line.is_told() || is_soon {
            return;
        }
        self.told = Some((now, Some(counters.sent.get())));
        match line.why() {
            Some(why) => warn(&format!("{why}: packets wait")),
            None => {
                let is_busy = ": it is busy, or stopped, or does not serve every queue";
                let why = if device.is_peer { is_busy } else { "" };
                warn(&format!("{}{why}; packets wait", self.none_of(device, TOLD_AFTER)));
            }
        }
    }

    fn none_of(&self, device: &Device, time: Duration) -> String {
        let (name, frames) = (&device.name, self.frames);
        let s = if frames == 1 { "" } else { "s" };
        let actor = if device.is_peer { "its other side" } else { "it" };
        format!("{name}: {actor} has completed none of {frames} frame{s} for {} s", time.as_secs())
    }

    /// The device completes again, or has given its frames back.
    pub(super) fn end(&mut self, device: &Device, port: &Port) {
        if let (Some(since), Ok(queue)) = (self.since.take(), port.queue()) {
            self.ends_after(device, since.elapsed(), queue.counters());
        }
    }

    fn ends_after(&mut self, device: &Device, after: Duration, counters: &QueueCounters) {
        // Packets that come back as the run ends are none that it takes.
        if let Some((_, sent)) = &mut self.told
            && sent.take().is_some_and(|sent| counters.sent.get() > sent)
        {
            warn(&format!("{}: it takes packets again, after {:.1} s", device.name, after.as_secs_f64()));
        }
    }

    /// The port resets the device.
    pub(super) fn resets(&mut self, device: &Device) {
        if self.since.take().is_some() {
            warn(&format!(
                "{}: it is opened anew; what has not left by then is lost (--on-stall report waits instead)",
                self.none_of(device, PATIENCE)
            ));
        }
    }

    /// The device is open again, and has no frames.
    pub(super) fn reopens(&mut self) {
        (self.since, self.held) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::OnGone;

    /// Checks a stall at these times in ms. Returns whether it was reported then, and the errors.
    fn checks(on_stall: OnStall, give_up_ms: Option<u64>, at_ms: &[u64]) -> (Vec<bool>, Vec<Option<String>>) {
        let (name, give_up) = ("udp:x".into(), give_up_ms.map(Duration::from_millis));
        let device =
            Device { name, is_peer: false, reopens: true, on_gone: OnGone::Reopen, on_stall, give_up };
        let (mut stall, began) = (Stall::default(), Instant::now());
        stall.begin(began);
        let check = |ms: &u64| {
            let now = began + Duration::from_millis(*ms);
            let error = stall.look(&device, &QueueCounters::default(), &Line::default(), now);
            (stall.is_told(), error)
        };
        at_ms.iter().map(check).unzip()
    }

    #[test]
    fn a_stall_is_reported_after_a_second_and_ends_a_run_only_if_that_is_asked_for() {
        let (told, errors) = checks(OnStall::Report, None, &[999, 1000, 9999, 10_000, 60_000, 3_600_000]);
        assert_eq!((told[0], told[1], errors.iter().flatten().count()), (false, true, 0));
        // The port opens it anew.
        assert_eq!(checks(OnStall::Reset, None, &[1000, 10_000, 60_000]).1, [None, None, None]);
        let (_, errors) = checks(OnStall::Fail, None, &[9999, 10_000]);
        assert_eq!(errors, [None, Some("udp:x: it has completed none of 0 frames for 10 s".into())]);
        let (_, errors) = checks(OnStall::Report, Some(3000), &[2999, 3000]);
        assert!(
            errors[0].is_none() && errors[1].as_ref().unwrap().contains("given up: no completion for 3s")
        );
    }
}
