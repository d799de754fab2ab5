//! Enqueue disciplines: the ways in which the frames of many threads get into one qdisc, and the thread that
//! runs it.
//!
//! Wharf's own way is lanes ([`TxQueue`](wharf_core::queue::TxQueue)). These are the kernel's, as types over
//! the same [`TxEngine`](wharf_core::engine::TxEngine), qdiscs, owner policies and devices:
//!
//! | | puts frames in by | bulk |
//! |---|---|---|
//! | [`RootLock`], 2011 | a root lock around the qdisc, for every packet | one packet |
//! | [`BusyLock`], 2010 on | the same; contenders first queue at a second lock | one packet |
//! | [`LocklessList`], 2025 | a list; the thread that found it empty takes the root lock and puts all in | 64, within the byte limit |
//!
//! Under the root lock, one thread at a time is RUNNING. It takes a bulk out, releases the lock, and hands
//! the bulk to the device under the device's lock; then it takes the root lock again. A thread that finds
//! another RUNNING leaves. After its quota the runner clears RUNNING and comes back once, as the kernel does
//! in its softirq, unless another thread has taken over. A full qdisc drops (ENOBUFS); no thread waits.
//!
//! A thread spins for a lock, in no order, and sleeps after some microseconds. The kernel's holder cannot be
//! preempted, a thread can. A queue in order of arrival would then stand still until the scheduler has gone
//! round, once for each waiter, and endless spinning would keep the holder from its processor.

mod discipline;
mod queue;
mod runner;
mod sender;
mod shared;

pub use discipline::{BusyLock, Discipline, LocklessList, RootLock};
pub use queue::{LockedQueue, Setup};
pub use sender::LockedSender;
pub use shared::LockedCounters;
