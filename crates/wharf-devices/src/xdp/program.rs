//! `Programs`: the program that an interface's sockets use, and its source. An interface has one such program,
//! which knows the sockets of all queues that were opened together. The first queue attached makes it, and it
//! goes with the last of them.
//!
//! Another process, or other devices of this one, may have queues of the same interface: they share the program, if it is the same,
//! and it stays until the last of them goes.
//!
//! The kernel removes a closed socket from the program's map (`xsk_delete_from_maps`): the frames of its
//! queue are then the host's, as those of queues that were never opened.

use super::helper::Presence;
use super::steering::Steering;
use super::steering::program::program;
use super::{FREE_WITHIN, Refusal, Step, patiently_for};
use crate::thinning;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use wharf_mem::{Region, lock};
use wharf_sys::errno::{EBUSY, EEXIST, EPERM};
use wharf_sys::netlink::{AttachMode, Netlink};
use wharf_sys::xdp::{self, Attached, Bind, Hook, ShareMap, SocketMap, UmemShape, XdpSocket};

/// Time in which the program of another process, or its queue, may go: it was just killed, or is about to end.
const GONE_WITHIN: Duration = Duration::from_secs(3);
/// Most queues whose packets a program thins: each takes 128 KiB.
const THINNED_QUEUES_MAX: u32 = 64;
/// Queues that a program knows, at least: those of another process may have greater numbers.
const QUEUES_MIN: u32 = 256;

/// The origin of an interface's program.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A program of this process, which chooses frames and is attached by a link that goes with the process; or a share in one of
    /// the same instructions.
    Loaded(Steering),
    /// A program that another process has made, with its map of sockets. It is attached already, by a `helper` if there is one,
    /// unless `program` is to be.
    Given { sockets: Arc<SocketMap>, program: Option<Arc<xdp::Program>>, helper: Option<Arc<Presence>> },
}

/// A program at work on an interface.
#[derive(Debug)]
pub(super) struct Program {
    sockets: Arc<SocketMap>,
    /// How it thins what comes by each queue: `None` where the kernel cannot, or another process has made it.
    thins: Option<ShareMap>,
    /// The hook that it is attached to, if that is known.
    hook: Option<Hook>,
    /// Another process, or another device of this one, had it before.
    is_shared: bool,
    _attached: Option<Attached>,
}

/// The program of an interface's queues up to number `queue_max`, and the memory of their sockets.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    source: Source,
    queue_max: u32,
    now: Arc<Mutex<Weak<Program>>>,
    /// Sockets whose memory further ones may share.
    owners: Arc<Mutex<Vec<Owner>>>,
}

/// A socket that has a pool's memory, registered or shared.
#[derive(Debug)]
struct Owner {
    socket: Weak<XdpSocket>,
    region: Weak<Region>,
    way: (Bind, UmemShape),
}

impl Source {
    /// Makes the program of interface `index`, for queues 0 to `queue_max`.
    pub(super) fn make(&self, index: i32, hook: Hook, queue_max: u32) -> Result<Program, Refusal> {
        match self {
            Source::Loaded(steering) => Program::load(index, hook, queue_max, steering),
            Source::Given { sockets, program: Some(program), .. } => {
                Program::attach(program, sockets.clone(), index, hook)
            }
            Source::Given { sockets, program: None, .. } => Ok(Program {
                sockets: sockets.clone(),
                thins: None,
                hook: None,
                is_shared: true,
                _attached: None,
            }),
        }
    }

    /// True if this process attaches it.
    fn attaches(&self) -> bool {
        !matches!(self, Source::Given { program: None, .. })
    }
}

impl Program {
    fn load(index: i32, hook: Hook, queue_max: u32, steering: &Steering) -> Result<Self, Refusal> {
        let refused = Step::Program.refused();
        let sockets = SocketMap::new(queue_max.max(QUEUES_MIN - 1)).map_err(&refused)?;
        let thins = Some(queue_max + 1).filter(|&queues| queues <= THINNED_QUEUES_MAX);
        let thins = thins.and_then(|queues| ShareMap::new(queues * thinning::ENTRIES).ok());
        // Linux before 5.18 cannot thin.
        let with = |thins: Option<&ShareMap>| xdp::Program::load(&program(steering, &sockets, thins));
        let (own, thins) = match with(thins.as_ref()) {
            Err(_) if thins.is_some() => (with(None).map_err(&refused)?, None),
            own => (own.map_err(&refused)?, thins),
        };
        let mut step = Step::Attach;
        let mut share = |busy: io::Error| {
            let shared = share(&own, index);
            // Whose it is cannot be told.
            let is_refused = shared.as_ref().is_err_and(|error| error.raw_os_error() == Some(EPERM));
            step = if is_refused { Step::Share } else { Step::Attach };
            shared.map_err(|_| busy)
        };
        // The program of a process that was just killed goes a moment later.
        let attached = patiently_for(GONE_WITHIN, &[EBUSY, EEXIST], || match own.attach(index, hook) {
            Ok(attached) => Ok((None, attached, hook)),
            Err(error) if matches!(error.raw_os_error(), Some(EBUSY | EEXIST)) => share(error),
            Err(error) => Err(error),
        });
        let (shared, _attached, hook) = attached.map_err(|error| (step, error))?;
        let is_shared = shared.is_some();
        let (sockets, thins) = (Arc::new(shared.unwrap_or(sockets)), thins.filter(|_| !is_shared));
        Ok(Self { sockets, thins, hook: Some(hook), is_shared, _attached: Some(_attached) })
    }

