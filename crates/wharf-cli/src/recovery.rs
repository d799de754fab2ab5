//! Devices of a run that are opened anew: what is said about it on standard error.

use crate::args::{OnGone, OnStall, RecoveryArgs};
use crate::repeats::Lines;
use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf::device::DeviceError;
use wharf::queue::TxQueue;
use wharf::testing::FaultReset;
use wharf_core::monitor::Watched;
use wharf_core::rx::RxQueue;
use wharf_devices::reopen::{self, Change, Reopener};
use wharf_devices::spec::{DeviceSpec, Direction, Opened, Place, Queues};

/// Time that a device may take to be opened anew.
const RESET_WITHIN: Duration = Duration::from_secs(1);

/// The way to open the devices of one specification again, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovery {
    reopener: Option<Arc<Reopener>>,
    /// Name of the device.
    name: String,
    /// The other side is a program that connects.
    is_of_peer: bool,
    /// The treatment of a stall; `None` if the device comes from no specification.
    on_stall: Option<OnStall>,
    news: Arc<Mutex<News>>,
}

/// What was said about a device.
#[derive(Debug, Default)]
struct News {
    lines: Lines,
    /// It only receives.
    receives: bool,
    /// Time for which it was away before it was opened again.
    absent: Duration,
    /// This absence is a reset.
    is_reset: bool,
    /// A failure to open it was told in this absence.
    is_told: bool,
    /// Why it cannot be opened any more.
    failure: Option<String>,
}

impl Recovery {
    /// Puts what opens them again around the devices that `spec` has opened.
    pub(crate) fn around(
        args: RecoveryArgs, spec: &DeviceSpec, direction: Direction, queues: Queues, opened: &mut Vec<Opened>,
    ) -> std::io::Result<Self> {
        let is_of_peer = matches!(spec.kind().place, Place::Socket(_));
        let on_stall = Some(args.on_stall(spec.kind()));
        let name = opened.first().map_or_else(|| spec.name(), |opened| opened.device.name());
        // The kind's own default for stalls changes nothing about `--on-gone fail`: a peer that goes ends the run.
        if args.on_gone == OnGone::Fail && args.on_stall == Some(OnStall::Report) {
            return Ok(Self { name, is_of_peer, on_stall, ..Self::default() });
        }
        let reopener = Reopener::around(spec, direction, queues, args.on_gone, opened)?;
        let news =
            News { lines: Lines::of_news(), receives: direction == Direction::Receive, ..News::default() };
        let news = Arc::new(Mutex::new(news));
        let recovery = Self { reopener, name: name.clone(), is_of_peer, on_stall, news };
        let (news, fails) = (recovery.news.clone(), args.on_gone == OnGone::Fail);
        if let Some(reopener) = &recovery.reopener {
            reopener.observe(move |change| say(&name, change, fails, &news));
        }
        Ok(recovery)
    }

    /// Resets the fault wrapper around the device each time that the device goes or is opened anew.
    pub(crate) fn reset_with(&self, faults: FaultReset) {
        if let Some(reopener) = &self.reopener {
            reopener.observe(move |change| {
                if matches!(change, Change::Reset | Change::Gone(_)) {
                    faults.reset();
                }
            });
        }
    }

    /// True if the device's other side is a program that connects.
    pub(crate) fn is_of_peer(&self) -> bool {
        self.is_of_peer
    }

    /// Returns the treatment of a stall.
    pub(crate) fn on_stall(&self) -> OnStall {
        self.on_stall.unwrap_or(OnStall::Report)
    }

    /// True if it is the way to open the device called `name`.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    /// Has the pollers of these queues called when there is news for their device.
    pub(crate) fn call_pollers_of(&self, queues: &[TxQueue], receivers: &[RxQueue]) {
        let Some(reopener) = &self.reopener else { return };
        queues.iter().for_each(|queue| reopener.add_poller(queue.call_poller()));
        receivers.iter().for_each(|receiver| reopener.add_poller(receiver.call_poller()));
    }

    /// True if a device that has gone is opened again by itself.
    pub(crate) fn is_automatic(&self) -> bool {
        self.reopener.as_ref().is_some_and(|reopener| reopener.is_automatic())
    }

    /// Closes the device and opens it again. Returns false if it cannot be.
    pub(crate) fn reset(&self) -> bool {
        self.reopener.as_ref().map(|reopener| reopener.reset()).is_some()
    }

    /// Returns the error of a device that cannot be opened any more.
    pub(crate) fn failure(&self) -> Option<String> {
        wharf_mem::lock(&self.news).failure.clone()
    }

    /// Prints the counts of repeated lines that are due.
    pub(crate) fn tell_counts(&self) {
        wharf_mem::lock(&self.news).lines.look();
    }

    /// Has a queue that is idle close its device, if that is away: nothing else asks for it.
    pub(crate) fn look(&self, queue: &TxQueue) {
        self.tell_counts();
        if self.away().is_some() {
            _ = queue.link();
        }
    }

    /// Prints the counts of repeated lines at the end of the run. Returns the fault if the device is away.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut news = wharf_mem::lock(&self.news);
        news.lines.end();
        let is_reset = news.is_reset;
        drop(news);
        let away = self.away()?;
        // A reset just before the end is no fault: the run no longer needs the device.
        if is_reset && away < RESET_WITHIN {
            return None;
        }
        let away = away.as_secs_f64();
        Some(format!("{}: it was away when the run ended, for {away:.1} s by then", self.name))
    }

    /// Returns the time for which the device was away in all.
    pub(crate) fn absent(&self) -> Duration {
        let before = wharf_mem::lock(&self.news).absent;
        before + self.away().unwrap_or_default()
    }

    /// Returns the error of a run that gives up `device`, which has been away for `time`.
    pub(crate) fn given_up(&self, device: impl Display, time: Duration) -> Option<String> {
        let away = self.away().filter(|away| *away >= time)?;
        Some(format!("{device}: given up: away for {:.1} s", away.as_secs_f64()))
    }

    /// Returns the time for which the device has been away.
    pub(crate) fn away(&self) -> Option<Duration> {
        self.reopener.as_ref()?.away()
    }
}

/// True if this process may not open it, and no wait helps.
fn is_forbidden(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied)
}

fn say(name: &str, change: &Change<'_>, fails: bool, news: &Mutex<News>) {
    let mut news = wharf_mem::lock(news);
    match change {
        Change::Gone(error) if fails => news.failure = Some(error.to_string()),
        Change::NotYet(error) if is_forbidden(error) => {
            news.failure = Some(format!("{error}: so it cannot be opened again"));
        }
        Change::Gone(error) => {
            news.is_reset = false;
            let waits = if news.receives { "nothing arrives" } else { "packets wait" };
            news.lines.tell(&format!("{error}; {waits} until it is back (--on-gone fail ends instead)"));
        }
        Change::Reset => news.is_reset = true,
        Change::NotYet(_) if news.is_told => {}
        Change::NotYet(error) if reopen::is_missing(error) => {}
        Change::NotYet(error) => {
            news.lines.tell(&format!("{error}; it is tried again until it opens"));
            news.is_told = true;
        }
        Change::Reopened { after } => {
            news.absent += *after;
            news.lines.tell(&format!("{name}: open again after {:.1} s", after.as_secs_f64()));
            news.is_told = false;
        }
    }
}
