//! The transmit side: senders, the queue they share and its engine.
//!
//! A packet's way: [`sender`] → lane → [`queue`], run by its [`owner`] → [`engine`] (qdisc, byte limit, device)
//! → completion → return ring of its sender. [`small_queue`] bounds the bytes that one sender has inside.
//! [`direct`] is the same without lanes, for one sender.

pub mod direct;
pub mod engine;
pub(crate) mod feeding;
pub mod owner;
pub mod queue;
pub(crate) mod run_observer;
pub mod sender;
pub mod small_queue;
