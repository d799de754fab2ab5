//! `Kept`: what is known of a port's device, for the poller and the readers of events.

use super::super::recovery::OnStall;
use super::log::Log;
use super::{Event, State};
use std::time::{Duration, Instant};
use wharf_core::device::DeviceError;
use wharf_core::monitor::{Link, Sign, Watchdog};
use wharf_devices::reopen::OnGone;

/// States of the line, as threads without the lock know it.
pub(super) const UP: u8 = 0;
pub(super) const DOWN: u8 = 1;
pub(super) const GONE: u8 = 2;

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
    /// When the next look at the line is due, ns.
    pub(super) looks_ns: u64,
    pub(super) on: (OnStall, OnGone),
    pub(super) remedy: Option<Remedy>,
}

impl Kept {
    /// Takes in news. A state of the line that is known is none.
    pub(super) fn hear(&mut self, event: Event) {
        match (event.clone(), &self.line) {
            (Event::Down { .. }, State::Down { .. } | State::Gone { .. }) => return,
            (Event::Gone { .. }, State::Gone { .. }) => return,
            (Event::Down { since, why }, _) => self.line = State::Down { since, why },
            (Event::Gone { since, why }, _) => {
                self.remedy = (self.on.1 == OnGone::Fail).then(|| Remedy::Fail(why.clone()));
                self.line = State::Gone { since, why };
            }
            (Event::Reopened { .. }, _) => (self.line, self.stall) = (State::Up, State::Up),
            _ => {}
        }
        self.log.push(event);
    }

    /// Takes in what the device says of its line. Returns true if that is news.
    pub(super) fn line_is(&mut self, link: Link) -> bool {
        let before = self.log.end();
        match (link, &self.line) {
            (Some(Err(error)), _) => event_of(&error).into_iter().for_each(|event| self.hear(event)),
            (Some(Ok(())), State::Down { .. }) => {
                self.line = State::Up;
                self.log.push(Event::Up);
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
                self.remedy = match self.on.0 {
                    OnStall::Report => None,
                    OnStall::Reset => Some(Remedy::Reset),
                    OnStall::Fail => Some(Remedy::Fail(why.clone())),
                };
                self.stall = State::Stalled { since, why: why.clone() };
                Event::Stalled { since, why }
            }
        };
        self.log.push(event);
        true
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
