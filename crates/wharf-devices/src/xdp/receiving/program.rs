//! `Programs`: the program that hands frames to sockets. An interface has one such program, which knows the
//! sockets of all queues that were opened together. The first queue attached loads it, and it goes with the
//! last of them.
//!
//! The kernel removes a closed socket from the program's map (`xsk_delete_from_maps`): the frames of its
//! queue are then the host's, as those of queues that were never opened.

use super::super::{Refusal, Step, patiently_for};
use crate::link::{EBUSY, EEXIST};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wharf_sys::xdp::{Attached, Hook, Redirect, XdpSocket};

/// Time in which the program of another process may go: it was just killed, or is about to end.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// A program that is attached.
#[derive(Debug)]
pub(super) struct Program {
    redirect: Redirect,
    _attached: Attached,
    hook: Hook,
}

/// The program of an interface's queues up to number `queue_max`.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    queue_max: u32,
    now: Arc<Mutex<Weak<Program>>>,
}

impl Program {
    /// Hands the frames of queue `queue` to `socket`, which is bound to it.
    pub(super) fn direct(&self, queue: u32, socket: &XdpSocket) -> Result<(), Refusal> {
        self.redirect.direct(queue, socket).map_err(Step::Bind.refused())
    }
}

impl Programs {
    pub(super) fn new(queue_max: u32) -> Self {
        Self { queue_max, now: Arc::default() }
    }

    /// The lock is never poisoned.
    fn lock(&self) -> MutexGuard<'_, Weak<Program>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hooks to try: the existing program's, else all, the best first.
    pub(super) fn hooks(&self) -> impl Iterator<Item = Hook> + use<> {
        let there = self.lock().upgrade().map(|program| program.hook);
        [Hook::Native, Hook::Generic].into_iter().filter(move |&hook| there.is_none_or(|there| there == hook))
    }

    /// Returns the program of interface `index`, attached at `hook` now if there was none.
    pub(super) fn attached(&self, index: i32, hook: Hook) -> Result<Arc<Program>, Refusal> {
        let mut now = self.lock();
        if let Some(program) = now.upgrade() {
            return Ok(program);
        }
        let redirect = Redirect::load(self.queue_max).map_err(Step::Program.refused())?;
        // The program of a process that was just killed goes a moment later.
        let attached = patiently_for(GONE_WITHIN, &[EBUSY, EEXIST], || redirect.attach(index, hook));
        let attached = attached.map_err(Step::Attach.refused())?;
        let program = Arc::new(Program { redirect, _attached: attached, hook });
        *now = Arc::downgrade(&program);
        Ok(program)
    }
}
