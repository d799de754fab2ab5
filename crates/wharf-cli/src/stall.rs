//! Stalls: a device whose peer takes nothing holds up everything behind it. A line reports that, once, after
//! `TOLD_AFTER`, and what is done about it after `PATIENCE`.

use crate::args::{OnStall, RecoveryArgs};
use crate::link::LinkWatch;
use crate::output;
use crate::recovery::Recovery;
use std::fmt::Display;
use std::time::{Duration, Instant};
use wharf::queue::TxQueue;
use wharf_core::monitor::{Sign, Watchdog, Watched};

/// Time without a completion that is told.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Least time between two such lines: a slow device may stall with each packet.
const AGAIN: Duration = Duration::from_secs(10);
/// Time without a completion after which something is done about it: twice as long as before Linux's watchdog speaks up
/// (net/sched/sch_generic.c, `dev_watchdog`: 5 s unless the driver has its own).
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches one transmit queue.
#[derive(Debug)]
pub(crate) struct Stall {
    /// With the bounds of the line, and of the remedy.
    teller: Watchdog,
    watchdog: Watchdog,
    /// When the last line was printed, and the packets sent by then, until the stall is over.
    told: Option<(Instant, Option<u64>)>,
    /// That line was about an absent peer, and not about one that completes nothing.
    is_of_link: bool,
    on_stall: OnStall,
    /// The time of `--give-up`, and a watchdog with that bound.
    give_up: Option<(Duration, Watchdog)>,
    recovery: Recovery,
    began: Instant,
}

impl Stall {
    /// Begins the watch over a queue whose device `recovery` opens again.
    pub(crate) fn new(args: RecoveryArgs, recovery: Recovery) -> Self {
        let [teller, watchdog] = [TOLD_AFTER, PATIENCE].map(|bound| Watchdog::new(Some(bound)));
        let give_up = args.give_up.map(|time| (time, Watchdog::new(Some(time))));
        let on_stall = recovery.on_stall();
        Self {
            teller,
            watchdog,
            told: None,
            is_of_link: false,
            on_stall,
            give_up,
            recovery,
            began: Instant::now(),
        }
    }

    /// True if a stall was told, and not its end.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.told, Some((_, Some(_))))
    }

    /// Prints a line on standard error when `queue` has begun to stall, unless `link` has told why, and when that is over; does what was
    /// asked for. Returns the error that ends the run once the device is given up.
    pub(crate) fn look(&mut self, device: impl Display, queue: &TxQueue, link: &LinkWatch) -> Option<String> {
        self.recovery.look(queue);
        if let Some(failure) = self.recovery.failure() {
            return Some(failure);
        }
        let (frames, completed) = queue.counters().device_frames();
        let now_ns = self.began.elapsed().as_nanos() as u64;
        self.tell(&device, queue, link, now_ns);
        if let Some(Sign::Overdue { .. }) = self.watchdog.look(now_ns, frames, completed) {
            self.watchdog.stall();
            let what = self.none_of(&device, frames, PATIENCE);
            match self.on_stall {
                OnStall::Fail => return Some(what),
                OnStall::Reset if is_up(queue) => {
                    let remedy = match self.recovery.reset() {
                        true => {
                            "it is opened anew; what has not left by then is lost (--on-stall report waits instead)"
                        }
                        false => "this kind of device cannot be opened anew; packets wait (--give-up ends)",
                    };
                    output::warn(&format!("{what}: {remedy}"));
                }
                OnStall::Reset | OnStall::Report => {}
            }
        }
        let (time, watchdog) = self.give_up.as_mut()?;
        if let Some(given_up) = self.recovery.given_up(&device, *time) {
            return Some(given_up);
        }
        watchdog.look(now_ns, frames, completed)?;
        let why = queue.link().and_then(Result::err).map_or(String::new(), |error| format!(" ({error})"));
        Some(format!("{device}: given up: no completion for {time:?}, frames in the device: {frames}{why}"))
    }

    fn none_of(&self, device: &impl Display, frames: u64, time: Duration) -> String {
        let s = if frames == 1 { "" } else { "s" };
        let actor = if self.recovery.is_of_peer() { "its other side" } else { "it" };
        format!("{device}: {actor} has completed none of {frames} frame{s} for {} s", time.as_secs())
    }

    fn tell(&mut self, device: &impl Display, queue: &TxQueue, link: &LinkWatch, now_ns: u64) {
        let (frames, completed) = queue.counters().device_frames();
        match self.teller.look(now_ns, frames, completed) {
            // The device knows when the next one is due: a wire with a delay.
            Some(Sign::Overdue { .. }) => {
                match queue.has_completions_due() {
                    Some(true) => return self.teller.excuse(now_ns),
                    Some(false) => self.teller.stall(),
                    // Another thread owns the queue: the next look asks again.
                    None => return,
                }
                let down = queue.link().and_then(Result::err);
                let is_alike = std::mem::replace(&mut self.is_of_link, down.is_some()) == down.is_some();
                let is_soon = self.told.is_some_and(|(last, _)| is_alike && last.elapsed() < AGAIN);
                if link.is_told() || is_soon {
                    return;
                }
                self.told = Some((Instant::now(), Some(queue.counters().sent.get())));
                output::warn(&match down {
                    Some(error) => format!("{error}: packets wait"),
                    None => {
                        let why = match self.recovery.is_of_peer() {
                            true => ": it is busy, or stopped, or does not serve every queue",
                            false => "",
                        };
                        format!("{}{why}; packets wait", self.none_of(device, frames, TOLD_AFTER))
                    }
                });
            }
            Some(Sign::Resumed { after_ns }) => {
                // Packets that come back as the run ends are none that it takes.
                if let Some((_, sent)) = &mut self.told
                    && sent.take().is_some_and(|sent| queue.counters().sent.get() > sent)
                {
                    let after = after_ns as f64 / 1e9;
                    output::warn(&format!("{device}: it takes packets again, after {after:.1} s"));
                }
            }
            None => {}
        }
    }
}

/// False if the line is down, or the peer has not come: a new device would change nothing.
fn is_up(queue: &TxQueue) -> bool {
    !matches!(queue.link(), Some(Err(_)))
}
