//! Queues, senders, pollers and real threads over a wire. No test looks at real time, except to fail in place
//! of hanging.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod owed;
mod traffic;
