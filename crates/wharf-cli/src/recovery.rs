//! Devices of a run that are opened anew: what is said about it on standard error.

use crate::args::{OnGone, OnStall, RecoveryArgs};
use crate::output;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wharf::device::DeviceError;
use wharf::devices::reopen::{self, Change, Reopener};
use wharf::devices::spec::{DeviceSpec, Direction, Opened, Queues};
use wharf::queue::TxQueue;
use wharf::rx::RxQueue;

/// The way to open the devices of one specification again, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovery {
    reopener: Option<Arc<Reopener>>,
    /// Name of the device.
    name: String,
    /// The first failure to open it in this absence.
    told: Arc<Mutex<Option<String>>>,
}

impl Recovery {
    /// Puts what opens them again around the devices that `spec` has opened.
    pub(crate) fn around(
        args: RecoveryArgs, spec: &DeviceSpec, (direction, queues): (Direction, Queues),
        opened: &mut Vec<Opened>,
    ) -> std::io::Result<Self> {
        if args.on_gone == OnGone::Fail && args.on_stall != OnStall::Reset {
            return Ok(Self::default());
        }
        let name = opened.first().map_or_else(|| spec.name(), |opened| opened.device.name());
        let on_gone = match args.on_gone {
            OnGone::Reopen => reopen::OnGone::Reopen,
            OnGone::Fail => reopen::OnGone::Fail,
        };
        let reopener = Reopener::around(spec, direction, queues, on_gone, opened)?;
        let recovery = Self { reopener, name: name.clone(), told: Arc::default() };
        let told = recovery.told.clone();
        if let Some(reopener) = &recovery.reopener {
            reopener.observe(move |change| say(&name, change, &told));
        }
        Ok(recovery)
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

    /// Returns the fault of a run that ends while the device is away.
    pub(crate) fn fault(&self) -> Option<String> {
        let away = self.away()?.as_secs_f64();
        Some(format!("{}: it was away when the run ended, for {away:.1} s by then", self.name))
    }

    /// Returns the time for which the device has been away.
    pub(crate) fn away(&self) -> Option<Duration> {
        self.reopener.as_ref()?.away()
    }
}

fn is_no_device(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

fn say(name: &str, change: &Change<'_>, told: &Mutex<Option<String>>) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    match change {
        Change::Gone(error) => {
            *told = None;
            output::complain(&format!(
                "{error}; packets wait until it is back (--on-gone fail ends instead)"
            ));
        }
        Change::Reset => *told = None,
        // That it is not there has been said.
        Change::NotYet(DeviceError::Io { source, .. }) if is_no_device(source) => {}
        Change::NotYet(error) if told.is_none() => {
            let error = error.to_string();
            output::complain(&format!("cannot be opened yet, tried ten times a second: {error}"));
            *told = Some(error);
        }
        Change::NotYet(_) => {}
        Change::Reopened { after } => {
            output::complain(&format!("{name}: open again after {:.1} s", after.as_secs_f64()));
        }
    }
}
