//! The three enqueue disciplines.

use super::shared::{Root, Shared, spin};
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard};
use wharf_mem::Frame;

/// The fate of an enqueued frame.
#[derive(Debug)]
pub enum EnqueueResult<'a> {
    /// It is in (or the qdisc dropped it), and the caller holds the root lock: it runs the qdisc if no thread
    /// does.
    First(MutexGuard<'a, Root>),
    /// Another thread will put it in.
    Left,
    /// There was no room.
    Refused(Frame),
}

/// A way of the kernel's into a qdisc.
pub trait Discipline: Send + Sync + Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// Most packets dequeued and handed over at once.
    const BULK_PACKETS: usize;

    /// Creates it.
    fn new() -> Self;

    /// Enqueues `frame`.
    fn enter<'a>(&'a self, shared: &'a Shared<Self>, frame: Frame) -> EnqueueResult<'a>;

    /// Moves frames that lie elsewhere into the qdisc, under the root lock.
    fn gather(&self, _root: &mut Root) {}

    /// True if all frames lie in the qdisc.
    fn is_gathered(&self) -> bool {
        true
    }
}

/// `root-lock`: the kernel of 2011.
#[derive(Debug)]
pub struct RootLock;

impl Discipline for RootLock {
    const NAME: &'static str = "root-lock";
    const BULK_PACKETS: usize = 1;

    fn new() -> Self {
        Self
    }

    #[inline]
    fn enter<'a>(&'a self, shared: &'a Shared<Self>, frame: Frame) -> EnqueueResult<'a> {
        let mut root = spin(&shared.root);
        root.put(frame);
        EnqueueResult::First(root)
    }
}

/// `root-lock+busylock`: with a second lock, so that the runner has at most one rival for the first.
#[derive(Debug)]
pub struct BusyLock(Mutex<()>);

impl Discipline for BusyLock {
    const NAME: &'static str = "root-lock+busylock";
    const BULK_PACKETS: usize = 1;

    fn new() -> Self {
        Self(Mutex::new(()))
    }

    #[inline]
    fn enter<'a>(&'a self, shared: &'a Shared<Self>, frame: Frame) -> EnqueueResult<'a> {
        let _contended = shared.is_running().then(|| spin(&self.0));
        let mut root = spin(&shared.root);
        root.put(frame);
        EnqueueResult::First(root)
    }
}

/// `lockless-list`: producers put frames in without a lock; the thread that found it empty takes all of them
/// out, under the root lock.
#[derive(Debug)]
pub struct LocklessList {
    list: SyncSender<Frame>,
    taken: Mutex<Receiver<Frame>>,
    /// Frames on the list, each counted once it lies there.
    count: AtomicUsize,
}

/// Most frames on the list: the kernel's `qdisc_max_burst`.
const LIST_PACKETS_MAX: usize = 1000;

impl Discipline for LocklessList {
    const NAME: &'static str = "lockless-list";
    const BULK_PACKETS: usize = wharf_core::engine::BULK_PACKETS_MAX;

    fn new() -> Self {
        let (list, taken) = sync_channel(LIST_PACKETS_MAX);
        Self { list, taken: Mutex::new(taken), count: AtomicUsize::new(0) }
    }

    #[inline]
    fn enter<'a>(&'a self, shared: &'a Shared<Self>, frame: Frame) -> EnqueueResult<'a> {
        match self.list.try_send(frame) {
            // Release: the thread that reads the count finds the frame.
            Ok(()) if self.count.fetch_add(1, AcqRel) > 0 => EnqueueResult::Left,
            Ok(()) => {
                let mut root = spin(&shared.root);
                self.gather(&mut root);
                EnqueueResult::First(root)
            }
            Err(TrySendError::Full(frame) | TrySendError::Disconnected(frame)) => {
                EnqueueResult::Refused(frame)
            }
        }
    }

    fn gather(&self, root: &mut Root) {
        let count = self.count.swap(0, AcqRel);
        spin(&self.taken).try_iter().take(count).for_each(|frame| root.put(frame));
    }

    fn is_gathered(&self) -> bool {
        self.count.load(Relaxed) == 0
    }
}
