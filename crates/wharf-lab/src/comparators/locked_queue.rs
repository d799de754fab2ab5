//! Enqueue disciplines: how the frames of many threads get into one qdisc, and who runs it.
//!
//! Ours is [`lanes`](crate::tx::queue::TxQueue). Those here are the kernel's, as types over the same [`TxEngine`](crate::tx::engine::TxEngine),
//! qdiscs, owner policies and devices, to be compared with it:
//!
//! | | puts frames in by | bulk |
//! |---|---|---|
//! | [`RootLock`], 2011 | a root lock around the qdisc, for every packet | one packet |
//! | [`BusyLock`], 2010 on | the same; contenders queue up at a second lock first | one packet |
//! | [`LocklessList`], 2025 | a list; who found it empty takes the root lock and puts all in | 64, within the byte limit |
//!
//! Under the root lock, one thread at a time is RUNNING: it takes a bulk out, lets go of the lock, and hands the bulk
//! to the device under a lock of the device's; then the root lock again. Whoever finds somebody RUNNING leaves. After
//! its quota the runner clears RUNNING and comes back once, as the kernel does in its softirq, unless another has
//! taken over. A full qdisc drops (ENOBUFS): nobody waits.
//!
//! A lock is spun for, in no order, and after some microseconds slept for. A kernel's holder cannot be pre-empted, a
//! thread can: a queue in order of arrival would then stand still until the scheduler has gone round, once for each
//! who waits, and spinning on would keep the holder from its processor.

mod discipline;
mod queue;
mod return_rings;
mod runner;
mod sender;
mod spin;

pub use discipline::{BusyLock, Discipline, LocklessList, RootLock};
pub use queue::{LockedQueue, Setup};
pub use sender::{LockedCounters, LockedSender};
