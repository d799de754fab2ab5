//! `Pollers`: what polls the ports that share a poller: one thread, begun anew as their queues come and go.

use super::host::{Host, Served, Serving};
use super::metrics::Measurements;
use std::io;
use std::sync::{Arc, Mutex};
use wharf_core::poller::{PollerCounters, Settings};
use wharf_mem::lock;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pollers {
    host: Host,
    settings: Settings,
    cpu: Option<usize>,
    state: Mutex<State>,
    /// The counters of its threads.
    measured: Measurements,
}

#[derive(Debug, Default)]
struct State {
    /// By port.
    served: Vec<Served>,
    serving: Option<Serving>,
}

impl Pollers {
    pub(crate) fn new(host: Host, settings: Settings, cpu: Option<usize>) -> Arc<Self> {
        Arc::new(Self { host, settings, cpu, state: Mutex::default(), measured: Measurements::default() })
    }

    /// The processor that the thread is pinned to.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Adds a port, without queues. Returns its number.
    pub(super) fn join(&self) -> usize {
        let mut state = lock(&self.state);
        state.served.push(Served::default());
        state.served.len() - 1
    }

    /// Serves `served` for port `number`, in place of what was served for it. Returns the poller until now.
    ///
    /// # Errors
    /// The system gives no thread: the poller until now goes on.
    pub(super) fn serve(&self, number: usize, served: Served) -> io::Result<Option<Serving>> {
        let mut state = lock(&self.state);
        let before = std::mem::replace(&mut state.served[number], served);
        match self.start(&state.served) {
            Ok(started) => Ok(std::mem::replace(&mut state.serving, started)),
            Err(error) => {
                state.served[number] = before;
                Err(error)
            }
        }
    }

    /// Serves port `number` no more. Returns the poller until now; `None` if the system gives no other one:
    /// that goes on, and lets go of the port's queues once they are closed.
    pub(super) fn leave(&self, number: usize) -> Option<Serving> {
        let mut state = lock(&self.state);
        state.served[number] = Served::default();
        let started = self.start(&state.served).ok()?;
        std::mem::replace(&mut state.serving, started)
    }

    /// Serves no port any more, once the thread has ended.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.served.fill(Served::default());
        let serving = state.serving.take();
        drop(state);
        drop(serving);
    }

    fn start(&self, served: &[Served]) -> io::Result<Option<Serving>> {
        let is_idle = served.iter().all(|one| one.queue.is_none() && one.receiver.is_none());
        if is_idle {
            return Ok(None);
        }
        let started = self.host.serve(self.settings, self.cpu, served)?;
        started.counters().inspect(|counters| self.measured.add(counters));
        Ok(Some(started))
    }

    /// True if it serves a port.
    pub(crate) fn is_serving(&self) -> bool {
        lock(&self.state).serving.is_some()
    }

    /// The counters of all threads that there are and were.
    pub(super) fn measured(&self) -> &Measurements {
        &self.measured
    }

    /// Returns the counters of the thread, if there is one.
    pub(crate) fn counters(&self) -> Option<Arc<PollerCounters>> {
        lock(&self.state).serving.as_ref().and_then(Serving::counters).cloned()
    }
}
