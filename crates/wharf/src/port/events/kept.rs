//! `Kept`: what is known of a port's device, for the poller and the readers of events.

use super::super::recovery::{OnStall, Recovery};
use super::log::Log;
use super::{Event, State};
use std::time::{Duration, Instant};
use wharf_core::device::DeviceError;
use wharf_core::monitor::{LOOK_NS, Link, Sign, Watchdog};
use wharf_devices::reopen::OnGone;

/// States of the line, as threads without the lock know it.
pub(super) const UP: u8 = 0;
pub(super) const DOWN: u8 = 1;
pub(super) const GONE: u8 = 2;

/// Time between two checks of a line that is down: an eighth of the time for which it has been, within these
/// bounds. And of one that is up while a program listens.
pub(super) const DOWN_LOOK: Duration = Duration::from_millis(50);
const DOWN_LOOK_MAX: Duration = Duration::from_millis(500);
const IDLE_LOOK: Duration = Duration::from_millis(500);
/// The least time until the check that may report a line as down.
const REPORT_LOOK: Duration = Duration::from_millis(1);

/// The poller's task for a device.
#[derive(Debug)]
pub(super) enum Remedy {
    Reset,
    /// End the queue, for this reason.
    Fail(String),
}

/// State of the device, as the poller and readers know it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) log: Log,
    /// [`State::Up`], unless the line is down or gone.
    pub(super) line: State,
    /// [`State::Up`], or stalled.
    pub(super) stall: State,
    pub(super) watchdog: Watchdog,
    /// Bounds the stall that is put up with, unless the remedy comes with the news.
    patience: Option<Watchdog>,
    /// When the next look at the line is due, ns.
    pub(super) looks_ns: u64,
    /// The time for which the line must be down before the log has the event, and that event until then.
    down_after: Duration,
    unreported: Option<Event>,
    pub(super) on: (OnStall, OnGone),
    pub(super) remedy: Option<Remedy>,
}

impl Kept {
    pub(super) fn new(recovery: &Recovery) -> Self {
        Self {
            log: Log::default(),
            line: State::Up,
            stall: State::Up,
            watchdog: Watchdog::new(recovery.stall_after),
            patience: recovery.remedy_after.map(|time| Watchdog::new(Some(time))),
            looks_ns: 0,
            down_after: recovery.down_after,
            unreported: None,
            on: (recovery.on_stall, recovery.on_gone),
            remedy: None,
        }
    }

    /// Compares the frames that the device holds, and those that it has completed, with those of last time.
    /// Returns true, too, if a stall that is known has been put up with for long enough.
    pub(super) fn compare(&mut self, now_ns: u64, held: u64, completed: u64) -> (Option<Sign>, bool) {
        let sign = self.watchdog.look(now_ns, held, completed);
        let patience = self.patience.as_mut().and_then(|patience| patience.look(now_ns, held, completed));
        let is_known = matches!(self.stall, State::Stalled { .. });
        (sign, is_known && matches!(patience, Some(Sign::Overdue { .. })))
    }

    /// The known stall is put up with no longer.
    pub(super) fn lose_patience(&mut self) {
        self.patience.iter_mut().for_each(Watchdog::stall);
        if let State::Stalled { why, .. } = &self.stall {
            self.remedy = remedy(self.on.0, why);
        }
    }

    /// The device is not overdue after all.
    pub(super) fn excuse(&mut self, now_ns: u64) {
        self.watchdog.excuse(now_ns);
        self.patience.iter_mut().for_each(|patience| patience.excuse(now_ns));
    }

    /// Returns when the next comparison is due, ns, if one is due at all.
    pub(super) fn compares_at_ns(&self, now_ns: u64) -> Option<u64> {
        let of_patience = self.patience.as_ref().and_then(Watchdog::due_ns);
        let due_ns = [self.watchdog.due_ns(), of_patience].into_iter().flatten().min();
        // Of a stall that is known, the end is looked for.
        let end_ns = now_ns.saturating_add(self.watchdog.bound_ns());
        let is_waiting = self.watchdog.is_waiting();
        is_waiting.then(|| due_ns.map_or(end_ns, |due_ns| due_ns.clamp(now_ns + LOOK_NS, end_ns)))
    }

