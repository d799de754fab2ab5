//! `Programs`: the program that an interface's sockets use, and its source. An interface has one such program,
//! which knows the sockets of all queues that were opened together. The first queue attached makes it, and it
//! goes with the last of them.
//!
//! The kernel removes a closed socket from the program's map (`xsk_delete_from_maps`): the frames of its
//! queue are then the host's, as those of queues that were never opened.

use super::{Refusal, Step, patiently_for};
use crate::link::{EBUSY, EEXIST};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wharf_sys::xdp::{self, Attached, Hook, SocketMap, XdpSocket};

/// Time in which the program of another process may go: it was just killed, or is about to end.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// The origin of an interface's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This process loads it, and attaches it by a link, which goes with the process.
    Loaded,
}

/// A program at work on an interface.
#[derive(Debug)]
pub(super) struct Program {
    sockets: SocketMap,
    hook: Hook,
    _attached: Attached,
}

/// The program of an interface's queues up to number `queue_max`.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    source: Source,
    queue_max: u32,
    now: Arc<Mutex<Weak<Program>>>,
}

impl Source {
    /// Makes the program of interface `index`, for queues 0 to `queue_max`.
    fn make(self, index: i32, hook: Hook, queue_max: u32) -> Result<Program, Refusal> {
        match self {
            Source::Loaded => Program::load(index, hook, queue_max),
        }
    }
}

impl Program {
    fn load(index: i32, hook: Hook, queue_max: u32) -> Result<Self, Refusal> {
        let sockets = SocketMap::new(queue_max).map_err(Step::Program.refused())?;
        let program = xdp::Program::redirecting(&sockets).map_err(Step::Program.refused())?;
        // The program of a process that was just killed goes a moment later.
        let attached = patiently_for(GONE_WITHIN, &[EBUSY, EEXIST], || program.attach(index, hook));
        Ok(Self { sockets, hook, _attached: attached.map_err(Step::Attach.refused())? })
    }

    /// Returns the hook that it is attached to.
    pub(super) fn hook(&self) -> Hook {
        self.hook
    }

    /// Hands the frames of queue `queue` to `socket`, which is bound to it.
    pub(super) fn direct(&self, queue: u32, socket: &XdpSocket) -> Result<(), Refusal> {
        self.sockets.direct(queue, socket).map_err(Step::Bind.refused())
    }
}

impl Programs {
    pub(super) fn new(source: Source, queue_max: u32) -> Self {
        Self { source, queue_max, now: Arc::default() }
    }

    /// The lock is never poisoned.
    fn lock(&self) -> MutexGuard<'_, Weak<Program>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the program is at work.
    pub(super) fn is_there(&self) -> bool {
        self.lock().strong_count() > 0
    }

    /// Returns the hooks to try: the existing program's, else all, the best first.
    pub(super) fn hooks(&self) -> impl Iterator<Item = Hook> + use<> {
        let there = self.lock().upgrade().map(|program| program.hook);
        [Hook::Native, Hook::Generic].into_iter().filter(move |&hook| there.is_none_or(|there| there == hook))
    }

    /// Returns the program of interface `index`, made for `hook` now if there was none.
    pub(super) fn at(&self, index: i32, hook: Hook) -> Result<Arc<Program>, Refusal> {
        let mut now = self.lock();
        if let Some(program) = now.upgrade() {
            return Ok(program);
        }
        let program = Arc::new(self.source.make(index, hook, self.queue_max)?);
        *now = Arc::downgrade(&program);
        Ok(program)
    }
}
