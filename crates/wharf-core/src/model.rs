//! Hooks for models of processors, and for comparisons with other designs, behind the feature `model`. No program
//! needs them, and no promise of this crate covers them.
//!
//! A modelled processor does in steps, at the times that it models, what a thread does in one call:
//! [`Sender::stage`] puts frames into the lane, [`TxQueue::claim`] starts a [`QdiscRun`], [`QdiscRun::step_bulk`]
//! goes on with it; `model/cache.rs` has the steps of a cache. A [`RunObserver`] sees the runs of a queue's senders.
//! Other allocators have free frames and the ledger (`model/allocator.rs`). Tests start indices near their end
//! ([`QueueBuilder::index_start`]). The files of `model/` are parts of the modules whose fields they use.
//!
//! [`Sender::stage`]: crate::sender::Sender::stage
//! [`TxQueue::claim`]: crate::queue::TxQueue::claim
//! [`QueueBuilder::index_start`]: crate::queue::QueueBuilder::index_start

pub use crate::tx::queue::qdisc_run::QdiscRun;
pub use crate::tx::run_observer::{ObservedRun, RunObserver};
pub use crate::tx::sender::model::Wanted;