    /// Takes in news. A state of the line that is known is none.
    pub(super) fn hear(&mut self, event: Event) {
        if matches!(event, Event::Down { .. } | Event::Reset) {
            // It is asked for at once, and often from now on.
            self.looks_ns = 0;
        }
        match (event.clone(), &self.line) {
            (Event::Down { .. }, State::Down { .. } | State::Gone { .. }) => return,
            (Event::Gone { .. }, State::Gone { .. }) => return,
            (Event::Down { since, why }, _) => self.line = State::Down { since, why },
            (Event::Gone { since, why }, _) => {
                self.remedy = (self.on.1 == OnGone::Fail).then(|| Remedy::Fail(why.clone()));
                self.line = State::Gone { since, why };
            }
            (Event::Reset, State::Up) => {
                self.line = State::Down { since: Instant::now(), why: "it is being opened anew".into() };
            }
            (Event::Reopened { .. }, _) => {
                (self.line, self.stall) = (State::Up, State::Up);
                self.watchdog.begin_anew();
                self.patience.iter_mut().for_each(Watchdog::begin_anew);
            }
            _ => {}
        }
        match event {
            Event::Down { .. } => {
                self.unreported = Some(event);
                self.report_down();
            }
            Event::Panicked { .. } => self.log.push(event),
            _ => {
                self.unreported = None;
                self.log.push(event);
            }
        }
    }

    /// Reports a line that has been down for long enough.
    fn report_down(&mut self) {
        if self.down_left().is_some_and(|left| left.is_zero()) {
            self.unreported.take().into_iter().for_each(|event| self.log.push(event));
        }
    }

    /// Returns the time until the line is reported as down, if that is still to come.
    fn down_left(&self) -> Option<Duration> {
        let Some(Event::Down { since, .. }) = &self.unreported else { return None };
        Some(self.down_after.saturating_sub(since.elapsed()))
    }

    /// Returns the time until the next check of the line.
    pub(super) fn pause(&self) -> Duration {
        let pause = match self.line {
            State::Down { since, .. } => (since.elapsed() / 8).clamp(DOWN_LOOK, DOWN_LOOK_MAX),
            _ => IDLE_LOOK,
        };
        self.down_left().map_or(pause, |left| left.clamp(REPORT_LOOK, pause))
    }

    /// Takes in what the device says of its line. Returns true if there is news.
    pub(super) fn line_is(&mut self, link: Link) -> bool {
        let before = self.log.end();
        match (link, &self.line) {
            (Some(Err(error)), _) => {
                event_of(&error).into_iter().for_each(|event| self.hear(event));
                self.report_down();
            }
            (Some(Ok(())), State::Down { .. }) => {
                self.line = State::Up;
                if self.unreported.take().is_none() {
                    self.log.push(Event::Up);
                }
            }
            _ => {}
        }
        self.log.end() > before
    }

    /// Takes in what the watchdog has found, with `frames` in the device. Returns true: it is news.
    pub(super) fn sees(&mut self, sign: Sign, frames: u64, now_ns: u64) -> bool {
        let event = match sign {
            Sign::Resumed { after_ns } => {
                self.stall = State::Up;
                Event::Resumed { after: Duration::from_nanos(after_ns) }
            }
            Sign::Overdue { since_ns } => {
                self.watchdog.stall();
                let time = Duration::from_nanos(now_ns - since_ns);
                let since = Instant::now().checked_sub(time).unwrap_or_else(Instant::now);
                let why =
                    format!("the device has completed none of {frames} frames for {} ms", time.as_millis());
                if self.patience.is_none() {
                    self.remedy = remedy(self.on.0, &why);
                }
                self.stall = State::Stalled { since, why: why.clone() };
                Event::Stalled { since, why }
            }
        };
        self.log.push(event);
        true
    }
}

fn remedy(on_stall: OnStall, why: &str) -> Option<Remedy> {
    match on_stall {
        OnStall::Report => None,
        OnStall::Reset => Some(Remedy::Reset),
        OnStall::Fail => Some(Remedy::Fail(why.into())),
    }
}

pub(super) fn line_of(error: &DeviceError) -> u8 {
    match error {
        DeviceError::Gone { .. } => GONE,
        DeviceError::Down { .. } => DOWN,
        _ => UP,
    }
}

pub(super) fn event_of(error: &DeviceError) -> Option<Event> {
    let (since, why) = (Instant::now(), error.to_string());
    match line_of(error) {
        GONE => Some(Event::Gone { since, why }),
        DOWN => Some(Event::Down { since, why }),
        _ => None,
    }
}