    fn attach(
        program: &xdp::Program, sockets: Arc<SocketMap>, index: i32, hook: Hook,
    ) -> Result<Self, Refusal> {
        let attached = patiently_for(GONE_WITHIN, &[EBUSY, EEXIST], || program.attach(index, hook));
        let _attached = Some(attached.map_err(Step::Attach.refused())?);
        Ok(Self { sockets, thins: None, hook: Some(hook), is_shared: false, _attached })
    }

    /// Returns the hook that it is attached to; `None` if another process has attached it.
    pub(super) fn hook(&self) -> Option<Hook> {
        self.hook
    }

    /// Returns the time in which another owner of it may let go of a queue.
    pub(super) fn patience(&self) -> Duration {
        if self.is_shared { GONE_WITHIN } else { FREE_WITHIN }
    }

    /// Hands the frames of queue `queue` to `socket`, which is bound to it.
    pub(super) fn direct(&self, queue: u32, socket: &XdpSocket) -> Result<(), Refusal> {
        self.sockets.direct(queue, socket).map_err(Step::Direct.refused())
    }

    /// Leaves the frames of queue `queue` to the host again.
    pub(super) fn leave(&self, queue: u32) {
        // Fails if the socket is not in the map any more.
        let _ = self.sockets.remove(queue);
    }

    /// Returns how it thins what comes.
    pub(super) fn thins(&self) -> Option<&ShareMap> {
        self.thins.as_ref()
    }

    /// Returns its map of sockets by queue.
    pub(super) fn sockets(&self) -> &SocketMap {
        &self.sockets
    }
}

/// Takes a share in the program of interface `index`, if it has the instructions of `own`. Returns its sockets, its attachment and its
/// hook.
fn share(own: &xdp::Program, index: i32) -> io::Result<(Option<SocketMap>, Attached, Hook)> {
    let program = Netlink::open()?.describe(index)?.program;
    let (id, hook) = match program.map(|program| (program.id, program.mode)) {
        Some((id, AttachMode::Native)) => (id, Hook::Native),
        Some((id, AttachMode::Generic)) => (id, Hook::Generic),
        _ => return Err(io::Error::from_raw_os_error(EEXIST)),
    };
    own.share(index, id).map(|(sockets, attached)| (Some(sockets), attached, hook))
}

impl Programs {
    pub(super) fn new(source: Source, queue_max: u32) -> Self {
        Self { source, queue_max, now: Arc::default(), owners: Arc::default() }
    }

    /// True if the helper that has attached the program has ended.
    pub(super) fn has_lost_its_helper(&self) -> bool {
        matches!(&self.source, Source::Given { helper: Some(helper), .. } if helper.is_over())
    }

    /// True if the program is at work.
    pub(super) fn is_there(&self) -> bool {
        lock(&self.now).strong_count() > 0
    }

    /// Notes that `socket`, which is bound in `way`, has the memory of `region`, registered or shared.
    pub(super) fn add_owner(&self, socket: &Arc<XdpSocket>, region: &Arc<Region>, way: (Bind, UmemShape)) {
        let owner = Owner { socket: Arc::downgrade(socket), region: Arc::downgrade(region), way };
        let mut owners = lock(&self.owners);
        owners.retain(|owner| owner.socket.strong_count() > 0);
        owners.push(owner);
    }

    /// Returns a socket that has the memory of `region` and is bound in `way`.
    pub(super) fn owner_of(&self, region: &Arc<Region>, way: (Bind, UmemShape)) -> Option<Arc<XdpSocket>> {
        let region = Arc::downgrade(region);
        let owners = lock(&self.owners);
        let mut same = owners.iter().filter(|owner| owner.way == way && owner.region.ptr_eq(&region));
        same.find_map(|owner| owner.socket.upgrade())
    }

    /// Returns the hooks to try: the existing program's, else all, the best first. One that another process has attached counts as
    /// in the driver.
    pub(super) fn hooks(&self) -> impl Iterator<Item = Hook> + use<> {
        let there = lock(&self.now).upgrade().and_then(|program| program.hook);
        let only = there.or((!self.source.attaches()).then_some(Hook::Native));
        [Hook::Native, Hook::Generic].into_iter().filter(move |&hook| only.is_none_or(|only| only == hook))
    }

    /// Returns the program of interface `index`, made for `hook` now if there was none.
    pub(super) fn at(&self, index: i32, hook: Hook) -> Result<Arc<Program>, Refusal> {
        let mut now = lock(&self.now);
        if let Some(program) = now.upgrade() {
            return Ok(program);
        }
        let program = Arc::new(self.source.make(index, hook, self.queue_max)?);
        *now = Arc::downgrade(&program);
        Ok(program)
    }
}
