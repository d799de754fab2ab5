//! `Programs`: what hands frames to sockets. An interface has one such program, which knows the sockets of all queues that were
//! opened together; whoever is attached first loads it, and it goes with the last of them.
//!
//! A queue whose socket is closed drops out of the program's map by itself (`xsk_delete_from_maps`): its frames are the host's then,
//! as those of queues are that were never opened.

use super::super::{Refusal, Step, patiently};
use crate::link::{EBUSY, EEXIST};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wharf_sys::xdp::{Attached, Hook, Redirect, XdpSocket};

/// One that is attached.
#[derive(Debug)]
pub(super) struct Program {
    redirect: Redirect,
    _attached: Attached,
    hook: Hook,
}

/// The one that queues up to number `queue_max` of an interface have, or are to have.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    queue_max: u32,
    now: Arc<Mutex<Weak<Program>>>,
}

impl Program {
    /// Lets `socket`, which is bound to it, have the frames of queue `queue`.
    pub(super) fn direct(&self, queue: u32, socket: &XdpSocket) -> Result<(), Refusal> {
        self.redirect.direct(queue, socket).map_err(Step::Bind.refused())
    }
}

impl Programs {
    pub(super) fn new(queue_max: u32) -> Self {
        Self { queue_max, now: Arc::default() }
    }

    /// Nobody panics with it.
    fn lock(&self) -> MutexGuard<'_, Weak<Program>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it may work: where the one does that there is, else, the best first, wherever there is.
    pub(super) fn hooks(&self) -> impl Iterator<Item = Hook> + use<> {
        let there = self.lock().upgrade().map(|program| program.hook);
        [Hook::Native, Hook::Generic].into_iter().filter(move |&hook| there.is_none_or(|there| there == hook))
    }

    /// The one of interface `index`, attached at `hook` now where there was none.
    pub(super) fn attached(&self, index: i32, hook: Hook) -> Result<Arc<Program>, Refusal> {
        let mut now = self.lock();
        if let Some(program) = now.upgrade() {
            return Ok(program);
        }
        let redirect = Redirect::load(self.queue_max).map_err(Step::Program.refused())?;
        // That of a process that was just killed goes a moment later.
        let attached = patiently(&[EBUSY, EEXIST], || redirect.attach(index, hook));
        let attached = attached.map_err(Step::Attach.refused())?;
        let program = Arc::new(Program { redirect, _attached: attached, hook });
        *now = Arc::downgrade(&program);
        Ok(program)
    }
}
