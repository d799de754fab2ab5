//! `Manager`: a forwarder as its service manager sees it: ready, its status, reloads, and its end.

use super::live::Live;
use super::ports::Ports;
use super::reload::Reload;
use super::tell::Tells;
use crate::service::Service;
use crate::signals::Signals;
use crate::watch::Board;
use std::time::{Duration, Instant};
use wharf::forward::Forward;

/// See the module.
pub(super) struct Manager<'a> {
    service: Service,
    signals: &'a Signals,
    board: &'a Board,
    reload: Reload<'a>,
    ports: &'a mut Ports,
    began: Instant,
    status: Live,
}

impl<'a> Manager<'a> {
    /// Tells that both ends are open.
    pub(super) fn start(
        signals: &'a Signals, board: &'a Board, reload: Reload<'a>, ports: &'a mut Ports,
    ) -> Self {
        let service = Service::of_environment();
        service.ready();
        Self { service, signals, board, reload, ports, began: Instant::now(), status: Live::default() }
    }

    /// Goes on without port `at` of a switch, whose device is gone for good, for the reason `why`. Returns
    /// false if there is no switch, or no other port.
    pub(super) fn goes_on_without(
        &mut self, at: usize, why: &str, forward: &mut Forward, tells: &mut Tells,
    ) -> bool {
        let goes_on = forward.stations(at).is_some() && forward.directions().len() > 1;
        if goes_on {
            self.ports.lose(at, why, forward, tells, self.board);
        }
        goes_on
    }

    /// Reloads if a signal has asked for it, and tells what is due. Returns the time by which it is to look
    /// again.
    pub(super) fn look(&mut self, forward: &mut Forward, tells: &mut Tells) -> Duration {
        if self.signals.takes_reload() {
            self.service.reloading();
            let wanted = self.reload.reload(self.signals, self.board);
            if let Some(wanted) = wanted.filter(|args| !args.ports.is_empty()) {
                self.ports.change_to(&wanted, forward, tells, self.board);
            }
            self.service.ready();
        }
        let forward = &*forward;
        let (status, now) = (&self.status, self.began.elapsed().as_secs_f64());
        self.service.look(forward, || status.line(now, forward))
    }
}

/// The watch over the run has ended.
impl Drop for Manager<'_> {
    fn drop(&mut self) {
        self.service.stopping();
    }
}
